//! Searches in a thread of their own, whose lines are an iterator.

use std::{
    collections::VecDeque,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    thread,
    time::Duration,
};

use board::{Game, Score, parse_uci, to_uci};
use engine::{EngineOptions, NamedOptions};
use pyo3::{prelude::*, types::PyMapping};
use search::{Bound as ScoreBound, Control, Limits, Outcome, SearchInfo};

use crate::{
    boards::Given,
    failure::failure,
    lender::{Lender, Loan, PATIENCE},
};

/// Bytes of the search's stack, as in the UCI engine.
const STACK: usize = 64 << 20;

/// A network and a search over it, with the options of the UCI engine.
#[pyclass(frozen, module = "batch_first")]
pub(crate) struct Engine {
    lender: Arc<Lender>,
    options: EngineOptions,
    #[pyo3(get)]
    description: String,
}

#[pymethods]
impl Engine {
    #[new]
    #[pyo3(signature = (net=None, *, search=None, threads=1, hash=256, device="cpu", options=None))]
    fn new(
        py: Python<'_>,
        net: Option<PathBuf>,
        search: Option<&str>,
        threads: u64,
        hash: u64,
        device: &str,
        options: Option<&Bound<'_, PyMapping>>,
    ) -> PyResult<Self> {
        let mut named = NamedOptions::default();
        named.engine.network = net;
        let mut set = |name: &str, value: &str| match named.set(name, Some(value)) {
            Ok(engine::OptionChange::Partly(reason)) => Err(failure(reason)),
            other => other.map(drop).map_err(failure),
        };
        set("Threads", &threads.to_string())?;
        set("Hash", &hash.to_string())?;
        set("Device", device)?;
        set("Search", search.unwrap_or("auto"))?;
        for item in options.map(PyMappingMethods::items).transpose()?.into_iter().flatten() {
            let (name, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = item.extract()?;
            set(&name.str()?.to_cow()?, &value.str()?.to_cow()?)?;
        }
        let built = py.detach(|| engine::build(&named.engine)).map_err(failure)?;
        let lender = Arc::new(Lender::new(built.search));
        Ok(Self { lender, options: named.engine, description: built.description })
    }

    /// Begins a search.
    #[pyo3(signature = (board, *, nodes=None, movetime=None, depth=None, mate=None, moves=Vec::new(), infinite=false))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn search(
        &self,
        py: Python<'_>,
        board: &Bound<'_, PyAny>,
        nodes: Option<u64>,
        movetime: Option<f64>,
        depth: Option<u32>,
        mate: Option<u32>,
        moves: Vec<String>,
        infinite: bool,
    ) -> PyResult<Search> {
        if nodes.is_none() && movetime.is_none() && depth.is_none() && mate.is_none() && !infinite {
            return Err(failure(
                "a search needs nodes, movetime (milliseconds), depth or mate, or infinite=True and stop()",
            ));
        }
        let movetime = movetime.map(|time| Duration::try_from_secs_f64(time / 1e3));
        let movetime =
            movetime.transpose().map_err(|error| failure(format!("movetime: {error}")))?;
        let given = Given::of(board, true)?;
        let game = py.detach(|| given.game()).map_err(failure)?;
        let search_moves = moves.iter().map(|text| parse_uci(game.position(), text));
        let search_moves = search_moves.collect::<Result<_, _>>().map_err(failure)?;
        let limits =
            Limits { nodes, movetime, depth, mate, search_moves, infinite, ..Limits::default() };
        let control = Control::default();
        let loan = self.borrow_search(py, &control)?;
        Search::begin(loan, control, game, limits)
    }

    /// Forgets all evaluations, for a new game.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        let control = Control::default();
        // It is short: others wait for it.
        control.stop();
        let mut loan = self.borrow_search(py, &control)?;
        py.detach(move || loan.search.as_mut().map(|search| search.clear()));
        Ok(())
    }

    fn __repr__(&self) -> String {
        format!("Engine({})", self.description)
    }
}

