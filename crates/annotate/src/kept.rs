//! What people wrote in a game stays when it is annotated; what an earlier analysis wrote, by this
//! program or by Lichess, goes.

use games::{PgnGame, Variation, VariationItem, find_evaluation};

use crate::{Judgment, old_verdicts::without_verdicts};

/// The name by which our own lines are told from other people's: a comment before their first move.
pub const OWN_NAME: &str = "Batch First";

/// Annotators whose analysis is replaced.
const REPLACED: [&str; 2] = [OWN_NAME, "lichess.org"];

/// What we write where a text was not understood begins like this.
pub(crate) const GOES_ON: &str = "the file goes on, but ";

/// Leaves only what people wrote in comments, glyphs, variations and the tag `Annotator`.
pub fn remove_old_analysis(game: &mut PgnGame) {
    let plies = game.game.moves().len() + 1;
    let mut verdicts: Vec<Vec<String>> = vec![Vec::new(); plies];
    game.comments = std::mem::take(&mut game.comments)
        .into_iter()
        .filter_map(|(ply, text)| match text.starts_with(GOES_ON) {
            true => Some((ply, text)),
            false => Some((ply, without_verdicts(&text, &mut verdicts[ply])?)),
        })
        .collect();
    for (ply, verdicts) in verdicts.iter().enumerate() {
        verdicts.iter().for_each(|verdict| remove_glyph(&mut game.nags, ply, verdict));
    }
    let mut is_marked = vec![false; plies];
    for (ply, variation) in &game.variations {
        is_marked[*ply] |= is_ours(variation);
    }
    game.variations.retain(|(ply, variation)| {
        !is_ours(variation) && (is_marked[*ply] || !is_old_line(variation, &verdicts[*ply]))
    });
    for (name, value) in &mut game.tags {
        if name == "Annotator" {
            let kept: Vec<&str> = value.split("; ").filter(|name| !is_replaced(name)).collect();
            *value = kept.join("; ");
        }
    }
    game.tags.retain(|(name, value)| name != "Annotator" || !value.is_empty());
}

/// Removes the glyph that belongs to a verdict; where the glyph was a person's, the verdict is
/// worded otherwise ([`crate::Judgment::sentence`]).
fn remove_glyph(nags: &mut Vec<(usize, u16)>, ply: usize, verdict: &str) {
    if Judgment::ALL.iter().any(|judgment| verdict.contains(judgment.sentence())) {
        return;
    }
    let own = Judgment::ALL.iter().find(|judgment| verdict.contains(judgment.name()));
    // Other verdicts have any of the three glyphs.
    let belongs = |nag: u16| match own {
        Some(own) => nag == own.nag(),
        None => Judgment::ALL.iter().any(|other| nag == other.nag()),
    };
    if let Some(index) = nags.iter().position(|&(at, nag)| at == ply && belongs(nag)) {
        nags.remove(index);
    }
}

/// Leaves out glyphs, variations and annotators.
pub(crate) fn strip(game: &mut PgnGame) {
    game.nags.clear();
    game.variations.clear();
    game.tags.retain(|(name, _)| name != "Annotator");
}

fn is_replaced(annotator: &str) -> bool {
    let name = annotator.trim().trim_start_matches("https://");
    name.is_empty() || REPLACED.iter().any(|own| name.starts_with(own))
}

/// Is it a line of ours, with our name before its first move?
fn is_ours(variation: &Variation) -> bool {
    matches!(variation.items.first(), Some(VariationItem::Comment(text)) if text == OWN_NAME)
}

/// Is it a line of Lichess's, or of ours of earlier years? Such a line follows a verdict: its first
/// move is the one that was best, or its last move has an evaluation, and nothing else is written
/// in it.
fn is_old_line(variation: &Variation, verdicts: &[String]) -> bool {
    let (line, ends_in_evaluation) = match variation.items.split_last() {
        Some((VariationItem::Comment(text), line)) => (line, is_evaluation(text)),
        _ => (&variation.items[..], false),
    };
    let is_bare = line.iter().all(|item| matches!(item, VariationItem::Move(_)));
    let Some(first) = variation.moves().next() else { return false };
    let was_best = |verdict: &String| verdict.split([' ', '.']).any(|word| word == first);
    if line.len() < variation.items.len() {
        return is_bare && ends_in_evaluation && !verdicts.is_empty();
    }
    is_bare && verdicts.iter().any(was_best)
}

