//! Evaluation on GPUs of any vendor, by kernels that [Burn](https://burn.dev) compiles at run time.
//!
//! Boards are uploaded packed and moves as indices; only the requested outputs are downloaded.
//! Batches are padded to a few fixed sizes, because kernels are compiled and tuned for each size;
//! both are cached on disk. Two threads feed each device: while one waits for results, the other
//! prepares the next batch, so that the device rarely waits.

mod attackers;
mod devices;
mod input_layer;
mod neighbours;
mod network;
mod packed;
mod tuned;

use std::{
    collections::BTreeMap,
    sync::Arc,
    thread::{self, JoinHandle},
};

use burn::tensor::{DType, Device, Int, Tensor as Array, TensorData};
use crossbeam_channel::{Receiver, Sender, unbounded};
use devices::caught;
pub use devices::{Listed, first_card, lacks, list, open};
use nets::{HeadKind, Network};
use network::DeviceNetwork;

use crate::{
    Answered, Batch, DeviceName, EvalError, Evaluator, Precision, Query, Scores, Stream,
    cpu::check_heads,
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

/// The smallest batch size. Batches are padded to this size times a power of two.
const SMALLEST: usize = 128;

/// The largest batch size of a device whose buffers can hold the activations. Larger batches are
/// split.
const LARGEST: usize = 8192;

/// The largest buffer of activations, in bytes, that a device supports for certain. Software
/// implementations of a GPU (`is_card` is false) refuse pages of 256 MiB, and a page holds several
/// buffers.
fn buffer_bytes(name: DeviceName, is_card: bool) -> usize {
    match name {
        _ if !is_card => 16 << 20,
        DeviceName::Cuda(_) => 1 << 30,
        _ => 256 << 20,
    }
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

fn dtype(precision: Precision) -> Result<DType, EvalError> {
    match precision {
        Precision::F16 => Ok(DType::F16),
        Precision::Bf16 => Ok(DType::BF16),
        Precision::F32 => Ok(DType::F32),
        Precision::Int8 => Err(EvalError::Device(
            "GPUs compute in f16, bf16 or f32, not in int8: choose one of those or `--device cpu`"
                .to_owned(),
        )),
    }
}

/// The fastest number format of the device whose scores are practically those of `f32`.
fn best_precision(device: &Device) -> Precision {
    let usable = [(Precision::F16, DType::F16), (Precision::Bf16, DType::BF16)]
        .into_iter()
        .find(|&(_, dtype)| device.supports_dtype(dtype));
    usable.map_or(Precision::F32, |(precision, _)| precision)
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
        Stream { batch: self.preferred, in_flight: self.feeders.len() }
    }

    fn describe(&self) -> String {
        self.description.clone()
    }
}

/// A network on one device.
#[derive(Clone, Debug)]
struct Runner {
    network: Arc<Network>,
    device: Device,
    precision: Precision,
    layers: DeviceNetwork,
    /// The largest batch size, a power of two.
    largest: usize,
}

impl Runner {
    /// Uploads a network. Also returns the model name of the device.
    fn open(
        network: &Arc<Network>,
        name: DeviceName,
        precision: Option<Precision>,
    ) -> Result<(Self, String), EvalError> {
        let device = devices::open(name)?;
        let precision = caught(|| precision.unwrap_or_else(|| best_precision(&device)))?;
        let identity = caught(|| device.identity())?;
        let is_card = identity.as_ref().is_some_and(|identity| identity.physical.is_some());
        let model = identity.map_or_else(|| name.to_string(), |identity| identity.name);
        let dtype = dtype(precision)?;
        if !caught(|| device.supports_dtype(dtype))? {
            return Err(EvalError::Device(format!(
                "{name} ({model}) does not compute in {precision}"
            )));
        }
        let layers = caught(|| DeviceNetwork::new(network, &device, dtype))??;
        let most = (buffer_bytes(name, is_card) / layers.widest.max(1)).clamp(SMALLEST, LARGEST);
        let largest = 1 << most.ilog2();
        Ok((Self { network: Arc::clone(network), device, precision, layers, largest }, model))
    }

    /// The preferred batch size of the device, at most `LARGEST`. A batch is run in any case, so that
    /// errors of the device or its compiler appear now and not during a game.
    fn preferred(&self, model: &str, given: Option<usize>) -> Result<usize, EvalError> {
        let key = format!("{model}, {}, {}", self.precision, self.network.fingerprint());
        let known = given.or_else(|| tuned::known_batch(&key, self.largest));
        let preferred = match known {
            Some(size) => {
                self.rate(SMALLEST)?;
                size
            }
            None => tuned::preferred_batch(&key, self.largest, |size| self.rate(size))?,
        };
        Ok(preferred.clamp(1, LARGEST))
    }

    /// Calibrated scores of a checked batch.
    fn scores(&self, batch: &Batch) -> Result<Scores, EvalError> {
        let mut scores =
            Scores { values: vec![0.0; batch.len()], moves: vec![0.0; batch.moves.len()] };
        let asks = |query: &Query, kind| match kind {
            HeadKind::Value => query.value,
            _ => query.move_count > 0,
        };
        // Heads over a common trunk run together. Without a trunk each head runs on the queries that
        // need it.
        let parts: &[&[HeadKind]] = if self.layers.has_trunk() {
            &[&[HeadKind::Value, HeadKind::Moves]]
        } else {
            &[&[HeadKind::Value], &[HeadKind::Moves]]
        };
        for kinds in parts {
            let asked: Vec<usize> = (0..batch.len())
                .filter(|&at| kinds.iter().any(|&kind| asks(&batch.queries[at], kind)))
                .collect();
            let kinds: Vec<HeadKind> = kinds
                .iter()
                .copied()
                .filter(|&kind| asked.iter().any(|&at| asks(&batch.queries[at], kind)))
                .collect();
            for asked in asked.chunks(self.largest) {
                self.part(batch, asked, &kinds, &mut scores)?;
            }
        }
        Ok(scores)
    }

    /// Runs `heads` on the queries `asked` (indices in the batch) and stores their scores.
    fn part(
        &self,
        batch: &Batch,
        asked: &[usize],
        heads: &[HeadKind],
        scores: &mut Scores,
    ) -> Result<(), EvalError> {
        let encoding = self.network.description.encoding;
        let size = padded(asked.len());
        let mut boards = Vec::with_capacity(size * packed::BYTES);
        let mut places = Vec::new();
        for (row, &at) in asked.iter().enumerate() {
            let query = &batch.queries[at];
            packed::pack(encoding, &query.squares, query.turn, &mut boards)?;
            let first = (row * HeadKind::Moves.outputs()) as i32;
            places.extend(batch.moves[query.move_range()].iter().map(|&mv| first + i32::from(mv)));
        }
        boards.resize(size * packed::BYTES, 0);
        let outputs = self.layers.run(self.upload(&boards), size, heads)?;
        let mut read = Vec::with_capacity(2);
        for (kind, output) in heads.iter().zip(outputs) {
            read.push(match kind {
                HeadKind::Moves => {
                    // The number of moves is padded too, so that few sizes occur.
                    let count = places.len().next_power_of_two().max(8 * size);
                    places.resize(count, 0);
                    let places = TensorData::new(std::mem::take(&mut places), [count]);
                    output.gather(0, Array::<1, Int>::from_data(places, (&self.device, DType::I32)))
                }
                _ => output,
            });
        }
        let logits = Array::cat(read, 0)
            .try_into_vec_as::<f32>()
            .map_err(|error| EvalError::Device(cause(&error.to_string())))?;
        let calibration = &self.network.calibration;
        let mut rest = logits.as_slice();
        for kind in heads {
            if *kind == HeadKind::Value {
                let (values, others) = rest.split_at(size);
                for (&at, &logit) in
                    asked.iter().zip(values).filter(|(at, _)| batch.queries[**at].value)
                {
                    let value = calibration.value.apply(logit);
                    let turned = encoding.is_whites_view() && batch.queries[at].turn.is_black();
                    scores.values[at] = if turned { -value } else { value };
                }
                rest = others;
            } else {
                let ranges = asked.iter().map(|&at| batch.queries[at].move_range());
                for (place, &logit) in ranges.flatten().zip(rest) {
                    scores.moves[place] = calibration.moves.apply(logit);
                }
            }
        }
        Ok(())
    }

    /// Uploads packed boards as 32-bit numbers.
    fn upload(&self, boards: &[u8]) -> Array<1, Int> {
        let numbers: Vec<u32> = boards
            .chunks_exact(4)
            .map(|bytes| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
            .collect();
        let count = numbers.len();
        Array::from_data(TensorData::new(numbers, [count]), (&self.device, DType::U32))
    }

    /// Evaluations a second of all heads in batches of `size`, measured over about 0.2 s after the
    /// kernels are compiled.
    fn rate(&self, size: usize) -> Result<f64, EvalError> {
        let position = board::Position::default();
        let has = |kind| self.network.description.head(kind).is_some();
        let moves = position.legal_moves();
        let mut batch = Batch::default();
        for _ in 0..size {
            batch.push(
                &position,
                has(HeadKind::Value),
                if has(HeadKind::Moves) { moves.as_slice() } else { &[] },
            );
        }
        caught(|| self.scores(&batch))??;
        let start = std::time::Instant::now();
        let mut done = 0;
        while done == 0 || start.elapsed().as_secs_f64() < 0.2 {
            caught(|| self.scores(&batch))??;
            done += size;
        }
        Ok(done as f64 / start.elapsed().as_secs_f64())
    }
}

/// The root cause of an error message, which is the last of its causes.
fn cause(text: &str) -> String {
    let last = text.rsplit("Caused by:").next().unwrap_or(text);
    last.split("No backtrace").next().unwrap_or(last).trim().to_owned()
}

/// The padded batch size of `count` positions.
fn padded(count: usize) -> usize {
    count.next_power_of_two().max(SMALLEST)
}

#[cfg(test)]
mod tests;
