//! The choices of a user about an engine, the same for every front end.

use std::path::PathBuf;

use eval::{Devices, Precision, cpu::CpuOptions, cpu::CpuPath};
use nets::System;
use search::{Algorithm, Settings};

/// The choice of network, evaluator and search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineOptions {
    /// Network file, or the name of a network in the program; `None`: the network in the program
    /// that suits the system and the machine.
    pub network: Option<PathBuf>,
    /// The system that plays; `None`: the network's.
    pub system: Option<System>,
    /// Threads of the evaluator.
    pub threads: usize,
    /// `None`: the system's own search.
    pub algorithm: Option<Algorithm>,
    /// Where networks are evaluated.
    pub devices: Devices,
    /// Code path of the evaluator; `None`: the fastest here.
    pub path: Option<CpuPath>,
    /// Number format of the evaluator; `None`: the code path's own.
    pub precision: Option<Precision>,
    pub settings: Settings,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            network: None,
            system: None,
            threads: 1,
            algorithm: None,
            devices: Devices::default(),
            path: None,
            precision: None,
            settings: Settings::default(),
        }
    }
}

impl EngineOptions {
    /// The part that the CPU evaluator takes.
    pub(crate) fn cpu(&self) -> CpuOptions {
        CpuOptions { threads: self.threads, precision: self.precision, path: self.path }
    }
}
