//! The coordinator: it reads the files, fills the queue and writes the output.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use async_nats::jetstream::{
    Context,
    consumer::{self, PullConsumer},
};
use futures_util::StreamExt;
use games::PgnGame;
use search::Control;

use super::{AnalysisJob, GameMessage, JobResult, QueueServer, pack, runtime, unpack};
use crate::{
    AnnotateError, AnnotateProgress, AnnotateSettings,
    run::{AnnotatedGame, Item, OutputFiles},
};

/// Largest number of games in the queue beyond the written ones. It bounds the memory and keeps the
/// workers busy.
const WINDOW: u64 = 512;

/// Lets the workers of a queue analyse the files. The output is that of [`crate::annotate`]. A
/// worker with another engine than [`crate::AnalysisSettings::engine`] returns the games.
///
/// # Errors
/// Input, output or queue cannot be used, or a game could not be analysed.
pub fn coordinate(
    settings: &AnnotateSettings,
    queue: &QueueServer,
    control: &Control,
    report: &mut dyn FnMut(&AnnotateProgress),
) -> Result<AnnotateProgress, AnnotateError> {
    let outputs = OutputFiles::open(settings)?;
    report(&outputs.progress());
    // Skipping the written games of a long file takes a while, so it comes before the connection.
    let mut games = settings.items();
    for _ in 0..outputs.progress().games {
        let _ = games.next().transpose()?;
    }
    runtime()?.block_on(async {
        let mut run = Coordinator::begin(settings, queue, outputs).await?;
        let end = run.finish(&mut games, control, report).await;
        run.clear(!control.is_stopped()).await?;
        end.map(|()| run.outputs.progress())
    })
}

struct Coordinator<'a> {
    settings: &'a AnnotateSettings,
    queue: &'a QueueServer,
    context: Context,
    results: PullConsumer,
    outputs: OutputFiles,
    /// Part of the subjects: equal for the same settings on the same output.
    id: String,
    waiting: BTreeMap<u64, AnnotatedGame>,
    /// Number of games in the queue or written before.
    sent: u64,
}

impl<'a> Coordinator<'a> {
    async fn begin(
        settings: &'a AnnotateSettings,
        queue: &'a QueueServer,
        outputs: OutputFiles,
    ) -> Result<Self, AnnotateError> {
        let mut hasher = DefaultHasher::new();
        (settings.run(), outputs.ids()).hash(&mut hasher);
        let id = format!("{:016x}", hasher.finish());

        let context = queue.connect().await?;
        let work = queue.work_stream(&context).await?;
        queue.work_consumer(&work).await?;
        // The games of an interrupted coordinator are sent again; its results are used.
        work.purge().filter(subject("work", &id)).await.map_err(|error| queue.failed(error))?;
        let results = queue.result_stream(&context).await?;
        let filter = consumer::pull::Config {
            filter_subject: subject("result", &id),
            inactive_threshold: Duration::from_secs(60),
            ..consumer::pull::Config::default()
        };
        let results = results.create_consumer(filter).await.map_err(|error| queue.failed(error))?;
        let sent = outputs.progress().games;
        Ok(Self { settings, queue, context, results, outputs, id, waiting: BTreeMap::new(), sent })
    }

    async fn finish(
        &mut self,
        games: &mut dyn Iterator<Item = Result<Item, AnnotateError>>,
        control: &Control,
        report: &mut dyn FnMut(&AnnotateProgress),
    ) -> Result<(), AnnotateError> {
        let mut input = Ok(());
        let mut is_read = false;
        while !control.is_stopped() {
            while !is_read && self.sent < self.outputs.progress().games + WINDOW {
                match games.next() {
                    Some(Ok(Item::Game(game))) => self.send(*game).await?,
                    Some(Ok(Item::Unchanged(done))) => {
                        self.waiting.insert(self.sent, done);
                        self.sent += 1;
                    }
                    // The games before the error are still analysed.
                    Some(Err(error)) => (input, is_read) = (Err(error), true),
                    None => is_read = true,
                }
            }
            if is_read && self.outputs.progress().games == self.sent {
                break;
            }
            self.receive(report).await?;
        }
        input
    }

    async fn send(&mut self, game: PgnGame) -> Result<(), AnnotateError> {
        let job = AnalysisJob {
            result: subject("result", &self.id),
            number: self.sent,
            game: GameMessage::new(game),
            analysis: self.settings.analysis.clone(),
            json: self.settings.json.is_some(),
        };
        let bytes = pack(&job).map_err(|error| self.queue.failed(error))?;
        let sent = self.context.publish(subject("work", &self.id), bytes.into()).await;
        sent.map_err(|error| self.queue.failed(error))?
            .await
            .map_err(|error| self.queue.failed(error))?;
        self.sent += 1;
        Ok(())
    }

    /// Waits up to half a second for results and writes those that are next in order.
    async fn receive(
        &mut self,
        report: &mut dyn FnMut(&AnnotateProgress),
    ) -> Result<(), AnnotateError> {
        const WAIT: Duration = Duration::from_millis(500);
        let failed = |error: &dyn std::fmt::Display| self.queue.failed(error);
        let mut messages = self
            .results
            .fetch()
            .max_messages(64)
            .expires(WAIT)
            .messages()
            .await
            .map_err(|error| failed(&error))?;
        while let Some(message) = messages.next().await {
            let message = message.map_err(|error| failed(&error))?;
            let done: JobResult = unpack(&message.payload).map_err(|error| failed(&error))?;
            let annotated = done.outcome.map_err(AnnotateError::Worker)?;
            message.ack().await.map_err(|error| failed(&error))?;
            // A game that two workers analysed arrives twice.
            if done.number >= self.outputs.progress().games {
                self.waiting.insert(done.number, annotated);
            }
        }
        while let Some(annotated) = self.waiting.remove(&self.outputs.progress().games) {
            self.outputs.add(&annotated)?;
            report(&self.outputs.progress());
        }
        Ok(())
    }

    /// Deletes the games of this run from the queue, and its results if the run is `complete`.
    async fn clear(&self, complete: bool) -> Result<(), AnnotateError> {
        let failed = |error: &dyn std::fmt::Display| self.queue.failed(error);
        let work = self.queue.work_stream(&self.context).await?;
        work.purge().filter(subject("work", &self.id)).await.map_err(|error| failed(&error))?;
        if complete {
            let results = self.queue.result_stream(&self.context).await?;
            results
                .purge()
                .filter(subject("result", &self.id))
                .await
                .map_err(|error| failed(&error))?;
        }
        Ok(())
    }
}

fn subject(kind: &str, id: &str) -> String {
    format!("batch-first.{kind}.{id}")
}
