//! What a network of Leela's reads and answers, as its file says or, for an older file, as Leela
//! Chess Zero infers from what is in it.

use super::{
    input::LeelaInput,
    messages::{Format, Weights},
};
use crate::{Activation, HeadOutput};

/// The number of a file's network format that has one policy and one value on an attention body.
const ATTENTION_BODY: u32 = 6;

/// The same with several heads, and the number that it had first.
const SEVERAL_HEADS: [u32; 2] = [7, 134];

/// Squeeze and excitation: the number that the first attention bodies had, too.
const SQUEEZE_EXCITE: u32 = 4;

/// A layer of a file that is an ONNX model.
const ONNX: u32 = 5;

/// What an attention body sees of a square besides the planes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Embedding {
    /// Fixed numbers of the square.
    Map,
    /// Numbers that a dense layer computes from the current board.
    Dense,
}

/// What a network reads and answers.
pub(super) struct Formats {
    pub input: LeelaInput,
    pub activation: Activation,
    /// Of the dense layers behind attention.
    pub ffn_activation: Activation,
    /// Of the layers that generate scores of the whole board.
    pub scores_activation: Activation,
    /// Of an attention body; `None` for a convolutional one.
    pub embedding: Option<Embedding>,
    pub policy: HeadOutput,
    pub value: HeadOutput,
    pub has_moves_left: bool,
}

impl Formats {
    /// Takes the formats from a file, or as Leela Chess Zero does from what an older file holds.
    pub fn of(format: &Format, weights: &Weights) -> Result<Self, String> {
        let given = format.network_format.clone().unwrap_or_default();
        let input = given.input.unwrap_or(1).max(1);
        let input = LeelaInput::of_number(input)
            .ok_or_else(|| format!("it reads input format {input}, which is not known"))?;
        let network = given.network.unwrap_or(0);
        if network == ONNX {
            return Err(
                "it is an ONNX model in Leela's file; only its own layers can be run".into()
            );
        }
        if !(network <= ATTENTION_BODY || SEVERAL_HEADS.contains(&network)) {
            return Err(format!("it has network format {network}, which is not known"));
        }
        let is_first_attention = network == SQUEEZE_EXCITE && !weights.encoder.is_empty();
        let has_several_heads = SEVERAL_HEADS.contains(&network)
            || network == ATTENTION_BODY
                && weights.policy_heads.is_some()
                && weights.value_heads.is_some();
        let is_attention = is_first_attention || network == ATTENTION_BODY || has_several_heads;
        if !is_attention && !weights.encoder.is_empty() {
            return Err(format!("it has layers of attention, but network format {network}"));
        }
        let embedding = match given.input_embedding.unwrap_or(0) {
            _ if network == ATTENTION_BODY && has_several_heads => Embedding::Dense,
            0 | 1 => Embedding::Map,
            2 => Embedding::Dense,
            other => return Err(format!("it has input embedding {other}, which is not known")),
        };
        let activation = match given.default_activation.unwrap_or(0) {
            0 => Activation::Relu,
            1 => Activation::Mish,
            other => return Err(format!("it has activation {other}, which is not known")),
        };
        let of_number = |number: Option<u32>| activation_of(number.unwrap_or(0), activation);
        let [scores_activation, ffn_activation] =
            if is_first_attention && weights.smolgen_w.is_some() {
                [Activation::Silu, Activation::SquaredRelu]
            } else {
                [of_number(given.smolgen_activation)?, of_number(given.ffn_activation)?]
            };
        let policy = policy(given.policy.unwrap_or(0), weights)?;
        if is_attention && policy != HeadOutput::LeelaPairs {
            return Err("it has an attention body with a policy of another form".into());
        }
        let value = match (given.value.unwrap_or(0), given.output.unwrap_or(0)) {
            (2, _) | (0, 2) => HeadOutput::WinDrawLoss,
            (0 | 1, 0 | 1) => HeadOutput::Expectation,
            (1, _) => HeadOutput::Expectation,
            (value, output) => {
                return Err(format!(
                    "it has value format {value} and output format {output}, which cannot be run"
                ));
            }
        };
        let is_moves_left = given.moves_left.unwrap_or(0) == 1;
        Ok(Self {
            input,
            activation,
            ffn_activation,
            scores_activation,
            embedding: is_attention.then_some(embedding),
            policy,
            value,
            has_moves_left: is_moves_left
                && (weights.moves_left.is_some() || weights.ip_mov_w.is_some()),
        })
    }
}

/// The form of the policy; without a number there is one form for what the file holds.
fn policy(number: u32, weights: &Weights) -> Result<HeadOutput, String> {
    let is_attention = weights.ip4_pol_w.is_some() || weights.policy_heads.is_some();
    match number {
        3 => Ok(HeadOutput::LeelaPairs),
        0 if is_attention => Ok(HeadOutput::LeelaPairs),
        0 | 2 if number == 2 || weights.policy1.is_some() => Ok(HeadOutput::LeelaPlanes),
        1 if weights.policy1.is_some() => Ok(HeadOutput::LeelaPlanes),
        0 | 1 => Ok(HeadOutput::LeelaMoves),
        other => Err(format!("it has policy format {other}, which is not known")),
    }
}

fn activation_of(number: u32, default: Activation) -> Result<Activation, String> {
    Ok(match number {
        0 => default,
        1 => Activation::Mish,
        2 => Activation::Relu,
        3 => Activation::Identity,
        4 => Activation::Tanh,
        6 => Activation::Selu,
        7 => Activation::Silu,
        8 => Activation::SquaredRelu,
        other => return Err(format!("it has activation {other}, which cannot be run")),
    })
}
