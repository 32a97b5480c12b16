//! Kernels that evaluate our networks on a CPU, chosen at run time for the instructions that the
//! machine has.

pub mod activation;
pub mod amx;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx2_int8;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod compile;
mod elementwise;
mod engine;
mod input;
mod kernels;
mod layout;
pub mod measure;
mod memory;
mod moments;
mod path;
#[cfg(all(test, target_arch = "x86_64"))]
mod plain_integers;
mod plan;
mod quantise;
mod rounding;
#[cfg(target_arch = "x86_64")]
mod vnni;
mod workers;

use std::{collections::VecDeque, sync::Arc};

use board::Color;
use engine::{Engine, Run};
use kernels::{Kernels, Portable};
use memory::Bf16;
use nets::{HeadKind, Network, PLANES, Squares};
pub use path::{Choice, CpuPath, PATH_VARIABLE, choose, features, is_permitted};
use plan::Plan;
use workers::Workers;

use crate::{Answered, Batch, EvalError, Evaluator, Precision, Stream};

/// How a [`CpuEvaluator`] runs.
#[derive(Clone, Copy, Debug)]
pub struct CpuOptions {
    /// Threads, the one that calls `wait` included; with one, batches are evaluated there alone.
    pub threads: usize,
    /// Forces a path; otherwise the environment variable or the fastest.
    pub path: Option<CpuPath>,
    /// Forces a precision; otherwise the fastest of the path, eight-bit integers only where the
    /// network's file has their ranges.
    pub precision: Option<Precision>,
}

impl Default for CpuOptions {
    /// One thread, everything else automatic.
    fn default() -> Self {
        Self { threads: 1, path: None, precision: None }
    }
}

/// Scores positions on the CPU.
///
/// A position's scores depend on the network, the path and the precision only: neither on the batch
/// nor on the number of threads.
#[derive(Debug)]
pub struct CpuEvaluator {
    network: Arc<Network>,
    choice: Choice,
    threads: usize,
    backend: Backend,
}

/// Most queries in a batch.
const LARGEST_BATCH: usize = 16_384;

/// Most threads.
const MOST_THREADS: usize = 1024;

enum Backend {
    /// Evaluated by the waiting thread.
    Inline {
        engine: Box<dyn Run>,
        waiting: VecDeque<Batch>,
    },
    Threads(Workers),
}

impl std::fmt::Debug for Backend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Inline { .. } => "Inline",
            Self::Threads(_) => "Threads",
        })
    }
}

impl CpuEvaluator {
    /// Compiles `network` for the path that `options` and the machine allow, and starts the
    /// workers.
    ///
    /// # Errors
    /// The network cannot be run, the given path cannot run here, or a thread cannot be started.
    pub fn new(network: Arc<Network>, options: CpuOptions) -> Result<Self, EvalError> {
        let choice = choose(options.path, options.precision, network.int8_ranges.is_some())?;
        let threads = options.threads.clamp(1, MOST_THREADS);
        let mut engines = engines_of(&network, &choice, threads)?;
        tracing::debug!(path = %choice.path, precision = %choice.precision, threads, "CPU evaluator ready");
        let backend = match engines.pop() {
            Some(engine) if engines.is_empty() => {
                Backend::Inline { engine, waiting: VecDeque::new() }
            }
            Some(own) => Backend::Threads(Workers::start(own, engines)?),
            None => return Err(EvalError::Device("no worker".to_owned())),
        };
        Ok(Self { network, choice, threads, backend })
    }

    /// Which path runs, in which precision, and why.
    #[must_use]
    pub fn choice(&self) -> &Choice {
        &self.choice
    }

    /// Multiply-adds of one position through the trunk and this head, counted densely; 0 without
    /// the head.
    #[must_use]
    pub fn macs(&self, kind: HeadKind) -> u64 {
        self.network.description.multiply_adds_of(kind).unwrap_or(0)
    }
}

/// Raw outputs of a network's heads, before calibration, on the calling thread.
pub struct CpuLogits {
    network: Arc<Network>,
    engine: Box<dyn Run>,
}

impl std::fmt::Debug for CpuLogits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CpuLogits").field("network", &self.network.name).finish_non_exhaustive()
    }
}

impl CpuLogits {
    /// Compiles `network` for the path that `options` and the machine allow.
    ///
    /// # Errors
    /// As [`CpuEvaluator::new`].
    pub fn new(network: Arc<Network>, options: CpuOptions) -> Result<Self, EvalError> {
        let choice = choose(options.path, options.precision, network.int8_ranges.is_some())?;
        let mut engines = engines_of(&network, &choice, 1)?;
        let engine = engines.pop().ok_or_else(|| EvalError::Device("no worker".to_owned()))?;
        Ok(Self { network, engine })
    }

    /// Every output of a head, board after board ([`HeadKind::outputs`] each). Boards are given
    /// from their mover's side, with the mover.
    ///
    /// # Errors
    /// The network has no such head, a square has an unknown class, or the device failed.
    pub fn logits(
        &mut self,
        boards: &[(Squares, Color)],
        kind: HeadKind,
    ) -> Result<Vec<f32>, EvalError> {
        if self.network.description.head(kind).is_none() {
            return Err(EvalError::NoHead {
                network: self.network.name.clone(),
                head: kind.name(),
            });
        }
        if boards
            .iter()
            .any(|(squares, _)| squares.0.iter().any(|&class| usize::from(class) > PLANES))
        {
            return Err(EvalError::Device("a square has an unknown class".to_owned()));
        }
        self.engine.logits(boards, kind)
    }
}