impl Engine {
    /// Lends the search. Waits for one that was stopped or dropped, without the interpreter's lock;
    /// Ctrl-C ends the wait.
    fn borrow_search(&self, py: Python<'_>, control: &Control) -> PyResult<Loan> {
        let mut loan = loop {
            if let Some(loan) = py.detach(|| self.lender.lend(control)).map_err(failure)? {
                break loan;
            }
            py.check_signals()?;
        };
        if loan.search.is_none() {
            let built = py.detach(|| engine::build(&self.options)).map_err(failure)?;
            loan.search = Some(built.search);
        }
        Ok(loan)
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("description", &self.description).finish_non_exhaustive()
    }
}

/// A line that a search found.
#[pyclass(frozen, get_all, module = "batch_first")]
#[derive(Clone, Debug)]
pub(crate) struct Info {
    depth: u32,
    seldepth: u32,
    multipv: usize,
    centipawns: Option<i32>,
    mate: Option<i32>,
    bound: &'static str,
    wdl: (f32, f32, f32),
    moves_left: Option<u32>,
    nodes: u64,
    time_ms: u64,
    pv: Vec<String>,
}

#[pymethods]
impl Info {
    fn __repr__(&self) -> String {
        let score = match (self.centipawns, self.mate) {
            (Some(score), _) => format!("centipawns {score}"),
            (_, mate) => format!("mate {}", mate.unwrap_or_default()),
        };
        format!("Info(depth {}, {score}, nodes {}, {})", self.depth, self.nodes, self.pv.join(" "))
    }
}

impl Info {
    fn new(game: &Game, info: &SearchInfo) -> Self {
        let mut at = game.position().clone();
        let text = |&mv: &board::Move| {
            let text = to_uci(&at, mv);
            at.play(mv);
            text
        };
        let pv = info.pv.iter().map(text).collect();
        let (centipawns, mate) = match info.score {
            Score::Centipawns(value) => (Some(value), None),
            Score::Mate(moves) => (None, Some(moves)),
        };
        let share = |permille: u16| f32::from(permille) / 1000.0;
        Self {
            depth: info.depth,
            seldepth: info.seldepth,
            multipv: info.multipv,
            centipawns,
            mate,
            bound: match info.bound {
                ScoreBound::Exact => "exact",
                ScoreBound::Lower => "lower",
                ScoreBound::Upper => "upper",
            },
            wdl: (share(info.wdl.win), share(info.wdl.draw), share(info.wdl.loss)),
            moves_left: info.moves_left,
            nodes: info.nodes,
            time_ms: info.elapsed.as_millis() as u64,
            pv,
        }
    }
}

/// What a search sends from its thread.
enum Report {
    Line(Info),
    End(Result<Ended, String>),
}

/// The result of a search.
#[derive(Clone)]
struct Ended {
    best: Option<String>,
    ponder: Option<String>,
    nodes: u64,
    lines: Vec<Info>,
}

impl Ended {
    fn new(game: &Game, outcome: &Outcome) -> Self {
        let position = game.position();
        let reply = outcome.best.zip(outcome.ponder);
        Self {
            best: outcome.best.map(|best| to_uci(position, best)),
            ponder: reply.map(|(best, reply)| to_uci(&position.after(best), reply)),
            nodes: outcome.nodes,
            lines: outcome.lines.iter().map(|line| Info::new(game, line)).collect(),
        }
    }
}

struct Reports {
    receiver: Receiver<Report>,
    /// Lines that the iterator has not given yet.
    lines: VecDeque<Info>,
    end: Option<Result<Ended, String>>,
}

/// A running search: an iterator over its lines, and its result.
#[pyclass(frozen, module = "batch_first")]
pub(crate) struct Search {
    control: Control,
    reports: Mutex<Reports>,
}

