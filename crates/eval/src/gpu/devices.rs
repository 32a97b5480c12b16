//! Which GPUs are here, and what keeps others from being used.

use std::panic::{AssertUnwindSafe, catch_unwind};

use burn::tensor::{Device, DeviceType};

use crate::{DeviceName, EvalError};

/// A device that can be asked for.
#[derive(Clone, Debug)]
pub struct Listed {
    pub name: DeviceName,
    /// What the device calls itself.
    pub model: String,
    /// False for a program that plays a GPU on the processor.
    pub is_card: bool,
}

/// All devices of this build, CUDA's first.
#[must_use]
pub fn list() -> Vec<Listed> {
    let mut list = Vec::new();
    #[cfg(feature = "cuda")]
    list.extend(listed(DeviceType::Cuda, DeviceName::Cuda));
    #[cfg(feature = "wgpu")]
    list.extend(listed(DeviceType::Wgpu, DeviceName::Wgpu));
    list
}

fn listed(kind: DeviceType, name: fn(usize) -> DeviceName) -> Vec<Listed> {
    let describe = |(index, device): (usize, Device)| {
        // A driver that cannot be started is no reason not to show the others.
        let identity = caught(|| device.identity()).ok().flatten();
        let model =
            identity.as_ref().map_or("a device that cannot be opened".to_owned(), |it| it.name.clone());
        Listed { name: name(index), model, is_card: identity.is_some_and(|it| it.physical.is_some()) }
    };
    let found = caught(|| Device::enumerate(kind).into_vec()).unwrap_or_default();
    found.into_iter().enumerate().map(describe).collect()
}

/// The first card, if there is one.
#[must_use]
pub fn first_card() -> Option<DeviceName> {
    list().into_iter().find(|device| device.is_card).map(|device| device.name)
}

/// What is missing for CUDA: this build does not know it.
#[must_use]
#[cfg(not(feature = "cuda"))]
pub fn cuda_lacks() -> Vec<String> {
    Vec::new()
}

/// What is missing for CUDA, with how to get it; empty where nothing is.
#[must_use]
#[cfg(feature = "cuda")]
pub fn cuda_lacks() -> Vec<String> {
    let mut lacks = Vec::new();
    if caught(|| Device::enumerate(DeviceType::Cuda).into_vec()).unwrap_or_default().is_empty() {
        lacks.push("a device or NVIDIA's driver (Debian: nvidia-driver, libcuda1)".to_owned());
    }
    if !library_is_found("libnvrtc.so") {
        lacks.push("the run-time compiler NVRTC (Debian: libnvrtc12, or pip's nvidia-cuda-nvrtc)".to_owned());
    }
    let roots = std::env::var("CUDA_PATH").map_or_else(
        |_| ["/usr/local/cuda", "/opt/cuda", "/usr"].map(Into::into).to_vec(),
        |root| vec![std::path::PathBuf::from(root)],
    );
    if !roots.iter().any(|root| root.join("include/cuda_fp16.h").exists()) {
        lacks.push(
                "CUDA's headers (Debian: nvidia-cuda-dev, or pip's nvidia-cuda-runtime; CUDA_PATH names the folder above include)"
                    .to_owned(),
            );
    }
    lacks
}

/// Is a shared library where the loader looks?
#[cfg(feature = "cuda")]
fn library_is_found(name: &str) -> bool {
    let paths = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let usual =
        ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/local/cuda/lib64"];
    std::env::split_paths(&paths).chain(usual.map(Into::into)).any(|folder| {
        let Ok(entries) = std::fs::read_dir(folder) else { return false };
        entries.flatten().any(|entry| entry.file_name().to_string_lossy().starts_with(name))
    })
}

/// Opens a device.
///
/// # Errors
/// There is none of this name, or this build cannot use it.
pub fn open(name: DeviceName) -> Result<Device, EvalError> {
    let (kind, index) = match name {
        #[cfg(feature = "cuda")]
        DeviceName::Cuda(index) => (DeviceType::Cuda, index),
        #[cfg(feature = "wgpu")]
        DeviceName::Wgpu(index) => (DeviceType::Wgpu, index),
        _ => return Err(name.not_built_in()),
    };
    let devices = caught(|| Device::enumerate(kind).into_vec())?;
    let found = devices.len();
    devices.into_iter().nth(index).ok_or_else(|| {
        EvalError::Device(format!(
            "there is no device {name} ({found} of its kind found); `batch-first doctor` lists them"
        ))
    })
}

/// The value of `work`, or what its panic said: drivers and compilers of kernels that fail are reported so.
pub(super) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, EvalError> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it stopped");
        EvalError::Device(text.lines().next().unwrap_or_default().to_owned())
    })
}
