//! Searches for many visitors on one machine: one shared engine a system, and a fair queue for a
//! fixed number of search slots, first come, first served.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use board::Game;
use engine::{EngineError, EngineOptions, SharedEngine, build_over};
use eval::{Devices, EvalError};
use nets::{Network, System};
use search::{Control, Limits, Outcome, Search, SearchInfo, Settings};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task,
};

use crate::ApiError;

/// MiB that one search may take for its tree.
const HASH_MIB: usize = 32;

/// The engines of all systems, and slots for searches on them.
#[derive(Debug)]
pub struct Engines {
    systems: Vec<SystemEngine>,
    options: EngineOptions,
    slots: Arc<Semaphore>,
    waiting: AtomicUsize,
}

#[derive(Debug)]
struct SystemEngine {
    system: System,
    network: Arc<Network>,
    /// What all its searches evaluate with; ConvChess does not search.
    shared: Option<SharedEngine>,
}

/// A slot to search in; free again when dropped.
#[derive(Debug)]
pub struct SearchSlot {
    _permit: OwnedSemaphorePermit,
}

impl Engines {
    /// `slots` searches at once, on evaluators that `options` describe.
    ///
    /// # Errors
    /// A network cannot be used.
    pub fn new(
        networks: Vec<(System, Network)>,
        options: &EngineOptions,
        slots: usize,
    ) -> Result<Self, EngineError> {
        let mut systems = Vec::new();
        for (system, network) in networks {
            let network = Arc::new(network);
            let shared = match system {
                System::ConvChess => None,
                _ => Some(SharedEngine::over(&network, options)?),
            };
            systems.push(SystemEngine { system, network, shared });
        }
        let engines = Self {
            systems,
            options: options.clone(),
            slots: Arc::new(Semaphore::new(slots.max(1))),
            waiting: AtomicUsize::new(0),
        };
        if engines.has(System::ConvChess) {
            // A network that cannot be used is reported before the page opens.
            engines.build(System::ConvChess, 1, 0)?;
        }
        Ok(engines)
    }

    /// The systems that can play, and their networks.
    pub fn systems(&self) -> impl Iterator<Item = (System, &Network)> {
        self.systems.iter().map(|engine| (engine.system, engine.network.as_ref()))
    }

    /// Does this system play here?
    #[must_use]
    pub fn has(&self, system: System) -> bool {
        self.systems.iter().any(|engine| engine.system == system)
    }

    /// A search of a system; `batch` 0: as many positions at once as the evaluator prefers.
    ///
    /// # Errors
    /// The system has no network here, or it cannot be run.
    pub fn build(
        &self,
        system: System,
        multipv: usize,
        batch: usize,
    ) -> Result<Box<dyn Search>, EngineError> {
        let settings = Settings { hash_mib: HASH_MIB, multipv, batch, ..Settings::default() };
        let Some(engine) = self.systems.iter().find(|engine| engine.system == system) else {
            let reason = "it was not given to the page".to_owned();
            return Err(EvalError::Unsupported { network: system.name().to_owned(), reason }.into());
        };
        match &engine.shared {
            Some(shared) => Ok(shared.search(&settings)),
            None => {
                let options =
                    EngineOptions { settings, devices: Devices::cpu(), ..self.options.clone() };
                Ok(build_over(&engine.network, system, &options, None)?.search)
            }
        }
    }

    /// Waits for a slot.
    ///
    /// # Errors
    /// The program is about to end.
    pub async fn slot(&self) -> Result<SearchSlot, ApiError> {
        let _waiting = Waiting::new(&self.waiting);
        let permit = Arc::clone(&self.slots).acquire_owned().await;
        permit
            .map(|permit| SearchSlot { _permit: permit })
            .map_err(|_| ApiError::new("the server is closing"))
    }

    /// Does a search wait for a slot?
    #[must_use]
    pub fn is_crowded(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }
}

/// Counts one waiting search as long as it lives: a visitor may leave the queue.
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

/// Stops a search when its visitor has left.
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
) -> Result<(Box<dyn Search>, Outcome), ApiError> {
    let _stop = StopOnDrop(control.clone());
    let thinking = task::spawn_blocking(move || {
        let outcome = search.search(&game, &limits, &control, &mut report);
        (search, outcome)
    });
    let (search, outcome) =
        thinking.await.map_err(|_| ApiError::new("the search broke off; please report this"))?;
    let outcome =
        outcome.map_err(|error| ApiError::new(format!("the evaluator failed: {error}")))?;
    Ok((search, outcome))
}