/// Is the text an evaluation and nothing else?
fn is_evaluation(text: &str) -> bool {
    find_evaluation(text.as_bytes()).is_some_and(|found| found.at == (0..text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_people_wrote_stays() {
        for (moves, expected) in [
            // An analysis by Lichess, of two years.
            (
                "1. e4 { [%eval 0.3] } e5?? { (0.3 \u{2192} 2.0) Blunder. c5 was best. } (1... c5 2. Nf3) 2. d4",
                "",
            ),
            ("1. e4 e5? { Mistake. Best move was c5. } (1... c5) 2. d4", ""),
            // Ours, of earlier years and now.
            (
                "1. e4 $6 { (0.3 \u{2192} 0.0) Inaccuracy. d4 was best. } (1. d4 {[%eval 0.3]}) (1. c4 {[%eval 0.2]})",
                "",
            ),
            ("1. e4 $2 { (0.3 \u{2192} 0.0) Mistake. d4 was best. } ({Batch First} 1. d4 d5)", ""),
            ("1. e4 ({Batch First} 1. d4 d5 {[%eval 0.3]})", ""),
            // A person's.
            ("1. e4!? (1. d4 d5) e5? {a pity}", "1:$5 2:$2 2:a pity 1:(2)"),
            ("1. e4 e5?? (1... c5)", "2:$4 2:(1)"),
            ("1. e4 ({my line} 1. d4)", "1:(2)"),
            // Both together.
            (
                "1. e4?! { (0.3 \u{2192} 0.0) Inaccuracy. d4 was best. Played in haste } (1. d4) (1. c4 {safer})",
                "1:Played in haste 1:(2)",
            ),
            ("1. e4?! { (0.3 \u{2192} 0.0) Inaccuracy. d4 was best. } (1. d4! d5)", "1:(3)"),
            (
                "1. e4 $6 { (0.3 \u{2192} 0.0) An inaccuracy. d4 was best. } (1. d4) ({Batch First} 1. d4 d5)",
                "1:$6 1:(1)",
            ),
            ("1. e4? { (0.3 \u{2192} 0.0) Inaccuracy. d4 was best. }", "1:$2"),
            (
                "1. e4 {the file goes on, but move 1, `x`, is not legal: (0.3 \u{2192} 0.0) Mistake.}",
                "1:the file goes on, but move 1, `x`, is not legal: (0.3 \u{2192} 0.0) Mistake.",
            ),
            ("1. e4?! $14 { (0.3 \u{2192} 0.0) Inaccuracy. d4 was best. }", "1:$14"),
        ] {
            let pgn = format!("{moves} *");
            let read = games::read_pgn(pgn.as_bytes()).next().unwrap().unwrap();
            let mut game = read.into_game().unwrap();
            remove_old_analysis(&mut game);
            let nags = game.nags.iter().map(|(ply, nag)| format!("{ply}:${nag}"));
            let comments = game.comments.iter().map(|(ply, text)| format!("{ply}:{text}"));
            let lines =
                game.variations.iter().map(|(ply, line)| format!("{ply}:({})", line.items.len()));
            let kept: Vec<String> = nags.chain(comments).chain(lines).collect();
            assert_eq!(kept.join(" "), expected, "{moves}");
        }
    }

    #[test]
    fn annotators_are_kept() {
        for (annotator, expected) in [
            ("Kasparov", Some("Kasparov")),
            ("Batch First 0.1.0, 400 evaluations a position", None),
            ("Kasparov; Batch First 0.1.0, 400 evaluations a position", Some("Kasparov")),
            ("lichess.org", None),
            ("https://lichess.org/@/somebody", None),
            ("A; B; Batch First 0.1.0", Some("A; B")),
            ("A\"]\n[Annotator \"B; Batch First 0.1.0", Some("A")),
            ("", None),
        ] {
            let pgn = format!("[Annotator \"{annotator}\"]\n\n1. e4 *");
            let read = games::read_pgn(pgn.as_bytes()).next().unwrap().unwrap();
            let mut game = read.into_game().unwrap();
            remove_old_analysis(&mut game);
            assert_eq!(game.tag("Annotator"), expected, "{annotator}");
        }
    }
}
