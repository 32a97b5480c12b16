//! Chooses the training backend: this crate's own on the CPU, or Burn if the build contains it.

use eval::Devices;
use nets::Network;

use crate::{
    Backend, BackendKind, Objective, OptimizerSettings, TrainError, TrainingSection,
    native::NativeBackend,
};

/// Makes the backend that a configuration asks for.
///
/// # Errors
/// The backend is not in this build, or it cannot run this network.
pub fn make_backend(
    training: &TrainingSection,
    network: &Network,
    objectives: &[Objective],
    settings: &OptimizerSettings,
    threads: usize,
) -> Result<Box<dyn Backend>, TrainError> {
    match training.backend {
        BackendKind::Cpu => Ok(Box::new(NativeBackend::new(
            network.clone(),
            objectives,
            settings.clone(),
            threads,
        )?)),
        BackendKind::Burn => {
            let devices = training.device.parse().map_err(TrainError::Config)?;
            burn(&devices, training.mixed_precision, network, objectives, settings)
        }
    }
}

/// The backend in Burn, on these devices; with `mixed`, convolutions are done in half precision.
///
/// # Errors
/// The backend or the device is not in this build, or it cannot run this network.
#[cfg(feature = "burn-backend")]
pub fn burn(
    devices: &Devices,
    mixed: bool,
    network: &Network,
    objectives: &[Objective],
    settings: &OptimizerSettings,
) -> Result<Box<dyn Backend>, TrainError> {
    let devices = crate::BurnDevices::open(devices, mixed)?;
    Ok(Box::new(crate::BurnBackend::new(network.clone(), objectives, settings.clone(), devices)?))
}

/// The backend in Burn, on these devices; with `mixed`, convolutions are done in half precision.
///
/// # Errors
/// It is not in this build.
#[cfg(not(feature = "burn-backend"))]
pub fn burn(
    _: &Devices,
    _: bool,
    _: &Network,
    _: &[Objective],
    _: &OptimizerSettings,
) -> Result<Box<dyn Backend>, TrainError> {
    Err(TrainError::Config(
        "the backend `burn` is not in this build; build with --features burn (or cuda, wgpu), or set training.backend=cpu"
            .to_owned(),
    ))
}
