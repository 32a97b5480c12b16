//! The data, the networks and the interruptions that the tests of runs share.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use board::{CastlingMode, Color, Position, Role, to_san};
use nets::{Activation, Branch, Description, Encoding, Head, HeadKind, Layer, Padding};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use train::{Config, Event, Progress, StepReport, read_journal};

pub(crate) const START: &str = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1";

/// White's material balance in pawns.
pub(crate) fn material(position: &Position) -> i32 {
    let worth =
        [(Role::Pawn, 1), (Role::Knight, 3), (Role::Bishop, 3), (Role::Rook, 5), (Role::Queen, 9)];
    let board = position.board();
    worth
        .iter()
        .map(|&(role, worth)| {
            let count = |color| (board.by_color(color) & board.by_role(role)).count() as i32;
            worth * (count(Color::White) - count(Color::Black))
        })
        .sum()
}

/// Games of random moves, captures preferred, so that the material differs.
pub(crate) fn games(count: usize) -> String {
    let mut random = ChaCha8Rng::seed_from_u64(11);
    let mut text = String::new();
    for game in 0..count {
        let mut position = Position::from_fen(START, CastlingMode::Standard).unwrap();
        let mut moves = String::new();
        for ply in 0..60 {
            let legal = position.legal_moves();
            if legal.is_empty() {
                break;
            }
            let captures: Vec<_> = legal.iter().copied().filter(|mv| mv.is_capture()).collect();
            let from =
                if captures.is_empty() || random.random_bool(0.5) { &legal[..] } else { &captures };
            let mv = from[random.random_range(0..from.len())];
            if ply % 2 == 0 {
                write!(moves, "{}. ", ply / 2 + 1).unwrap();
            }
            write!(moves, "{} ", to_san(&position, mv)).unwrap();
            position.play(mv);
            write!(moves, "{{ [%eval {}.00] }} ", material(&position)).unwrap();
        }
        let result = match material(&position) {
            3.. => "1-0",
            ..=-3 => "0-1",
            _ => "1/2-1/2",
        };
        writeln!(text, "[Event \"Random {game}\"]\n[Result \"{result}\"]\n\n{moves}{result}\n")
            .unwrap();
    }
    text
}

/// A network small enough for a test.
pub(crate) fn description(kind: HeadKind) -> Description {
    let conv = |kernel, channels, padding| Layer::Conv {
        kernel,
        channels,
        padding,
        norm: true,
        activation: Activation::Relu,
    };
    let input = Layer::Branches {
        branches: vec![
            Branch { kernel: [3, 3], dilation: [1, 1], channels: 12 },
            Branch { kernel: [2, 2], dilation: [2, 4], channels: 4 },
        ],
        norm: true,
        activation: Activation::Relu,
    };
    let mut layers = vec![input, conv(1, 16, Padding::Same)];
    let outputs = if kind == HeadKind::Value {
        layers.push(conv(8, 16, Padding::Valid));
        1
    } else {
        // Each square must see the whole board to know the material.
        layers.extend([7, 7, 3].map(|kernel| conv(kernel, 16, Padding::Same)));
        nets::MOVE_PLANES
    };
    layers.push(Layer::Conv {
        kernel: 1,
        channels: outputs,
        padding: Padding::Same,
        norm: false,
        activation: Activation::Identity,
    });
    Description {
        encoding: Encoding::BatchFirst15,
        trunk: Vec::new(),
        heads: vec![Head::plain(kind, layers)],
    }
}

/// A folder with data, a description and a configuration for `head`.
pub(crate) fn prepare(folder: &Path, head: HeadKind) -> PathBuf {
    let pgn = folder.join("random.pgn");
    std::fs::write(&pgn, games(150)).unwrap();
    let shards = folder.join("shards");
    let options = data::ImportOptions { validation: 0.2, ..data::ImportOptions::default() };
    data::import(&[pgn], &shards, &options, &mut ()).unwrap();
    let model = folder.join("description.json");
    std::fs::write(&model, serde_json::to_string(&description(head)).unwrap()).unwrap();
    let config = folder.join("config.toml");
    let text = format!(
        "run = {{ name = 'run', directory = '{0}' }}\ndata = {{ directory = '{1}' }}\n\
         model = {{ start = '{2}', head = '{3}' }}\n\
         training = {{ batch = 64, learning_rate = 1e-2, steps = 300, threads = 2, average = 0.9, log_every = 5, \
         schedule = {{ kind = 'cosine', warm_up = 5, floor = 0.1 }} }}\n\
         validation = {{ every = 100, positions = 200 }}\ncheckpoints = {{ every = 10, keep = 2 }}\n",
        folder.join("runs").display(),
        shards.display(),
        model.display(),
        head.name(),
    );
    std::fs::write(&config, text).unwrap();
    config
}

pub(crate) fn load(config: &Path, changes: &[&str]) -> Config {
    Config::load(config, &changes.iter().map(|&change| change.to_owned()).collect::<Vec<_>>())
        .unwrap()
}

/// Interrupts a run after a step: politely, or as a crash would.
pub(crate) struct Interrupt<'a> {
    pub(crate) after: u64,
    pub(crate) stop: Option<&'a AtomicBool>,
}

impl Progress for Interrupt<'_> {
    fn step(&mut self, report: &StepReport) {
        if report.step == self.after {
            match self.stop {
                Some(stop) => stop.store(true, Ordering::Relaxed),
                None => panic!("the power fails"),
            }
        }
    }
}

/// Loss, tau and rate of every line of the journal, and the validations.
pub(crate) fn story(folder: &Path) -> Vec<String> {
    read_journal(folder)
        .unwrap()
        .into_iter()
        .filter_map(|event| match event {
            Event::Train { step, samples, loss, tau, learning_rate, .. } => {
                Some(format!("{step} {samples} {loss} {tau} {learning_rate}"))
            }
            Event::Validation { step, sources, .. } => Some(format!("{step} {sources:?}")),
            Event::Start { .. } | Event::End { .. } => None,
        })
        .collect()
}
