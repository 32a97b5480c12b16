//! Number formats of weights and activations, as users name them.

use std::{fmt, str::FromStr};

/// The number format of weights and activations. Sums are `f32`, in int8 `i32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Precision {
    /// IEEE half precision, 11 significant bits. GPUs only.
    F16,
    /// The upper half of an `f32`, 8 significant bits.
    Bf16,
    F32,
    /// Eight-bit integers with a scale for each layer. CPUs only. It is less exact, so it is the
    /// default only for networks whose file holds the ranges of its activations.
    Int8,
}

impl Precision {
    /// All number formats.
    pub const ALL: [Self; 4] = [Self::F16, Self::Bf16, Self::F32, Self::Int8];

    /// The formats of the CPU kernels.
    pub const OF_PROCESSORS: [Self; 3] = [Self::Bf16, Self::F32, Self::Int8];

    /// The name in options and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::F32 => "f32",
            Self::Int8 => "int8",
        }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Precision {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "fp16" => Ok(Self::F16),
            "fp32" => Ok(Self::F32),
            _ => {
                Self::ALL.into_iter().find(|precision| precision.name() == text).ok_or_else(|| {
                    format!(
                        "`{text}` is not a precision; there are {}",
                        Self::ALL.map(Self::name).join(", ")
                    )
                })
            }
        }
    }
}
