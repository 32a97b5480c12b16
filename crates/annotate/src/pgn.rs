//! The analysis of a game as PGN: `[%eval]` comments as Lichess writes them, glyphs at bad moves,
//! and the better variations.

use board::{Color, Position, Score};
use games::{PgnWriter, parse_result, white_score_text};

use crate::{
    GameAnalysis,
    accuracy::player_analyses,
    kept::{GOES_ON, OWN_NAME},
};

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

/// The glyphs of a move: `!`, `?`, `!!`, `??`, `!?`, `?!`.
const MOVE_GLYPHS: std::ops::RangeInclusive<u16> = 1..=6;

/// The annotated game, with all that people wrote in it. A bad move gets a glyph, unless a person
/// gave it one, and a verdict; if it lost at least `threshold` percent of winning chances, also the
/// better variations. `annotator` goes into the tag of this name.
#[must_use]
pub fn pgn(analysis: &GameAnalysis, annotator: &str, threshold: f64) -> String {
    let source = &analysis.source;
    let winner = source.tag("Result").and_then(parse_result);
    let mut writer = PgnWriter::new(source.game.start(), &tags(analysis, annotator), winner);
    add_comments(&mut writer, analysis, 0, None);
    let mut position = source.game.start().clone();
    source.nags.iter().filter(|(ply, _)| *ply == 0).for_each(|&(_, nag)| writer.nag(nag));
    for (ply, &mv) in source.game.moves().iter().enumerate() {
        writer.play(mv, None);
        add_move(&mut writer, analysis, ply, &position, threshold);
        position.play(mv);
    }
    if let Some(unread) = &source.unread {
        // Without brackets, so that nobody reads an evaluation there.
        let rest = source.rest.replace(['[', ']'], "");
        let colon = if rest.is_empty() { "" } else { ": " };
        writer.comment(&format!("{GOES_ON}{unread}{colon}{rest}"));
    }
    writer.finish()
}

/// What is said of the move at `ply`, from `position`.
fn add_move(
    writer: &mut PgnWriter,
    analysis: &GameAnalysis,
    ply: usize,
    position: &Position,
    threshold: f64,
) {
    let source = &analysis.source;
    let nags = || source.nags.iter().filter(|(at, _)| *at == ply + 1).map(|&(_, nag)| nag);
    let judgment = analysis.judgment(ply);
    let has_glyph = nags().any(|nag| MOVE_GLYPHS.contains(&nag));
    if let Some(judgment) = judgment.filter(|_| !has_glyph) {
        writer.nag(judgment.nag());
    }
    nags().for_each(|nag| writer.nag(nag));
    let is_explained = analysis.loss(ply).is_some_and(|loss| loss >= threshold);
    let verdict = judgment.map(|judgment| {
        let words = if has_glyph { judgment.sentence() } else { judgment.name() };
        verdict(analysis, ply, position, words, is_explained)
    });
    add_comments(writer, analysis, ply + 1, verdict);
    for (_, variation) in source.variations.iter().filter(|(at, _)| *at == ply + 1) {
        writer.variation(variation);
    }
    let Some(found) = analysis.positions[ply].as_ref().filter(|_| judgment.is_some()) else {
        return;
    };
    let played = source.game.moves()[ply];
    for line in found.lines.iter().filter(|line| is_explained && line.moves[0] != played) {
        let moves = &line.moves[..line.moves.len().min(VARIATION_PLIES)];
        let score = (found.lines.len() > 1).then(|| eval_comment(line.score));
        writer.line(position, moves, OWN_NAME, score.as_deref());
    }
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
    let others = source.tags.iter().filter(|(name, _)| name == "Annotator");
    let annotators = others.map(|(_, value)| value.as_str()).chain([annotator]);
    tags.push(("Annotator", annotators.collect::<Vec<_>>().join("; ")));
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

/// The verdict on a bad move: `(0.31 → -1.20) Mistake. Nf3 was best.`, without the best move unless
/// it is explained.
fn verdict(
    analysis: &GameAnalysis,
    ply: usize,
    position: &Position,
    words: &str,
    is_explained: bool,
) -> String {
    let score = |ply: usize| analysis.scores[ply].map_or_else(|| "?".to_owned(), white);
    let best = analysis.positions[ply]
        .as_ref()
        .filter(|_| is_explained)
        .map_or_else(String::new, |found| {
            format!(" {} was best.", board::to_san(position, found.lines[0].moves[0]))
        });
    format!("({} → {}) {words}.{best}", score(ply), score(ply + 1))
}

fn white(score: Score) -> String {
    white_score_text(score, Color::White)
}

fn eval_comment(score: Score) -> String {
    format!("[%eval {}]", white(score))
}

/// Our comment after `ply` plies, evaluation and verdict, and then those of the source.
fn add_comments(
    writer: &mut PgnWriter,
    analysis: &GameAnalysis,
    ply: usize,
    verdict: Option<String>,
) {
    let found = analysis.positions[ply].as_ref();
    let eval = found.map(|found| eval_comment(found.lines[0].score));
    let own: Vec<String> = eval.into_iter().chain(verdict).collect();
    if !own.is_empty() {
        writer.comment(&own.join(" "));
    }
    for (_, text) in analysis.source.comments.iter().filter(|(at, _)| *at == ply) {
        writer.comment(text);
    }
}
