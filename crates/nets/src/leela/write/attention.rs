//! Attention bodies with an embedding by a dense layer, as messages: the inverse of their reader.

use super::{Writer, file_of, head, linear16};
use crate::{
    Activation, HeadKind, HeadOutput, Layer, SHARED_SCORES,
    leela::{
        input::LeelaInput,
        messages::{
            Array, Encoder, FeedForward, Mha, Net, NetworkFormat, PolicyHead, PolicyHeads, Smolgen,
            ValueHead, ValueHeads, Weights,
        },
    },
};

/// A weight and a bias, or a scale and a shift.
type Arrays = [Option<Array>; 2];

/// The layers of the embedding, and those of each layer of attention.
const EMBEDDING: usize = 6;
const EACH: usize = 4;

pub(super) fn message(writer: &Writer<'_>, input: LeelaInput) -> Result<Net, String> {
    let description = &writer.network.description;
    let trunk = description.trunk.as_slice();
    let [
        Layer::BoardEmbedding { planes: 12, .. },
        Layer::Conv { activation, .. },
        Layer::LayerNorm { millionths: 1000 },
        Layer::Gate { activation: Activation::Identity },
        Layer::Residual { layers, .. },
        Layer::LayerNorm { millionths: 1000 },
        rest @ ..,
    ] = trunk
    else {
        return Err("its trunk is not an embedding of Leela's".into());
    };
    let Some(&Layer::Conv { activation: ffn, .. }) = layers.first() else {
        return Err("its embedding lacks dense layers".into());
    };
    if !rest.len().is_multiple_of(EACH) {
        return Err("its trunk does not end with a layer of attention".into());
    }
    let depth = rest.len() / EACH;
    let factor = (2.0 * depth.max(1) as f32).powf(-0.25);
    let mut weights = Weights::default();
    [weights.ip_emb_preproc_w, weights.ip_emb_preproc_b] = writer.dense("trunk.0")?;
    [weights.ip_emb_w, weights.ip_emb_b] = writer.dense("trunk.1")?;
    [weights.ip_emb_ln_gammas, weights.ip_emb_ln_betas] = writer.norm("trunk.2")?;
    [weights.ip_mult_gate, weights.ip_add_gate] = writer.gate("trunk.3")?;
    weights.ip_emb_ffn = Some(writer.feed_forward("trunk.4", factor)?);
    [weights.ip_emb_ffn_ln_gammas, weights.ip_emb_ffn_ln_betas] = writer.norm("trunk.5")?;
    let scores = writer.encoders(depth, factor, &mut weights)?;
    if writer.network.tensor(SHARED_SCORES).is_some() {
        weights.smolgen_w = writer.array(SHARED_SCORES)?;
    }
    weights.policy_heads = Some(writer.policy()?);
    weights.value_heads = Some(writer.value()?);
    let is_mish = *activation == Activation::Mish;
    let format = NetworkFormat {
        input: Some(input.number()),
        output: Some(2),
        network: Some(7),
        policy: Some(3),
        value: Some(2),
        moves_left: Some(0),
        default_activation: Some(is_mish.into()),
        smolgen_activation: Some(number(scores)?),
        ffn_activation: Some(number(ffn)?),
        input_embedding: Some(2),
    };
    Ok(file_of(format, weights, [0, 30]))
}

/// The number of an activation in a file.
fn number(activation: Activation) -> Result<u32, String> {
    Ok(match activation {
        Activation::Mish => 1,
        Activation::Relu => 2,
        Activation::Identity => 3,
        Activation::Tanh => 4,
        Activation::Selu => 6,
        Activation::Silu => 7,
        Activation::SquaredRelu => 8,
        Activation::Gelu | Activation::LeakyRelu => {
            return Err(format!("it has activation {activation:?}"));
        }
    })
}

