//! Messages of a file become a description and its tensors.

use std::{cell::Cell, collections::BTreeMap, path::Path};

use super::{
    formats::Formats,
    messages::{Array, ConvBlock, Net, SqueezeExcite, Weights},
    scores,
    weights::{count, numbers},
};
use crate::{
    Activation, Description, Encoding, Head, HeadKind, HeadOutput, LEELA_PLANES, Layer, Network,
    Padding, Provenance, Tensor, size::MAX_PARAMETERS,
};

/// The network of a file; errors are the end of a sentence that begins with its name.
pub(super) fn network(net: &Net, file: &str) -> Result<Network, String> {
    let format = net.format.clone().unwrap_or_default();
    let weights = net.weights.as_ref().ok_or("it holds no weights")?;
    let formats = Formats::of(&format, weights)?;
    let mut builder = Builder {
        default: format.weights_encoding.unwrap_or(1),
        tensors: BTreeMap::new(),
        numbers: Cell::new(0),
        formats: &formats,
    };
    let (trunk, channels) = match formats.embedding {
        Some(embedding) => builder.attention_trunk(weights, embedding)?,
        None => builder.trunk(weights)?,
    };
    let mut heads = vec![builder.policy(weights, channels)?, builder.value(weights, channels)?];
    if formats.has_moves_left {
        heads.push(builder.moves_left(weights, channels)?);
    }
    let name = Path::new(file).file_name().map_or(file.into(), |name| name.to_string_lossy());
    let network = Network {
        name: name.trim_end_matches(".gz").trim_end_matches(".pb").to_owned(),
        tensors: builder.tensors,
        description: Description { encoding: Encoding::Leela(formats.input), trunk, heads },
        calibration: scores::calibration(),
        int8_ranges: None,
        provenance: provenance(net, weights, channels, &formats),
    };
    check_tensors(&network)?;
    Ok(network)
}

/// Checks that the tensors are those of the description: arrays that do not fit each other give
/// layers that no array fits.
fn check_tensors(network: &Network) -> Result<(), String> {
    let specs = network.description.tensors()?;
    for spec in &specs {
        let tensor = network.tensor(&spec.name).ok_or_else(|| format!("it lacks {}", spec.name))?;
        if tensor.shape != spec.shape {
            let (name, shape) = (&spec.name, &spec.shape);
            return Err(format!("{name} is {:?} instead of {shape:?}", tensor.shape));
        }
    }
    let is_known = |name: &String| specs.iter().any(|spec| spec.name == *name);
    match network.tensors.keys().find(|name| !is_known(name)) {
        Some(name) => Err(format!("{name} belongs to none of its layers")),
        None => Ok(()),
    }
}

fn provenance(net: &Net, weights: &Weights, channels: usize, formats: &Formats) -> Provenance {
    let mut lines = Provenance::new();
    lines.insert("format".into(), format!("Leela Chess Zero, {}", formats.input.name()));
    let layers = if formats.embedding.is_some() {
        let scores = weights.encoder.iter().filter_map(|encoder| encoder.mha.as_ref());
        let scores = scores.filter(|attention| attention.smolgen.is_some()).count();
        format!(
            "{} layers of attention of {} heads and {channels} channels, {scores} with board scores",
            weights.encoder.len(),
            weights.headcount.unwrap_or_default()
        )
    } else {
        let excited = weights.residual.iter().filter(|block| block.se.is_some()).count();
        format!(
            "{} residual blocks of {channels} channels, {excited} of them with squeeze and excitation",
            weights.residual.len()
        )
    };
    lines.insert("layers".into(), layers);
    lines.insert("outputs".into(), format!("{}, {}", formats.policy.name(), formats.value.name()));
    let training = net.training_params.clone().unwrap_or_default();
    if let Some(steps) = training.training_steps {
        lines.insert("training steps".into(), steps.to_string());
    }
    if let Some(accuracy) = training.accuracy {
        lines.insert("move accuracy in training".into(), format!("{accuracy:.1} %"));
    }
    if let Some(licence) = net.license.as_ref().filter(|text| !text.is_empty()) {
        lines.insert("licence".into(), licence.clone());
    }
    lines
}

pub(super) struct Builder<'a> {
    /// Number format of arrays that name none.
    default: u32,
    pub(super) formats: &'a Formats,
    tensors: BTreeMap<String, Tensor>,
    /// Numbers so far: a file with too many is refused before they are read.
    numbers: Cell<u64>,
}

