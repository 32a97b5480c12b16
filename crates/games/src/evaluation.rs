//! Evaluations in comments, as Lichess writes them: `[%eval 0.31]`, `[%eval #-3,22]`. One reader
//! for annotation and for training data.

use std::ops::Range;

use board::{Position, Score};

/// Evaluations of more pawns are no evaluations.
const MOST_PAWNS: f64 = 1e5;

/// The `Event` of games that labelling writes where there is none. Their `Round` is the number of the
/// game from which they come: positions of one game's search trees share it.
pub const LABELLED_EVENT: &str = "labelled by another engine";

/// The first evaluation of a comment.
#[derive(Clone, Debug, PartialEq)]
pub struct CommentEvaluation {
    /// Its bytes in the comment, brackets included.
    pub at: Range<usize>,
    /// White's score; `None` where the text inside is neither pawns nor a mate.
    pub score: Option<Score>,
}

/// Finds the first `[%eval …]`: pawns, or `#n` for a mate in n, from White's side; a depth after a
/// comma is ignored. The blank may be a line break. `None`: there is none.
#[must_use]
pub fn find_evaluation(comment: &[u8]) -> Option<CommentEvaluation> {
    const KEY: &[u8] = b"[%eval";
    let mut from = 0;
    let start = loop {
        let start = from + comment[from..].windows(KEY.len()).position(|part| part == KEY)?;
        match comment.get(start + KEY.len()) {
            // Another command whose name begins alike.
            Some(next) if next.is_ascii_alphanumeric() || *next == b'_' => from = start + 1,
            _ => break start,
        }
    };
    let inside = start + KEY.len();
    // Without an end the rest of the comment is an evaluation that was cut off.
    let length = comment[inside..].iter().position(|&byte| byte == b']');
    let end = length.map_or(comment.len(), |length| inside + length);
    let number = comment[inside..end].split(|&byte| byte == b',').next().unwrap_or_default();
    let score = length.and_then(|_| std::str::from_utf8(number).ok()).and_then(score);
    Some(CommentEvaluation { at: start..comment.len().min(end + 1), score })
}

/// Can a position have this score? Nobody is mated while there are moves.
#[must_use]
pub fn is_possible_score(score: Score, position: &Position) -> bool {
    score != Score::Mate(0) || !position.has_legal_moves()
}

fn score(text: &str) -> Option<Score> {
    let text = text.trim();
    if let Some(mate) = text.strip_prefix('#') {
        return mate.parse().ok().map(Score::Mate);
    }
    let pawns: f64 = text.parse().ok()?;
    (pawns.abs() < MOST_PAWNS).then(|| Score::Centipawns((pawns * 100.0).round() as i32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evaluations_are_found_in_comments() {
        let pawns = |hundredths| Some(Score::Centipawns(hundredths));
        for (comment, rest, expected) in [
            ("[%eval 0.31]", "", pawns(31)),
            ("[%eval -1.2,22]", "", pawns(-120)),
            ("good [%eval #-3] move", "good  move", Some(Score::Mate(-3))),
            ("[%eval #0]", "", Some(Score::Mate(0))),
            ("[%eval\n9.44]", "", pawns(944)),
            ("[%eval\t+0.5 , 3 ]", "", pawns(50)),
            ("[%eval0.5]", "[%eval0.5]", None),
            ("[%evaluation 3] [%eval 1]", "[%evaluation 3] ", pawns(100)),
            ("[%eval 0.3] [%eval 9]", " [%eval 9]", pawns(30)),
            ("[%eval]", "", None),
            ("[%eval ?]", "", None),
            ("[%eval #x]", "", None),
            ("[%eval 1e9]", "", None),
            ("[%eval NaN]", "", None),
            ("[%eval 0.3", "", None),
            ("nothing", "nothing", None),
        ] {
            let found = find_evaluation(comment.as_bytes());
            let left = found.as_ref().map_or(comment.to_owned(), |found| {
                format!("{}{}", &comment[..found.at.start], &comment[found.at.end..])
            });
            assert_eq!(
                (left.as_str(), found.and_then(|found| found.score)),
                (rest, expected),
                "{comment:?}"
            );
        }
    }
}
