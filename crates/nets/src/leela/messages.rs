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

/// A part of a layer of attention: scores that the whole board generates.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Smolgen {
    #[prost(message, optional, tag = "1")]
    pub compress: Option<Array>,
    #[prost(message, optional, tag = "2")]
    pub dense1_w: Option<Array>,
    #[prost(message, optional, tag = "3")]
    pub dense1_b: Option<Array>,
    #[prost(message, optional, tag = "4")]
    pub ln1_gammas: Option<Array>,
    #[prost(message, optional, tag = "5")]
    pub ln1_betas: Option<Array>,
    #[prost(message, optional, tag = "6")]
    pub dense2_w: Option<Array>,
    #[prost(message, optional, tag = "7")]
    pub dense2_b: Option<Array>,
    #[prost(message, optional, tag = "8")]
    pub ln2_gammas: Option<Array>,
    #[prost(message, optional, tag = "9")]
    pub ln2_betas: Option<Array>,
}

/// Multi-head attention and the dense layer behind it.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Mha {
    #[prost(message, optional, tag = "1")]
    pub q_w: Option<Array>,
    #[prost(message, optional, tag = "2")]
    pub q_b: Option<Array>,
    #[prost(message, optional, tag = "3")]
    pub k_w: Option<Array>,
    #[prost(message, optional, tag = "4")]
    pub k_b: Option<Array>,
    #[prost(message, optional, tag = "5")]
    pub v_w: Option<Array>,
    #[prost(message, optional, tag = "6")]
    pub v_b: Option<Array>,
    #[prost(message, optional, tag = "7")]
    pub dense_w: Option<Array>,
    #[prost(message, optional, tag = "8")]
    pub dense_b: Option<Array>,
    #[prost(message, optional, tag = "9")]
    pub smolgen: Option<Smolgen>,
    /// Encodings of relative positions, which no layer of ours has.
    #[prost(message, optional, tag = "10")]
    pub rpe_q: Option<Array>,
    #[prost(message, optional, tag = "11")]
    pub rpe_k: Option<Array>,
    #[prost(message, optional, tag = "12")]
    pub rpe_v: Option<Array>,
}

/// Two dense layers.
#[derive(Clone, PartialEq, Message)]
pub(super) struct FeedForward {
    #[prost(message, optional, tag = "1")]
    pub dense1_w: Option<Array>,
    #[prost(message, optional, tag = "2")]
    pub dense1_b: Option<Array>,
    #[prost(message, optional, tag = "3")]
    pub dense2_w: Option<Array>,
    #[prost(message, optional, tag = "4")]
    pub dense2_b: Option<Array>,
}

/// A layer of attention.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Encoder {
    #[prost(message, optional, tag = "1")]
    pub mha: Option<Mha>,
    #[prost(message, optional, tag = "2")]
    pub ln1_gammas: Option<Array>,
    #[prost(message, optional, tag = "3")]
    pub ln1_betas: Option<Array>,
    #[prost(message, optional, tag = "4")]
    pub ffn: Option<FeedForward>,
    #[prost(message, optional, tag = "5")]
    pub ln2_gammas: Option<Array>,
    #[prost(message, optional, tag = "6")]
    pub ln2_betas: Option<Array>,
}

/// One of several policies.
#[derive(Clone, PartialEq, Message)]
pub(super) struct PolicyHead {
    #[prost(message, optional, tag = "1")]
    pub ip_pol_w: Option<Array>,
    #[prost(message, optional, tag = "2")]
    pub ip_pol_b: Option<Array>,
    #[prost(message, optional, tag = "3")]
    pub ip2_pol_w: Option<Array>,
    #[prost(message, optional, tag = "4")]
    pub ip2_pol_b: Option<Array>,
    #[prost(message, optional, tag = "5")]
    pub ip3_pol_w: Option<Array>,
    #[prost(message, optional, tag = "6")]
    pub ip3_pol_b: Option<Array>,
    #[prost(message, optional, tag = "7")]
    pub ip4_pol_w: Option<Array>,
    #[prost(message, repeated, tag = "8")]
    pub encoder: Vec<Encoder>,
    #[prost(uint32, optional, tag = "9")]
    pub headcount: Option<u32>,
}

