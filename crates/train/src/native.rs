//! The training backend on the CPU with our own matrix products: in bf16 on AMX tiles where the CPU
//! has them, otherwise in single precision.
//!
//! Weights, statistics, sums and the optimizer are in single or double precision; saved outputs,
//! activations and the operands of the products are in bf16. The batch is cut into a fixed number
//! of slices that are summed in order, so the same seed and data give the same bits for any number
//! of threads.

mod activation;
mod batch_slice;
mod builder;
mod convolution;
mod graph;
mod input;
mod loss;
mod matmul;
mod native_trainer;
mod output_layer;
mod parameters;
mod passes;
mod pooling;
mod totals;
mod whole_board;

use eval::cpu::{CpuPath, amx, is_permitted};
use nets::{HeadKind, Network};

use crate::{
    Backend, Examples, Objective, OptimizerSettings, OptimizerState, StepResult, TrainError,
};
use matmul::Bf16;
use native_trainer::NativeTrainer;

/// The number format of the products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// bf16 operands, single-precision sums.
    Bf16,
    /// Single precision throughout.
    Single,
}

impl Precision {
    /// bf16 on a CPU with a tile unit, otherwise single precision.
    #[must_use]
    pub fn best() -> Self {
        if has_tiles() { Self::Bf16 } else { Self::Single }
    }
}

/// True when the CPU has a tile unit and its use is permitted.
fn has_tiles() -> bool {
    amx::status().is_ready() && is_permitted(CpuPath::Amx)
}

/// Trains heads of a network (with the trunk before them) on the CPU.
#[derive(Debug)]
pub struct NativeBackend {
    /// Holds name, description, calibration and origin, and the tensors of heads that are not
    /// trained.
    network: Network,
    trainer: TrainerByPrecision,
}

#[derive(Debug)]
enum TrainerByPrecision {
    Bf16(NativeTrainer<Bf16>),
    Single(NativeTrainer<f32>),
}

macro_rules! with_trainer {
    ($value:expr, $trainer:ident => $body:expr) => {
        match $value {
            TrainerByPrecision::Bf16($trainer) => $body,
            TrainerByPrecision::Single($trainer) => $body,
        }
    };
}

#[cfg(test)]
mod tests;

impl NativeBackend {
    /// Prepares the training of heads of `network` with `threads` threads (0: one for each core).
    ///
    /// # Errors
    /// An objective is impossible, the network has no such head, or the head has a last layer that
    /// this backend does not support.
    pub fn new(
        network: Network,
        objectives: &[Objective],
        settings: OptimizerSettings,
        threads: usize,
    ) -> Result<Self, TrainError> {
        Self::with_precision(network, objectives, settings, threads, Precision::best())
    }

    /// As [`NativeBackend::new`], with a given number format.
    ///
    /// # Errors
    /// As [`NativeBackend::new`].
    pub fn with_precision(
        network: Network,
        objectives: &[Objective],
        settings: OptimizerSettings,
        threads: usize,
        precision: Precision,
    ) -> Result<Self, TrainError> {
        // Refuses a requested code path that cannot run, which the products would silently ignore.
        eval::cpu::choose(None, None, false)
            .map_err(|error| TrainError::Backend(error.to_string()))?;
        let threads = match threads {
            0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            threads => threads,
        };
        let trainer = match precision {
            Precision::Bf16 => TrainerByPrecision::Bf16(NativeTrainer::new(
                &network, objectives, settings, threads,
            )?),
            Precision::Single => TrainerByPrecision::Single(NativeTrainer::new(
                &network, objectives, settings, threads,
            )?),
        };
        Ok(Self { network, trainer })
    }
}

impl Backend for NativeBackend {
    fn step(&mut self, batch: &Examples, learning_rate: f32) -> Result<StepResult, TrainError> {
        let batch = batch.seen_by(self.network.description.encoding);
        with_trainer!(&mut self.trainer, trainer => trainer.step(&batch, learning_rate))
    }

    fn logits(&mut self, head: HeadKind, batch: &Examples) -> Result<Vec<f32>, TrainError> {
        let batch = batch.seen_by(self.network.description.encoding);
        with_trainer!(&mut self.trainer, trainer => trainer.logits(head, &batch))
    }

    fn network(&self) -> Result<Network, TrainError> {
        let mut network = self.network.clone();
        with_trainer!(&self.trainer, trainer => trainer.graph.write(&mut network));
        Ok(network)
    }

    fn optimizer(&self) -> Result<OptimizerState, TrainError> {
        Ok(
            with_trainer!(&self.trainer, trainer => trainer.optimizer.state(&trainer.graph.parameters)),
        )
    }

    fn restore(&mut self, network: &Network, optimizer: &OptimizerState) -> Result<(), TrainError> {
        if network.description != self.network.description {
            return Err(TrainError::Backend(
                "the saved network has another description".to_owned(),
            ));
        }
        with_trainer!(&mut self.trainer, trainer => trainer.restore(network, optimizer))?;
        self.network = network.clone();
        Ok(())
    }

    fn describe(&self) -> String {
        let (precision, threads) = match &self.trainer {
            TrainerByPrecision::Bf16(trainer) if has_tiles() => {
                ("bf16 on AMX tiles", trainer.threads())
            }
            TrainerByPrecision::Bf16(trainer) => ("bf16 without a tile unit", trainer.threads()),
            TrainerByPrecision::Single(trainer) => {
                (passes::width().single_precision(), trainer.threads())
            }
        };
        format!("native, {precision}, {threads} threads")
    }
}
