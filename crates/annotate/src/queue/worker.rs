//! The worker: it takes games from the queue, analyses them and returns the texts.

use std::{thread, time::Duration};

use async_nats::jetstream::{AckKind, Context, Message, consumer::PullConsumer};
use crossbeam_channel::Sender;
use futures_util::StreamExt;
use search::{Control, Search, Settings};

use super::{AnalysisJob, JobResult, QueueServer, pack, runtime, unpack};
use crate::{AnnotateError, run::AnnotatedGame};

/// A game that this worker returns is offered again after this time.
const REDELIVERY: Duration = Duration::from_secs(2);

/// A worker reports progress this often; the coordinator sets the timeout.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// The progress of a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerProgress {
    pub games: u64,
    pub positions: u64,
}

/// Analyses games of a queue, `jobs` at once, until `control` stops it. Games for another engine
/// than `engine` are returned to the queue. `report` is called after each game.
///
/// # Errors
/// The queue cannot be reached at the beginning. Later errors are logged, and the worker tries
/// again.
pub fn run_worker(
    queue: &QueueServer,
    engine: &str,
    jobs: usize,
    search: &(dyn Fn(&Settings) -> Box<dyn Search> + Sync),
    control: &Control,
    report: &mut dyn FnMut(&WorkerProgress),
) -> Result<WorkerProgress, AnnotateError> {
    let (finish, finished) = crossbeam_channel::unbounded();
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for job in 0..jobs.max(1) {
            let mut worker = WorkerThread { queue, engine, search, control, last_search: None };
            let finish = finish.clone();
            let thread = thread::Builder::new()
                .name(format!("worker-{job}"))
                .spawn_scoped(scope, move || runtime()?.block_on(worker.work(&finish)))
                .map_err(games::FileError::Thread)?;
            threads.push(thread);
        }
        drop(finish);
        let mut progress = WorkerProgress::default();
        for positions in finished {
            progress.games += 1;
            progress.positions += positions;
            report(&progress);
        }
        for thread in threads {
            // A panic of a thread is passed on.
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        Ok(progress)
    })
}

/// One thread of a worker.
struct WorkerThread<'a> {
    queue: &'a QueueServer,
    engine: &'a str,
    search: &'a (dyn Fn(&Settings) -> Box<dyn Search> + Sync),
    control: &'a Control,
    /// The search of the last game with its settings; the next game reuses it if they are equal.
    last_search: Option<(Settings, Box<dyn Search>)>,
}

impl WorkerThread<'_> {
    async fn work(&mut self, finish: &Sender<u64>) -> Result<(), AnnotateError> {
        let context = self.queue.connect().await?;
        let work = self.queue.work_stream(&context).await?;
        let games: PullConsumer = match work.get_consumer("workers").await {
            Ok(consumer) => consumer,
            Err(_) => self.queue.work_consumer(&work).await?,
        };
        while !self.control.is_stopped() {
            let done = match next(&games).await {
                Ok(Some(message)) => self.handle(&context, &message).await,
                Ok(None) => continue,
                Err(error) => Err(error),
            };
            match done {
                Ok(Some(positions)) => drop(finish.send(positions)),
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!("{}; trying again", self.queue.failed(error));
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
        }
        Ok(())
    }

    /// Analyses one game; returns the number of its positions, or `None` if the game is returned.
    async fn handle(
        &mut self,
        context: &Context,
        message: &Message,
    ) -> Result<Option<u64>, String> {
        let job: AnalysisJob = match unpack(&message.payload) {
            Ok(job) => job,
            Err(error) => {
                tracing::warn!("a game in the queue cannot be read: {error}");
                let later = AckKind::Nak(Some(REDELIVERY));
                return message.ack_with(later).await.map(|()| None).map_err(text);
            }
        };
        if job.analysis.engine != self.engine {
            tracing::warn!("a game for {} is left to others", job.analysis.engine);
            let later = AckKind::Nak(Some(REDELIVERY));
            return message.ack_with(later).await.map(|()| None).map_err(text);
        }
        let (number, result) = (job.number, job.result.clone());
        let Some(outcome) = self.analyse(job, message).await? else {
            return message.ack_with(AckKind::Nak(None)).await.map(|()| None).map_err(text);
        };
        let positions = outcome.as_ref().map_or(0, |annotated| annotated.positions);
        let mut bytes = pack(&JobResult { number, outcome })?;
        let most = context.client().server_info().max_payload;
        if bytes.len() > most {
            let reason = format!(
                "game {}: its result of {} bytes is larger than the server's max_payload of {most}",
                number + 1,
                bytes.len()
            );
            bytes = pack(&JobResult { number, outcome: Err(reason) })?;
        }
        context.publish(result, bytes.into()).await.map_err(text)?.await.map_err(text)?;
        // The game is acknowledged last: if the worker dies before, another one gets it.
        message.double_ack().await.map_err(text)?;
        Ok(Some(positions))
    }

    /// Analyses on another thread and reports progress meanwhile; `None` if it is stopped.
    async fn analyse(
        &mut self,
        job: AnalysisJob,
        message: &Message,
    ) -> Result<Option<Result<AnnotatedGame, String>>, String> {
        let game = match job.game.into_game() {
            Ok(game) => game,
            Err(error) => return Ok(Some(Err(format!("game {}: {error}", job.number + 1)))),
        };
        let (number, settings) = (job.number, job.analysis.settings());
        let held = self.last_search.take().filter(|(held, _)| *held == settings);
        let (_, mut search) = held.unwrap_or_else(|| (settings.clone(), (self.search)(&settings)));
        let (control, analysis) = (self.control.clone(), job.analysis);
        let mut task = tokio::task::spawn_blocking(move || {
            let outcome = AnnotatedGame::analyse(
                game,
                job.number,
                search.as_mut(),
                &analysis,
                job.json,
                &control,
            );
            (search, outcome)
        });
        let (search, outcome) = loop {
            match tokio::time::timeout(HEARTBEAT, &mut task).await {
                Ok(Ok(done)) => break done,
                // Other workers would fail too, so the coordinator gets the error.
                Ok(Err(_)) => {
                    return Ok(Some(Err(format!("game {}: the search failed", number + 1))));
                }
                Err(_) => message.ack_with(AckKind::Progress).await.map_err(text)?,
            }
        };
        self.last_search = Some((settings, search));
        match outcome {
            Ok(None) => Ok(None),
            Ok(Some(annotated)) => Ok(Some(Ok(annotated))),
            Err(error) => Ok(Some(Err(error.to_string()))),
        }
    }
}

/// The next game, if one arrives within a second.
async fn next(games: &PullConsumer) -> Result<Option<Message>, String> {
    const WAIT: Duration = Duration::from_secs(1);
    let mut messages =
        games.fetch().max_messages(1).expires(WAIT).messages().await.map_err(text)?;
    messages.next().await.transpose().map_err(text)
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
