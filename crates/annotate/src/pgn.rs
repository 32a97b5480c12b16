//! The analysis of a game as PGN: `[%eval]` comments as Lichess writes them, glyphs at bad moves,
//! and the better variations.

use board::{Color, Position, Score};
use games::{PgnWriter, parse_result, white_score_text};

use crate::{GameAnalysis, accuracy::player_analyses, old_verdicts::without_verdicts};

/// A variation is cut after this many plies.
const VARIATION_PLIES: usize = 12;

/// The analysis writes these tags itself; those of the source are dropped.
const OWN_TAGS: [&str; 6] = [
    "Result",
    "Annotator",
    "WhiteAccuracy",
    "BlackAccuracy",
    "WhiteAverageLoss",
    "BlackAverageLoss",
];

/// The annotated game. A bad move that lost at least `threshold` percent of winning chances gets a
/// comment and the better variations.
pub(crate) fn pgn(analysis: &GameAnalysis, annotator: &str, threshold: f64) -> String {
    let source = &analysis.source;
    let winner = source.tag("Result").and_then(parse_result);
    let mut writer = PgnWriter::new(source.game.start(), &tags(analysis, annotator), winner);
    if let Some(comment) = comment(analysis, 0, None) {
        writer.comment(&comment);
    }
    let mut position = source.game.start().clone();
    for (ply, &mv) in source.game.moves().iter().enumerate() {
        let judgment = analysis.judgment(ply);
        writer.play(mv, None);
        if let Some(judgment) = judgment {
            writer.nag(judgment.nag());
        }
        let explained =
            judgment.filter(|_| analysis.loss(ply).is_some_and(|loss| loss >= threshold));
        let verdict = explained.map(|judgment| verdict(analysis, ply, &position, judgment.name()));
        if let Some(comment) = comment(analysis, ply + 1, verdict) {
            writer.comment(&comment);
        }
        if let Some(found) = analysis.positions[ply].as_ref().filter(|_| explained.is_some()) {
            for line in found.lines.iter().filter(|line| line.moves[0] != mv) {
                let moves = &line.moves[..line.moves.len().min(VARIATION_PLIES)];
                let score = (found.lines.len() > 1).then(|| eval_comment(line.score));
                writer.variation(&position, moves, score.as_deref());
            }
        }
        position.play(mv);
    }
    if let Some(illegal) = &source.illegal {
        writer.comment(&format!("the file goes on with {illegal}, which is not legal"));
    }
    writer.finish()
}

/// The tags of the source, then those of the analysis.
fn tags<'a>(analysis: &'a GameAnalysis, annotator: &str) -> Vec<(&'a str, String)> {
    let source = &analysis.source;
    let mut tags: Vec<(&str, String)> = source
        .tags
        .iter()
        .filter(|(name, _)| !OWN_TAGS.contains(&name.as_str()))
        .map(|(name, value)| (name.as_str(), value.clone()))
        .collect();
    tags.push(("Annotator", annotator.to_owned()));
    let names = [("WhiteAccuracy", "WhiteAverageLoss"), ("BlackAccuracy", "BlackAverageLoss")];
    for ((accuracy, average_loss), player) in
        names.into_iter().zip(player_analyses(&source.game, &analysis.scores))
    {
        if let Some(player) = player {
            tags.push((accuracy, format!("{:.1}", player.accuracy)));
            tags.push((average_loss, format!("{:.0}", player.average_loss)));
        }
    }
    tags
}

/// The verdict on a bad move: `(0.31 → -1.20) Mistake. Nf3 was best.`
fn verdict(analysis: &GameAnalysis, ply: usize, position: &Position, name: &str) -> String {
    let score = |ply: usize| analysis.scores[ply].map_or_else(|| "?".to_owned(), white);
    let best = analysis.positions[ply]
        .as_ref()
        .map(|found| board::to_san(position, found.lines[0].moves[0]));
    format!("({} → {}) {name}. {} was best.", score(ply), score(ply + 1), best.unwrap_or_default())
}

fn white(score: Score) -> String {
    white_score_text(score, Color::White)
}

fn eval_comment(score: Score) -> String {
    format!("[%eval {}]", white(score))
}

/// The comment after `ply` plies: evaluation, verdict, and the comments of the source.
fn comment(analysis: &GameAnalysis, ply: usize, verdict: Option<String>) -> Option<String> {
    let found = analysis.positions[ply].as_ref();
    let eval = found.map(|found| eval_comment(found.lines[0].score));
    let old = analysis
        .source
        .comments
        .iter()
        .filter(|(at, _)| *at == ply)
        .filter_map(|(_, text)| without_verdicts(text));
    let parts: Vec<String> = eval.into_iter().chain(verdict).chain(old).collect();
    (!parts.is_empty()).then(|| parts.join(" "))
}
