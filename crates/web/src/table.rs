//! Open games: each is a task of its own that takes its visitor's wishes, asks its engine, keeps
//! the clocks, and writes every move to the store before anybody hears of it.

use std::{
    collections::HashMap,
    future,
    sync::Arc,
    time::{Duration, Instant},
};

use board::{Color, parse_san, parse_uci};
use nets::System;
use search::{Clock, Control, Outcome, Search};
use tokio::{
    sync::{Mutex, mpsc, oneshot, watch},
    task::{JoinHandle, JoinSet},
    time::sleep,
};

use crate::{Contest, Engines, Refusal, Store, engines::think};

/// Games that one visitor, and all together, may have open.
const MOST_OPEN_OF_ONE: usize = 8;
const MOST_OPEN: usize = 64;

/// What a visitor may want of an open game.
#[derive(Clone, Debug)]
pub enum Wish {
    /// A move in UCI notation or SAN, and the number of plies before it.
    Move {
        ply: usize,
        uci: String,
    },
    TakeBack,
    Resign,
    /// Somebody looks at the game (again).
    Look,
    /// The server ends: what the visitor's clock has used is kept.
    Leave,
}

type Wishes = mpsc::Sender<(Wish, oneshot::Sender<Result<(), Refusal>>)>;

/// A place at an open game.
#[derive(Clone, Debug)]
pub struct Seat {
    pub id: i64,
    wishes: Wishes,
    /// The game as the page shows it, as JSON.
    pub states: watch::Receiver<Arc<str>>,
}

impl Seat {
    /// Asks for something; true once it is done and stored.
    ///
    /// # Errors
    /// It is refused, in words.
    pub async fn wish(&self, wish: Wish) -> Result<(), Refusal> {
        let closed = || Refusal::new("the game is closed; open it again");
        let (answer, answered) = oneshot::channel();
        self.wishes.send((wish, answer)).await.map_err(|_| closed())?;
        answered.await.map_err(|_| closed())?
    }
}

#[derive(Debug)]
struct Open {
    visitor: String,
    wishes: Wishes,
    states: Arc<watch::Sender<Arc<str>>>,
    task: JoinHandle<()>,
}

/// All open games.
#[derive(Debug)]
pub struct Tables {
    engines: Arc<Engines>,
    store: Store,
    open: Mutex<HashMap<i64, Open>>,
}

impl Tables {
    /// None are open yet.
    #[must_use]
    pub fn new(engines: Arc<Engines>, store: Store) -> Self {
        Self { engines, store, open: Mutex::new(HashMap::new()) }
    }

    /// Sits down at one's own game.
    ///
    /// # Errors
    /// The visitor has no such game or too many open, or the disk failed.
    pub async fn sit(self: &Arc<Self>, visitor: &str, id: i64) -> Result<Seat, Refusal> {
        // Held while the game is read, so that it is never open twice.
        let mut open = self.open.lock().await;
        // One whose task broke off is opened anew.
        if let Some(table) = open.get(&id).filter(|table| !table.task.is_finished()) {
            if table.visitor != visitor {
                return Err(Refusal::new(format!("you have no game {id}")));
            }
            let seat = Seat { id, wishes: table.wishes.clone(), states: table.states.subscribe() };
            drop(open);
            seat.wish(Wish::Look).await?;
            return Ok(seat);
        }
        let own = open.values().filter(|table| table.visitor == visitor).count();
        if own >= MOST_OPEN_OF_ONE || open.len() >= MOST_OPEN {
            return Err(Refusal::new("too many games are open; close one first"));
        }
        let contest = Contest::from_stored(&self.store.load(visitor.to_owned(), id).await?)?;
        let (wishes, requests) = mpsc::channel(16);
        let (states, receiver) = watch::channel(Arc::from(""));
        let states = Arc::new(states);
        let table = Table {
            id,
            tables: Arc::clone(self),
            turn_began: resumed_at(&contest),
            contest,
            search: None,
            thinking: None,
            notice: None,
            requests,
            states: Arc::clone(&states),
        };
        table.publish();
        let task = tokio::spawn(table.run());
        let seat = Seat { id, wishes: wishes.clone(), states: receiver };
        open.insert(id, Open { visitor: visitor.to_owned(), wishes, states, task });
        Ok(seat)
    }

    /// Closes and forgets one's own game.
    ///
    /// # Errors
    /// The visitor has no such game, or the disk failed.
    pub async fn delete(&self, visitor: &str, id: i64) -> Result<(), Refusal> {
        let mut open = self.open.lock().await;
        if open.get(&id).is_some_and(|table| table.visitor == visitor)
            && let Some(table) = open.remove(&id)
        {
            table.task.abort();
        }
        self.store.delete(visitor.to_owned(), id).await
    }

    /// Leaves every open game, with its clock as it stands.
    pub async fn close(&self) {
        let seat = |(&id, table): (&i64, &Open)| Seat {
            id,
            wishes: table.wishes.clone(),
            states: table.states.subscribe(),
        };
        // Not under the lock: a game that nobody looks at waits for it.
        let seats: Vec<Seat> = self.open.lock().await.iter().map(seat).collect();
        let mut leaving = JoinSet::new();
        for seat in seats {
            // One that closes by itself keeps its clock, too.
            leaving.spawn(async move { seat.wish(Wish::Leave).await });
        }
        leaving.join_all().await;
    }
}

