//! Searches for many visitors on one machine: one evaluator a system, asked by all searches
//! together, and a fair queue for a fixed number of places, first come, first served.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use board::Game;
use eval::{Devices, EvalError, Shared, cpu::CpuOptions};
use nets::{Network, System};
use search::{Algorithm, Control, ConvChess, Limits, Outcome, Search, SearchInfo, Settings};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task,
};

use crate::Refusal;

/// MiB that one search may take for its tree.
const HASH_MIB: usize = 32;

/// The networks of all systems, and places for searches over them.
#[derive(Debug)]
pub struct Engines {
    players: Vec<Player>,
    cpu: CpuOptions,
    places: Arc<Semaphore>,
    waiting: AtomicUsize,
}

#[derive(Debug)]
struct Player {
    system: System,
    network: Arc<Network>,
    /// What all its searches ask together; ConvChess does without.
    evaluator: Option<Shared>,
}

/// A place to search in; free again when dropped.
#[derive(Debug)]
pub struct Place {
    _permit: OwnedSemaphorePermit,
}

impl Engines {
    /// `places` searches at once, over evaluators on `devices`; on the processor as `cpu` says.
    ///
    /// # Errors
    /// A network cannot be used.
    pub fn new(
        networks: Vec<(System, Network)>,
        devices: &Devices,
        cpu: CpuOptions,
        places: usize,
    ) -> Result<Self, EvalError> {
        let mut players = Vec::new();
        for (system, network) in networks {
            let network = Arc::new(network);
            let evaluator = match system {
                System::ConvChess => {
                    ConvChess::check(&network)?;
                    None
                }
                System::BatchFirst | System::Cockfish => {
                    let evaluator = devices.evaluator(&network, cpu)?;
                    Some(Shared::new(evaluator, Vec::new()))
                }
            };
            players.push(Player { system, network, evaluator });
        }
        let places = Arc::new(Semaphore::new(places.max(1)));
        Ok(Self { players, cpu, places, waiting: AtomicUsize::new(0) })
    }

    /// The systems that can play, and their networks.
    pub fn systems(&self) -> impl Iterator<Item = (System, &Network)> {
        self.players.iter().map(|player| (player.system, player.network.as_ref()))
    }

    /// Does this system play here?
    #[must_use]
    pub fn has(&self, system: System) -> bool {
        self.players.iter().any(|player| player.system == system)
    }

    /// A search of a system; `batch` 0: as many positions at once as the evaluator likes.
    ///
    /// # Errors
    /// The system has no network here, or it cannot be run.
    pub fn build(
        &self,
        system: System,
        multipv: usize,
        batch: usize,
    ) -> Result<Box<dyn Search>, EvalError> {
        let Some(player) = self.players.iter().find(|player| player.system == system) else {
            let reason = "it was not given to the page".to_owned();
            return Err(EvalError::Unsupported { network: system.name().to_owned(), reason });
        };
        let settings = Settings { hash_mib: HASH_MIB, multipv, batch, ..Settings::default() };
        let Some(evaluator) = &player.evaluator else {
            return Ok(Box::new(ConvChess::new(Arc::clone(&player.network), self.cpu, &settings)?));
        };
        let algorithm = Algorithm::of(&player.network);
        Ok(algorithm.build(Box::new(evaluator.client()), &player.network, &settings))
    }

    /// Waits for a place.
    ///
    /// # Errors
    /// The program is about to end.
    pub async fn place(&self) -> Result<Place, Refusal> {
        let _waiting = Waiting::new(&self.waiting);
        let permit = Arc::clone(&self.places).acquire_owned().await;
        permit
            .map(|permit| Place { _permit: permit })
            .map_err(|_| Refusal::new("the server is closing"))
    }

    /// Does somebody wait for a place?
    #[must_use]
    pub fn is_crowded(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }
}

/// Counted as long as it lives: waiting may be given up.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Ends a search for which nobody waits any more.
struct StopOnDrop(Control);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Thinks on a thread of its own; the search comes back with what it remembers. It ends, too, when
/// this future is dropped.
///
/// # Errors
/// The evaluator failed.
pub async fn think(
    mut search: Box<dyn Search>,
    game: Game,
    limits: Limits,
    control: Control,
    mut report: impl FnMut(&SearchInfo) + Send + 'static,
) -> Result<(Box<dyn Search>, Outcome), Refusal> {
    let _stop = StopOnDrop(control.clone());
    let thinking = task::spawn_blocking(move || {
        let outcome = search.search(&game, &limits, &control, &mut report);
        (search, outcome)
    });
    let (search, outcome) =
        thinking.await.map_err(|_| Refusal::new("the search broke off; please report this"))?;
    let outcome =
        outcome.map_err(|error| Refusal::new(format!("the evaluator failed: {error}")))?;
    Ok((search, outcome))
}
