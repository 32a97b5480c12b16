//! Attention bodies and policies: their messages become layers and tensors.
//!
//! A layer of such a body adds to its input what attention and a dense layer make of it, times a
//! number that depends on the depth, and norms the sum; then it does the same with two dense layers.
//! The number goes into the weights of the last dense layer. The fixed numbers that a square has in
//! the embedding go through the embedding's weights once, here, and become a shift of the square.

mod heads;

use super::{
    formats::Embedding,
    layers::Builder,
    messages::{Array, Encoder, FeedForward, Mha, Weights},
};
use crate::{Activation, Attention, BoardScores, LEELA_PLANES, Layer, SHARED_SCORES};

/// Planes of the current board that the dense embedding reads.
const EMBEDDED_PLANES: usize = 12;

const SQUARES: usize = 64;

/// What layers of attention differ in.
#[derive(Clone, Copy)]
struct EncoderForm {
    heads: usize,
    /// Factor of what is added to the input.
    factor: f32,
    /// Of layer norms.
    millionths: u32,
    ffn_activation: Activation,
    scores_activation: Activation,
}

/// A weight and a bias.
type Arrays<'a> = [&'a Option<Array>; 2];

impl Builder<'_> {
    /// The embedding and the layers of attention, and the channels that they end in.
    pub(super) fn attention_trunk(
        &mut self,
        weights: &Weights,
        embedding: Embedding,
    ) -> Result<(Vec<Layer>, usize), String> {
        if !weights.residual.is_empty() {
            return Err("it has an attention body behind residual blocks".into());
        }
        let form = EncoderForm {
            heads: weights.headcount.unwrap_or(0) as usize,
            factor: (2.0 * weights.encoder.len().max(1) as f32).powf(-0.25),
            millionths: if embedding == Embedding::Dense { 1000 } else { 1 },
            ffn_activation: self.formats.ffn_activation,
            scores_activation: self.formats.scores_activation,
        };
        let mut list = List { name: "trunk", layers: Vec::new() };
        let channels = match embedding {
            Embedding::Map => self.map_embedding(weights, &mut list)?,
            Embedding::Dense => self.dense_embedding(weights, form, &mut list)?,
        };
        for encoder in &weights.encoder {
            self.encoder(&mut list, encoder, channels, form)?;
        }
        self.shared_scores(weights)?;
        Ok((list.layers, channels))
    }

    /// The matrix of scores that all layers share, if some layer generates scores.
    fn shared_scores(&mut self, weights: &Weights) -> Result<(), String> {
        let data = self.array(&weights.smolgen_w)?;
        let generates =
            |encoder: &Encoder| encoder.mha.as_ref().is_some_and(|mha| mha.smolgen.is_some());
        if !weights.encoder.iter().any(generates) {
            return Ok(());
        }
        let generated = data.len() / (SQUARES * SQUARES);
        self.insert(SHARED_SCORES.to_owned(), vec![SQUARES * SQUARES, generated], data)
    }

    fn map_embedding(&mut self, weights: &Weights, list: &mut List) -> Result<usize, String> {
        let (weight, bias) = (self.array(&weights.ip_emb_w)?, self.array(&weights.ip_emb_b)?);
        let (channels, row) = (bias.len(), LEELA_PLANES + SQUARES);
        if weight.len() != channels * row {
            return Err(format!(
                "its embedding has {} weights for {channels} channels",
                weight.len()
            ));
        }
        let name = list.next_name();
        let rows = weight.chunks_exact(row);
        let of_planes = rows.clone().flat_map(|row| &row[..LEELA_PLANES]).copied().collect();
        self.insert(format!("{name}.weight"), vec![channels, LEELA_PLANES, 1, 1], of_planes)?;
        self.insert(format!("{name}.bias"), vec![channels], bias)?;
        list.layers.push(Layer::each_cell(channels, Activation::Identity));
        let shift = |square: usize| {
            rows.clone().map(move |row| {
                let own = row[LEELA_PLANES..].iter().enumerate();
                own.map(|(other, weight)| weight * number_of_pair(square, other)).sum::<f32>()
            })
        };
        let shift = (0..SQUARES).flat_map(shift).collect();
        let scale = vec![1.0; SQUARES * channels];
        self.gate(list, [scale, shift], channels, self.formats.activation)?;
        self.input_gate(weights, list, channels)?;
        Ok(channels)
    }

    fn dense_embedding(
        &mut self,
        weights: &Weights,
        form: EncoderForm,
        list: &mut List,
    ) -> Result<usize, String> {
        let bias = self.array(&weights.ip_emb_preproc_b)?;
        let weight = self.array(&weights.ip_emb_preproc_w)?;
        let appended = bias.len() / SQUARES;
        let name = list.next_name();
        let shape = vec![SQUARES * appended, SQUARES * EMBEDDED_PLANES];
        self.insert(format!("{name}.weight"), shape, weight)?;
        self.insert(format!("{name}.bias"), vec![SQUARES * appended], bias)?;
        list.layers.push(Layer::BoardEmbedding { planes: EMBEDDED_PLANES, channels: appended });
        let arrays = [&weights.ip_emb_w, &weights.ip_emb_b];
        let inputs = LEELA_PLANES + appended;
        let channels = self.square_dense(list, arrays, inputs, self.formats.activation, 1.0)?;
        let norm = [&weights.ip_emb_ln_gammas, &weights.ip_emb_ln_betas];
        self.layer_norm(list, norm, channels, form.millionths)?;
        self.input_gate(weights, list, channels)?;
        let ffn = weights.ip_emb_ffn.as_ref().ok_or("its embedding lacks dense layers")?;
        let norm = [&weights.ip_emb_ffn_ln_gammas, &weights.ip_emb_ffn_ln_betas];
        self.feed_forward(list, ffn, norm, channels, form)?;
        Ok(channels)
    }

    /// The gates of the embedding, which a file holds with a channel's squares in sequence.
    fn input_gate(
        &mut self,
        weights: &Weights,
        list: &mut List,
        channels: usize,
    ) -> Result<(), String> {
        let gates = [self.array(&weights.ip_mult_gate)?, self.array(&weights.ip_add_gate)?];
        if gates.iter().all(Vec::is_empty) {
            return Ok(());
        }
        if gates.iter().any(|gate| gate.len() != SQUARES * channels) {
            return Err(format!("its gates have not {SQUARES} numbers for {channels} channels"));
        }
        let by_square = gates.map(|gate| {
            let square = |square| (0..channels).map(move |channel| channel * SQUARES + square);
            (0..SQUARES).flat_map(square).map(|at| gate[at]).collect()
        });
        self.gate(list, by_square, channels, Activation::Identity)
    }

    fn gate(
        &mut self,
        list: &mut List,
        [scale, shift]: [Vec<f32>; 2],
        channels: usize,
        activation: Activation,
    ) -> Result<(), String> {
        let name = list.next_name();
        self.insert(format!("{name}.scale"), vec![SQUARES, channels], scale)?;
        self.insert(format!("{name}.shift"), vec![SQUARES, channels], shift)?;
        list.layers.push(Layer::Gate { activation });
        Ok(())
    }

    fn layer_norm(
        &mut self,
        list: &mut List,
        [scale, shift]: Arrays<'_>,
        channels: usize,
        millionths: u32,
    ) -> Result<(), String> {
        let name = list.next_name();
        self.norm_tensors(&name, [scale, shift], channels)?;
        list.layers.push(Layer::LayerNorm { millionths });
        Ok(())
    }

    fn norm_tensors(
        &mut self,
        name: &str,
        [scale, shift]: Arrays<'_>,
        channels: usize,
    ) -> Result<(), String> {
        let (scale, shift) = (self.array(scale)?, self.array(shift)?);
        self.insert(format!("{name}.scale"), vec![channels], scale)?;
        self.insert(format!("{name}.shift"), vec![channels], shift)
    }

    /// A layer of attention: two sums with their norms.
    fn encoder(
        &mut self,
        list: &mut List,
        encoder: &Encoder,
        channels: usize,
        form: EncoderForm,
    ) -> Result<(), String> {
        let missing = || format!("layer {} of its {} is incomplete", list.layers.len(), list.name);
        let mha = encoder.mha.as_ref().ok_or_else(missing)?;
        let ffn = encoder.ffn.as_ref().ok_or_else(missing)?;
        let mut inner = List { name: &format!("{}.layers", list.next_name()), layers: Vec::new() };
        let width = self.attention(&mut inner, mha, channels, form)?;
        let arrays = [&mha.dense_w, &mha.dense_b];
        self.square_dense(&mut inner, arrays, width, Activation::Identity, form.factor)?;
        list.layers
            .push(Layer::Residual { layers: inner.layers, activation: Activation::Identity });
        let norm = [&encoder.ln1_gammas, &encoder.ln1_betas];
        self.layer_norm(list, norm, channels, form.millionths)?;
        let norm = [&encoder.ln2_gammas, &encoder.ln2_betas];
        self.feed_forward(list, ffn, norm, channels, form)
    }

    /// Attention itself, and the channels of its output.
    fn attention(
        &mut self,
        list: &mut List,
        mha: &Mha,
        channels: usize,
        form: EncoderForm,
    ) -> Result<usize, String> {
        if mha.rpe_q.is_some() || mha.rpe_k.is_some() || mha.rpe_v.is_some() {
            return Err("its attention has encodings of relative positions".into());
        }
        let name = list.next_name();
        let mut width = 0;
        for (part, arrays) in [
            ("query", [&mha.q_w, &mha.q_b]),
            ("key", [&mha.k_w, &mha.k_b]),
            ("value", [&mha.v_w, &mha.v_b]),
        ] {
            width = self.square_tensors(&format!("{name}.{part}"), arrays, channels, 1.0)?;
        }
        let board = match &mha.smolgen {
            None => None,
            Some(own) => {
                let of = |part: &str| format!("{name}.board.{part}");
                let compressed =
                    self.square_tensors(&of("compress"), [&own.compress, &None], channels, 1.0)?;
                let arrays = [&own.dense1_w, &own.dense1_b];
                let hidden = self.board_tensors(&of("hidden"), arrays, compressed)?;
                let norm = [&own.ln1_gammas, &own.ln1_betas];
                self.norm_tensors(&of("hidden-norm"), norm, hidden)?;
                let arrays = [&own.dense2_w, &own.dense2_b];
                let activation = form.scores_activation;
                let all = self.dense(&of("generate"), arrays, hidden, activation)?.1;
                let norm = [&own.ln2_gammas, &own.ln2_betas];
                self.norm_tensors(&of("generate-norm"), norm, all)?;
                let generated = all / form.heads.max(1);
                Some(BoardScores { compressed, hidden, generated, activation })
            }
        };
        list.layers.push(Layer::Attention(Attention { heads: form.heads, width, board }));
        Ok(width)
    }

    /// Two dense layers of each square, added to their input, and the norm.
    fn feed_forward(
        &mut self,
        list: &mut List,
        ffn: &FeedForward,
        norm: Arrays<'_>,
        channels: usize,
        form: EncoderForm,
    ) -> Result<(), String> {
        let mut inner = List { name: &format!("{}.layers", list.next_name()), layers: Vec::new() };
        let first = [&ffn.dense1_w, &ffn.dense1_b];
        let hidden = self.square_dense(&mut inner, first, channels, form.ffn_activation, 1.0)?;
        let second = [&ffn.dense2_w, &ffn.dense2_b];
        self.square_dense(&mut inner, second, hidden, Activation::Identity, form.factor)?;
        list.layers
            .push(Layer::Residual { layers: inner.layers, activation: Activation::Identity });
        self.layer_norm(list, norm, channels, form.millionths)
    }

    /// A dense layer of each square, times a factor, and its outputs.
    fn square_dense(
        &mut self,
        list: &mut List,
        arrays: Arrays<'_>,
        inputs: usize,
        activation: Activation,
        factor: f32,
    ) -> Result<usize, String> {
        let channels = self.square_tensors(&list.next_name(), arrays, inputs, factor)?;
        list.layers.push(Layer::each_cell(channels, activation));
        Ok(channels)
    }

    /// The tensors of a dense layer of each square, and its outputs. A missing bias is zero.
    fn square_tensors(
        &mut self,
        name: &str,
        [weight, bias]: Arrays<'_>,
        inputs: usize,
        factor: f32,
    ) -> Result<usize, String> {
        let (mut weight, mut bias) = (self.array(weight)?, self.array(bias)?);
        let channels = if bias.is_empty() { weight.len() / inputs.max(1) } else { bias.len() };
        bias.resize(channels, 0.0);
        weight.iter_mut().chain(&mut bias).for_each(|number| *number *= factor);
        self.insert(format!("{name}.weight"), vec![channels, inputs, 1, 1], weight)?;
        self.insert(format!("{name}.bias"), vec![channels], bias)?;
        Ok(channels)
    }

    /// The tensors of a dense layer of the board, whose inputs a file holds with a square's channels
    /// in sequence, and its outputs.
    fn board_tensors(
        &mut self,
        name: &str,
        [weight, bias]: Arrays<'_>,
        channels: usize,
    ) -> Result<usize, String> {
        let (weight, bias) = (self.array(weight)?, self.array(bias)?);
        let (outputs, inputs) = (bias.len(), SQUARES * channels);
        if weight.len() != outputs * inputs {
            let count = weight.len();
            return Err(format!("{name} has {count} weights for {inputs} x {outputs}"));
        }
        let by_channel = |row: usize| {
            let places = (0..channels).flat_map(move |channel| {
                (0..SQUARES).map(move |square| row * inputs + square * channels + channel)
            });
            places.map(|at| weight[at])
        };
        let data = (0..outputs).flat_map(by_channel).collect();
        self.insert(format!("{name}.weight"), vec![outputs, inputs], data)?;
        self.insert(format!("{name}.bias"), vec![outputs], bias)?;
        Ok(outputs)
    }
}

/// Layers one after the other, and the name of their list.
struct List<'a> {
    name: &'a str,
    layers: Vec<Layer>,
}

impl List<'_> {
    /// The name of the next layer.
    fn next_name(&self) -> String {
        format!("{}.{}", self.name, self.layers.len())
    }
}

/// The fixed number of a square for another one: -1 for itself, 1 for one that a queen or a knight
/// reaches on an empty board, and else 0.
fn number_of_pair(square: usize, other: usize) -> f32 {
    let distance = |one: usize, other: usize| one.abs_diff(other);
    let (files, ranks) = (distance(square % 8, other % 8), distance(square / 8, other / 8));
    let is_queens = files == 0 || ranks == 0 || files == ranks;
    let is_knights = files.min(ranks) == 1 && files.max(ranks) == 2;
    match (square == other, is_queens || is_knights) {
        (true, _) => -1.0,
        (_, true) => 1.0,
        _ => 0.0,
    }
}
