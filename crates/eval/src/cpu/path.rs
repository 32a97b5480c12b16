//! The code paths, and the choice of one by the machine's instructions and the user's options.

use std::{fmt, str::FromStr, sync::OnceLock};

use super::amx;
use crate::{EvalError, Precision};

/// The environment variable that forces a path.
pub const PATH_VARIABLE: &str = "BATCH_FIRST_CPU";

/// A family of kernels by instruction set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CpuPath {
    /// Intel's tile unit, bf16.
    Amx,
    /// AVX-512 with 512-bit vectors.
    Avx512,
    /// AVX2 and FMA.
    Avx2,
    /// ARM's vectors of 128 bits; int8 with the dot products of ARMv8.2 (`dotprod`).
    Neon,
    /// Plain Rust. It is slow in bf16, which must be chosen explicitly.
    Portable,
}

impl CpuPath {
    /// All paths, the fastest first.
    pub const ALL: [Self; 5] = [Self::Amx, Self::Avx512, Self::Avx2, Self::Neon, Self::Portable];

    /// The name in options and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Amx => "amx",
            Self::Avx512 => "avx512",
            Self::Avx2 => "avx2",
            Self::Neon => "neon",
            Self::Portable => "portable",
        }
    }

    /// The path's precisions except int8, the fastest first.
    fn exact(self) -> &'static [Precision] {
        match self {
            Self::Amx => &[Precision::Bf16],
            // The bf16 pair products are slower than f32 multiply-adds on Intel and twice as fast
            // on AMD.
            Self::Avx512 if is_intel() => &[Precision::F32, Precision::Bf16],
            Self::Avx512 => &[Precision::Bf16, Precision::F32],
            Self::Avx2 | Self::Neon | Self::Portable => &[Precision::F32],
        }
    }

    /// The architecture whose processors can run the path, as [`std::env::consts::ARCH`] names it;
    /// `None` for all.
    fn architecture(self) -> Option<&'static str> {
        match self {
            Self::Amx | Self::Avx512 | Self::Avx2 => Some("x86_64"),
            Self::Neon => Some("aarch64"),
            Self::Portable => None,
        }
    }

    /// Can a processor of this program's architecture run the path?
    fn is_of_architecture(self) -> bool {
        self.architecture().is_none_or(|name| name == std::env::consts::ARCH)
    }

    /// The path of this machine that loses most by int8; `None` if no path computes in int8 here.
    #[must_use]
    pub fn least_exact_in_int8() -> Option<Self> {
        [Self::Avx2, Self::Neon].into_iter().find(|path| path.obstacle(Precision::Int8).is_none())
    }

    /// Why this path cannot run here in `precision`, or `None` if it can.
    #[must_use]
    pub fn obstacle(self, precision: Precision) -> Option<String> {
        if let Some(name) = self.architecture().filter(|_| !self.is_of_architecture()) {
            return Some(format!("it is for {name}, this program for {}", std::env::consts::ARCH));
        }
        let need = |features: &[&str]| {
            let missing: Vec<&str> =
                features.iter().copied().filter(|name| !has_feature(name)).collect();
            (!missing.is_empty()).then(|| format!("the processor lacks {}", missing.join(", ")))
        };
        match (self, precision) {
            (Self::Amx, Precision::Bf16) => {
                let status = amx::status();
                (!status.is_ready())
                    .then(|| status.to_string())
                    .or_else(|| need(&["avx512f", "avx512bw", "avx512vl", "avx512bf16"]))
            }
            (Self::Avx512, Precision::Bf16) => {
                need(&["avx512f", "avx512bw", "avx512vl", "avx512bf16"])
            }
            (Self::Avx512, Precision::Int8) => {
                need(&["avx512f", "avx512bw", "avx512vl", "avx512vnni"])
            }
            (Self::Avx512, Precision::F32) => need(&["avx512f", "avx512bw", "avx512vl"]),
            (Self::Avx2, Precision::F32 | Precision::Int8) => need(&["avx2", "fma"]),
            (Self::Neon, Precision::F32) => need(&["neon"]),
            (Self::Neon, Precision::Int8) => need(&["neon", "dotprod"]),
            (Self::Portable, Precision::F32 | Precision::Bf16) => None,
            (_, Precision::F16) => Some("processors do not compute in f16".to_owned()),
            (Self::Amx, Precision::F32 | Precision::Int8) => {
                Some("it computes in bf16 only".to_owned())
            }
            (Self::Avx2 | Self::Neon, Precision::Bf16) => {
                Some("it computes in f32 and int8 only".to_owned())
            }
            (Self::Portable, Precision::Int8) => {
                Some("it computes in f32 and bf16 only".to_owned())
            }
        }
    }
}

impl fmt::Display for CpuPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for CpuPath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|path| path.name() == text).ok_or_else(|| {
            format!(
                "`{text}` is not a CPU path; there are {}",
                Self::ALL.map(Self::name).join(", ")
            )
        })
    }
}

