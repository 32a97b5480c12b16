//! Looking at a position: lines of thought and the inside of the search, several times a second,
//! until the visitor has seen enough.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use board::{Color, Game, Move, Position, Score, Square, to_san, to_uci};
use nets::{System, Wdl};
use search::{Bound, Control, Limits, Search, SearchInfo, View};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{sync::watch, task::JoinHandle, time::sleep};

use crate::{
    Engines, Refusal,
    contest::{destinations, game_of, name, position_of},
    engines::think,
};

/// Time between two looks.
const PERIOD: Duration = Duration::from_millis(100);
/// After this an analysis ends by itself.
const LONGEST: Duration = Duration::from_secs(600);
/// A place is given up to those who wait after this.
const TURN: Duration = Duration::from_secs(2);
/// Moves of a line that are shown.
const SHOWN_PLIES: usize = 24;
/// The most lines and the largest batch.
const MOST_LINES: usize = 5;
const LARGEST_BATCH: usize = 256;

/// What a visitor wants to look at.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// Comes back with every answer.
    pub tag: u32,
    /// FEN of the start.
    pub start: String,
    #[serde(default)]
    pub chess960: bool,
    /// Moves from the start on, in UCI notation.
    #[serde(default)]
    pub moves: Vec<String>,
    pub system: String,
    #[serde(default = "one")]
    pub lines: usize,
    /// Positions evaluated together; 0: as many as the evaluator likes.
    #[serde(default)]
    pub batch: usize,
}

fn one() -> usize {
    1
}

/// A question that can be answered.
#[derive(Clone, Debug)]
pub struct Subject {
    tag: u32,
    game: Game,
    system: System,
    lines: usize,
    batch: usize,
}

impl Question {
    /// Checks it.
    ///
    /// # Errors
    /// A position, move, system or number is not to be had.
    pub fn check(self, engines: &Engines) -> Result<Subject, Refusal> {
        let system: System = self.system.parse().map_err(Refusal)?;
        if !engines.has(system) {
            return Err(Refusal::new(format!("{system} does not play here")));
        }
        if !(1..=MOST_LINES).contains(&self.lines) || self.batch > LARGEST_BATCH {
            return Err(Refusal::new(format!(
                "there are 1 to {MOST_LINES} lines, and batches of at most {LARGEST_BATCH}"
            )));
        }
        let start = position_of(&self.start, self.chess960)?;
        let game = game_of(start, self.moves.iter().map(String::as_str))?;
        Ok(Subject { tag: self.tag, game, system, lines: self.lines, batch: self.batch })
    }
}

impl Subject {
    /// The position itself, for the board.
    #[must_use]
    pub fn position(&self) -> Value {
        let game = &self.game;
        let mut at = game.start().clone();
        let mut fens = vec![at.fen()];
        let mut sans = Vec::new();
        for &mv in game.moves() {
            sans.push(to_san(&at, mv));
            at.play(mv);
            fens.push(at.fen());
        }
        json!({
            "type": "position",
            "tag": self.tag,
            "fen": at.fen(),
            "fens": fens,
            "sans": sans,
            "turn": name(at.turn()).to_lowercase(),
            "check": at.is_check(),
            "destinations": destinations(&at),
            "over": game.end().is_some(),
        })
    }

    /// Settings of the search.
    fn key(&self) -> (System, usize, usize) {
        (self.system, self.lines, self.batch)
    }
}

/// A search at rest between two questions, and what it was built for.
type Resting = Arc<Mutex<Option<((System, usize, usize), Box<dyn Search>)>>>;

/// One visitor's analysis. A new question ends the one before it.
pub struct Analysis {
    engines: Arc<Engines>,
    resting: Resting,
    /// Does the search run? If not, it waits for a place.
    searches: Arc<AtomicBool>,
    running: Option<(Control, JoinHandle<()>)>,
    answers: watch::Sender<Arc<str>>,
}

impl Drop for Analysis {
    fn drop(&mut self) {
        if let Some((control, task)) = self.running.take() {
            control.stop();
            task.abort();
        }
    }
}

