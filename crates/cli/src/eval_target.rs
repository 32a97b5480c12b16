//! The target on which a network is evaluated, for commands that compare code paths and devices.

use std::sync::Arc;

use eval::{
    Devices, EvalError, Evaluator, Precision,
    cpu::{CpuEvaluator, CpuOptions, CpuPath},
};
use nets::Network;

/// A code path of the processor, or GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvalTarget {
    Path(CpuPath, Precision),
    /// GPUs with a number format; `None` is the format that they prefer.
    Gpus(Devices, Option<Precision>),
}

impl EvalTarget {
    pub fn is_int8(&self) -> bool {
        matches!(self, Self::Path(_, Precision::Int8))
    }

    /// An evaluator on this target; `threads` applies to the processor.
    ///
    /// # Errors
    /// The network or the target cannot be used.
    pub fn evaluator(
        &self,
        network: &Arc<Network>,
        threads: usize,
    ) -> Result<Box<dyn Evaluator>, EvalError> {
        match self {
            &Self::Path(path, precision) => {
                let options = CpuOptions { threads, path: Some(path), precision: Some(precision) };
                Ok(Box::new(CpuEvaluator::new(Arc::clone(network), options)?))
            }
            Self::Gpus(devices, precision) => devices
                .evaluator(network, CpuOptions { precision: *precision, ..CpuOptions::default() }),
        }
    }

    /// Names of the path or devices and of the number format.
    #[must_use]
    pub fn names(&self) -> (String, &'static str) {
        match self {
            Self::Path(path, precision) => (path.name().to_owned(), precision.name()),
            Self::Gpus(devices, precision) => {
                (devices.to_string(), precision.map_or("auto", Precision::name))
            }
        }
    }
}
