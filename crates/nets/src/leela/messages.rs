//! The messages of a network file. Field numbers are those of the format; fields that no layer of
//! ours needs are left out, but for those by which a file is recognised as one that cannot be run.

use prost::{Message, bytes::Bytes};

/// The first field of every file: its number, its kind, and `0x1c0` in four bytes.
pub(super) const MAGIC: [u8; 5] = [0x0d, 0xc0, 0x01, 0x00, 0x00];

/// Numbers of one array.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Array {
    #[prost(float, optional, tag = "1")]
    pub min: Option<f32>,
    #[prost(float, optional, tag = "2")]
    pub max: Option<f32>,
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub params: Option<Bytes>,
    /// 1 LINEAR16, 2 F16, 3 BF16, 4 F32; 0 as the file says.
    #[prost(uint32, optional, tag = "4")]
    pub encoding: Option<u32>,
}

/// A convolution and its batch norm.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ConvBlock {
    #[prost(message, optional, tag = "1")]
    pub weights: Option<Array>,
    #[prost(message, optional, tag = "2")]
    pub biases: Option<Array>,
    #[prost(message, optional, tag = "3")]
    pub means: Option<Array>,
    /// Variances, in spite of the name in the format.
    #[prost(message, optional, tag = "4")]
    pub variances: Option<Array>,
    #[prost(message, optional, tag = "5")]
    pub gammas: Option<Array>,
    #[prost(message, optional, tag = "6")]
    pub betas: Option<Array>,
}

/// Squeeze and excitation.
#[derive(Clone, PartialEq, Message)]
pub(super) struct SqueezeExcite {
    #[prost(message, optional, tag = "1")]
    pub w1: Option<Array>,
    #[prost(message, optional, tag = "2")]
    pub b1: Option<Array>,
    #[prost(message, optional, tag = "3")]
    pub w2: Option<Array>,
    #[prost(message, optional, tag = "4")]
    pub b2: Option<Array>,
}

/// A residual block.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Residual {
    #[prost(message, optional, tag = "1")]
    pub conv1: Option<ConvBlock>,
    #[prost(message, optional, tag = "2")]
    pub conv2: Option<ConvBlock>,
    #[prost(message, optional, tag = "3")]
    pub se: Option<SqueezeExcite>,
}

/// A layer of an attention body; only that it is there.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Encoder {}

/// All weights.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Weights {
    #[prost(message, optional, tag = "1")]
    pub input: Option<ConvBlock>,
    #[prost(message, repeated, tag = "2")]
    pub residual: Vec<Residual>,
    #[prost(message, optional, tag = "3")]
    pub policy: Option<ConvBlock>,
    #[prost(message, optional, tag = "4")]
    pub ip_pol_w: Option<Array>,
    #[prost(message, optional, tag = "5")]
    pub ip_pol_b: Option<Array>,
    #[prost(message, optional, tag = "6")]
    pub value: Option<ConvBlock>,
    #[prost(message, optional, tag = "7")]
    pub ip1_val_w: Option<Array>,
    #[prost(message, optional, tag = "8")]
    pub ip1_val_b: Option<Array>,
    #[prost(message, optional, tag = "9")]
    pub ip2_val_w: Option<Array>,
    #[prost(message, optional, tag = "10")]
    pub ip2_val_b: Option<Array>,
    #[prost(message, optional, tag = "11")]
    pub policy1: Option<ConvBlock>,
    #[prost(message, optional, tag = "12")]
    pub moves_left: Option<ConvBlock>,
    #[prost(message, optional, tag = "13")]
    pub ip1_mov_w: Option<Array>,
    #[prost(message, optional, tag = "14")]
    pub ip1_mov_b: Option<Array>,
    #[prost(message, optional, tag = "15")]
    pub ip2_mov_w: Option<Array>,
    #[prost(message, optional, tag = "16")]
    pub ip2_mov_b: Option<Array>,
    #[prost(message, repeated, tag = "27")]
    pub encoder: Vec<Encoder>,
}

/// What the network reads and answers.
#[derive(Clone, PartialEq, Message)]
pub(super) struct NetworkFormat {
    #[prost(uint32, optional, tag = "1")]
    pub input: Option<u32>,
    #[prost(uint32, optional, tag = "2")]
    pub output: Option<u32>,
    #[prost(uint32, optional, tag = "3")]
    pub network: Option<u32>,
    #[prost(uint32, optional, tag = "4")]
    pub policy: Option<u32>,
    #[prost(uint32, optional, tag = "5")]
    pub value: Option<u32>,
    #[prost(uint32, optional, tag = "6")]
    pub moves_left: Option<u32>,
    /// 0 ReLU, 1 Mish.
    #[prost(uint32, optional, tag = "7")]
    pub default_activation: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Format {
    /// As [`Array::encoding`].
    #[prost(uint32, optional, tag = "1")]
    pub weights_encoding: Option<u32>,
    #[prost(message, optional, tag = "2")]
    pub network_format: Option<NetworkFormat>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TrainingParams {
    #[prost(uint32, optional, tag = "1")]
    pub training_steps: Option<u32>,
    #[prost(float, optional, tag = "5")]
    pub accuracy: Option<f32>,
}

/// The least version of Leela Chess Zero that reads a file.
#[derive(Clone, PartialEq, Message)]
pub(super) struct EngineVersion {
    #[prost(uint32, optional, tag = "1")]
    pub major: Option<u32>,
    #[prost(uint32, optional, tag = "2")]
    pub minor: Option<u32>,
    #[prost(uint32, optional, tag = "3")]
    pub patch: Option<u32>,
}

/// A whole file.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Net {
    #[prost(fixed32, optional, tag = "1")]
    pub magic: Option<u32>,
    #[prost(string, optional, tag = "2")]
    pub license: Option<String>,
    #[prost(message, optional, tag = "3")]
    pub min_version: Option<EngineVersion>,
    #[prost(message, optional, tag = "4")]
    pub format: Option<Format>,
    #[prost(message, optional, tag = "5")]
    pub training_params: Option<TrainingParams>,
    #[prost(message, optional, tag = "10")]
    pub weights: Option<Weights>,
}
