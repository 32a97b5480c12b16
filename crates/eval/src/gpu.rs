//! Evaluation on GPUs of any vendor, by kernels that [Burn](https://burn.dev) compiles at run time.
//!
//! Boards are uploaded packed and moves as indices; only the requested outputs are downloaded.
//! Batches are padded to a few fixed sizes, because kernels are compiled and tuned for each size;
//! both are cached on disk. Two threads feed each device: while one waits for results, the other
//! prepares the next batch, so that the device rarely waits.

mod attackers;
mod attention;
mod devices;
mod input_layer;
mod maker;
mod neighbours;
mod network;
mod packed;
mod planes;
mod runner;
mod tuned;

use std::{
    collections::BTreeMap,
    sync::Arc,
    thread::{self, JoinHandle},
};

use crossbeam_channel::{Receiver, Sender, unbounded};
use devices::caught;
pub use devices::{Listed, first_card, lacks, list, open};
use nets::Network;
use runner::{LARGEST, Runner};

use crate::{
    Answered, Batch, DeviceName, EvalError, Evaluator, Precision, Stream, cpu::check_heads,
};

/// How a [`GpuEvaluator`] runs.
#[derive(Clone, Debug)]
pub struct GpuOptions {
    /// At least one. A batch goes to the next free device.
    pub devices: Vec<DeviceName>,
    /// The number format; `None` means f16 if the device supports it, else bf16, else f32.
    pub precision: Option<Precision>,
    /// Queries of each device's batch; `None` means to measure the best size once for each device
    /// and network and to keep it on disk.
    pub preferred_batch: Option<usize>,
}

/// Threads that feed a device.
const FEEDERS: usize = 2;

/// Scores positions on GPUs.
#[derive(Debug)]
pub struct GpuEvaluator {
    network: Arc<Network>,
    description: String,
    preferred: usize,
    /// Dropping the sender ends the feeders.
    jobs: Option<Sender<(u64, Batch)>>,
    results: Receiver<(u64, Result<Answered, EvalError>)>,
    /// Results that arrived before an older one.
    early: BTreeMap<u64, Result<Answered, EvalError>>,
    submitted: u64,
    returned: u64,
    feeders: Vec<JoinHandle<()>>,
}

impl GpuEvaluator {
    /// Uploads `network` to the devices, compiles the kernels and, if needed, measures the best batch
    /// size.
    ///
    /// # Errors
    /// A device is missing or cannot run the network.
    pub fn new(network: Arc<Network>, options: &GpuOptions) -> Result<Self, EvalError> {
        let names: Vec<String> = options.devices.iter().map(ToString::to_string).collect();
        let (jobs, work) = unbounded();
        let (answers, results) = unbounded();
        let mut evaluator = Self {
            network,
            description: String::new(),
            preferred: 0,
            jobs: Some(jobs),
            results,
            early: BTreeMap::new(),
            submitted: 0,
            returned: 0,
            feeders: Vec::new(),
        };
        let mut parts = Vec::with_capacity(names.len());
        for (&device, name) in options.devices.iter().zip(&names) {
            let (runner, model) = Runner::open(&evaluator.network, device, options.precision)?;
            parts.push(format!("{name} ({model}) in {}", runner.precision));
            evaluator.preferred += runner.preferred(&model, options.preferred_batch)?;
            for feeder in 0..FEEDERS {
                let (runner, work, answers) = (runner.clone(), work.clone(), answers.clone());
                let start = thread::Builder::new().name(format!("{name} feeder {feeder}"));
                let feeder =
                    start.spawn(move || feed(&runner, &work, &answers)).map_err(|error| {
                        EvalError::Device(format!("cannot start a thread: {error}"))
                    })?;
                evaluator.feeders.push(feeder);
            }
        }
        if parts.is_empty() {
            return Err(EvalError::Device("no device was asked for".to_owned()));
        }
        evaluator.description =
            format!("network {}, {}", evaluator.network.name, parts.join(" and "));
        Ok(evaluator)
    }
}

fn feed(
    runner: &Runner,
    work: &Receiver<(u64, Batch)>,
    answers: &Sender<(u64, Result<Answered, EvalError>)>,
) {
    while let Ok((number, batch)) = work.recv() {
        let answer = caught(|| runner.scores(&batch)).and_then(|scores| scores);
        let answer = answer.map(|scores| Answered { batch, scores });
        if answers.send((number, answer)).is_err() {
            return;
        }
    }
}

impl Drop for GpuEvaluator {
    fn drop(&mut self) {
        self.jobs = None;
        for feeder in self.feeders.drain(..) {
            if feeder.join().is_err() {
                tracing::debug!("a thread that fed a device had panicked");
            }
        }
    }
}

impl Evaluator for GpuEvaluator {
    fn submit(&mut self, batch: Batch) -> Result<(), EvalError> {
        check_heads(&self.network, &batch)?;
        let gone = || EvalError::Device("the device's threads have ended".to_owned());
        self.jobs.as_ref().ok_or_else(gone)?.send((self.submitted, batch)).map_err(|_| gone())?;
        self.submitted += 1;
        Ok(())
    }

    fn wait(&mut self) -> Result<Answered, EvalError> {
        if self.in_flight() == 0 {
            return Err(EvalError::NothingInFlight);
        }
        let wanted = self.returned;
        self.returned += 1;
        loop {
            if let Some(answer) = self.early.remove(&wanted) {
                return answer;
            }
            let (number, answer) = self
                .results
                .recv()
                .map_err(|_| EvalError::Device("the device's threads have ended".to_owned()))?;
            self.early.insert(number, answer);
        }
    }

    fn in_flight(&self) -> usize {
        (self.submitted - self.returned) as usize
    }

    fn preferred_batch(&self) -> usize {
        self.preferred
    }

    fn largest_batch(&self) -> usize {
        // A device evaluates at most `LARGEST` queries at once, so larger batches bring no speed.
        8 * LARGEST
    }

    fn preferred_stream(&self) -> Stream {
        Stream { batch: self.preferred, in_flight: self.feeders.len(), moves_are_dear: false }
    }

    fn describe(&self) -> String {
        self.description.clone()
    }
}

#[cfg(test)]
mod tests;
