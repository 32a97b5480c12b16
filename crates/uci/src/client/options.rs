//! The options that an engine announces, and whether a value fits them: an engine answers a bad
//! value with silence, and then plays with another one than its user believes.

/// An announced option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AnnouncedOption {
    name: String,
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Spin {
        least: Option<i64>,
        most: Option<i64>,
    },
    Check,
    Combo {
        choices: Vec<String>,
    },
    Button,
    /// Text, and whatever else an engine may announce.
    Text,
}

impl AnnouncedOption {
    /// Reads what follows `option name `.
    pub(super) fn parse(line: &str) -> Self {
        let (name, rest) = line.split_once(" type ").unwrap_or((line, ""));
        let words: Vec<&str> = rest.split_whitespace().collect();
        let number = |key: &str| {
            let at = words.iter().position(|word| *word == key)?;
            words.get(at + 1)?.parse().ok()
        };
        let kind = match words.first().copied() {
            Some("spin") => Kind::Spin { least: number("min"), most: number("max") },
            Some("check") => Kind::Check,
            Some("combo") => Kind::Combo { choices: choices(&words) },
            Some("button") => Kind::Button,
            _ => Kind::Text,
        };
        Self { name: name.trim().to_owned(), kind }
    }

    /// Is this the option's name, in any case?
    pub(super) fn is_called(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }

    /// What is wanted in place of `value`; `None` if it fits.
    pub(super) fn refusal(&self, value: &str) -> Option<String> {
        let wanted = match &self.kind {
            Kind::Spin { least, most } => {
                let fits = value.parse().is_ok_and(|value: i64| {
                    least.is_none_or(|least| value >= least)
                        && most.is_none_or(|most| value <= most)
                });
                let bound = |bound: &Option<i64>, word: &str| {
                    bound.map_or_else(String::new, |bound| format!(" {word} {bound}"))
                };
                (!fits)
                    .then(|| format!("a whole number{}{}", bound(least, "from"), bound(most, "to")))
            }
            Kind::Check => (!matches!(value, "true" | "false")).then(|| "true or false".to_owned()),
            Kind::Combo { choices } => {
                let fits = choices.iter().any(|choice| choice.eq_ignore_ascii_case(value));
                (!fits).then(|| format!("one of {}", choices.join(", ")))
            }
            Kind::Button => (!value.is_empty()).then(|| "no value".to_owned()),
            Kind::Text => None,
        };
        wanted.map(|wanted| format!("{} wants {wanted}, not `{value}`", self.name))
    }
}

/// The words behind each `var`, up to the next one or to `default`.
fn choices(words: &[&str]) -> Vec<String> {
    let mut choices: Vec<String> = Vec::new();
    let mut is_choice = false;
    for &word in &words[1..] {
        match word {
            "var" => {
                choices.push(String::new());
                is_choice = true;
            }
            "default" => is_choice = false,
            word => {
                if let Some(choice) = choices.last_mut().filter(|_| is_choice) {
                    let blank = if choice.is_empty() { "" } else { " " };
                    choice.push_str(&format!("{blank}{word}"));
                }
            }
        }
    }
    choices
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_checked_against_what_was_announced() {
        for (announced, value, refusal) in [
            ("Hash type spin default 16 min 1 max 1024", "16", ""),
            (
                "Hash type spin default 16 min 1 max 1024",
                "0",
                "Hash wants a whole number from 1 to 1024, not `0`",
            ),
            (
                "Hash type spin default 16 min 1 max 1024",
                "4096",
                "Hash wants a whole number from 1 to 1024, not `4096`",
            ),
            (
                "Hash type spin default 16 min 1 max 1024",
                "x",
                "Hash wants a whole number from 1 to 1024, not `x`",
            ),
            ("Contempt type spin default 0 min -100 max 100", "-7", ""),
            ("Skill type spin default 0", "1.5", "Skill wants a whole number, not `1.5`"),
            ("Ponder type check default false", "true", ""),
            ("Ponder type check default false", "yes", "Ponder wants true or false, not `yes`"),
            ("Style type combo default Solid var Solid var Very Risky", "very risky", ""),
            (
                "Style type combo default Solid var Solid var Very Risky",
                "wild",
                "Style wants one of Solid, Very Risky, not `wild`",
            ),
            ("Style type combo var A var B default A", "B", ""),
            ("Clear Hash type button", "", ""),
            ("Clear Hash type button", "now", "Clear Hash wants no value, not `now`"),
            ("SyzygyPath type string default <empty>", "/a b/c", ""),
            ("Odd type other", "anything", ""),
            ("Bare", "anything", ""),
        ] {
            let refused = AnnouncedOption::parse(announced).refusal(value).unwrap_or_default();
            assert_eq!(refused, refusal, "{announced}: {value}");
        }
        let option = AnnouncedOption::parse("Clear Hash type button");
        assert!(option.is_called("clear hash") && !option.is_called("Hash"));
    }
}
