//! The search of an engine has one user at a time; one that was stopped or left gives it back a
//! little later, in its own thread.

use std::{
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread,
    time::Duration,
};

use search::Control;

/// How long a waiting call takes to see Ctrl-C.
pub(crate) const PATIENCE: Duration = Duration::from_millis(100);

/// Where an engine's search is.
enum Place {
    Here(Box<dyn search::Search>),
    /// In a running search, which this control may have stopped.
    Lent(Control),
    /// Lost in a search that failed; the next use builds another.
    Lost,
}

/// The search of an engine, one user at a time.
pub(crate) struct Lender {
    place: Mutex<Place>,
    given_back: Condvar,
}

impl Lender {
    pub fn new(search: Box<dyn search::Search>) -> Self {
        Self { place: Mutex::new(Place::Here(search)), given_back: Condvar::new() }
    }

    /// Lends the search to the owner of `control`. Waits up to [`PATIENCE`] for a search that was
    /// stopped; `None`: it has not come back yet.
    ///
    /// # Errors
    /// A search runs that was not stopped.
    pub fn lend(self: &Arc<Self>, control: &Control) -> Result<Option<Loan>, &'static str> {
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        if let Place::Lent(running) = &*place {
            if !running.is_stopped() {
                return Err("the engine searches already: stop that search or wait for it");
            }
            let waited = self.given_back.wait_timeout(place, PATIENCE);
            place = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        if matches!(&*place, Place::Lent(_)) {
            return Ok(None);
        }
        let search = match std::mem::replace(&mut *place, Place::Lent(control.clone())) {
            Place::Here(search) => Some(search),
            Place::Lent(_) | Place::Lost => None,
        };
        Ok(Some(Loan { search, lender: Arc::clone(self) }))
    }
}

/// A search on loan, given back when it is dropped; `None`: it was lost.
pub(crate) struct Loan {
    pub search: Option<Box<dyn search::Search>>,
    lender: Arc<Lender>,
}

impl Drop for Loan {
    fn drop(&mut self) {
        // After a panic its state is unknown.
        let kept = self.search.take().filter(|_| !thread::panicking());
        let mut place = self.lender.place.lock().unwrap_or_else(PoisonError::into_inner);
        *place = kept.map_or(Place::Lost, Place::Here);
        self.lender.given_back.notify_all();
    }
}
