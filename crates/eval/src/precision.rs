//! Number formats of weights and activations. Sums are `f32` in all of them.

use std::{fmt, str::FromStr};

/// The number format of weights and activations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Precision {
    /// Half precision, eleven significant bits. GPUs only.
    F16,
    /// The upper half of an `f32`, eight significant bits.
    Bf16,
    F32,
    /// Eight-bit integers, with a scale for each layer. Processors only. Less exact, so unasked
    /// only for networks whose file says that it costs next to nothing.
    Int8,
}

impl Precision {
    /// All number formats.
    pub const ALL: [Self; 4] = [Self::F16, Self::Bf16, Self::F32, Self::Int8];

    /// Those that some processor computes in.
    pub const OF_PROCESSORS: [Self; 3] = [Self::Bf16, Self::F32, Self::Int8];

    /// Name in options and messages.
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
                        "`{text}` is no precision; there are {}",
                        Self::ALL.map(Self::name).join(", ")
                    )
                })
            }
        }
    }
}
