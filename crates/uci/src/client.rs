//! Drives another engine as a child process. Every answer has a time limit, so an engine that
//! crashes, hangs, floods or plays illegal moves loses only its own game.

mod answer;
mod error;
mod options;

use std::{
    io::{self, BufReader, Read, Write},
    path::PathBuf,
    process::{Child, ChildStdin, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use board::{CastlingMode, Game, shortened};
use crossbeam_channel::{Receiver, RecvTimeoutError};

pub use answer::{Answer, EngineInfo};
pub use error::ClientError;
use options::AnnouncedOption;

use crate::lines::{InputLine, next_line};

/// Longest line of an engine, in bytes; longer lines are dropped.
const LONGEST_LINE: usize = 1 << 16;

/// Most output of one search, in bytes; more is a flood. An engine that gives no move in time and has
/// written more than `NOISE` bytes floods too.
const FLOOD: u64 = 16 << 20;
const NOISE: u64 = 1 << 20;

/// How long an engine may take to end after `quit` before it is killed.
const QUIT_PATIENCE: Duration = Duration::from_millis(500);

/// The program of an engine, its arguments and its UCI options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineSpec {
    pub program: PathBuf,
    pub arguments: Vec<String>,
    /// Set after the handshake, in order.
    pub options: Vec<(String, String)>,
    /// Shown in place of the engine's own name.
    pub name: Option<String>,
}

/// The limit that `go` gives to an engine; the engine keeps its own time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchRequest {
    Nodes(u64),
    Depth(u32),
    MoveTime(Duration),
    /// Remaining times and increments of White and Black.
    Clock {
        white: Duration,
        black: Duration,
        white_increment: Duration,
        black_increment: Duration,
    },
}

impl SearchRequest {
    fn command(&self) -> String {
        match self {
            Self::Nodes(nodes) => format!("go nodes {nodes}"),
            Self::Depth(depth) => format!("go depth {depth}"),
            Self::MoveTime(time) => format!("go movetime {}", time.as_millis()),
            Self::Clock { white, black, white_increment, black_increment } => format!(
                "go wtime {} btime {} winc {} binc {}",
                white.as_millis(),
                black.as_millis(),
                white_increment.as_millis(),
                black_increment.as_millis()
            ),
        }
    }
}

/// A running engine; dropping it ends the process.
#[derive(Debug)]
pub struct EngineProcess {
    child: Child,
    input: ChildStdin,
    output: Receiver<InputLine>,
    /// Bytes of output read.
    written: Arc<AtomicU64>,
    name: String,
    options: Vec<AnnouncedOption>,
    patience: Duration,
    chess960: bool,
}

