//! Tells the verdicts of an earlier analysis, by this program or by Lichess in any year, from what
//! a person wrote: the first are replaced, the second stay.

/// What an analysis says of a move, without the full stop.
const VERDICTS: [&str; 9] = [
    "Inaccuracy",
    "Mistake",
    "Blunder",
    // Where the move's glyph is a person's.
    "An inaccuracy",
    "A mistake",
    "A blunder",
    "Checkmate is now unavoidable",
    "Lost forced checkmate sequence",
    "Not the best checkmate sequence",
];

/// No analysis writes a longer comment, in bytes.
const LONGEST: usize = 4096;

/// A comment without such verdicts: `(0.31 → -1.20) Mistake. Nf3 was best.`, and the same without
/// the numbers or with `Best move was Nf3.` at its end; `None` if nothing is left. A verdict has
/// numbers or a best move: `Blunder.` alone is a person's.
///
/// `verdicts` receives what was removed.
pub(crate) fn without_verdicts(comment: &str, verdicts: &mut Vec<String>) -> Option<String> {
    let mut rest = comment.to_owned();
    let mut from = if rest.len() > LONGEST { rest.len() } else { 0 };
    while let Some((start, end, next)) = first_verdict(&rest, from) {
        if let Some(start) = start {
            verdicts.push(rest[start..end].to_owned());
            rest.replace_range(start..end, "");
            from = start;
        } else {
            from = next;
        }
    }
    let rest = rest.trim();
    (!rest.is_empty()).then(|| rest.to_owned())
}

/// The next words of a verdict at or after `from`: where a verdict begins (`None`: it is none),
/// where it ends, and where to go on.
fn first_verdict(text: &str, from: usize) -> Option<(Option<usize>, usize, usize)> {
    let (at, words) = VERDICTS
        .iter()
        .filter_map(|words| Some((from + text[from..].find(words)?, words)))
        .min_by_key(|&(at, _)| at)?;
    let after_words = at + words.len();
    let is_word = text[..at].chars().next_back().is_none_or(|letter| !letter.is_alphanumeric());
    let Some(after) = text[after_words..].strip_prefix('.').filter(|_| is_word) else {
        return Some((None, after_words, after_words));
    };
    let end_of_words = after_words + 1;
    let numbers = start_of_numbers(&text[..at]);
    let best = length_of_best(after);
    if numbers.is_none() && best.is_none() {
        return Some((None, end_of_words, end_of_words));
    }
    let start = numbers.unwrap_or(at);
    Some((Some(start), end_of_words + best.unwrap_or(0), end_of_words))
}

/// Where `(0.31 → -1.20)` begins at the end of a text.
fn start_of_numbers(text: &str) -> Option<usize> {
    let inside = text.trim_end().strip_suffix(')')?;
    let start = inside.rfind('(')?;
    let (before, after) = inside[start + 1..].split_once('\u{2192}')?;
    let is_score = |score: &str| {
        let score = score.trim();
        score == "?" || score.trim_start_matches('#').parse::<f64>().is_ok()
    };
    (is_score(before) && is_score(after)).then_some(start)
}

/// The length of ` Nf3 was best.` or ` Best move was Nf3.` at the beginning of a text.
fn length_of_best(text: &str) -> Option<usize> {
    let sentence = text.trim_start();
    let blanks = text.len() - sentence.len();
    if let Some(mv) = sentence.strip_prefix("Best move was ") {
        let end = mv.find('.')?;
        return (!mv[..end].contains(' ')).then(|| text.len() - mv.len() + end + 1);
    }
    // A verdict may lack the move.
    const END: &str = "was best.";
    if sentence.starts_with(END) {
        return Some(blanks + END.len());
    }
    let (mv, rest) = sentence.split_once(' ')?;
    rest.starts_with(END).then(|| blanks + mv.len() + 1 + END.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_old_verdicts_are_removed() {
        for (comment, expected) in [
            ("(0.31 \u{2192} -1.20) Mistake. Nf3 was best.", ""),
            ("(0.31 \u{2192} #-3) Checkmate is now unavoidable. Nf3 was best.", ""),
            ("(? \u{2192} 0.00) Inaccuracy.  was best.", ""),
            ("(0.31 \u{2192} -1.20) Blunder.", ""),
            ("Mistake. Nf3 was best.", ""),
            ("(0.31 \u{2192} -1.20) A mistake. Nf3 was best.", ""),
            ("(0.31 \u{2192} 0.20) An inaccuracy.", ""),
            ("A blunder. I was tired.", "A blunder. I was tired."),
            ("Blunder. O-O-O was best.", ""),
            ("Inaccuracy. Best move was d3.", ""),
            ("(0.08 \u{2192} -0.97) Mistake. Best move was exd8=Q+.", ""),
            ("Checkmate is now unavoidable. Nc3 was best.", ""),
            ("Lost forced checkmate sequence. Qh4# was best.", ""),
            ("Not the best checkmate sequence. Qh4# was best.", ""),
            (
                "Novelty (Carlsen 2013), strong. (0.31 \u{2192} -1.20) Mistake. Nf3 was best.",
                "Novelty (Carlsen 2013), strong.",
            ),
            ("e4 was best. (A \u{2192} B) is a plan", "e4 was best. (A \u{2192} B) is a plan"),
            ("e4 was best. (0.31 \u{2192} -1.20) Mistake. Nf3 was best.", "e4 was best."),
            (
                "Novelty (Carlsen 2013) \u{2192} sharp. Nf3 was best.",
                "Novelty (Carlsen 2013) \u{2192} sharp. Nf3 was best.",
            ),
            ("Blunder. I was tired.", "Blunder. I was tired."),
            ("A Mistake", "A Mistake"),
            ("Mistake.", "Mistake."),
            ("Mistake. Mistake. Nf3 was best. Why?", "Mistake.  Why?"),
            (
                "(0.1 \u{2192} -1) Mistake. Nf3 was best. (0.1 \u{2192} -2) Blunder. d4 was best. Mine",
                "Mine",
            ),
        ] {
            assert_eq!(
                without_verdicts(comment, &mut Vec::new()).unwrap_or_default(),
                expected,
                "{comment}"
            );
        }
    }
}