#[pymethods]
impl Search {
    fn __iter__(search: PyRef<'_, Self>) -> PyRef<'_, Self> {
        search
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Info>> {
        self.wait(py, |reports| !reports.lines.is_empty())?;
        let mut reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(line) = reports.lines.pop_front() {
            return Ok(Some(line));
        }
        match &reports.end {
            Some(Err(reason)) => Err(failure(reason)),
            _ => Ok(None),
        }
    }

    /// Ends the search with its best move so far.
    fn stop(&self) {
        self.control.stop();
    }

    #[getter]
    fn best_move(&self, py: Python<'_>) -> PyResult<Option<String>> {
        Ok(self.ended(py)?.best)
    }

    #[getter]
    fn ponder(&self, py: Python<'_>) -> PyResult<Option<String>> {
        Ok(self.ended(py)?.ponder)
    }

    #[getter]
    fn nodes(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.ended(py)?.nodes)
    }

    #[getter]
    fn lines(&self, py: Python<'_>) -> PyResult<Vec<Info>> {
        Ok(self.ended(py)?.lines)
    }
}

impl Search {
    /// A thread that cannot be started, or fails, gives its loan back too.
    fn begin(loan: Loan, control: Control, game: Game, limits: Limits) -> PyResult<Self> {
        let (sender, receiver) = mpsc::channel();
        let own = control.clone();
        let thread = thread::Builder::new().name("search".to_owned()).stack_size(STACK);
        let begun = thread.spawn(move || {
            // Dropped before the sender, so that the search is back when its end is known.
            let mut loan = loan;
            let Some(search) = loan.search.as_mut() else { return };
            let found = run(search.as_mut(), &game, &limits, &own, &sender);
            drop(loan);
            let _ = sender.send(Report::End(found));
        });
        begun.map_err(|error| failure(format!("no thread for the search: {error}")))?;
        let reports = Mutex::new(Reports { receiver, lines: VecDeque::new(), end: None });
        Ok(Self { control, reports })
    }

    /// Waits for the end, or until `enough`; Ctrl-C ends the wait.
    fn wait(&self, py: Python<'_>, enough: impl Fn(&Reports) -> bool + Sync) -> PyResult<()> {
        loop {
            let is_enough = py.detach(|| {
                let mut reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
                if enough(&reports) || reports.end.is_some() {
                    return true;
                }
                match reports.receiver.recv_timeout(PATIENCE) {
                    Ok(Report::Line(line)) => reports.lines.push_back(line),
                    Ok(Report::End(end)) => reports.end = Some(end),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => {
                        reports.end = Some(Err(
                            "the search failed; the next one begins with an empty memory"
                                .to_owned(),
                        ));
                    }
                }
                false
            });
            if is_enough {
                return Ok(());
            }
            py.check_signals()?;
        }
    }

    fn ended(&self, py: Python<'_>) -> PyResult<Ended> {
        self.wait(py, |_| false)?;
        let reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        match &reports.end {
            Some(Ok(ended)) => Ok(ended.clone()),
            Some(Err(reason)) => Err(failure(reason)),
            None => Err(failure("the search has no result")),
        }
    }
}

impl Drop for Search {
    /// Nobody waits for the result any more.
    fn drop(&mut self) {
        self.control.stop();
    }
}

impl std::fmt::Debug for Search {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Search").field("control", &self.control).finish_non_exhaustive()
    }
}

fn run(
    search: &mut dyn search::Search,
    game: &Game,
    limits: &Limits,
    control: &Control,
    sender: &Sender<Report>,
) -> Result<Ended, String> {
    let mut report = |info: &SearchInfo| {
        // The search goes on until its handle is dropped, which stops it.
        let _ = sender.send(Report::Line(Info::new(game, info)));
    };
    let outcome = search.search(game, limits, control, &mut report);
    outcome.map(|outcome| Ended::new(game, &outcome)).map_err(|error| error.to_string())
}
