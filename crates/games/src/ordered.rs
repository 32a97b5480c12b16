//! A numbered stream of items is worked on by several threads, and the results come back in the
//! order of the items. Long runs over files need both: every core is busy, and the output does not
//! depend on how many there are.

use std::{
    collections::BTreeMap,
    io,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};

/// Items a thread that may be begun before the first of them is done. It bounds the memory of the
/// results that wait for a slow item.
const WINDOW: usize = 16;

/// While the window is full the reader checks this often whether the run was stopped.
const STOP_CHECK: Duration = Duration::from_millis(100);

/// The work of one thread of [`process_in_order`].
pub trait Worker<I, T, E> {
    /// Works on an item; `None` if it was interrupted.
    ///
    /// # Errors
    /// The run cannot continue.
    fn work(&mut self, number: u64, item: I) -> Result<Option<T>, E>;

    /// Called after the last item.
    fn end(self)
    where
        Self: Sized,
    {
    }
}

/// Lets `jobs` threads work on the items from number `first` on, and passes their results to `done`
/// in the order of the items. A bounded window of items is under way, so that a slow item does not
/// pile up the results after it. After `interrupted` returns true no item is begun, and results
/// that wait for an earlier item are lost. After an error among the items, the items before it are
/// still processed.
///
/// # Errors
/// The first error of `done`, a worker, the items, or of starting a thread.
pub fn process_in_order<I, T, E, W>(
    jobs: usize,
    first: u64,
    items: impl Iterator<Item = Result<I, E>> + Send,
    interrupted: &(dyn Fn() -> bool + Sync),
    worker: impl Fn() -> W + Sync,
    done: &mut dyn FnMut(T) -> Result<(), E>,
) -> Result<(), E>
where
    I: Send,
    T: Send,
    E: Send + From<crate::FileError>,
    W: Worker<I, T, E>,
{
    let halt = AtomicBool::new(false);
    let stopped = || interrupted() || halt.load(Ordering::Relaxed);
    let jobs = jobs.max(1);
    let no_thread = |error: io::Error| E::from(crate::FileError::Thread(error));
    thread::scope(|scope| {
        let (item_sender, item_receiver) = crossbeam_channel::bounded::<(u64, I)>(jobs);
        let (event_sender, events) = crossbeam_channel::bounded::<(u64, Event<T, E>)>(jobs);
        for job in 0..jobs {
            let (items, events) = (item_receiver.clone(), event_sender.clone());
            let (stopped, worker) = (&stopped, &worker);
            thread::Builder::new()
                .name(format!("games-{job}"))
                .spawn_scoped(scope, move || work_through(worker(), items, &events, stopped))
                .map_err(no_thread)?;
        }
        drop(item_receiver);
        // One permit for each item that may be begun; `deliver` returns it.
        let (permit_sender, permits) = crossbeam_channel::bounded::<()>(WINDOW * jobs);
        for _ in 0..WINDOW * jobs {
            // The channel has room for exactly these.
            let _ = permit_sender.send(());
        }
        let stopped = &stopped;
        let read = move || {
            let end = read_items(items, first, &item_sender, &permits, stopped);
            if let Some((number, error)) = end {
                let _ = event_sender.send((number, Event::BadItem(error)));
            }
        };
        thread::Builder::new()
            .name("games-input".to_owned())
            .spawn_scoped(scope, read)
            .map_err(no_thread)?;
        deliver(first, &events, &permit_sender, &halt, done)
    })
}

/// A worker's answer for an item, or the reader's.
enum Event<T, E> {
    Done(T),
    Failed(E),
    BadItem(E),
}

/// The loop of one worker thread. It ends with the items, on an error and when the run is stopped.
fn work_through<I, T, E>(
    mut worker: impl Worker<I, T, E>,
    items: Receiver<(u64, I)>,
    events: &Sender<(u64, Event<T, E>)>,
    stopped: &(dyn Fn() -> bool + Sync),
) {
    for (number, item) in items {
        if stopped() {
            break;
        }
        let event = match worker.work(number, item) {
            Ok(Some(result)) => Event::Done(result),
            Ok(None) => break,
            Err(error) => Event::Failed(error),
        };
        if events.send((number, event)).is_err() {
            break;
        }
    }
    worker.end();
}

/// The loop of the reader thread: sends an item for each permit. Returns the error that ends the
/// items, with its number.
fn read_items<I, E>(
    items: impl Iterator<Item = Result<I, E>>,
    first: u64,
    sender: &Sender<(u64, I)>,
    permits: &Receiver<()>,
    stopped: &(dyn Fn() -> bool + Sync),
) -> Option<(u64, E)> {
    for (number, item) in (0..).zip(items) {
        if stopped() {
            return None;
        }
        match item {
            Ok(_) if number < first => {}
            Ok(item) => {
                while let Err(error) = permits.recv_timeout(STOP_CHECK) {
                    if stopped() || error == RecvTimeoutError::Disconnected {
                        return None;
                    }
                }
                if sender.send((number, item)).is_err() {
                    return None;
                }
            }
            Err(error) => return Some((number, error)),
        }
    }
    None
}