/// Positions that a game's search evaluates together: Batch First one after the other, as its
/// levels were measured.
fn batch_of(system: System) -> usize {
    usize::from(system == System::BatchFirst)
}

/// The visitor's clock goes on from what was spent before.
fn resumed_at(contest: &Contest) -> Instant {
    let now = Instant::now();
    now.checked_sub(Duration::from_millis(contest.spent)).unwrap_or(now)
}

/// A running search; ends with it.
struct Thinking {
    task: JoinHandle<Result<Thought, Refusal>>,
    /// When a place was found; none while it waits.
    began: watch::Receiver<Option<Instant>>,
}

impl Drop for Thinking {
    fn drop(&mut self) {
        // The search itself ends with the task that waits for it.
        self.task.abort();
    }
}

struct Thought {
    search: Box<dyn Search>,
    outcome: Outcome,
    elapsed: Duration,
}

struct Table {
    id: i64,
    tables: Arc<Tables>,
    contest: Contest,
    /// When the visitor began to think, less what was used before.
    turn_began: Instant,
    /// Rests between moves with what it remembers.
    search: Option<Box<dyn Search>>,
    thinking: Option<Thinking>,
    /// What went wrong with the engine.
    notice: Option<String>,
    requests: mpsc::Receiver<(Wish, oneshot::Sender<Result<(), Refusal>>)>,
    states: Arc<watch::Sender<Arc<str>>>,
}

impl Table {
    async fn run(mut self) {
        loop {
            if self.contest.awaits_engine() && self.thinking.is_none() && self.notice.is_none() {
                self.begin_to_think();
            }
            self.publish();
            if self.is_deserted() {
                let tables = Arc::clone(&self.tables);
                let mut open = tables.open.lock().await;
                // Under the lock nobody can sit down.
                if self.is_deserted() {
                    self.leave().await;
                    open.remove(&self.id);
                    return;
                }
            }
            let began = self.thinking.as_ref().map(|thinking| thinking.began.clone());
            let flag = self.time_to_flag();
            let states = Arc::clone(&self.states);
            tokio::select! {
                request = self.requests.recv() => {
                    let Some((wish, answer)) = request else { return };
                    let answered = self.fulfil(wish).await;
                    // Whoever asked may have gone.
                    let _ = answer.send(answered);
                }
                thought = thought(&mut self.thinking) => self.take(thought).await,
                () = place_found(began) => {}
                () = sleep(flag.unwrap_or(Duration::MAX)), if flag.is_some() => {
                    self.flag_fell(!self.contest.engine, self.used()).await;
                }
                () = states.closed(), if self.thinking.is_none() => {}
            }
        }
    }

    /// Nobody looks, nothing runs, nothing is asked for.
    fn is_deserted(&self) -> bool {
        self.states.receiver_count() == 0 && self.thinking.is_none() && self.requests.is_empty()
    }

    fn publish(&self) {
        let thinking = match &self.thinking {
            None => "no",
            Some(thinking) if thinking.began.borrow().is_none() => "waiting",
            Some(_) => "yes",
        };
        let shown = self.contest.show(self.id, self.used(), thinking, self.notice.as_deref());
        let shown = shown.to_string();
        self.states.send_if_modified(|state| {
            let is_new = **state != *shown;
            if is_new {
                *state = Arc::from(shown);
            }
            is_new
        });
    }

    /// Milliseconds that the side to move has used, where its clock runs.
    fn used(&self) -> Option<u64> {
        self.contest.clock?;
        if self.contest.result.is_some() {
            return None;
        }
        let began = match &self.thinking {
            // Waiting for a place costs the engine nothing.
            Some(thinking) => (*thinking.began.borrow())?,
            None if self.contest.awaits_engine() => return None,
            None => self.turn_began,
        };
        Some(began.elapsed().as_millis() as u64)
    }

    /// Until the visitor's time is up.
    fn time_to_flag(&self) -> Option<Duration> {
        if self.contest.awaits_engine() || self.thinking.is_some() || self.notice.is_some() {
            return None;
        }
        let used = self.used()?;
        let left = self.contest.left(!self.contest.engine)?;
        Some(Duration::from_millis(left.saturating_sub(used)))
    }

    /// The clock stands still while nobody has the game open.
    async fn leave(&mut self) {
        if let Some(used) = self.used()
            && let Err(refusal) = self.tables.store.set_spent(self.id, used).await
        {
            tracing::warn!("game {}: {refusal}", self.id);
        }
    }

