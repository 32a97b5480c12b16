//! The `option` lines of the handshake.

use engine::{NamedOption, NamedOptions, OptionKind};

/// The `option` lines, with the current values as defaults.
pub fn option_lines(options: &NamedOptions) -> impl Iterator<Item = String> {
    options.list().map(|NamedOption { name, kind, value }| match kind {
        OptionKind::Spin { least, most } => {
            format!("option name {name} type spin default {value} min {least} max {most}")
        }
        OptionKind::Check => format!("option name {name} type check default {value}"),
        OptionKind::Text => format!("option name {name} type string default {value}"),
        OptionKind::Combo(values) => {
            let values: String = values.iter().map(|value| format!(" var {value}")).collect();
            format!("option name {name} type combo default {value}{values}")
        }
        OptionKind::Button => format!("option name {name} type button"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_the_searches_are_options_of_builds_for_tuning_only() {
        let options = NamedOptions::default();
        let numbers: Vec<String> =
            option_lines(&options).filter(|line| line.contains(" kbest_static_m")).collect();
        let listed = "option name kbest_static_margin type spin default 100 min 20 max 300";
        let expected = if search::tunables().is_empty() { vec![] } else { vec![listed] };
        assert_eq!(numbers, expected);
    }
}