/// Passes the results to `done` in order until every thread has ended. Sets `halt` after an error.
fn deliver<T, E>(
    first: u64,
    events: &Receiver<(u64, Event<T, E>)>,
    permits: &Sender<()>,
    halt: &AtomicBool,
    done: &mut dyn FnMut(T) -> Result<(), E>,
) -> Result<(), E> {
    let mut next = first;
    let mut waiting = BTreeMap::new();
    let (mut result, mut input) = (Ok(()), Ok(()));
    for (number, event) in events {
        match event {
            // After an error the events are only drained, so that the threads can end.
            _ if result.is_err() => {}
            Event::Done(found) => {
                waiting.insert(number, found);
                while let Some(found) = waiting.remove(&next)
                    && result.is_ok()
                {
                    next += 1;
                    result = done(found);
                    // The reader may have ended.
                    let _ = permits.try_send(());
                }
            }
            // The items before the bad one are still processed.
            Event::BadItem(error) => input = Err(error),
            Event::Failed(error) => result = Err(error),
        }
        if result.is_err() {
            halt.store(true, Ordering::Relaxed);
        }
    }
    result.and(input)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;
    use crate::FileError;

    /// Takes a different time for each item, and stops the run at item 70.
    struct Uneven<'a>(&'a AtomicBool);

    impl Worker<u64, u64, FileError> for Uneven<'_> {
        fn work(&mut self, number: u64, item: u64) -> Result<Option<u64>, FileError> {
            assert_eq!(number, item);
            (0..number * 7919 % 500).for_each(|_| thread::yield_now());
            if number == 70 {
                self.0.store(true, Ordering::Relaxed);
                return Ok(None);
            }
            Ok(Some(item * 2))
        }
    }

    /// Notes the largest number that was begun. Item 0 waits until the window is full.
    struct FirstIsSlow<'a>(&'a AtomicU64);

    impl Worker<u64, u64, FileError> for FirstIsSlow<'_> {
        fn work(&mut self, number: u64, item: u64) -> Result<Option<u64>, FileError> {
            self.0.fetch_max(number, Ordering::Relaxed);
            if number == 0 {
                let last_of_window = 2 * WINDOW as u64 - 1;
                while self.0.load(Ordering::Relaxed) < last_of_window {
                    thread::yield_now();
                }
                // Time for the other thread to begin an item beyond the window, if it could.
                (0..10_000).for_each(|_| thread::yield_now());
            }
            Ok(Some(item))
        }
    }

    #[test]
    fn a_slow_item_holds_back_the_items_beyond_the_window() {
        let begun = AtomicU64::new(0);
        let mut found = Vec::new();
        let worker = || FirstIsSlow(&begun);
        let mut before_first = None;
        process_in_order(2, 0, (0..5000).map(Ok), &|| false, worker, &mut |done| {
            before_first.get_or_insert(begun.load(Ordering::Relaxed));
            found.push(done);
            Ok::<_, FileError>(())
        })
        .unwrap();
        assert_eq!(found, (0..5000).collect::<Vec<_>>());
        assert!(before_first.unwrap() < 2 * WINDOW as u64, "{before_first:?}");
    }

    fn run(first: u64, items: Vec<Result<u64, FileError>>) -> (Vec<u64>, Result<(), FileError>) {
        let (stop, mut found) = (AtomicBool::new(false), Vec::new());
        let interrupted = || stop.load(Ordering::Relaxed);
        let result = process_in_order(
            3,
            first,
            items.into_iter(),
            &interrupted,
            || Uneven(&stop),
            &mut |done| {
                found.push(done);
                Ok(())
            },
        );
        (found, result)
    }

    fn bad() -> Result<u64, FileError> {
        Err(FileError::Read { path: "x".into(), source: io::Error::other("bad") })
    }

    #[test]
    fn results_come_in_order_up_to_a_bad_item() {
        let (found, result) = run(4, (0..60).map(Ok).collect());
        assert!(result.is_ok());
        assert_eq!(found, (4..60).map(|number| number * 2).collect::<Vec<_>>());
        let (found, result) = run(0, (0..9).map(Ok).chain([bad(), Ok(10)]).collect());
        assert!(matches!(result, Err(FileError::Read { .. })));
        assert_eq!(found, (0..9).map(|number| number * 2).collect::<Vec<_>>());
    }

    #[test]
    fn an_interruption_leaves_the_first_results() {
        let (found, result) = run(0, (0..1000).map(Ok).collect());
        assert!(result.is_ok() && found.len() <= 70, "{}", found.len());
        assert_eq!(found, (0..found.len() as u64).map(|number| number * 2).collect::<Vec<_>>());
    }

    #[test]
    fn an_error_of_the_receiver_ends_the_run() {
        let stop = AtomicBool::new(false);
        let mut written = 0;
        let result =
            process_in_order(2, 0, (0..50).map(Ok), &|| false, || Uneven(&stop), &mut |_: u64| {
                written += 1;
                if written == 5 {
                    return Err(FileError::NotResumable { path: "x".into() });
                }
                Ok(())
            });
        assert!(matches!(result, Err(FileError::NotResumable { .. })));
        assert_eq!(written, 5);
    }
}
