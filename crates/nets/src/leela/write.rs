//! A network as a file of Leela's: for tests of the reader and for outside judges.

mod attention;

use std::io::Write;

use flate2::{Compression, write::GzEncoder};
use prost::Message;

use super::{
    layers,
    messages::{
        Array, ConvBlock, EngineVersion, Format, Net, NetworkFormat, Residual, SqueezeExcite,
        Weights,
    },
};
use crate::{Description, Encoding, Head, HeadKind, HeadOutput, Layer, Network};

/// The bytes of a `.pb.gz` file, with weights rounded to 16 bits.
///
/// # Errors
/// The end of a sentence: what in the network no such file holds.
pub fn leela_file(network: &Network) -> Result<Vec<u8>, String> {
    let net = message(network)?;
    check(&layers::network(&net, &network.name)?, network)?;
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&net.encode_to_vec()).map_err(|error| error.to_string())?;
    encoder.finish().map_err(|error| error.to_string())
}

/// Checks that a network is read as it was: what the file has no place for would be lost in silence.
fn check(back: &Network, network: &Network) -> Result<(), String> {
    if back.description != network.description {
        return Err("it has layers, or an order of them, that no network of Leela's has".into());
    }
    for (name, tensor) in &back.tensors {
        let own = network.tensor(name).ok_or_else(|| format!("it has no {name}"))?;
        let [least, most] = [f32::min, f32::max].map(|one| own.data.iter().copied().fold(0.0, one));
        // Rounded to 16 bits, and once more by a factor.
        let step = (most - least) / 65535.0;
        let differs = |(one, other): (&f32, &f32)| (one - other).abs() > step;
        if own.shape != tensor.shape || own.data.iter().zip(&tensor.data).any(differs) {
            return Err(format!("a file of Leela's has no place for {name}"));
        }
    }
    Ok(())
}

fn message(network: &Network) -> Result<Net, String> {
    let description = &network.description;
    let Encoding::Leela(input) = description.encoding else {
        return Err(format!("its input is {}", description.encoding.name()));
    };
    let writer = Writer { network };
    if let Some(Layer::BoardEmbedding { .. }) = description.trunk.first() {
        return attention::message(&writer, input);
    }
    let (policy, value) =
        (head(description, HeadKind::Moves)?, head(description, HeadKind::Value)?);
    let mut weights = Weights { input: Some(writer.conv("trunk.0")?), ..Weights::default() };
    for (index, layer) in description.trunk.iter().enumerate().skip(1) {
        weights.residual.push(writer.residual(index, layer)?);
    }
    if policy.output == HeadOutput::LeelaPlanes {
        weights.policy1 = Some(writer.conv("moves.0")?);
        weights.policy = Some(writer.conv("moves.1")?);
    } else {
        weights.policy = Some(writer.conv("moves.0")?);
        [weights.ip_pol_w, weights.ip_pol_b] = writer.dense("moves.1")?;
    }
    weights.value = Some(writer.conv("value.0")?);
    [weights.ip1_val_w, weights.ip1_val_b] = writer.dense("value.1")?;
    [weights.ip2_val_w, weights.ip2_val_b] = writer.dense("value.2")?;
    let has_moves_left = description.head(HeadKind::MovesLeft).is_some();
    if has_moves_left {
        weights.moves_left = Some(writer.conv("moves-left.0")?);
        [weights.ip1_mov_w, weights.ip1_mov_b] = writer.dense("moves-left.1")?;
        [weights.ip2_mov_w, weights.ip2_mov_b] = writer.dense("moves-left.2")?;
    }
    let number = |is_second| Some(if is_second { 2 } else { 1 });
    let is_wdl = value.output == HeadOutput::WinDrawLoss;
    let has_excitation = weights.residual.iter().any(|block| block.se.is_some());
    let format = NetworkFormat {
        input: Some(input.number()),
        output: number(is_wdl),
        network: Some(if has_excitation { 4 } else { 3 }),
        policy: number(policy.output == HeadOutput::LeelaPlanes),
        value: number(is_wdl),
        moves_left: Some(has_moves_left.into()),
        default_activation: Some(0),
        ..NetworkFormat::default()
    };
    Ok(file_of(format, weights, [0, 25]))
}

/// The whole file, for Leela Chess Zero from this version on.
fn file_of(format: NetworkFormat, weights: Weights, [major, minor]: [u32; 2]) -> Net {
    let (major, minor, patch) = (Some(major), Some(minor), Some(0));
    Net {
        magic: Some(0x1c0),
        min_version: Some(EngineVersion { major, minor, patch }),
        format: Some(Format { weights_encoding: Some(1), network_format: Some(format) }),
        weights: Some(weights),
        ..Net::default()
    }
}

fn head(description: &Description, kind: HeadKind) -> Result<&Head, String> {
    description.head(kind).ok_or_else(|| format!("it has no {} head", kind.name()))
}

struct Writer<'a> {
    network: &'a Network,
}

impl Writer<'_> {
    fn array(&self, name: &str) -> Result<Option<Array>, String> {
        let tensor = self.network.tensor(name).ok_or_else(|| format!("it has no {name}"))?;
        Ok(Some(linear16(&tensor.data)))
    }

    fn dense(&self, name: &str) -> Result<[Option<Array>; 2], String> {
        Ok([self.array(&format!("{name}.weight"))?, self.array(&format!("{name}.bias"))?])
    }

    fn conv(&self, name: &str) -> Result<ConvBlock, String> {
        let part = |part: &str| self.array(&format!("{name}.{part}"));
        let weights = part("weight")?;
        if self.network.tensor(&format!("{name}.norm.mean")).is_none() {
            return Ok(ConvBlock { weights, biases: part("bias")?, ..ConvBlock::default() });
        }
        Ok(ConvBlock {
            weights,
            biases: None,
            means: part("norm.mean")?,
            variances: part("norm.variance")?,
            gammas: part("norm.scale")?,
            betas: part("norm.shift")?,
        })
    }

    fn residual(&self, index: usize, layer: &Layer) -> Result<Residual, String> {
        let Layer::Residual { layers, .. } = layer else {
            return Err(format!("trunk layer {index} is not a residual block"));
        };
        let name = format!("trunk.{index}.layers");
        let se = match layers.get(2) {
            Some(Layer::SqueezeExcite { .. }) => {
                let [w1, b1] = self.dense(&format!("{name}.2.squeeze"))?;
                let [w2, b2] = self.dense(&format!("{name}.2.excite"))?;
                Some(SqueezeExcite { w1, b1, w2, b2 })
            }
            _ => None,
        };
        let [conv1, conv2] = [0, 1].map(|at| self.conv(&format!("{name}.{at}")));
        Ok(Residual { conv1: Some(conv1?), conv2: Some(conv2?), se })
    }
}

/// Numbers as shares of the way from the smallest to the largest.
fn linear16(numbers: &[f32]) -> Array {
    let min = numbers.iter().copied().fold(f32::INFINITY, f32::min);
    let max = numbers.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let range = if max > min { max - min } else { 1.0 };
    let share = |number: &f32| ((number - min) / range * 65535.0).round() as u16;
    let params: Vec<u8> = numbers.iter().flat_map(|number| share(number).to_le_bytes()).collect();
    Array { min: Some(min), max: Some(max), params: Some(params.into()), encoding: None }
}
