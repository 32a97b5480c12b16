//! The devices that evaluate networks, by the names that users write.

use std::{fmt, str::FromStr, sync::Arc};

use nets::Network;

use crate::{
    EvalError, Evaluator, Precision,
    cpu::{CpuEvaluator, CpuOptions},
};

/// A device that evaluates networks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DeviceName {
    /// The first GPU that this build can use; the CPU if there is none.
    #[default]
    Auto,
    /// The CPU, by our own kernels.
    Cpu,
    /// An NVIDIA GPU, by its index.
    Cuda(usize),
    /// A device that wgpu reaches through Vulkan, Metal or DirectX 12, by its index in the list that
    /// `doctor` prints.
    Wgpu(usize),
}

impl DeviceName {
    /// The error of a program that was built without the device's feature.
    #[must_use]
    pub fn not_built_in(self) -> EvalError {
        let feature = if matches!(self, Self::Cuda(_)) { "cuda" } else { "wgpu" };
        EvalError::Device(format!(
            "this program was built without {self}; build it with `cargo build --release --features {feature}`"
        ))
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(index) => write!(f, "cuda:{index}"),
            Self::Wgpu(index) => write!(f, "vulkan:{index}"),
        }
    }
}

impl FromStr for DeviceName {
    type Err = String;

    /// `auto`, `cpu`, `cuda`, `cuda:1`, `vulkan:0`; `wgpu`, `metal` and `dx12` are other names of
    /// `vulkan`.
    fn from_str(text: &str) -> Result<Self, String> {
        let unknown =
            || format!("`{text}` is not a device; there are auto, cpu, cuda:N and vulkan:N");
        let lower = text.to_ascii_lowercase();
        let (kind, index) = match lower.split_once(':') {
            Some((kind, index)) => (kind, Some(index.parse().map_err(|_| unknown())?)),
            None => (lower.as_str(), None),
        };
        match (kind, index) {
            ("auto", None) => Ok(Self::Auto),
            ("cpu", None) => Ok(Self::Cpu),
            ("cuda", index) => Ok(Self::Cuda(index.unwrap_or(0))),
            ("vulkan" | "wgpu" | "metal" | "dx12", index) => Ok(Self::Wgpu(index.unwrap_or(0))),
            _ => Err(unknown()),
        }
    }
}

/// The devices that the user chose. Several GPUs share the batches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Devices(Vec<DeviceName>);

impl Default for Devices {
    /// [`DeviceName::Auto`].
    fn default() -> Self {
        Self(vec![DeviceName::Auto])
    }
}

impl Devices {
    /// The CPU.
    #[must_use]
    pub fn cpu() -> Self {
        Self(vec![DeviceName::Cpu])
    }

    /// The chosen GPUs; empty for the CPU. `auto` is resolved to the first GPU.
    #[must_use]
    pub fn cards(&self) -> Vec<DeviceName> {
        let card = |&name: &DeviceName| match name {
            DeviceName::Cpu => None,
            DeviceName::Auto => first_card(),
            DeviceName::Cuda(_) | DeviceName::Wgpu(_) => Some(name),
        };
        self.0.iter().filter_map(card).collect()
    }

    /// The devices with `auto` resolved to the first GPU or, without one, to the CPU.
    #[must_use]
    pub fn found(&self) -> Self {
        if self.0 != [DeviceName::Auto] {
            return self.clone();
        }
        Self(vec![first_card().unwrap_or(DeviceName::Cpu)])
    }

    /// Is the CPU the chosen device?
    #[must_use]
    pub fn is_cpu(&self) -> bool {
        self.cards().is_empty()
    }

    /// An evaluator of `network` on these devices. GPUs take the number format from
    /// `cpu.precision`; the other fields of `cpu` are for the CPU only.
    ///
    /// # Errors
    /// A device is missing, or it cannot run the network in this number format.
    pub fn evaluator(
        &self,
        network: &Arc<Network>,
        cpu: CpuOptions,
    ) -> Result<Box<dyn Evaluator>, EvalError> {
        let cards = self.cards();
        if cards.is_empty() {
            return Ok(Box::new(CpuEvaluator::new(Arc::clone(network), cpu)?));
        }
        on_cards(network, cards, cpu.precision)
    }
}

#[cfg(feature = "gpu")]
fn first_card() -> Option<DeviceName> {
    crate::gpu::first_card()
}

#[cfg(not(feature = "gpu"))]
fn first_card() -> Option<DeviceName> {
    None
}

#[cfg(feature = "gpu")]
fn on_cards(
    network: &Arc<Network>,
    devices: Vec<DeviceName>,
    precision: Option<Precision>,
) -> Result<Box<dyn Evaluator>, EvalError> {
    let options = crate::gpu::GpuOptions { devices, precision, preferred_batch: None };
    Ok(Box::new(crate::gpu::GpuEvaluator::new(Arc::clone(network), &options)?))
}

#[cfg(not(feature = "gpu"))]
fn on_cards(
    _: &Arc<Network>,
    devices: Vec<DeviceName>,
    _: Option<Precision>,
) -> Result<Box<dyn Evaluator>, EvalError> {
    Err(devices.first().copied().unwrap_or_default().not_built_in())
}

impl fmt::Display for Devices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, name) in self.0.iter().enumerate() {
            write!(f, "{}{name}", if at == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl FromStr for Devices {
    type Err = String;

    /// Device names separated by commas. `auto` and `cpu` cannot be combined with others.
    fn from_str(text: &str) -> Result<Self, String> {
        let names: Vec<DeviceName> =
            text.split(',').map(|name| name.trim().parse()).collect::<Result<_, _>>()?;
        let alone = |name: &DeviceName| matches!(name, DeviceName::Auto | DeviceName::Cpu);
        if names.len() > 1 && names.iter().any(alone) {
            return Err(format!("`{text}`: auto and cpu stand alone"));
        }
        Ok(Self(names))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_as_they_are_written() {
        for name in ["auto", "cpu", "cuda:0", "cuda:12", "vulkan:3"] {
            assert_eq!(name.parse::<DeviceName>().unwrap().to_string(), name);
        }
        assert_eq!("Metal".parse(), Ok(DeviceName::Wgpu(0)));
        for wrong in ["", "gpu", "cpu:0", "cuda:", "cuda:-1", "cuda:x", "vulkan:0:1"] {
            assert!(wrong.parse::<DeviceName>().is_err(), "{wrong}");
        }
        let several: Devices = "cuda:0, cuda:1".parse().unwrap();
        assert_eq!(several.to_string(), "cuda:0,cuda:1");
        assert_eq!(several.cards(), [DeviceName::Cuda(0), DeviceName::Cuda(1)]);
        for wrong in ["cpu,cuda:0", "auto,auto", "cuda:0,"] {
            assert!(wrong.parse::<Devices>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_cpu_is_used_when_it_is_chosen() {
        let network =
            Network::random(nets::Description::batch_first(&[nets::HeadKind::Value]), 1).unwrap();
        let on = |names: &str| {
            let devices: Devices = names.parse().unwrap();
            devices.evaluator(&Arc::new(network.clone()), CpuOptions::default())
        };
        assert!(on("cpu").unwrap().describe().contains("CPU"));
        if cfg!(not(feature = "cuda")) {
            let error = on("cuda:0").err().unwrap().to_string();
            assert!(error.contains("--features cuda"), "{error}");
        }
    }
}