impl EngineProcess {
    /// Starts the program, shakes hands and sets the options. `patience` is the longest wait for
    /// `uciok` and `readyok`.
    ///
    /// # Errors
    /// The program cannot be started, does not answer, ends, or lacks an option.
    pub fn start(spec: &EngineSpec, patience: Duration) -> Result<Self, ClientError> {
        let mut command = Command::new(&spec.program);
        command
            .args(&spec.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        // The engine has its own process group: Ctrl-C in the terminal reaches only this program, which
        // ends the engines in order.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let spawn_error = |source| ClientError::Spawn { program: spec.program.clone(), source };
        let mut child = command.spawn().map_err(spawn_error)?;
        let (Some(input), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(spawn_error(std::io::Error::other("no pipes")));
        };
        // The channel is bounded: an engine that floods waits instead of filling the memory.
        let (lines, output) = crossbeam_channel::bounded(1024);
        let written = Arc::new(AtomicU64::new(0));
        let counted = Counted { inner: stdout, bytes: Arc::clone(&written) };
        thread::Builder::new()
            .name("engine-output".to_owned())
            .spawn(move || {
                let mut stdout = BufReader::new(counted);
                while let Ok(Some(line)) = next_line(&mut stdout, LONGEST_LINE) {
                    if lines.send(line).is_err() {
                        return;
                    }
                }
            })
            .map_err(spawn_error)?;
        let given = spec.name.clone();
        let name = given.clone().unwrap_or_else(|| {
            spec.program
                .file_name()
                .unwrap_or(spec.program.as_os_str())
                .to_string_lossy()
                .into_owned()
        });
        let options = Vec::new();
        let mut engine =
            Self { child, input, output, written, name, options, patience, chess960: false };
        engine.shake_hands(given.is_none())?;
        for (option, value) in &spec.options {
            engine.set_option(option, value)?;
        }
        engine.wait_ready()?;
        Ok(engine)
    }

    fn shake_hands(&mut self, take_name: bool) -> Result<(), ClientError> {
        self.send("uci")?;
        let deadline = Instant::now() + self.patience;
        let before = self.written.load(Ordering::Relaxed);
        loop {
            let Some(line) = self.line_before(deadline, before)? else {
                return Err(self.no_handshake("uci"));
            };
            if let Some(name) = line.strip_prefix("id name ") {
                if take_name {
                    self.name = shortened(name.trim());
                }
            } else if let Some(option) = line.strip_prefix("option name ") {
                self.options.push(AnnouncedOption::parse(option));
            } else if line.trim() == "uciok" {
                return Ok(());
            }
        }
    }

    fn no_handshake(&self, command: &'static str) -> ClientError {
        ClientError::NoHandshake { engine: self.name.clone(), command, patience: self.patience }
    }

    /// The name of the engine.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Does the engine declare this option (in any case)?
    #[must_use]
    pub fn has_option(&self, name: &str) -> bool {
        self.options.iter().any(|option| option.is_called(name))
    }

    /// Sets an option.
    ///
    /// # Errors
    /// The engine has no such option, or not such a value for it, or has ended.
    pub fn set_option(&mut self, name: &str, value: &str) -> Result<(), ClientError> {
        let engine = || self.name.clone();
        let Some(option) = self.options.iter().find(|option| option.is_called(name)) else {
            return Err(ClientError::NoOption { engine: engine(), option: name.to_owned() });
        };
        if let Some(refusal) = option.refusal(value) {
            return Err(ClientError::BadValue { engine: engine(), refusal });
        }
        self.send(&format!("setoption name {name} value {value}"))
    }

    /// Waits for `readyok`.
    ///
    /// # Errors
    /// It does not come in time, or the engine has ended.
    pub fn wait_ready(&mut self) -> Result<(), ClientError> {
        self.send("isready")?;
        let deadline = Instant::now() + self.patience;
        let before = self.written.load(Ordering::Relaxed);
        while let Some(line) = self.line_before(deadline, before)? {
            if line.trim() == "readyok" {
                return Ok(());
            }
        }
        Err(self.no_handshake("isready"))
    }

    /// Tells the engine that the next position is of another game, and waits until it is ready.
    ///
    /// # Errors
    /// As [`EngineProcess::wait_ready`].
    pub fn new_game(&mut self) -> Result<(), ClientError> {
        self.send("ucinewgame")?;
        self.wait_ready()
    }

    /// Lets the engine think about the current position of `game`; `patience` is the longest wait
    /// for its move.
    ///
    /// # Errors
    /// The engine ends, gives no move in time, floods, or gives a move that is not legal. After all
    /// but the last the engine is not usable any more.
    pub fn think(
        &mut self,
        game: &Game,
        request: &SearchRequest,
        patience: Duration,
    ) -> Result<Answer, ClientError> {
        self.send_position(game)?;
        let started = Instant::now();
        self.send(&request.command())?;
        let deadline = started + patience;
        let before = self.written.load(Ordering::Relaxed);
        let mut lines = Vec::new();
        loop {
            let line = self.line_before(deadline, before)?;
            let written = self.written.load(Ordering::Relaxed) - before;
            if written > FLOOD || (line.is_none() && written > NOISE) {
                return Err(ClientError::Flooded {
                    engine: self.name.clone(),
                    mebibytes: written >> 20,
                });
            }
            let Some(line) = line else {
                return Err(ClientError::Stalled { engine: self.name.clone(), patience });
            };
            let mut words = line.split_whitespace();
            match words.next() {
                Some("info") => {
                    if let Some(info) = EngineInfo::parse(&line) {
                        answer::keep(&mut lines, info);
                    }
                }
                Some("bestmove") => {
                    let elapsed = started.elapsed();
                    let text = words.next().unwrap_or_default().to_owned();
                    let ponder = words.nth(1).map(str::to_owned);
                    let best = self.read_move(game, &text)?;
                    return Ok(Answer { best, ponder, lines, elapsed });
                }
                _ => {}
            }
        }
    }

    fn send_position(&mut self, game: &Game) -> Result<(), ClientError> {
        let start = game.start();
        let chess960 = start.castling_mode() == CastlingMode::Chess960;
        if chess960 != self.chess960 {
            self.set_option("UCI_Chess960", if chess960 { "true" } else { "false" })?;
            self.chess960 = chess960;
        }
        let mut command = format!("position fen {}", start.fen());
        if !game.moves().is_empty() {
            command.push_str(" moves");
            let mode = start.castling_mode();
            for mv in game.moves() {
                command.push(' ');
                command.push_str(&mv.to_uci(mode).to_string());
            }
        }
        self.send(&command)
    }

    fn read_move(&self, game: &Game, text: &str) -> Result<Option<board::Move>, ClientError> {
        let position = game.position();
        match board::parse_uci(position, text) {
            Ok(mv) => Ok(Some(mv)),
            Err(_) if matches!(text, "0000" | "(none)") && !position.has_legal_moves() => Ok(None),
            Err(_) => Err(ClientError::IllegalMove {
                engine: self.name.clone(),
                answer: shortened(text),
                fen: position.fen(),
            }),
        }
    }

    fn send(&mut self, line: &str) -> Result<(), ClientError> {
        if writeln!(self.input, "{line}").and_then(|()| self.input.flush()).is_err() {
            return Err(self.crashed());
        }
        Ok(())
    }

    /// The next line, `None` when none comes before `deadline` or before a flood has come since
    /// `before`.
    fn line_before(
        &mut self,
        deadline: Instant,
        before: u64,
    ) -> Result<Option<String>, ClientError> {
        /// Interval between two checks of an engine that writes one endless line.
        const GLANCE: Duration = Duration::from_millis(100);
        loop {
            let now = Instant::now();
            let flooded = self.written.load(Ordering::Relaxed) - before > FLOOD;
            if flooded || (now >= deadline && self.output.is_empty()) {
                return Ok(None);
            }
            match self.output.recv_deadline(deadline.min(now + GLANCE).max(now)) {
                Ok(InputLine::Text(line))
                    if Instant::now() < deadline || line.starts_with("bestmove") =>
                {
                    return Ok(Some(line));
                }
                Ok(InputLine::Text(_)) => return Ok(None),
                Ok(InputLine::TooLong) => {}
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(self.crashed()),
            }
        }
    }

    /// Finds out how the process ended, or that it only closed its output.
    fn crashed(&mut self) -> ClientError {
        let deadline = Instant::now() + QUIT_PATIENCE;
        let how = loop {
            match self.child.try_wait() {
                Ok(Some(status)) => break status.to_string(),
                Ok(None) if Instant::now() < deadline => thread::sleep(Duration::from_millis(5)),
                _ => return ClientError::ClosedOutput { engine: self.name.clone() },
            }
        };
        ClientError::Crashed { engine: self.name.clone(), how }
    }

    /// Asks the engine to end, and ends it if it does not.
    pub fn quit(mut self) {
        // A failed write is ignored: dropping the engine kills the process.
        let _ = self.send("quit");
        let deadline = Instant::now() + QUIT_PATIENCE;
        while Instant::now() < deadline && matches!(self.child.try_wait(), Ok(None)) {
            thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Counts the bytes read.
struct Counted<R> {
    inner: R,
    bytes: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(into)?;
        self.bytes.fetch_add(length as u64, Ordering::Relaxed);
        Ok(length)
    }
}

impl Drop for EngineProcess {
    fn drop(&mut self) {
        // Both calls fail only for a process that has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