impl Writer<'_> {
    fn data(&self, name: &str) -> Result<&[f32], String> {
        let tensor = self.network.tensor(name).ok_or_else(|| format!("it has no {name}"))?;
        Ok(&tensor.data)
    }

    fn norm(&self, name: &str) -> Result<Arrays, String> {
        Ok([self.array(&format!("{name}.scale"))?, self.array(&format!("{name}.shift"))?])
    }

    /// A gate, with a channel's squares in sequence.
    fn gate(&self, name: &str) -> Result<Arrays, String> {
        let by_channel = |part: &str| {
            let data = self.data(&format!("{name}.{part}"))?;
            let channels = data.len() / 64;
            let place = |at: usize| data[at % 64 * channels + at / 64];
            Ok::<_, String>(Some(linear16(&(0..data.len()).map(place).collect::<Vec<_>>())))
        };
        Ok([by_channel("scale")?, by_channel("shift")?])
    }

    /// A dense layer whose file holds it before it is multiplied by `factor`.
    fn divided(&self, name: &str, factor: f32) -> Result<Arrays, String> {
        let part = |part: &str| {
            let data = self.data(&format!("{name}.{part}"))?;
            let divided = data.iter().map(|number| number / factor).collect::<Vec<_>>();
            Ok::<_, String>(Some(linear16(&divided)))
        };
        Ok([part("weight")?, part("bias")?])
    }

    /// A dense layer of the board, with a square's channels in sequence.
    fn board_dense(&self, name: &str) -> Result<Arrays, String> {
        let (weight, bias) =
            (self.data(&format!("{name}.weight"))?, self.array(&format!("{name}.bias"))?);
        let outputs = self.data(&format!("{name}.bias"))?.len();
        let inputs = weight.len() / outputs.max(1);
        let channels = inputs / 64;
        let place = |at: usize| {
            let (row, input) = (at / inputs, at % inputs);
            weight[row * inputs + input % channels * 64 + input / channels]
        };
        Ok([Some(linear16(&(0..weight.len()).map(place).collect::<Vec<_>>())), bias])
    }

    fn feed_forward(&self, name: &str, factor: f32) -> Result<FeedForward, String> {
        let [dense1_w, dense1_b] = self.dense(&format!("{name}.layers.0"))?;
        let [dense2_w, dense2_b] = self.divided(&format!("{name}.layers.1"), factor)?;
        Ok(FeedForward { dense1_w, dense1_b, dense2_w, dense2_b })
    }

    /// Adds the layers of attention; returns the activation of the board's scores.
    fn encoders(
        &self,
        depth: usize,
        factor: f32,
        weights: &mut Weights,
    ) -> Result<Activation, String> {
        let mut scores = Activation::Identity;
        for first in (0..depth).map(|layer| EMBEDDING + layer * EACH) {
            let attention = match self.network.description.trunk.get(first) {
                Some(Layer::Residual { layers, .. }) => layers.first(),
                _ => None,
            };
            let Some(Layer::Attention(attention)) = attention else {
                return Err(format!("trunk layer {first} has no attention"));
            };
            weights.headcount = Some(attention.heads as u32);
            scores = attention.board.as_ref().map_or(scores, |board| board.activation);
            weights.encoder.push(self.encoder(first, factor, attention.board.is_some())?);
        }
        Ok(scores)
    }

    /// The layer of attention whose layers in the trunk begin with this one.
    fn encoder(&self, first: usize, factor: f32, has_scores: bool) -> Result<Encoder, String> {
        let [attention, norm, dense, last] = [0, 1, 2, 3].map(|at| format!("trunk.{}", first + at));
        let part = |part: &str| self.dense(&format!("{attention}.layers.0.{part}"));
        let ([q_w, q_b], [k_w, k_b], [v_w, v_b]) = (part("query")?, part("key")?, part("value")?);
        let [dense_w, dense_b] = self.divided(&format!("{attention}.layers.1"), factor)?;
        let smolgen = if has_scores { Some(self.smolgen(&attention)?) } else { None };
        let mha = Mha { q_w, q_b, k_w, k_b, v_w, v_b, dense_w, dense_b, smolgen, ..Mha::default() };
        let [ln1_gammas, ln1_betas] = self.norm(&norm)?;
        let [ln2_gammas, ln2_betas] = self.norm(&last)?;
        let ffn = Some(self.feed_forward(&dense, factor)?);
        Ok(Encoder { mha: Some(mha), ln1_gammas, ln1_betas, ffn, ln2_gammas, ln2_betas })
    }

    fn smolgen(&self, attention: &str) -> Result<Smolgen, String> {
        let of = |part: &str| format!("{attention}.layers.0.board.{part}");
        let compress = self.array(&of("compress.weight"))?;
        let [dense1_w, dense1_b] = self.board_dense(&of("hidden"))?;
        let [ln1_gammas, ln1_betas] = self.norm(&of("hidden-norm"))?;
        let [dense2_w, dense2_b] = self.dense(&of("generate"))?;
        let [ln2_gammas, ln2_betas] = self.norm(&of("generate-norm"))?;
        Ok(Smolgen {
            compress,
            dense1_w,
            dense1_b,
            ln1_gammas,
            ln1_betas,
            dense2_w,
            dense2_b,
            ln2_gammas,
            ln2_betas,
        })
    }

    fn policy(&self) -> Result<PolicyHeads, String> {
        let policy = head(&self.network.description, HeadKind::Moves)?;
        if policy.output != HeadOutput::LeelaPairs || policy.layers.len() != 2 {
            return Err("its policy is none of pairs of squares".into());
        }
        let [ip_pol_w, ip_pol_b] = self.dense("moves.0")?;
        let [ip2_pol_w, ip2_pol_b] = self.dense("moves.1.query")?;
        let [ip3_pol_w, ip3_pol_b] = self.dense("moves.1.key")?;
        let ip4_pol_w = self.array("moves.1.promotion.weight")?;
        let vanilla = PolicyHead {
            ip2_pol_w,
            ip2_pol_b,
            ip3_pol_w,
            ip3_pol_b,
            ip4_pol_w,
            ..PolicyHead::default()
        };
        Ok(PolicyHeads { ip_pol_w, ip_pol_b, vanilla: Some(vanilla) })
    }

    fn value(&self) -> Result<ValueHeads, String> {
        let value = head(&self.network.description, HeadKind::Value)?;
        if value.output != HeadOutput::WinDrawLoss || value.layers.len() != 3 {
            return Err("its value is none of win, draw and loss".into());
        }
        let [ip_val_w, ip_val_b] = self.dense("value.0")?;
        let [ip1_val_w, ip1_val_b] = self.board_dense("value.1")?;
        let [ip2_val_w, ip2_val_b] = self.dense("value.2")?;
        let winner = ValueHead { ip_val_w, ip_val_b, ip1_val_w, ip1_val_b, ip2_val_w, ip2_val_b };
        Ok(ValueHeads { winner: Some(winner) })
    }
}
