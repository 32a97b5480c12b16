//! A deterministic search and a conversation with the engine loop, for the tests of the protocol.

use std::{
    io::{BufRead, BufReader, PipeWriter, Write},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use board::{Game, Move, Position, Score};
use engine::{Engine, EngineOptions, NamedOptions};
use nets::WdlModel;
use search::{Bound, Control, Limits, Outcome, Search, SearchInfo, Settings};
use uci::{EngineFactory, Identity};

/// Scores each root move by the material it wins, one "depth" after the other; nodes are moves
/// looked at, a node takes one microsecond of pretended time.
#[derive(Debug)]
pub struct MaterialSearch {
    settings: Settings,
}

fn material(position: &Position) -> i32 {
    let board = position.board();
    let side = |color| {
        let pieces = board.material_side(color);
        i32::from(pieces.pawn)
            + 3 * i32::from(pieces.knight + pieces.bishop)
            + 5 * i32::from(pieces.rook)
            + 9 * i32::from(pieces.queen)
    };
    100 * (side(position.turn()) - side(!position.turn()))
}

impl Search for MaterialSearch {
    fn search(
        &mut self,
        game: &Game,
        limits: &Limits,
        control: &Control,
        report: &mut dyn FnMut(&SearchInfo),
    ) -> Result<Outcome, eval::EvalError> {
        let started = Instant::now();
        let position = game.position();
        if position.fen().contains(" 66 ") {
            panic!("a test asked for a search that fails");
        }
        let mut moves: Vec<(i32, Move)> = position
            .legal_moves()
            .iter()
            .filter(|mv| limits.search_moves.is_empty() || limits.search_moves.contains(mv))
            .map(|&mv| (-material(&position.after(mv)), mv))
            .collect();
        moves.sort_by_key(|&(score, _)| -score);
        let mut outcome = Outcome {
            best: moves.first().map(|&(_, mv)| mv),
            ponder: moves
                .first()
                .and_then(|&(_, mv)| position.after(mv).legal_moves().first().copied()),
            ..Outcome::default()
        };
        let most = if limits.infinite { 3 } else { limits.depth.unwrap_or(3) };
        for depth in 1..=most.min(100) {
            let nodes = outcome.nodes + moves.len() as u64;
            let timed_out = limits.movetime.is_some_and(|time| started.elapsed() >= time);
            let spent = limits.nodes.is_some_and(|most| nodes > most);
            let flagged = limits.clock.is_some_and(|clock| clock.remaining.is_zero());
            if control.is_stopped() || timed_out || spent || flagged {
                break;
            }
            outcome.nodes = nodes;
            outcome.lines = (1..)
                .zip(moves.iter().take(self.settings.multipv))
                .map(|(multipv, &(score, mv))| SearchInfo {
                    depth,
                    seldepth: depth + 1,
                    multipv,
                    score: Score::Centipawns(score),
                    bound: Bound::Exact,
                    wdl: WdlModel::default().at(score as f32),
                    moves_left: None,
                    nodes,
                    elapsed: Duration::from_micros(nodes),
                    hashfull: depth,
                    pv: vec![mv],
                })
                .collect();
            outcome.lines.iter().for_each(&mut *report);
        }
        Ok(outcome)
    }

    fn configure(&mut self, settings: &Settings) {
        self.settings = settings.clone();
    }

    fn clear(&mut self) {}
}

/// Builds [`MaterialSearch`]; network files whose name contains `bad` are refused, and NVIDIA's
/// devices.
pub fn factory() -> EngineFactory {
    Box::new(|options: &EngineOptions| {
        if let Some(path) = &options.network
            && path.to_string_lossy().contains("bad")
        {
            return Err(format!("cannot use the network file `{}`", path.display()));
        }
        let device = options.devices.to_string();
        if device.starts_with("cuda") {
            return Err(format!("there is no device {device}"));
        }
        let place = if device == "auto" { String::new() } else { format!(" on {device}") };
        Ok(Engine {
            search: Box::new(MaterialSearch { settings: options.settings.clone() }),
            description: format!("material, {} threads{place}", options.threads),
        })
    })
}

/// Longest wait for anything that must come; only a failing test waits so long.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// An engine under test, with the transcript of its input and output.
pub struct Conversation {
    input: Option<PipeWriter>,
    answers: mpsc::Receiver<String>,
    /// A message for each pause of a search that waits for `stop`; at most one is kept.
    pauses: mpsc::Receiver<()>,
    engine: Option<thread::JoinHandle<std::io::Result<()>>>,
    transcript: String,
}

impl Conversation {
    pub fn start() -> Self {
        let (engine_input, input) = std::io::pipe().unwrap();
        let (output, engine_output) = std::io::pipe().unwrap();
        let identity = Identity { name: "Test 1.0".into(), author: "the testers".into() };
        let (paused, pauses) = mpsc::sync_channel(1);
        let engine = thread::spawn(move || {
            let pause = Box::new(move |_| {
                // A full channel is ignored.
                let _ = paused.try_send(());
                thread::yield_now();
            });
            let options = NamedOptions::default();
            uci::run_with_pause(engine_input, engine_output, factory(), &identity, options, pause)
        });
        let (sender, answers) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self {
            input: Some(input),
            answers,
            pauses,
            engine: Some(engine),
            transcript: String::new(),
        }
    }

    pub fn send(&mut self, line: &str) {
        self.transcript.push_str(&format!("> {line}\n"));
        self.send_bytes(format!("{line}\n").as_bytes());
    }

    pub fn send_bytes(&mut self, bytes: &[u8]) {
        self.input.as_mut().unwrap().write_all(bytes).unwrap();
    }

    /// The next answer; `None` at the end of the output.
    fn answer(&mut self) -> Option<String> {
        let line = self.answers.recv_timeout(LONGEST_WAIT).ok()?;
        self.transcript.push_str(&format!("< {line}\n"));
        Some(line)
    }

    /// Reads up to the first answer that begins with `start`; all answers read.
    pub fn expect(&mut self, start: &str) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            let Some(line) = self.answer() else {
                panic!("no `{start}`; the conversation so far:\n{}", self.transcript);
            };
            let found = line.starts_with(start);
            lines.push(line);
            if found {
                return lines;
            }
        }
    }

    /// Sends a line and `isready`, and reads up to `readyok`; returns the answers before it.
    pub fn ask(&mut self, line: &str) -> Vec<String> {
        self.send(line);
        self.send("isready");
        let mut lines = self.expect("readyok");
        lines.pop();
        lines
    }

    /// Waits until the finished search has looked for `stop` without answering.
    pub fn expect_waiting(&mut self) {
        // The first pause may be one of an earlier search, the second may have begun with it.
        for _ in 0..3 {
            let pause = self.pauses.recv_timeout(LONGEST_WAIT);
            assert!(pause.is_ok(), "the search does not wait:\n{}", self.transcript);
        }
    }

    /// Closes the input and waits for the engine's end: everything still answered.
    pub fn close(&mut self) -> Vec<String> {
        self.input = None;
        let lines: Vec<String> = std::iter::from_fn(|| self.answer()).collect();
        self.engine.take().unwrap().join().unwrap().unwrap();
        lines
    }

    pub fn transcript(&self) -> &str {
        &self.transcript
    }
}