impl Builder<'_> {
    /// Input layer and residual blocks, and the channels that they end in.
    fn trunk(&mut self, weights: &Weights) -> Result<(Vec<Layer>, usize), String> {
        let activation = self.formats.activation;
        let input = weights.input.as_ref().ok_or("it has no input layer")?;
        let (layer, channels) = self.conv("trunk.0", input, LEELA_PLANES, activation)?;
        let mut trunk = vec![layer];
        for (index, block) in weights.residual.iter().enumerate() {
            let name = format!("trunk.{}.layers", index + 1);
            let missing = || format!("residual block {index} lacks a convolution");
            let [first, second] =
                [&block.conv1, &block.conv2].map(|conv| conv.as_ref().ok_or_else(missing));
            let (first, inner) = self.conv(&format!("{name}.0"), first?, channels, activation)?;
            let (second, outer) =
                self.conv(&format!("{name}.1"), second?, inner, Activation::Identity)?;
            let mut layers = vec![first, second];
            if let Some(se) = &block.se {
                layers.push(self.squeeze_excite(&format!("{name}.2"), se, outer)?);
            }
            trunk.push(Layer::Residual { layers, activation });
        }
        Ok((trunk, channels))
    }

    fn policy(&mut self, weights: &Weights, channels: usize) -> Result<Head, String> {
        let (output, activation) = (self.formats.policy, self.formats.activation);
        let conv = || weights.policy.as_ref().ok_or("it has no policy");
        let layers = match output {
            HeadOutput::LeelaPairs => self.attention_policy(weights, channels)?,
            HeadOutput::LeelaPlanes => {
                let first = weights.policy1.as_ref().ok_or("its policy lacks a convolution")?;
                let (first, inner) = self.conv("moves.0", first, channels, activation)?;
                let (last, _) = self.conv("moves.1", conv()?, inner, Activation::Identity)?;
                vec![first, last]
            }
            _ => {
                let (first, inner) = self.conv("moves.0", conv()?, channels, activation)?;
                let arrays = [&weights.ip_pol_w, &weights.ip_pol_b];
                let last = self.dense("moves.1", arrays, 64 * inner, Activation::Identity)?;
                vec![first, last.0]
            }
        };
        Ok(Head { kind: HeadKind::Moves, output, layers })
    }

    fn value(&mut self, weights: &Weights, channels: usize) -> Result<Head, String> {
        let output = self.formats.value;
        let layers = if self.formats.embedding.is_some() {
            self.attention_value(weights, channels)?
        } else {
            let conv = weights.value.as_ref().ok_or("it has no value head")?;
            let dense = [
                [&weights.ip1_val_w, &weights.ip1_val_b],
                [&weights.ip2_val_w, &weights.ip2_val_b],
            ];
            self.dense_head("value", conv, channels, dense, Activation::Identity)?
        };
        Ok(Head { kind: HeadKind::Value, output, layers })
    }

    fn moves_left(&mut self, weights: &Weights, channels: usize) -> Result<Head, String> {
        let dense =
            [[&weights.ip1_mov_w, &weights.ip1_mov_b], [&weights.ip2_mov_w, &weights.ip2_mov_b]];
        let layers = if self.formats.embedding.is_some() {
            let each = [&weights.ip_mov_w, &weights.ip_mov_b];
            self.attention_dense_head("moves-left", each, channels, dense, Activation::Relu)?
        } else {
            let conv = weights.moves_left.as_ref().ok_or("it has no moves-left head")?;
            self.dense_head("moves-left", conv, channels, dense, Activation::Relu)?
        };
        Ok(Head { kind: HeadKind::MovesLeft, output: HeadOutput::Plain, layers })
    }

    /// A 1x1 convolution and two dense layers, the last with an activation of its own.
    fn dense_head(
        &mut self,
        head: &str,
        conv: &ConvBlock,
        channels: usize,
        [first, second]: [[&Option<Array>; 2]; 2],
        last: Activation,
    ) -> Result<Vec<Layer>, String> {
        let activation = self.formats.activation;
        let (conv, inner) = self.conv(&format!("{head}.0"), conv, channels, activation)?;
        let (first, width) = self.dense(&format!("{head}.1"), first, 64 * inner, activation)?;
        let (second, _) = self.dense(&format!("{head}.2"), second, width, last)?;
        Ok(vec![conv, first, second])
    }

    /// The numbers of an array; none where it is missing.
    pub(super) fn array(&self, array: &Option<Array>) -> Result<Vec<f32>, String> {
        let Some(array) = array else { return Ok(Vec::new()) };
        self.numbers.set(self.numbers.get() + count(array, self.default));
        // Some arrays are no parameters, so this is no tighter than the description's own limit.
        if self.numbers.get() > MAX_PARAMETERS + MAX_PARAMETERS / 8 {
            return Err(format!("it has more than {MAX_PARAMETERS} parameters"));
        }
        numbers(array, self.default)
    }

    pub(super) fn insert(
        &mut self,
        name: String,
        shape: Vec<usize>,
        data: Vec<f32>,
    ) -> Result<(), String> {
        if data.len() != shape.iter().product::<usize>() {
            return Err(format!("{name} has {} numbers instead of {shape:?}", data.len()));
        }
        self.tensors.insert(name, Tensor { shape, data });
        Ok(())
    }

    /// A convolution of 1 or 3 squares with its batch norm or bias, and its output channels.
    fn conv(
        &mut self,
        name: &str,
        block: &ConvBlock,
        inputs: usize,
        activation: Activation,
    ) -> Result<(Layer, usize), String> {
        let weights = self.array(&block.weights)?;
        let bias = self.array(&block.biases)?;
        let [means, variances, gammas, betas] =
            [&block.means, &block.variances, &block.gammas, &block.betas]
                .map(|one| self.array(one));
        let (means, variances, mut gammas, mut betas) = (means?, variances?, gammas?, betas?);
        let norm = !means.is_empty();
        let channels = if norm { means.len() } else { bias.len() };
        let each = inputs.max(1) * channels.max(1);
        let kernel = match weights.len() / each {
            1 => 1,
            9 => 3,
            _ => {
                return Err(format!(
                    "{name} has {} weights for {channels} channels",
                    weights.len()
                ));
            }
        };
        self.insert(format!("{name}.weight"), vec![channels, inputs, kernel, kernel], weights)?;
        if norm {
            gammas.resize(if gammas.is_empty() { channels } else { gammas.len() }, 1.0);
            betas.resize(if betas.is_empty() { channels } else { betas.len() }, 0.0);
            let mut bias = bias;
            bias.resize(channels, 0.0);
            let means = means.iter().zip(&bias).map(|(mean, bias)| mean - bias).collect();
            if variances.iter().any(|&variance| variance < 0.0) {
                return Err(format!("{name} has a negative variance"));
            }
            for (part, data) in
                [("mean", means), ("variance", variances), ("scale", gammas), ("shift", betas)]
            {
                self.insert(format!("{name}.norm.{part}"), vec![channels], data)?;
            }
        } else {
            self.insert(format!("{name}.bias"), vec![channels], bias)?;
        }
        Ok((Layer::Conv { kernel, channels, padding: Padding::Same, norm, activation }, channels))
    }

    /// A dense layer, and its outputs.
    pub(super) fn dense(
        &mut self,
        name: &str,
        [weights, biases]: [&Option<Array>; 2],
        inputs: usize,
        activation: Activation,
    ) -> Result<(Layer, usize), String> {
        let (weights, bias) = (self.array(weights)?, self.array(biases)?);
        let channels = bias.len();
        self.insert(format!("{name}.weight"), vec![channels, inputs], weights)?;
        self.insert(format!("{name}.bias"), vec![channels], bias)?;
        Ok((Layer::Dense { channels, norm: false, activation }, channels))
    }

    fn squeeze_excite(
        &mut self,
        name: &str,
        se: &SqueezeExcite,
        width: usize,
    ) -> Result<Layer, String> {
        let [w1, b1, w2, b2] = [&se.w1, &se.b1, &se.w2, &se.b2].map(|array| self.array(array));
        let (w1, b1, w2, b2) = (w1?, b1?, w2?, b2?);
        let channels = b1.len();
        self.insert(format!("{name}.squeeze.weight"), vec![channels, width], w1)?;
        self.insert(format!("{name}.squeeze.bias"), vec![channels], b1)?;
        self.insert(format!("{name}.excite.weight"), vec![2 * width, channels], w2)?;
        self.insert(format!("{name}.excite.bias"), vec![2 * width], b2)?;
        Ok(Layer::SqueezeExcite { channels, activation: self.formats.activation })
    }
}
