//! Evaluation on the CPU. Kernels for several instruction sets are in the program; the evaluator
//! chooses among them at run time.

pub mod activation;
pub mod amx;
mod attention;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx2_int8;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod avx512_bf16;
mod compile;
mod elementwise;
mod input;
mod kernels;
mod layout;
pub mod measure;
mod memory;
mod moments;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(target_arch = "aarch64")]
mod neon_int8;
mod norm;
mod path;
#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64")))]
mod plain_integers;
mod plan;
mod planes;
mod portable;
mod ranges;
mod recent_boards;
mod rounding;
mod row;
mod runner;
mod squeeze;
#[cfg(target_arch = "x86_64")]
mod tiled_attention;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod vector_activation;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod vector_input;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod vectors;
#[cfg(target_arch = "x86_64")]
mod vnni;
mod whole_board;
mod workers;
#[cfg(target_arch = "x86_64")]
mod x86_vectors;

use std::{collections::VecDeque, sync::Arc};

use board::Color;
use kernels::Kernels;
use memory::Bf16;
use nets::{HeadKind, Layer, Network, Squares};
pub use path::{Choice, CpuPath, PATH_VARIABLE, choose, features, is_permitted};
use plan::Plan;
use portable::Portable;
use runner::{PlanRunner, Run};
use workers::Workers;

use crate::{Answered, Batch, EvalError, Evaluator, Precision, Query, Stream};

/// How a [`CpuEvaluator`] runs.
#[derive(Clone, Copy, Debug)]
pub struct CpuOptions {
    /// Threads, including the one that calls `wait`.
    pub threads: usize,
    /// The path; `None` means the one in [`PATH_VARIABLE`] or else the fastest.
    pub path: Option<CpuPath>,
    /// The number format; `None` means the fastest of the path, but int8 only for a network whose
    /// file holds the ranges of its activations.
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
/// The scores of a position depend on the network, the path and the precision, but not on the batch
/// and not on the number of threads.
#[derive(Debug)]
pub struct CpuEvaluator {
    network: Arc<Network>,
    choice: Choice,
    threads: usize,
    backend: Backend,
}

/// The most queries of a batch.
const LARGEST_BATCH: usize = 16_384;

/// The most threads.
const MOST_THREADS: usize = 1024;

enum Backend {
    /// The thread that calls `wait` evaluates.
    Inline {
        runner: Box<dyn Run>,
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
    /// The network cannot be run, the machine cannot run the path, or a thread cannot be started.
    pub fn new(network: Arc<Network>, options: CpuOptions) -> Result<Self, EvalError> {
        let choice = choose(options.path, options.precision, network.int8_ranges.is_some())?;
        let threads = options.threads.clamp(1, MOST_THREADS);
        let mut runners = runners_of(&network, &choice, threads)?;
        tracing::debug!(path = %choice.path, precision = %choice.precision, threads, "CPU evaluator ready");
        let backend = match runners.pop() {
            Some(runner) if runners.is_empty() => {
                Backend::Inline { runner, waiting: VecDeque::new() }
            }
            Some(own) => Backend::Threads(Workers::start(own, runners)?),
            None => return Err(EvalError::Device("no worker".to_owned())),
        };
        Ok(Self { network, choice, threads, backend })
    }

    /// The path and precision in use, with the reason.
    #[must_use]
    pub fn choice(&self) -> &Choice {
        &self.choice
    }

    /// Multiply-adds of one position through the trunk and this head, as if every layer were dense;
    /// 0 if the network does not have the head.
    #[must_use]
    pub fn macs(&self, kind: HeadKind) -> u64 {
        self.network.description.multiply_adds_of(kind).unwrap_or(0)
    }
}

/// Raw outputs of a network's heads, before calibration, on the calling thread.
pub struct CpuLogits {
    network: Arc<Network>,
    runner: Box<dyn Run>,
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
        let mut runners = runners_of(&network, &choice, 1)?;
        let runner = runners.pop().ok_or_else(|| EvalError::Device("no worker".to_owned()))?;
        Ok(Self { network, runner })
    }

    /// All outputs of a head, [`HeadKind::outputs`] for each board in turn. A board is given from the
    /// side to move, with the side to move.
    ///
    /// # Errors
    /// The network has no such head, a square has an unknown class, or the device failed.
    pub fn logits(
        &mut self,
        boards: &[(Squares, Color)],
        kind: HeadKind,
    ) -> Result<Vec<f32>, EvalError> {
        let mut batch = Batch::default();
        for &(squares, turn) in boards {
            batch.push_query(&Query::of_board(0, squares, turn, true), &[], &[]);
        }
        self.logits_of(&batch, kind)
    }

    /// As [`CpuLogits::logits`], for the queries of a batch and what they say of the way to a board,
    /// whatever they ask. The outputs of a head may have [another form](nets::Head::outputs).
    ///
    /// # Errors
    /// As there.
    pub fn logits_of(&mut self, batch: &Batch, kind: HeadKind) -> Result<Vec<f32>, EvalError> {
        if self.network.description.head(kind).is_none() {
            return Err(EvalError::NoHead {
                network: self.network.name.clone(),
                head: kind.name(),
            });
        }
        batch.check()?;
        self.runner.logits(batch, kind)
    }
}

/// The int8 ranges of the network: from its file, or else observed on sample positions now.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn ranges_of<K: Kernels>(network: &Network) -> Result<Vec<f32>, EvalError> {
    network.int8_ranges.clone().map_or_else(|| ranges::observe::<K>(network), Ok)
}

