//! What people wrote in a game stays when it is annotated; what an earlier analysis wrote, by this
//! program or by Lichess, goes.

use games::{PgnGame, Variation, VariationItem, find_evaluation};

use crate::old_verdicts::without_verdicts;

/// The name by which our own lines are told from other people's: a comment before their first move.
pub(crate) const OWN_NAME: &str = "Batch First";

/// Annotators whose analysis is replaced.
const REPLACED: [&str; 2] = [OWN_NAME, "lichess.org"];

/// Glyphs of verdicts: `?`, `??`, `?!`.
const GLYPHS: [u16; 3] = [2, 4, 6];

/// Leaves only what people wrote in comments, glyphs, variations and the tag `Annotator`.
pub(crate) fn remove_old_analysis(game: &mut PgnGame) {
    let plies = game.game.moves().len() + 1;
    let mut verdicts: Vec<Vec<String>> = vec![Vec::new(); plies];
    game.comments = std::mem::take(&mut game.comments)
        .into_iter()
        .filter_map(|(ply, text)| Some((ply, without_verdicts(&text, &mut verdicts[ply])?)))
        .collect();
    game.nags.retain(|(ply, nag)| !GLYPHS.contains(nag) || verdicts[*ply].is_empty());
    game.variations.retain(|(ply, variation)| !is_analysis(variation, &verdicts[*ply]));
    if let Some(at) = game.tags.iter().position(|(name, _)| name == "Annotator") {
        let kept: Vec<&str> =
            game.tags[at].1.split("; ").filter(|name| !is_replaced(name)).collect();
        let kept = kept.join("; ");
        if kept.is_empty() {
            game.tags.remove(at);
        } else {
            game.tags[at].1 = kept;
        }
    }
}

/// Leaves comments only, of which verdicts are removed.
pub(crate) fn strip(game: &mut PgnGame) {
    game.nags.clear();
    game.variations.clear();
    game.tags.retain(|(name, _)| name != "Annotator");
}

fn is_replaced(annotator: &str) -> bool {
    let name = annotator.trim().trim_start_matches("https://");
    name.is_empty() || REPLACED.iter().any(|own| name.starts_with(own))
}

/// Is this the line of an analysis? Ours has our name before its first move. Lichess's, and ours of
/// earlier years, follows a verdict: its first move is the one that was best, or its last move has
/// an evaluation, and nothing else is written in it.
fn is_analysis(variation: &Variation, verdicts: &[String]) -> bool {
    if matches!(variation.items.first(), Some(VariationItem::Comment(text)) if text == OWN_NAME) {
        return true;
    }
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