/// The int8 ranges of the network: those of its file, or those observed over sample games now.
#[cfg(target_arch = "x86_64")]
fn ranges_of<K: Kernels>(network: &Network) -> Result<Vec<f32>, EvalError> {
    network.int8_ranges.clone().map_or_else(|| quantise::ranges::<K>(network), Ok)
}

/// The largest output of each layer of the network over the positions of some games, as
/// [`Network::int8_ranges`] holds them.
///
/// # Errors
/// No path of this machine computes in eight-bit integers.
pub fn observe_ranges(network: &Network) -> Result<Vec<f32>, EvalError> {
    #[cfg(target_arch = "x86_64")]
    if CpuPath::Avx2.obstacle(Precision::Int8).is_none() {
        return quantise::ranges::<avx2::Avx2>(network);
    }
    let reason = "no path of this processor computes in int8".to_owned();
    Err(EvalError::Unsupported { network: network.name.clone(), reason })
}

/// Engines for the chosen path, one a thread.
fn engines_of(
    network: &Network,
    choice: &Choice,
    threads: usize,
) -> Result<Vec<Box<dyn Run>>, EvalError> {
    match (choice.path, choice.precision) {
        #[cfg(target_arch = "x86_64")]
        (CpuPath::Avx2, Precision::Int8) => {
            let ranges = ranges_of::<avx2::Avx2>(network)?;
            engines::<avx2_int8::Avx2Int8>(network, threads, &ranges)
        }
        #[cfg(target_arch = "x86_64")]
        (CpuPath::Avx512, Precision::Int8) => {
            let ranges = ranges_of::<avx512::Avx512>(network)?;
            engines::<vnni::Avx512Int8>(network, threads, &ranges)
        }
        #[cfg(target_arch = "x86_64")]
        (CpuPath::Amx, _) => engines::<avx512::Tiled>(network, threads, &[]),
        #[cfg(target_arch = "x86_64")]
        (CpuPath::Avx512, Precision::Bf16) => engines::<avx512::Avx512Bf16>(network, threads, &[]),
        #[cfg(target_arch = "x86_64")]
        (CpuPath::Avx512, Precision::F32) => engines::<avx512::Avx512>(network, threads, &[]),
        #[cfg(target_arch = "x86_64")]
        (CpuPath::Avx2, _) => engines::<avx2::Avx2>(network, threads, &[]),
        (CpuPath::Portable, Precision::Bf16) => engines::<Portable<Bf16>>(network, threads, &[]),
        _ => engines::<Portable>(network, threads, &[]),
    }
}

fn engines<K: Kernels + 'static>(
    network: &Network,
    threads: usize,
    ranges: &[f32],
) -> Result<Vec<Box<dyn Run>>, EvalError>
where
    Engine<K>: Run,
{
    let plan = Arc::new(Plan::compile(network, ranges)?);
    let calibration = Arc::new(network.calibration.clone());
    let engine = |_| -> Box<dyn Run> {
        Box::new(Engine::<K>::new(Arc::clone(&plan), Arc::clone(&calibration)))
    };
    Ok((0..threads).map(engine).collect())
}

/// Checks that `network` has the heads that `batch` asks for, and that squares and moves are in
/// their ranges.
pub(crate) fn check_heads(network: &Network, batch: &Batch) -> Result<(), EvalError> {
    let has = |kind| network.description.head(kind).is_some();
    let (has_value, has_moves) = (has(HeadKind::Value), has(HeadKind::Moves));
    let lacks =
        |kind: HeadKind| EvalError::NoHead { network: network.name.clone(), head: kind.name() };
    for query in &batch.queries {
        if query.value && !has_value {
            return Err(lacks(HeadKind::Value));
        }
        if query.move_count > 0 && !has_moves {
            return Err(lacks(HeadKind::Moves));
        }
    }
    batch.check()
}

impl Evaluator for CpuEvaluator {
    fn submit(&mut self, batch: Batch) -> Result<(), EvalError> {
        check_heads(&self.network, &batch)?;
        match &mut self.backend {
            Backend::Inline { waiting, .. } => {
                waiting.push_back(batch);
                Ok(())
            }
            Backend::Threads(workers) => workers.submit(batch),
        }
    }

    fn wait(&mut self) -> Result<Answered, EvalError> {
        match &mut self.backend {
            Backend::Inline { engine, waiting } => {
                let batch = waiting.pop_front().ok_or(EvalError::NothingInFlight)?;
                let part = engine.run(&batch, 0..batch.len())?;
                let scores = crate::Scores { values: part.values, moves: part.moves };
                Ok(Answered { batch, scores })
            }
            Backend::Threads(workers) => workers.wait(),
        }
    }

    fn in_flight(&self) -> usize {
        match &self.backend {
            Backend::Inline { waiting, .. } => waiting.len(),
            Backend::Threads(workers) => workers.in_flight(),
        }
    }

    fn preferred_batch(&self) -> usize {
        self.threads
    }

    /// Positions one by one. Each further thread has one, another waits for the first of them to be
    /// free, and the thread that asks may take the last.
    fn preferred_stream(&self) -> Stream {
        Stream { batch: 1, in_flight: if self.threads == 1 { 1 } else { self.threads + 1 } }
    }

    fn largest_batch(&self) -> usize {
        LARGEST_BATCH
    }

    fn describe(&self) -> String {
        format!(
            "network {}, CPU path {} in {}, {} thread{}",
            self.network.name,
            self.choice.path,
            self.choice.precision,
            self.threads,
            if self.threads == 1 { "" } else { "s" }
        )
    }
}
