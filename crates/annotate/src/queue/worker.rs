//! The side that analyses.

use std::{thread, time::Duration};

use async_nats::jetstream::{AckKind, Context, Message, consumer::PullConsumer};
use crossbeam_channel::Sender;
use futures_util::StreamExt;
use search::{Control, Search, Settings};

use super::{AnalysisJob, JobResult, QueueServer, pack, runtime, unpack};
use crate::{AnnotateError, run::AnnotatedGame};

/// A game that a worker cannot have waits so long for another one.
const LATER: Duration = Duration::from_secs(2);

/// A worker says so often that it is alive; whoever hands out games decides how long to wait for
/// that.
const BEAT: Duration = Duration::from_secs(1);

/// What a worker has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerProgress {
    pub games: u64,
    pub positions: u64,
}

/// Takes games from a queue, `jobs` at once, until `control` stops it. Games for another engine
/// than `engine` are left to others. `report` is called after each game.
///
/// # Errors
/// The queue cannot be reached at the beginning. What goes wrong later is logged and tried again.
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
            let mut worker = WorkerThread { queue, engine, search, control, held: None };
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
            // A thread of ours does not panic; if it does, the panic is the message.
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
    /// The search of the last game, and how it is set.
    held: Option<(Settings, Box<dyn Search>)>,
}

impl WorkerThread<'_> {
    async fn work(&mut self, finish: &Sender<u64>) -> Result<(), AnnotateError> {
        let context = self.queue.connect().await?;
        let work = self.queue.work(&context).await?;
        let games: PullConsumer = match work.get_consumer("workers").await {
            Ok(consumer) => consumer,
            Err(_) => self.queue.workers(&work).await?,
        };
        while !self.control.is_stopped() {
            let done = match next(&games).await {
                Ok(Some(message)) => self.take(&context, &message).await,
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

    /// Analyses one game; the positions that it took, or nothing if it is left to others.
    async fn take(&mut self, context: &Context, message: &Message) -> Result<Option<u64>, String> {
        let job: AnalysisJob = match unpack(&message.payload) {
            Ok(job) => job,
            Err(error) => {
                tracing::warn!("a game in the queue cannot be read: {error}");
                let later = AckKind::Nak(Some(LATER));
                return message.ack_with(later).await.map(|()| None).map_err(text);
            }
        };
        if job.analysis.engine != self.engine {
            tracing::warn!("a game for {} is left to others", job.analysis.engine);
            let later = AckKind::Nak(Some(LATER));
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
        // Only now: a worker that dies before has not had the game.
        message.double_ack().await.map_err(text)?;
        Ok(Some(positions))
    }

    /// Analyses on another thread, and says meanwhile that it is alive. Nothing if it is stopped.
    async fn analyse(
        &mut self,
        job: AnalysisJob,
        message: &Message,
    ) -> Result<Option<Result<AnnotatedGame, String>>, String> {
        let game = match job.game.open() {
            Ok(game) => game,
            Err(error) => return Ok(Some(Err(format!("game {}: {error}", job.number + 1)))),
        };
        let (number, settings) = (job.number, job.analysis.settings());
        let held = self.held.take().filter(|(held, _)| *held == settings);
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
            match tokio::time::timeout(BEAT, &mut task).await {
                Ok(Ok(done)) => break done,
                // Nor would it be analysed elsewhere: whoever sent it is told.
                Ok(Err(_)) => {
                    return Ok(Some(Err(format!("game {}: the search failed", number + 1))));
                }
                Err(_) => message.ack_with(AckKind::Progress).await.map_err(text)?,
            }
        };
        self.held = Some((settings, search));
        match outcome {
            Ok(None) => Ok(None),
            Ok(Some(annotated)) => Ok(Some(Ok(annotated))),
            Err(error) => Ok(Some(Err(error.to_string()))),
        }
    }
}

/// The next game, if one comes within a second.
async fn next(games: &PullConsumer) -> Result<Option<Message>, String> {
    const WAIT: Duration = Duration::from_secs(1);
    let mut messages =
        games.fetch().max_messages(1).expires(WAIT).messages().await.map_err(text)?;
    messages.next().await.transpose().map_err(text)
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
