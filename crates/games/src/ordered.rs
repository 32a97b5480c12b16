//! Work on numbered items by several threads, its results in the order of the items.

use std::{
    collections::BTreeMap,
    io,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use crossbeam_channel::RecvTimeoutError;

/// So many items a thread may be begun before the first of them is done: results that wait for it
/// take memory.
const WINDOW: usize = 16;

/// After so long at the end of the window the reader looks whether the run was ended.
const LOOK: Duration = Duration::from_millis(100);

/// What one thread of [`process_in_order`] does.
pub trait Worker<I, T, E> {
    /// Works on an item; nothing if it was interrupted.
    ///
    /// # Errors
    /// The run cannot go on.
    fn work(&mut self, number: u64, item: I) -> Result<Option<T>, E>;

    /// There is nothing more to do.
    fn end(self)
    where
        Self: Sized,
    {
    }
}

/// Lets `jobs` threads work on the items from number `first` on, and hands their results to `done`
/// one after the other. At most a window of items is under way, so a slow one does not pile up the
/// results behind it. Nothing new is begun once `interrupted`; results that wait for an earlier one
/// are then lost. An error among the items ends the run after what came before it.
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
        let (give, take) = crossbeam_channel::bounded::<(u64, I)>(jobs);
        let (finish, finished) = crossbeam_channel::bounded::<(u64, WorkResult<T, E>)>(jobs);
        for job in 0..jobs {
            let (take, finish, stopped, worker) = (take.clone(), finish.clone(), &stopped, &worker);
            let work = move || {
                let mut worker = worker();
                for (number, item) in take {
                    if stopped() {
                        break;
                    }
                    let found = match worker.work(number, item) {
                        Ok(Some(done)) => WorkResult::Done(done),
                        Ok(None) => break,
                        Err(error) => WorkResult::Failed(error),
                    };
                    if finish.send((number, found)).is_err() {
                        break;
                    }
                }
                worker.end();
            };
            let name = format!("games-{job}");
            thread::Builder::new().name(name).spawn_scoped(scope, work).map_err(no_thread)?;
        }
        drop(take);
        // A permit for each item that may be begun; `done` gives it back.
        let (permit, permits) = crossbeam_channel::bounded::<()>(WINDOW * jobs);
        for _ in 0..WINDOW * jobs {
            // There is room for exactly these.
            let _ = permit.send(());
        }
        let (give_error, stopped) = (finish, &stopped);
        let read = move || {
            for (number, item) in (0..).zip(items) {
                if stopped() {
                    return;
                }
                match item {
                    Ok(_) if number < first => {}
                    Ok(item) => {
                        while let Err(error) = permits.recv_timeout(LOOK) {
                            if stopped() || error == RecvTimeoutError::Disconnected {
                                return;
                            }
                        }
                        if give.send((number, item)).is_err() {
                            return;
                        }
                    }
                    Err(error) => {
                        return drop(give_error.send((number, WorkResult::BadItem(error))));
                    }
                }
            }
        };
        thread::Builder::new()
            .name("games-input".to_owned())
            .spawn_scoped(scope, read)
            .map_err(no_thread)?;
        let mut next = first;
        let mut waiting = BTreeMap::new();
        let (mut result, mut input) = (Ok(()), Ok(()));
        for (number, found) in &finished {
            match found {
                // After an error the threads only have to come to their end.
                _ if result.is_err() => {}
                WorkResult::Done(found) => {
                    waiting.insert(number, found);
                    while let Some(found) = waiting.remove(&next)
                        && result.is_ok()
                    {
                        next += 1;
                        result = done(found);
                        // The reader may have come to its end.
                        let _ = permit.try_send(());
                    }
                }
                // What was read before is still worked on.
                WorkResult::BadItem(error) => input = Err(error),
                WorkResult::Failed(error) => result = Err(error),
            }
            if result.is_err() {
                halt.store(true, Ordering::Relaxed);
            }
        }
        result.and(input)
    })
}

enum WorkResult<T, E> {
    Done(T),
    Failed(E),
    BadItem(E),
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;
    use crate::FileError;

    struct Uneven<'a>(&'a AtomicBool);

    impl Worker<u64, u64, FileError> for Uneven<'_> {
        fn work(&mut self, number: u64, item: u64) -> Result<Option<u64>, FileError> {
            assert_eq!(number, item);
            thread::sleep(std::time::Duration::from_micros(number * 7919 % 500));
            if number == 70 {
                self.0.store(true, Ordering::Relaxed);
                return Ok(None);
            }
            Ok(Some(item * 2))
        }
    }

    /// Notes the largest number that was begun.
    struct FirstIsSlow<'a>(&'a AtomicU64);

    impl Worker<u64, u64, FileError> for FirstIsSlow<'_> {
        fn work(&mut self, number: u64, item: u64) -> Result<Option<u64>, FileError> {
            self.0.fetch_max(number, Ordering::Relaxed);
            if number == 0 {
                // Until the others have come as far as they may.
                let mut seen = 0;
                while seen != self.0.load(Ordering::Relaxed) {
                    seen = self.0.load(Ordering::Relaxed);
                    thread::sleep(Duration::from_millis(200));
                }
            }
            Ok(Some(item))
        }
    }

    #[test]
    fn a_slow_item_holds_back_only_a_window() {
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
    fn results_come_in_order_and_all_that_can() {
        let (found, result) = run(4, (0..60).map(Ok).collect());
        assert!(result.is_ok());
        assert_eq!(found, (4..60).map(|number| number * 2).collect::<Vec<_>>());
        let (found, result) = run(0, (0..9).map(Ok).chain([bad(), Ok(10)]).collect());
        assert!(matches!(result, Err(FileError::Read { .. })));
        assert_eq!(found, (0..9).map(|number| number * 2).collect::<Vec<_>>());
    }

    #[test]
    fn an_interruption_leaves_a_beginning() {
        let (found, result) = run(0, (0..1000).map(Ok).collect());
        assert!(result.is_ok() && found.len() <= 70, "{}", found.len());
        assert_eq!(found, (0..found.len() as u64).map(|number| number * 2).collect::<Vec<_>>());
    }

    #[test]
    fn what_cannot_be_done_ends_the_run() {
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