/// The largest output of each layer over sample positions, in the order of
/// [`Network::int8_ranges`].
///
/// # Errors
/// No path of this machine computes in int8.
pub fn observe_ranges(network: &Network) -> Result<Vec<f32>, EvalError> {
    match CpuPath::least_exact_in_int8() {
        #[cfg(target_arch = "x86_64")]
        Some(CpuPath::Avx2) => return ranges::observe::<avx2::Avx2>(network),
        #[cfg(target_arch = "aarch64")]
        Some(CpuPath::Neon) => return ranges::observe::<neon::Neon>(network),
        _ => {}
    }
    let reason = "no path of this processor computes in int8".to_owned();
    Err(EvalError::Unsupported { network: network.name.clone(), reason })
}

/// One runner for each thread, for the chosen path.
fn runners_of(
    network: &Network,
    choice: &Choice,
    threads: usize,
) -> Result<Vec<Box<dyn Run>>, EvalError> {
    match (choice.path, choice.precision) {
        #[cfg(target_arch = "x86_64")]
        (CpuPath::Avx2, Precision::Int8) => {
            let ranges = ranges_of::<avx2::Avx2>(network)?;
            runners::<avx2_int8::Avx2Int8>(network, threads, &ranges)
        }
        #[cfg(target_arch = "x86_64")]
        (CpuPath::Avx512, Precision::Int8) => {
            let ranges = ranges_of::<avx512::Avx512>(network)?;
            runners::<vnni::Avx512Int8>(network, threads, &ranges)
        }
        #[cfg(target_arch = "x86_64")]
        (CpuPath::Amx, _) => runners::<avx512_bf16::Tiled>(network, threads, &[]),
        #[cfg(target_arch = "x86_64")]
        (CpuPath::Avx512, Precision::Bf16) => {
            runners::<avx512_bf16::Avx512Bf16>(network, threads, &[])
        }
        #[cfg(target_arch = "x86_64")]
        (CpuPath::Avx512, Precision::F32) => runners::<avx512::Avx512>(network, threads, &[]),
        #[cfg(target_arch = "x86_64")]
        (CpuPath::Avx2, _) => runners::<avx2::Avx2>(network, threads, &[]),
        #[cfg(target_arch = "aarch64")]
        (CpuPath::Neon, Precision::Int8) => {
            let ranges = ranges_of::<neon::Neon>(network)?;
            runners::<neon_int8::NeonInt8>(network, threads, &ranges)
        }
        #[cfg(target_arch = "aarch64")]
        (CpuPath::Neon, _) => runners::<neon::Neon>(network, threads, &[]),
        (CpuPath::Portable, Precision::Bf16) => runners::<Portable<Bf16>>(network, threads, &[]),
        _ => runners::<Portable>(network, threads, &[]),
    }
}

fn runners<K: Kernels + 'static>(
    network: &Network,
    threads: usize,
    ranges: &[f32],
) -> Result<Vec<Box<dyn Run>>, EvalError>
where
    PlanRunner<K>: Run,
{
    let plan = Arc::new(Plan::compile(network, ranges)?);
    let calibration = Arc::new(network.calibration.clone());
    let runner = |_| -> Box<dyn Run> {
        Box::new(PlanRunner::<K>::new(Arc::clone(&plan), Arc::clone(&calibration)))
    };
    Ok((0..threads).map(runner).collect())
}

/// Checks that `network` has the heads that `batch` needs, and that squares and moves are in range.
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
            Backend::Inline { runner, waiting } => {
                let batch = waiting.pop_front().ok_or(EvalError::NothingInFlight)?;
                let part = runner.run(&batch, 0..batch.len())?;
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

    /// Batches of one position: one for each worker thread, one more that the next free worker takes
    /// at once, and one that the waiting thread may evaluate itself.
    fn preferred_stream(&self) -> Stream {
        let trunk = &self.network.description.trunk;
        Stream {
            batch: 1,
            in_flight: if self.threads == 1 { 1 } else { self.threads + 1 },
            // Without a trunk the heads share nothing, and a trunk that is one sum of table rows
            // costs no more than a move head.
            moves_are_dear: trunk.is_empty()
                || trunk.len() == 2 && Layer::whole_board(trunk).is_some(),
        }
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

    fn apart(&self) -> Vec<Box<dyn Evaluator>> {
        if self.threads == 1 {
            return Vec::new();
        }
        let alone = |runner| -> Box<dyn Evaluator> {
            let backend = Backend::Inline { runner, waiting: VecDeque::new() };
            let (network, choice) = (Arc::clone(&self.network), self.choice.clone());
            Box::new(Self { network, choice, threads: 1, backend })
        };
        match runners_of(&self.network, &self.choice, self.threads) {
            Ok(runners) => runners.into_iter().map(alone).collect(),
            Err(error) => {
                tracing::warn!(%error, "the search works on one thread");
                Vec::new()
            }
        }
    }
}