/// The policies of a network with several. Others than the plain one are not read.
#[derive(Clone, PartialEq, Message)]
pub(super) struct PolicyHeads {
    #[prost(message, optional, tag = "1")]
    pub ip_pol_w: Option<Array>,
    #[prost(message, optional, tag = "2")]
    pub ip_pol_b: Option<Array>,
    #[prost(message, optional, tag = "3")]
    pub vanilla: Option<PolicyHead>,
}

/// One of several values.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ValueHead {
    #[prost(message, optional, tag = "1")]
    pub ip_val_w: Option<Array>,
    #[prost(message, optional, tag = "2")]
    pub ip_val_b: Option<Array>,
    #[prost(message, optional, tag = "3")]
    pub ip1_val_w: Option<Array>,
    #[prost(message, optional, tag = "4")]
    pub ip1_val_b: Option<Array>,
    #[prost(message, optional, tag = "5")]
    pub ip2_val_w: Option<Array>,
    #[prost(message, optional, tag = "6")]
    pub ip2_val_b: Option<Array>,
}

/// The values of a network with several. Others than that of the game's winner are not read.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ValueHeads {
    #[prost(message, optional, tag = "1")]
    pub winner: Option<ValueHead>,
}

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
    #[prost(message, optional, tag = "17")]
    pub ip2_pol_w: Option<Array>,
    #[prost(message, optional, tag = "18")]
    pub ip2_pol_b: Option<Array>,
    #[prost(message, optional, tag = "19")]
    pub ip3_pol_w: Option<Array>,
    #[prost(message, optional, tag = "20")]
    pub ip3_pol_b: Option<Array>,
    #[prost(message, repeated, tag = "21")]
    pub policy_encoder: Vec<Encoder>,
    #[prost(message, optional, tag = "22")]
    pub ip4_pol_w: Option<Array>,
    #[prost(uint32, optional, tag = "24")]
    pub policy_headcount: Option<u32>,
    #[prost(message, optional, tag = "25")]
    pub ip_emb_w: Option<Array>,
    #[prost(message, optional, tag = "26")]
    pub ip_emb_b: Option<Array>,
    #[prost(message, repeated, tag = "27")]
    pub encoder: Vec<Encoder>,
    #[prost(uint32, optional, tag = "28")]
    pub headcount: Option<u32>,
    #[prost(message, optional, tag = "29")]
    pub ip_val_w: Option<Array>,
    #[prost(message, optional, tag = "30")]
    pub ip_val_b: Option<Array>,
    #[prost(message, optional, tag = "31")]
    pub ip_mov_w: Option<Array>,
    #[prost(message, optional, tag = "32")]
    pub ip_mov_b: Option<Array>,
    #[prost(message, optional, tag = "33")]
    pub ip_mult_gate: Option<Array>,
    #[prost(message, optional, tag = "34")]
    pub ip_add_gate: Option<Array>,
    #[prost(message, optional, tag = "35")]
    pub smolgen_w: Option<Array>,
    #[prost(message, optional, tag = "37")]
    pub ip_emb_preproc_w: Option<Array>,
    #[prost(message, optional, tag = "38")]
    pub ip_emb_preproc_b: Option<Array>,
    #[prost(message, optional, tag = "39")]
    pub ip_emb_ln_gammas: Option<Array>,
    #[prost(message, optional, tag = "40")]
    pub ip_emb_ln_betas: Option<Array>,
    #[prost(message, optional, tag = "41")]
    pub ip_emb_ffn: Option<FeedForward>,
    #[prost(message, optional, tag = "42")]
    pub ip_emb_ffn_ln_gammas: Option<Array>,
    #[prost(message, optional, tag = "43")]
    pub ip_emb_ffn_ln_betas: Option<Array>,
    #[prost(message, optional, tag = "44")]
    pub value_heads: Option<ValueHeads>,
    #[prost(message, optional, tag = "45")]
    pub policy_heads: Option<PolicyHeads>,
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
    /// 0 as the default, 1 Mish, 2 ReLU, 3 none, 4 tanh, 5 sigmoid, 6 SELU, 7 swish, 8 squared ReLU.
    #[prost(uint32, optional, tag = "8")]
    pub smolgen_activation: Option<u32>,
    /// The same numbers.
    #[prost(uint32, optional, tag = "9")]
    pub ffn_activation: Option<u32>,
    /// 1 by a map of positions, 2 by a dense layer.
    #[prost(uint32, optional, tag = "10")]
    pub input_embedding: Option<u32>,
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
