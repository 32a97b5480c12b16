//! A review as PGN: `[%eval]` as Lichess writes it, glyphs at bad moves, and what would have been
//! better.

use board::{Color, Position, Score};
use games::{PgnText, white_score};

use crate::{Review, grade::grades};

/// Plies of a line that are shown.
const LINE: usize = 12;

/// Tags that a review writes itself.
const OWN_TAGS: [&str; 6] = [
    "Result",
    "Annotator",
    "WhiteAccuracy",
    "BlackAccuracy",
    "WhiteAverageLoss",
    "BlackAverageLoss",
];

/// The game with everything found. Bad moves that lost at least `threshold` percent of winning
/// chances get a comment and the better lines.
pub(crate) fn pgn(review: &Review, annotator: &str, threshold: f64) -> String {
    let source = &review.source;
    let winner = match source.tag("Result") {
        Some("1-0") => Some(Some(Color::White)),
        Some("0-1") => Some(Some(Color::Black)),
        Some("1/2-1/2") => Some(None),
        _ => None,
    };
    let mut tags: Vec<(&str, String)> = source
        .tags
        .iter()
        .filter(|(name, _)| !OWN_TAGS.contains(&name.as_str()))
        .map(|(name, value)| (name.as_str(), value.clone()))
        .collect();
    tags.push(("Annotator", annotator.to_owned()));
    let names = [("WhiteAccuracy", "WhiteAverageLoss"), ("BlackAccuracy", "BlackAverageLoss")];
    for ((accuracy, average_loss), grade) in
        names.into_iter().zip(grades(&source.game, &review.scores))
    {
        if let Some(grade) = grade {
            tags.push((accuracy, format!("{:.1}", grade.accuracy)));
            tags.push((average_loss, format!("{:.0}", grade.average_loss)));
        }
    }
    let mut text = PgnText::new(source.game.start(), &tags, winner);
    if let Some(comment) = comment(review, 0, None) {
        text.comment(&comment);
    }
    let mut position = source.game.start().clone();
    for (ply, &mv) in source.game.moves().iter().enumerate() {
        let mark = review.mark(ply);
        text.play(mv, None);
        if let Some(mark) = mark {
            text.glyph(mark.glyph());
        }
        let says = mark.filter(|_| review.loss(ply).is_some_and(|loss| loss >= threshold));
        let verdict = says.map(|mark| verdict(review, ply, &position, mark.name()));
        if let Some(comment) = comment(review, ply + 1, verdict) {
            text.comment(&comment);
        }
        if let Some(look) = review.looks[ply].as_ref().filter(|_| says.is_some()) {
            for line in look.lines.iter().filter(|line| line.moves[0] != mv) {
                let moves = &line.moves[..line.moves.len().min(LINE)];
                let score = (look.lines.len() > 1).then(|| evaluation(line.score));
                text.variation(&position, moves, score.as_deref());
            }
        }
        position.play(mv);
    }
    if let Some(illegal) = &source.illegal {
        text.comment(&format!("the file goes on with {illegal}, which is not legal"));
    }
    text.finish()
}

/// `(0.31 → -1.20) Mistake. Nf3 was best.`
fn verdict(review: &Review, ply: usize, position: &Position, name: &str) -> String {
    let score = |ply: usize| review.scores[ply].map_or_else(|| "?".to_owned(), white);
    let best =
        review.looks[ply].as_ref().map(|look| board::to_san(position, look.lines[0].moves[0]));
    format!("({} → {}) {name}. {} was best.", score(ply), score(ply + 1), best.unwrap_or_default())
}

fn white(score: Score) -> String {
    white_score(score, Color::White)
}

fn evaluation(score: Score) -> String {
    format!("[%eval {}]", white(score))
}

/// A comment of the file without the verdict of an earlier analysis, this program's or Lichess's.
fn without_verdict(comment: &str) -> Option<String> {
    const END: &str = " was best.";
    let verdict = || {
        let arrow = comment.find(" \u{2192} ")?;
        // The brackets around the arrow: there may be others before, and another best move.
        let from =
            comment[..arrow].rfind('(').filter(|&from| !comment[from..arrow].contains(')'))?;
        let to = arrow + comment[arrow..].find(END)? + END.len();
        Some(format!("{}{}", &comment[..from], &comment[to..]))
    };
    let rest = verdict().unwrap_or_else(|| comment.to_owned());
    let rest = rest.trim();
    (!rest.is_empty()).then(|| rest.to_owned())
}

/// What there is to say after `ply` plies: evaluation, verdict, and what the file said there.
fn comment(review: &Review, ply: usize, verdict: Option<String>) -> Option<String> {
    let look = review.looks[ply].as_ref();
    let eval = look.map(|look| evaluation(look.lines[0].score));
    let old = review
        .source
        .comments
        .iter()
        .filter(|(at, _)| *at == ply)
        .filter_map(|(_, text)| without_verdict(text));
    let parts: Vec<String> = eval.into_iter().chain(verdict).chain(old).collect();
    (!parts.is_empty()).then(|| parts.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_verdicts_go_and_nothing_else() {
        let rest = |comment: &str| without_verdict(comment);
        assert_eq!(rest("(0.31 \u{2192} -1.20) Mistake. Nf3 was best."), None);
        let kept = "Novelty (Carlsen 2013), strong.";
        assert_eq!(
            rest(&format!("{kept} (0.31 \u{2192} -1.20) Mistake. Nf3 was best.")).as_deref(),
            Some(kept)
        );
        assert_eq!(
            rest("e4 was best. (A \u{2192} B) is a plan").as_deref(),
            Some("e4 was best. (A \u{2192} B) is a plan")
        );
        let two = "e4 was best. (0.31 \u{2192} -1.20) Mistake. Nf3 was best.";
        assert_eq!(rest(two).as_deref(), Some("e4 was best."));
        let own = "Novelty (Carlsen 2013) \u{2192} sharp. Nf3 was best.";
        assert_eq!(rest(own).as_deref(), Some(own));
    }
}