impl Analysis {
    /// Answers go to `answers`, as JSON.
    pub fn new(engines: Arc<Engines>, answers: watch::Sender<Arc<str>>) -> Self {
        Self { engines, resting: Arc::default(), searches: Arc::default(), running: None, answers }
    }

    /// Ends what runs.
    pub async fn stop(&mut self) {
        if let Some((control, task)) = self.running.take() {
            control.stop();
            if !self.searches.load(Ordering::Acquire) {
                task.abort();
            }
            // However it ends; a search that runs comes back with what it remembers.
            let _ = task.await;
        }
    }

    /// Begins to answer.
    pub async fn begin(&mut self, subject: Subject) {
        self.stop().await;
        // Of this task alone: one that was ended may have left it raised.
        self.searches = Arc::default();
        let control = Control::default();
        let answers = self.answers.clone();
        let task = tokio::spawn(answer(
            subject,
            Arc::clone(&self.engines),
            Arc::clone(&self.resting),
            Arc::clone(&self.searches),
            control.clone(),
            answers,
        ));
        self.running = Some((control, task));
    }
}

async fn answer(
    subject: Subject,
    engines: Arc<Engines>,
    resting: Resting,
    searches: Arc<AtomicBool>,
    control: Control,
    answers: watch::Sender<Arc<str>>,
) {
    let tag = subject.tag;
    let send = |value: Value| {
        answers.send_replace(Arc::from(value.to_string()));
    };
    if let Err(refusal) = look(subject, &engines, &resting, &searches, &control, &send).await {
        send(
            json!({ "type": "analysis", "tag": tag, "state": "failed", "error": refusal.to_string() }),
        );
    }
}

/// Takes turns with others, if there are any, until stopped or out of time.
async fn look(
    subject: Subject,
    engines: &Engines,
    resting: &Resting,
    searches: &AtomicBool,
    control: &Control,
    send: &impl Fn(Value),
) -> Result<(), Refusal> {
    let shown = Shown {
        tag: subject.tag,
        position: subject.game.position().clone(),
        lines: Arc::default(),
    };
    if subject.game.position().legal_moves().is_empty() {
        send(shown.value("done", None));
        return Ok(());
    }
    let mut used = Duration::ZERO;
    loop {
        send(shown.value("waiting", None));
        let place = engines.place().await?;
        let kept = resting.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut search = match kept {
            Some((key, search)) if key == subject.key() => search,
            _ => engines
                .build(subject.system, subject.lines, subject.batch)
                .map_err(|error| Refusal::new(format!("the engine cannot think: {error}")))?,
        };
        if subject.system == System::ConvChess {
            // Half a millisecond: no need for a thread of its own.
            let chances = search.chances(&shown.position);
            *resting.lock().unwrap_or_else(PoisonError::into_inner) = Some((subject.key(), search));
            if let Some(chances) = chances {
                let chances = chances.map_err(|error| Refusal::new(error.to_string()))?;
                send(chances_value(subject.tag, &shown.position, &chances));
            }
            return Ok(());
        }
        searches.store(true, Ordering::Release);
        let turn = Control::default();
        let lines = Arc::clone(&shown.lines);
        let limits = Limits { movetime: Some(LONGEST.saturating_sub(used)), ..Limits::default() };
        let began = Instant::now();
        let thinking = think(search, subject.game.clone(), limits, turn.clone(), move |info| {
            let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
            let rank = info.multipv.max(1) - 1;
            if rank < lines.len() {
                lines[rank] = info.clone();
            } else {
                lines.push(info.clone());
            }
        });
        let mut thinking = std::pin::pin!(thinking);
        let mut gave_way = false;
        let thought = loop {
            turn.ask_for_view();
            tokio::select! {
                thought = &mut thinking => break thought,
                () = sleep(PERIOD) => {}
            }
            send(shown.value("running", turn.take_view().as_ref()));
            gave_way |= engines.is_crowded() && began.elapsed() >= TURN;
            if control.is_stopped() || gave_way {
                turn.stop();
            }
        };
        searches.store(false, Ordering::Release);
        let (search, _) = thought?;
        *resting.lock().unwrap_or_else(PoisonError::into_inner) = Some((subject.key(), search));
        drop(place);
        used += began.elapsed();
        if !gave_way || control.is_stopped() || used >= LONGEST {
            send(shown.value("done", turn.take_view().as_ref()));
            return Ok(());
        }
    }
}

