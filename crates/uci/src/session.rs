//! Our engine as a UCI program. One thread reads commands, a second one answers them and a third one
//! searches, so that `isready`, `stop` and `quit` are answered during every search.

mod output;
mod worker;

use std::{
    io::{self, BufReader, Read, Write},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use board::{CastlingMode, FenWarning, Game, Position, ReadFen, shortened};
use crossbeam_channel::{Receiver, Sender};
use engine::{Engine, EngineOptions, NamedOptions, OptionChange};
use search::{Control, Limits};

use self::{
    output::Output,
    worker::{SearchJob, Worker, WorkerJob},
};
use crate::{
    command::{Command, KNOWN, PositionCommand},
    go::Go,
    lines::{InputLine, LONGEST_LINE, next_line},
    options::option_lines,
};

/// Longest wait, at the end of the program, for a stopped search.
const PATIENCE: Duration = Duration::from_secs(3);

/// Builds an engine for options; an error is one sentence. It is called again when the network, the
/// system, the search, the device, the threads, the code path or the format changes.
pub type EngineFactory = Box<dyn FnMut(&EngineOptions) -> Result<Engine, String> + Send>;

/// The pause between two checks for `stop`: [`std::thread::sleep`], except in tests.
pub type Pause = Box<dyn FnMut(Duration) + Send>;

/// Name and author in the handshake.
#[derive(Clone, Debug)]
pub struct Identity {
    pub name: String,
    pub author: String,
}

enum Event {
    Line(InputLine),
    EndOfInput,
    OutputClosed,
}

/// Speaks UCI until `quit`, the end of the input or a closed output. A running search is stopped
/// then and its move given.
///
/// # Errors
/// A thread could not be started.
pub fn run<R, W>(
    input: R,
    output: W,
    factory: EngineFactory,
    identity: &Identity,
    options: NamedOptions,
) -> io::Result<()>
where
    R: Read + Send + 'static,
    W: Write + Send + 'static,
{
    run_with_pause(input, output, factory, identity, options, Box::new(thread::sleep))
}

/// As [`run`]. A finished search that must not answer yet calls `pause` until it may.
///
/// # Errors
/// A thread could not be started.
pub fn run_with_pause<R, W>(
    input: R,
    output: W,
    factory: EngineFactory,
    identity: &Identity,
    options: NamedOptions,
    pause: Pause,
) -> io::Result<()>
where
    R: Read + Send + 'static,
    W: Write + Send + 'static,
{
    let (events, incoming) = crossbeam_channel::bounded(256);
    let output = Output::new(output, {
        let events = events.clone();
        // A full channel already wakes the session.
        move || drop(events.try_send(Event::OutputClosed))
    });
    thread::Builder::new().name("uci-input".to_owned()).spawn(move || read(input, &events))?;
    let (jobs, queue) = crossbeam_channel::unbounded();
    let worker = Worker::new(factory, output.clone(), queue, pause);
    let (ended, end) = crossbeam_channel::bounded::<()>(0);
    thread::Builder::new().name("search".to_owned()).stack_size(64 << 20).spawn(move || {
        worker.run();
        drop(ended);
    })?;
    let mut session = Session {
        identity: identity.clone(),
        game: Game::default(),
        options,
        jobs,
        output,
        searches: Vec::new(),
    };
    session.listen(&incoming);
    session.stop();
    drop(session);
    // Ends with the worker, or when it does not listen.
    let _ = end.recv_timeout(PATIENCE);
    Ok(())
}

fn read(input: impl Read, events: &Sender<Event>) {
    let mut input = BufReader::new(input);
    while let Ok(Some(line)) = next_line(&mut input, LONGEST_LINE) {
        if events.send(Event::Line(line)).is_err() {
            return;
        }
    }
    // The send fails only when the session has ended.
    let _ = events.send(Event::EndOfInput);
}

/// A requested search, which may still run.
#[derive(Clone, Debug)]
struct Running {
    control: Control,
    done: Arc<AtomicBool>,
    pondering: bool,
}

struct Session {
    identity: Identity,
    game: Game,
    options: NamedOptions,
    jobs: Sender<WorkerJob>,
    output: Output,
    /// Oldest first; all but the last are stopped.
    searches: Vec<Running>,
}

impl Session {
    fn listen(&mut self, incoming: &Receiver<Event>) {
        while let Ok(event) = incoming.recv() {
            match event {
                Event::Line(InputLine::Text(line)) => match Command::parse(&line) {
                    Ok(Some(Command::Quit)) => return,
                    Ok(Some(command)) => self.obey(command, Instant::now()),
                    Ok(None) => {}
                    Err(error) => self.output.note(error),
                },
                Event::Line(InputLine::TooLong) => {
                    self.output
                        .note(format!("a line of more than {LONGEST_LINE} bytes was ignored"));
                }
                Event::EndOfInput | Event::OutputClosed => return,
            }
            if self.output.is_closed() {
                return;
            }
        }
    }

    fn obey(&mut self, command: Command, received: Instant) {
        match command {
            Command::Uci => {
                self.output.line(&format!("id name {}", self.identity.name));
                self.output.line(&format!("id author {}", self.identity.author));
                for line in option_lines(&self.options) {
                    self.output.line(&line);
                }
                self.output.line("uciok");
            }
            Command::IsReady if self.running().is_some() => self.output.line("readyok"),
            Command::IsReady => {
                self.send(WorkerJob::Prepare {
                    options: self.options.engine.clone(),
                    answer: true,
                });
            }
            Command::SetOption { name, value } => self.set_option(&name, value.as_deref()),
            Command::NewGame => self.send(WorkerJob::Clear),
            Command::Position(command) => self.set_position(&command),
            Command::Go(go) => self.go(&go, received),
            Command::Stop => self.stop(),
            Command::PonderHit => match self.running() {
                Some(running) if running.pondering => running.control.ponder_hit(),
                _ => self.output.note("`ponderhit` without `go ponder`"),
            },
            Command::Display => self.display(),
            Command::Eval => self.send(WorkerJob::Evaluate {
                game: self.game.clone(),
                options: self.options.clone(),
            }),
            Command::Bench => self.send(WorkerJob::Bench),
            Command::Help => self
                .output
                .note(format!("commands: {}; all options: docs/uci.md", KNOWN.join(", "))),
            Command::Debug(_) | Command::Register | Command::Quit => {}
        }
    }

    /// The newest search, if it has not answered.
    fn running(&mut self) -> Option<&Running> {
        self.searches.retain(|search| !search.done.load(Ordering::Acquire));
        self.searches.last()
    }

    fn stop(&self) {
        for search in &self.searches {
            search.control.stop();
        }
    }

    fn send(&self, job: WorkerJob) {
        // The worker lives as long as this side.
        let _ = self.jobs.send(job);
    }

    fn set_option(&mut self, name: &str, value: Option<&str>) {
        match self.options.set(name, value) {
            Ok(OptionChange::Value) => {}
            Ok(OptionChange::Partly(reason)) => self.output.note(reason),
            Ok(OptionChange::Network) => self
                .send(WorkerJob::Prepare { options: self.options.engine.clone(), answer: false }),
            Ok(OptionChange::ClearHash) => self.send(WorkerJob::Clear),
            Err(error) => self.output.note(error),
        }
    }

    fn castling_mode(&self) -> CastlingMode {
        CastlingMode::from_chess960(self.options.chess960)
    }

    fn set_position(&mut self, command: &PositionCommand) {
        const START: &str = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1";
        let fen = command.fen.as_deref().unwrap_or(START);
        match Position::read_fen(fen, Some(self.castling_mode())) {
            Ok(ReadFen { position, warning }) => {
                self.game = Game::new(position);
                match warning {
                    Some(warning @ FenWarning::Chess960Rights { .. }) => {
                        self.output.note(format!("{warning}; set UCI_Chess960 to keep them"));
                    }
                    Some(warning) => self.output.note(warning),
                    None => {}
                }
            }
            Err(error) => {
                self.output
                    .note(format!("{}; the position stays as it was", shortened_error(&error)));
                return;
            }
        }
        for (index, text) in command.moves.iter().enumerate() {
            match board::parse_uci(self.game.position(), text) {
                Ok(mv) => self.game.play(mv),
                Err(error) => {
                    self.output.note(format!(
                        "move {} of the game is ignored with all that follow: {}",
                        index + 1,
                        shortened_error(&error)
                    ));
                    return;
                }
            }
        }
    }

    fn go(&mut self, go: &Go, received: Instant) {
        let (limits, complaints) = go.limits(self.game.position());
        for complaint in complaints {
            self.output.note(complaint);
        }
        if self.running().is_some() {
            self.output.note("a search is running: it is stopped first");
        }
        self.stop();
        let running = Running {
            control: Control::default(),
            done: Arc::new(AtomicBool::new(false)),
            pondering: go.ponder,
        };
        let job = SearchJob {
            game: self.game.clone(),
            limits: Limits { analysis: self.options.analyse_mode, ..limits },
            options: self.options.clone(),
            control: running.control.clone(),
            done: running.done.clone(),
            received,
        };
        self.searches.push(running);
        self.send(match go.perft {
            Some(depth) => WorkerJob::Perft { job, depth: depth.clamp(0, 32) as u32 },
            None => WorkerJob::Search(job),
        });
    }

    fn display(&self) {
        let position = self.game.position();
        for rank in board::Rank::ALL.into_iter().rev() {
            let row: Vec<String> = board::File::ALL
                .into_iter()
                .map(|file| {
                    let piece = position.board().piece_at(board::Square::from_coords(file, rank));
                    piece.map_or('.', board::Piece::char).to_string()
                })
                .collect();
            self.output.note(row.join(" "));
        }
        self.output.note(format!("fen {}", position.fen()));
        self.output.note(format!("key {:016x}", position.key()));
        if let Some(end) = self.game.end() {
            self.output.note(format!("the game is over: {end:?}"));
        }
    }
}

/// The message with foreign text cut to a readable length.
fn shortened_error(error: &board::BoardError) -> String {
    let text: String =
        error.to_string().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().count() > 400 { shortened(&text) } else { text }
}