/// The features that the paths need of a processor of this architecture, and whether this machine
/// has them.
#[must_use]
pub fn features() -> Vec<(&'static str, bool)> {
    let names: &[&str] = match std::env::consts::ARCH {
        "x86_64" => &["avx2", "fma", "avx512f", "avx512bw", "avx512vl", "avx512vnni", "avx512bf16"],
        "aarch64" => &["neon", "dotprod"],
        _ => &[],
    };
    names.iter().map(|&name| (name, has_feature(name))).collect()
}

#[cfg(target_arch = "x86_64")]
fn is_intel() -> bool {
    let vendor = std::arch::x86_64::__cpuid(0);
    [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes).concat() == b"GenuineIntel"
}

#[cfg(not(target_arch = "x86_64"))]
fn is_intel() -> bool {
    false
}

#[cfg(target_arch = "x86_64")]
pub(super) fn has_feature(name: &str) -> bool {
    match name {
        "avx2" => is_x86_feature_detected!("avx2"),
        "fma" => is_x86_feature_detected!("fma"),
        "avx512f" => is_x86_feature_detected!("avx512f"),
        "avx512bw" => is_x86_feature_detected!("avx512bw"),
        "avx512vl" => is_x86_feature_detected!("avx512vl"),
        "avx512vnni" => is_x86_feature_detected!("avx512vnni"),
        "avx512bf16" => is_x86_feature_detected!("avx512bf16"),
        _ => false,
    }
}

#[cfg(target_arch = "aarch64")]
pub(super) fn has_feature(name: &str) -> bool {
    match name {
        "neon" => std::arch::is_aarch64_feature_detected!("neon"),
        "dotprod" => std::arch::is_aarch64_feature_detected!("dotprod"),
        _ => false,
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) fn has_feature(_: &str) -> bool {
    false
}

/// The path and precision of an evaluator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    pub path: CpuPath,
    pub precision: Precision,
    /// Why they were chosen, as a clause for messages.
    pub reason: String,
}

/// Does [`PATH_VARIABLE`] permit `path`? It forbids all paths that are faster than the one it names.
/// This is for matrix products outside an evaluator, which have no [`CpuOptions`](super::CpuOptions).
#[must_use]
pub fn is_permitted(path: CpuPath) -> bool {
    static FASTEST: OnceLock<Option<CpuPath>> = OnceLock::new();
    let rank = |path| CpuPath::ALL.iter().position(|&other| other == path);
    let fastest = *FASTEST.get_or_init(|| std::env::var(PATH_VARIABLE).ok()?.parse().ok());
    fastest.is_none_or(|fastest| rank(path) >= rank(fastest))
}

/// Chooses the fastest path and precision that fit the arguments. Without `path` the environment
/// variable [`PATH_VARIABLE`] is used if it is set. Without `precision` int8 is a candidate only
/// where the network `allows_int8`.
///
/// # Errors
/// No such path runs on this machine, or the variable is not the name of a path.
pub fn choose(
    path: Option<CpuPath>,
    precision: Option<Precision>,
    allows_int8: bool,
) -> Result<Choice, EvalError> {
    let impossible = |text: String| EvalError::Device(text);
    let (path, origin) = match (path, std::env::var(PATH_VARIABLE)) {
        (Some(path), _) => (Some(path), "an option asks for it"),
        (None, Ok(text)) if !text.is_empty() => {
            let path =
                text.parse().map_err(|error| impossible(format!("{PATH_VARIABLE}: {error}")))?;
            (Some(path), "BATCH_FIRST_CPU asks for it")
        }
        _ => (None, "it is the fastest that runs here"),
    };
    let native = CpuPath::ALL.into_iter().filter(|path| path.is_of_architecture());
    let paths = path.map_or_else(|| native.collect(), |path| vec![path]);
    let formats = |path: CpuPath| precision.map_or(path.exact().to_vec(), |one| vec![one]);
    let mut candidates: Vec<(CpuPath, Precision)> = paths
        .iter()
        .flat_map(|&path| formats(path).into_iter().map(move |one| (path, one)))
        .collect();
    if allows_int8 && precision.is_none() {
        // Int8 is two to five times as fast as other formats on vectors, but slower than bf16 tiles.
        let has_int8 =
            |path: &&CpuPath| matches!(path, CpuPath::Avx512 | CpuPath::Avx2 | CpuPath::Neon);
        let int8 = paths.iter().filter(has_int8);
        let behind_tiles = candidates.iter().take_while(|(path, _)| *path == CpuPath::Amx).count();
        candidates.splice(behind_tiles..behind_tiles, int8.map(|&path| (path, Precision::Int8)));
    }
    // The portable path runs in a slow format only when both were chosen.
    let is_slow = |path, one| path == CpuPath::Portable && one != Precision::F32 && paths.len() > 1;
    candidates.retain(|&(path, precision)| !is_slow(path, precision));
    let mut obstacles = Vec::new();
    for (path, precision) in candidates {
        match path.obstacle(precision) {
            None => {
                let reason = if obstacles.is_empty() {
                    origin.to_owned()
                } else {
                    format!("{origin}; not {}", obstacles.join("; not "))
                };
                return Ok(Choice { path, precision, reason });
            }
            Some(obstacle) => obstacles.push(format!("{path} in {precision}: {obstacle}")),
        }
    }
    Err(impossible(format!("no CPU path fits: {}", obstacles.join("; "))))
}