/// What the page gets to see; all scores are White's.
struct Shown {
    tag: u32,
    position: Position,
    lines: Arc<Mutex<Vec<SearchInfo>>>,
}

impl Shown {
    fn value(&self, state: &str, view: Option<&View>) -> Value {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let mover = self.position.turn();
        let lines: Vec<Value> = lines.iter().map(|line| line_value(&self.position, line)).collect();
        json!({
            "type": "analysis",
            "tag": self.tag,
            "state": state,
            "lines": lines,
            "view": view.map(|view| view_value(mover, view)),
        })
    }
}

fn line_value(position: &Position, info: &SearchInfo) -> Value {
    let mover = position.turn();
    let sign = if mover.is_white() { 1 } else { -1 };
    let mut at = position.clone();
    let line: Vec<Value> = info
        .pv
        .iter()
        .take(SHOWN_PLIES)
        .map_while(|&mv| {
            if !at.legal_moves().contains(&mv) {
                return None;
            }
            let shown = json!([to_uci(&at, mv), to_san(&at, mv)]);
            at.play(mv);
            Some(shown)
        })
        .collect();
    let Wdl { win, draw, loss } = info.wdl;
    let (white, black) = if mover.is_white() { (win, loss) } else { (loss, win) };
    let bound = match (info.bound, mover) {
        (Bound::Exact, _) => "exact",
        (Bound::Lower, Color::White) | (Bound::Upper, Color::Black) => "lower",
        (Bound::Upper, Color::White) | (Bound::Lower, Color::Black) => "upper",
    };
    json!({
        "depth": info.depth,
        "seldepth": info.seldepth,
        "score": match info.score {
            Score::Centipawns(value) => json!({ "cp": value * sign }),
            Score::Mate(moves) => json!({ "mate": moves * sign }),
        },
        "bound": bound,
        "wdl": [white, draw, black],
        "nodes": info.nodes,
        "milliseconds": info.elapsed.as_millis() as u64,
        "line": line,
    })
}

fn view_value(mover: Color, view: &View) -> Value {
    let (lower, upper, separator) = if mover.is_white() {
        (view.lower, view.upper, view.bound)
    } else {
        (-view.upper, -view.lower, -view.bound)
    };
    json!({
        "depth": view.depth,
        "line": view.line,
        "lower": lower,
        "upper": upper,
        "separator": separator,
        "open": view.open,
        "bins": view.bins,
        "batch": view.batch,
        "width": view.width,
        "batches": view.batches,
        "evaluations": view.evaluations,
        "milliseconds": view.elapsed.as_millis() as u64,
    })
}

/// The chance of every move, and of every square to be left and to be entered (a1, b1, … h8).
fn chances_value(tag: u32, position: &Position, chances: &[(Move, f32)]) -> Value {
    let mut origins = [0.0_f32; 64];
    let mut targets = [0.0_f32; 64];
    for &(mv, chance) in chances {
        if let Some(from) = mv.from() {
            origins[usize::from(from)] += chance;
        }
        targets[usize::from(landing(mv))] += chance;
    }
    let moves: Vec<Value> = chances
        .iter()
        .take(12)
        .map(|&(mv, chance)| json!([to_uci(position, mv), to_san(position, mv), chance]))
        .collect();
    json!({ "type": "analysis", "tag": tag, "state": "done", "lines": [], "view": null,
        "chances": { "moves": moves, "from": origins.as_slice(), "to": targets.as_slice() } })
}

/// Where the piece comes to stand; of a castling the king.
fn landing(mv: Move) -> Square {
    match mv {
        Move::Castle { king, rook } => {
            let file = if rook > king { board::File::G } else { board::File::C };
            Square::from_coords(file, king.rank())
        }
        _ => mv.to(),
    }
}