    async fn fulfil(&mut self, wish: Wish) -> Result<(), Refusal> {
        match wish {
            Wish::Look => {
                // An engine that failed may try again.
                self.notice = None;
                Ok(())
            }
            Wish::Leave => {
                if !self.contest.awaits_engine() {
                    self.leave().await;
                }
                Ok(())
            }
            Wish::Move { ply, uci } => self.visitors_move(ply, &uci).await,
            Wish::TakeBack => {
                let ply = self
                    .contest
                    .ply_to_take_back()
                    .ok_or_else(|| Refusal::new("there is no move of yours to take back"))?;
                self.thinking = None;
                self.notice = None;
                self.tables.store.take_back(self.id, ply).await?;
                self.contest.truncate(ply);
                self.turn_began = Instant::now();
                Ok(())
            }
            Wish::Resign => {
                self.refuse_if_over()?;
                let used = self.used();
                self.thinking = None;
                self.end(self.contest.resigned(), used).await
            }
        }
    }

    fn refuse_if_over(&self) -> Result<(), Refusal> {
        if self.contest.result.is_some() { Err(Refusal::new("the game is over")) } else { Ok(()) }
    }

    async fn visitors_move(&mut self, ply: usize, uci: &str) -> Result<(), Refusal> {
        self.refuse_if_over()?;
        let position = self.contest.game().position();
        if position.turn() == self.contest.engine || ply != self.contest.game().moves().len() {
            return Err(Refusal::new("it is not your turn"));
        }
        let mv = parse_uci(position, uci).or_else(|_| parse_san(position, uci))?;
        let used = self.used().unwrap_or(0);
        if self.contest.left(position.turn()).is_some_and(|left| used >= left) {
            self.flag_fell(!self.contest.engine, Some(used)).await;
            return Err(Refusal::new("your time was up"));
        }
        self.play(mv, used).await
    }

    /// Stores a move, then plays it.
    async fn play(&mut self, mv: board::Move, used: u64) -> Result<(), Refusal> {
        let (stored, result) = self.contest.prepare(mv, used);
        let ply = self.contest.game().moves().len();
        self.tables.store.add_move(self.id, ply, stored.clone(), result.clone()).await?;
        self.contest.play(mv, &stored, result);
        self.turn_began = Instant::now();
        Ok(())
    }

    /// Ends the game without a move; the clock of the side to move stays where it stands.
    async fn end(&mut self, result: (String, String), used: Option<u64>) -> Result<(), Refusal> {
        let spent = used.unwrap_or(self.contest.spent);
        self.tables.store.end(self.id, result.clone(), spent).await?;
        self.contest.result = Some(result);
        self.contest.spent = spent;
        Ok(())
    }

    async fn flag_fell(&mut self, loser: Color, used: Option<u64>) {
        if let Err(refusal) = self.end(self.contest.lost_on_time(loser), used).await {
            self.notice = Some(refusal.to_string());
        }
    }

    fn begin_to_think(&mut self) {
        let contest = &self.contest;
        let mut limits = contest.level.limits();
        if let Some((_, increment)) = contest.clock
            && let Some(left) = contest.left(contest.engine)
        {
            limits.clock = Some(Clock {
                remaining: Duration::from_millis(left),
                increment: Duration::from_millis(increment),
                moves_to_go: None,
            });
        }
        let (game, system) = (contest.game().clone(), contest.system);
        let engines = Arc::clone(&self.tables.engines);
        let resting = self.search.take();
        let (start, began) = watch::channel(None);
        let task = tokio::spawn(async move {
            let place = engines.place().await?;
            let started = Instant::now();
            start.send_replace(Some(started));
            let search = match resting {
                Some(search) => search,
                None => engines
                    .build(system, 1, batch_of(system))
                    .map_err(|error| Refusal::new(format!("the engine cannot play: {error}")))?,
            };
            let (search, outcome) = think(search, game, limits, Control::default(), |_| {}).await?;
            drop(place);
            Ok(Thought { search, outcome, elapsed: started.elapsed() })
        });
        self.thinking = Some(Thinking { task, began });
    }

    async fn take(&mut self, thought: Result<Thought, Refusal>) {
        self.thinking = None;
        let played = match thought {
            Err(refusal) => Err(refusal),
            Ok(Thought { search, outcome, elapsed }) => {
                self.search = Some(search);
                let used = elapsed.as_millis() as u64;
                let engine = self.contest.engine;
                if self.contest.left(engine).is_some_and(|left| used > left) {
                    self.flag_fell(engine, Some(used)).await;
                    return;
                }
                match outcome.best {
                    Some(best) => self.play(best, used).await,
                    None => Err(Refusal::new("the engine found no move")),
                }
            }
        };
        if let Err(refusal) = played {
            // Until a move is taken back or the game opened again.
            tracing::warn!("game {}: {refusal}", self.id);
            self.notice = Some(refusal.to_string());
        }
    }
}

/// The end of the search, if one runs.
async fn thought(thinking: &mut Option<Thinking>) -> Result<Thought, Refusal> {
    match thinking {
        None => future::pending().await,
        Some(thinking) => match (&mut thinking.task).await {
            Ok(thought) => thought,
            Err(_) => Err(Refusal::new("the search broke off; please report this")),
        },
    }
}

/// The end of a search's waiting for a place.
async fn place_found(began: Option<watch::Receiver<Option<Instant>>>) {
    if let Some(mut began) = began
        && began.borrow().is_none()
        && began.changed().await.is_ok()
    {
        return;
    }
    future::pending().await
}
