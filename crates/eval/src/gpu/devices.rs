//! Lists and opens GPUs, and says what is missing for others.

use std::panic::{AssertUnwindSafe, catch_unwind};

use burn::tensor::{Device, DeviceType};

use super::tuned::keep_kernels;
use crate::{DeviceName, EvalError};

/// A device of this machine.
#[derive(Clone, Debug)]
pub struct Listed {
    pub name: DeviceName,
    /// The device's own name.
    pub model: String,
    /// Is it hardware? False for a software implementation on the CPU.
    pub is_card: bool,
}

/// All devices that this build can use, CUDA's first.
#[must_use]
pub fn list() -> Vec<Listed> {
    keep_kernels();
    let mut list = Vec::new();
    #[cfg(feature = "cuda")]
    list.extend(listed(DeviceType::Cuda, DeviceName::Cuda));
    #[cfg(feature = "wgpu")]
    list.extend(listed(DeviceType::Wgpu, DeviceName::Wgpu));
    list
}

fn listed(kind: DeviceType, name: fn(usize) -> DeviceName) -> Vec<Listed> {
    let describe = |(index, device): (usize, Device)| {
        // A device whose driver fails is listed too.
        let identity = caught(|| device.identity()).ok().flatten();
        let model = identity
            .as_ref()
            .map_or("a device that cannot be opened".to_owned(), |it| it.name.clone());
        Listed {
            name: name(index),
            model,
            is_card: identity.is_some_and(|it| it.physical.is_some()),
        }
    };
    let found = caught(|| Device::enumerate(kind).into_vec()).unwrap_or_default();
    found.into_iter().enumerate().map(describe).collect()
}

/// The first hardware device, if there is one.
#[must_use]
pub fn first_card() -> Option<DeviceName> {
    list().into_iter().find(|device| device.is_card).map(|device| device.name)
}

/// The drivers and libraries that are missing to use GPUs of this build's kinds, with the packages
/// that contain them; empty if nothing is missing.
///
/// The program compiles CUDA kernels with its own copy of LLVM, so CUDA's compiler and headers are
/// not needed. Functions such as the hyperbolic tangent and the exponential come from CUDA's
/// toolkit.
#[must_use]
pub fn lacks(found: &[Listed]) -> Vec<String> {
    let mut lacks = Vec::new();
    if cfg!(feature = "wgpu")
        && !found.iter().any(|device| matches!(device.name, DeviceName::Wgpu(_)))
    {
        lacks.push(
            "Vulkan, Metal or DirectX 12: no driver answers (Debian: libvulkan1 and the card's driver; mesa-vulkan-drivers for \
             AMD's, Intel's, and for software that plays a card)"
                .to_owned(),
        );
    }
    if cfg!(feature = "cuda") {
        if !found.iter().any(|device| matches!(device.name, DeviceName::Cuda(_))) {
            lacks.push(
                "CUDA: no device, or no driver of NVIDIA's (Debian: nvidia-driver, libcuda1)"
                    .to_owned(),
            );
        }
        lacks.extend(toolkit_lacks(&toolkit_folders()));
    }
    lacks
}

/// The folders in which to look for CUDA's toolkit. As the compiler does, `CUDA_PATH` is taken, or
/// else the first usual folder that has it.
fn toolkit_folders() -> Vec<String> {
    let usual = ["/usr/local/cuda", "/opt/cuda", "/usr/lib/cuda", "/usr"].map(str::to_owned);
    let has_folder = |root: &&String| std::path::Path::new(root).join("nvvm/libdevice").is_dir();
    let chosen = std::env::var("CUDA_PATH").ok().or_else(|| usual.iter().find(has_folder).cloned());
    chosen.map_or(usual.to_vec(), |root| vec![root])
}

/// The message that no folder of `roots` holds the file of CUDA's toolkit that kernels need.
fn toolkit_lacks(roots: &[String]) -> Option<String> {
    let is_here =
        |root: &String| std::path::Path::new(root).join("nvvm/libdevice/libdevice.10.bc").is_file();
    (!roots.iter().any(is_here)).then(|| {
        format!(
            "CUDA: nvvm/libdevice/libdevice.10.bc is not below {}: training, and networks with a hyperbolic tangent, SiLU or GELU, want it; it is in \
             CUDA's toolkit (Debian: nvidia-cuda-toolkit) and in pip's nvidia-cuda-nvcc-cu12, and CUDA_PATH names the folder above nvvm",
            roots.join(", ")
        )
    })
}

/// Opens a device.
///
/// # Errors
/// There is no such device, or this build cannot use it.
pub fn open(name: DeviceName) -> Result<Device, EvalError> {
    let (kind, index) = match name {
        #[cfg(feature = "cuda")]
        DeviceName::Cuda(index) => (DeviceType::Cuda, index),
        #[cfg(feature = "wgpu")]
        DeviceName::Wgpu(index) => (DeviceType::Wgpu, index),
        _ => return Err(name.not_built_in()),
    };
    keep_kernels();
    let devices = caught(|| Device::enumerate(kind).into_vec())?;
    let found = devices.len();
    devices.into_iter().nth(index).ok_or_else(|| {
        EvalError::Device(format!(
            "there is no device {name} ({found} of its kind found); `batch-first doctor` lists them"
        ))
    })
}

/// The value of `work`, or the first line of its panic as an error: drivers and kernel compilers
/// report failures by a panic.
pub(super) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, EvalError> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it stopped");
        EvalError::Device(text.lines().next().unwrap_or_default().to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_toolkit_is_found_in_any_of_its_folders() {
        let root = std::env::temp_dir().join(format!("batch-first-toolkit-{}", std::process::id()));
        let roots = ["/nowhere".to_owned(), root.to_string_lossy().into_owned()];
        let lack = toolkit_lacks(&roots).unwrap();
        assert!(lack.contains("/nowhere, ") && lack.contains("CUDA_PATH"), "{lack}");
        std::fs::create_dir_all(root.join("nvvm/libdevice")).unwrap();
        std::fs::write(root.join("nvvm/libdevice/libdevice.10.bc"), b"BC").unwrap();
        assert_eq!(toolkit_lacks(&roots), None);
        std::fs::remove_dir_all(root).unwrap();
    }
}
