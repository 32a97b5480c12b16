//! `batch-first analyze games.pgn --chances --out chances.jsonl`: the chance that a policy gives each
//! move that was played, for those who study how people play.

use std::{io::Write, sync::Arc};

use anyhow::{Context, bail};
use board::{Game, Move, Position, to_san, to_uci};
use eval::{Batch, Evaluator};
use games::{FileEntry, ResumableOutput};
use nets::{HeadKind, MonotoneMap, MoveScores, Network};
use search::Control;
use serde_json::{Value, json};

use crate::{
    engine_args::processors,
    interrupt::{self, Interrupted},
    progress_line::{ProgressLine, ending, ensure_none_broken, summary_output},
};

/// So many of the likeliest moves are written for each position.
const FIRST: usize = 3;

/// Positions evaluated together.
const TOGETHER: usize = 512;

/// Writes one JSON object for each position.
///
/// # Errors
/// The network has no policy, or a file cannot be used.
pub(super) fn run(args: &super::AnalyzeArgs, output: &std::path::Path) -> anyhow::Result<()> {
    let mut policy = Policy::new(args)?;
    let input = games::content_identity(&args.games)?;
    let run = vec![format!("chances of moves by {}", policy.name)];
    let mut out = ResumableOutput::open(output, run, Some(input))?;
    let control = Control::default();
    interrupt::stop_search(&control)?;
    let mut line = ProgressLine::new();
    let (begun, written) = (out.positions(), out.games());
    let mut interrupted = false;
    for (number, entry) in (1_u64..).zip(games::read_files(&args.games)).skip(written as usize) {
        interrupted = control.is_stopped();
        if interrupted {
            break;
        }
        let (text, positions, is_broken) = match entry? {
            FileEntry::Game(game) => {
                let (text, positions) = policy.lines(number, &game.game)?;
                (text, positions, game.unread.is_some())
            }
            FileEntry::Position(game) => {
                let (text, positions) = policy.lines(number, &game)?;
                (text, positions, false)
            }
            FileEntry::LeftOutGame(_) | FileEntry::LeftOutLine => (String::new(), 0, false),
        };
        out.add_soon(&text, positions, is_broken)?;
        let rate = (out.positions() - begun) as f64 / line.seconds();
        line.show(|| {
            format!("{} games, {} positions, {rate:.0} a second", out.games(), out.positions())
        });
    }
    out.flush()?;
    line.finish();
    let rate = (out.positions() - begun) as f64 / line.seconds();
    let shown = writeln!(
        summary_output(output),
        "{}: {} games, {} positions, {rate:.0} positions a second, {}",
        output.display(),
        out.games(),
        out.positions(),
        ending(interrupted)
    );
    Interrupted::or(interrupted, shown.context("cannot show the end of the run"))?;
    ensure_none_broken(out.broken())
}

/// A network's policy.
struct Policy {
    evaluator: Box<dyn Evaluator>,
    /// Program, network with its fingerprint, and code path and number format unless they are the
    /// default: all that decides a chance.
    name: String,
    has_history: bool,
}

impl Policy {
    fn new(args: &super::AnalyzeArgs) -> anyhow::Result<Self> {
        let options = args.engine.options(processors())?;
        let (mut network, _) = engine::choose(&options)?;
        let has_policy = network.description.head(HeadKind::Moves).is_some()
            && network.calibration.move_scores == MoveScores::Policy;
        if !has_policy {
            bail!(
                "the network {} gives no chances of all moves; choose one with a policy, as in `--net maia-1500.pb.gz`",
                network.name
            );
        }
        let has_history = network.description.encoding.has_history();
        if has_history {
            // The chances of Leela's policies are those of their logits; a search softens them.
            network.calibration.moves = MonotoneMap::default();
        }
        let given = [
            options.path.map(|path| format!(", {path}")),
            options.precision.map(|precision| format!(", {precision}")),
        ];
        let name = name(&network) + &given.into_iter().flatten().collect::<String>();
        Ok(Self { evaluator: engine::evaluator(&Arc::new(network), &options)?, name, has_history })
    }

    /// One line for each position of a game with a legal move, and their number.
    fn lines(&mut self, number: u64, game: &Game) -> anyhow::Result<(String, u64)> {
        let start = game.start().clone();
        let mut position = if self.has_history { start.remembering() } else { start };
        let mut positions = Vec::with_capacity(game.moves().len() + 1);
        for &mv in game.moves() {
            let next = position.after(mv);
            positions.push((position, Some(mv)));
            position = next;
        }
        // After the last move nothing was played.
        positions.push((position, None));
        let (mut text, mut count) = (String::new(), 0);
        let mut ply = 0;
        for part in positions.chunks(TOGETHER.min(self.evaluator.largest_batch())) {
            let mut batch = Batch::default();
            for (position, _) in part {
                batch.push(position, false, &position.legal_moves());
            }
            let answered = self.evaluator.evaluate(batch)?;
            for ((position, played), query) in part.iter().zip(&answered.batch.queries) {
                ply += 1;
                let logits = &answered.scores.moves[query.move_range()];
                if !logits.is_empty() {
                    let mut line = describe(position, *played, logits);
                    line["game"] = number.into();
                    line["ply"] = ply.into();
                    text += &line.to_string();
                    text.push('\n');
                    count += 1;
                }
            }
        }
        Ok((text, count))
    }
}

/// What a policy says of a position: the played move, its chance and rank, and the likeliest moves.
fn describe(position: &Position, played: Option<Move>, logits: &[f32]) -> Value {
    let highest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let chances: Vec<f32> = logits.iter().map(|logit| (logit - highest).exp()).collect();
    let sum: f32 = chances.iter().sum();
    let mut moves: Vec<(Move, f32)> =
        position.legal_moves().into_iter().zip(chances.iter().map(|chance| chance / sum)).collect();
    moves.sort_by(|one, other| other.1.total_cmp(&one.1));
    let row = |&(mv, chance): &(Move, f32)| json!({ "uci": to_uci(position, mv), "san": to_san(position, mv), "chance": chance });
    let rank = played.and_then(|played| moves.iter().position(|&(mv, _)| mv == played));
    json!({
        "fen": position.fen(),
        "played": rank.map(|rank| row(&moves[rank])),
        "rank": rank.map(|rank| rank + 1),
        "first": moves.iter().take(FIRST).map(row).collect::<Value>(),
    })
}

fn name(network: &Network) -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!("Batch First {version}, network {} {}", network.name, network.fingerprint())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_played_move_and_the_likeliest_three() {
        let position = Position::default();
        let moves = position.legal_moves();
        let mut logits = vec![0.0; moves.len()];
        logits[4] = 3.0_f32.ln();
        let line = describe(&position, Some(moves[7]), &logits);
        assert_eq!(line["first"].as_array().map(Vec::len), Some(FIRST));
        assert_eq!(line["first"][0]["uci"], to_uci(&position, moves[4]));
        let chance = |value: &Value| value["chance"].as_f64().unwrap_or_default();
        assert!((chance(&line["first"][0]) - 3.0 / 22.0).abs() < 1e-6);
        assert!((chance(&line["played"]) - 1.0 / 22.0).abs() < 1e-6);
        assert!(line["rank"].as_u64().is_some_and(|rank| (2..=20).contains(&rank)));
        assert!(describe(&position, None, &logits)["played"].is_null());
    }
}
