//! The devices on which Burn trains, and their number format.

use std::fmt;

use burn::tensor::{DType, Device};
use eval::{DeviceName, Devices};

use super::failed;
use crate::TrainError;

/// Devices that train together; the first one keeps the weights.
#[derive(Clone, Debug)]
pub struct BurnDevices {
    pub(super) all: Vec<Device>,
    names: String,
    /// Number format of the convolutions; everything else is in single precision.
    pub(super) products: DType,
}

impl BurnDevices {
    /// Opens the devices of `training.device`; the CPU is Burn's Flex. With `mixed`, convolutions
    /// are computed in bf16, or in fp16 where bf16 is missing.
    ///
    /// # Errors
    /// A device is missing or not supported by this build, or has no half precision.
    pub fn open(devices: &Devices, mixed: bool) -> Result<Self, TrainError> {
        let cards = devices.cards();
        let (all, names) = if cards.is_empty() {
            (vec![processor()?], "Flex".to_owned())
        } else {
            let open = cards.iter().map(|&card| open(card)).collect::<Result<_, _>>()?;
            let names: Vec<String> = cards.iter().map(ToString::to_string).collect();
            (open, names.join(" and "))
        };
        let mut products = DType::F32;
        if mixed {
            let has =
                |dtype: &DType| all.iter().all(|device: &Device| device.supports_dtype(*dtype));
            products = [DType::BF16, DType::F16].into_iter().find(has).ok_or_else(|| {
                failed(format!("{names} has no half precision; set training.mixed_precision=false"))
            })?;
        }
        Ok(Self { all, names, products })
    }

    /// The device that keeps the weights.
    pub(super) fn first(&self) -> &Device {
        &self.all[0]
    }
}

impl fmt::Display for BurnDevices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let format = match self.products {
            DType::F32 => "single precision",
            DType::BF16 => "bf16 convolutions",
            _ => "fp16 convolutions",
        };
        write!(f, "{}, {format}", self.names)
    }
}

#[cfg(feature = "burn")]
fn processor() -> Result<Device, TrainError> {
    Ok(Device::flex())
}

#[cfg(not(feature = "burn"))]
fn processor() -> Result<Device, TrainError> {
    Err(TrainError::Config(
        "Burn for the processor is not in this build; name a GPU with training.device, build with --features burn, or set \
         training.backend=cpu"
            .to_owned(),
    ))
}

#[cfg(any(feature = "cuda", feature = "wgpu"))]
fn open(card: DeviceName) -> Result<Device, TrainError> {
    eval::gpu::open(card).map_err(failed)
}

#[cfg(not(any(feature = "cuda", feature = "wgpu")))]
fn open(card: DeviceName) -> Result<Device, TrainError> {
    Err(failed(card.not_built_in()))
}
