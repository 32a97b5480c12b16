//! A network as an ONNX file, for other runtimes.
//!
//! | name | shape | content |
//! |---|---|---|
//! | `planes` (input) | `[batch, planes, 8, 8]` | planes of the [`Encoding`](crate::Encoding), rank 1 first |
//! | each head's name | `[batch, outputs]` | its outputs before calibration, in the order of [`Head`] |
//!
//! Planes and outputs are seen from the side to move, or from White's where the encoding
//! [is](crate::Encoding::is_whites_view), and mirrored where it [is](crate::Encoding::mirrors). The
//! texts of input and outputs say which.
//!
//! The metadata holds everything else of the network's file but its int8 ranges: `name`,
//! `fingerprint`, and as JSON `description`, `calibration` and `provenance`.
//!
//! | module | what it does |
//! |---|---|
//! | [`messages`] | the messages of a file, as protobuf |
//! | [`graph`] | operations and constants |
//! | [`layers`], [`attention`] | layers become operations |

mod attention;
mod graph;
mod layers;
mod messages;

use prost::Message;

use self::{
    graph::{Graph, Layout, Value},
    layers::GraphWriter,
    messages::{
        Dimension, Entry, FLOAT, Model, OnnxGraph, OperatorSet, TensorShape, TensorType, Type,
        ValueInfo,
    },
};
use crate::{Encoding, Head, HeadKind, HeadOutput, Network};

/// The version of the file format that comes with [`OPERATORS`].
const FORMAT: i64 = 8;

/// The version of ONNX's operators: the first with Mish.
const OPERATORS: i64 = 18;

/// The name of the input.
const PLANES: &str = "planes";

/// The bytes of an `.onnx` file. Batch norms are folded into the weights.
///
/// # Errors
/// The end of a sentence: what in the network cannot be written.
pub fn onnx_file(network: &Network) -> Result<Vec<u8>, String> {
    let description = &network.description;
    description.check()?;
    let mut writer = GraphWriter { network, graph: Graph::default() };
    let input =
        Value { name: PLANES.into(), shape: description.input_shape(), layout: Layout::Planes };
    let trunk = writer.layers("trunk", &description.trunk, input)?;
    let encoding = description.encoding;
    let view = match encoding {
        Encoding::KingRight21 => {
            "the side to move, mirrored if its king stands on a to d and nobody may castle"
        }
        _ if encoding.is_whites_view() => "White's side",
        _ => "the side to move",
    };
    let mut outputs = Vec::new();
    for head in &description.heads {
        let name = head.kind.name();
        let value = writer.layers(name, &head.layers, trunk.clone())?;
        // All channels of a square together.
        let value = match value.layout {
            Layout::Planes => writer.graph.in_layout(&value, Layout::Cells),
            _ => value,
        };
        writer.graph.add(name, "Flatten", &[&value.name], &[]);
        let count = value.shape.cells * value.shape.channels;
        let text = format!("{} (seen from {view})", meaning(head));
        outputs.push(value_info(name, &[count], &text));
    }
    let Graph { nodes, constants } = writer.graph;
    let input = format!("input planes {}, seen from {view}", encoding.name());
    let graph = OnnxGraph {
        node: nodes,
        name: network.name.clone(),
        initializer: constants,
        input: vec![value_info(PLANES, &[encoding.planes(), 8, 8], &input)],
        output: outputs,
    };
    let model = Model {
        ir_version: FORMAT,
        producer_name: "batch-first".into(),
        producer_version: env!("CARGO_PKG_VERSION").into(),
        doc_string: format!("Batch First network {}", network.name),
        graph: Some(graph),
        opset_import: vec![OperatorSet { domain: String::new(), version: OPERATORS }],
        metadata_props: metadata(network)?,
    };
    // Protobuf's limit.
    if model.encoded_len() >= 1 << 31 {
        return Err("its weights take more than the 2 GiB of an ONNX file".into());
    }
    Ok(model.encode_to_vec())
}

fn metadata(network: &Network) -> Result<Vec<Entry>, String> {
    fn json(value: &impl serde::Serialize) -> Result<String, String> {
        serde_json::to_string(value).map_err(|error| error.to_string())
    }
    let entries = [
        ("name", network.name.clone()),
        ("fingerprint", network.fingerprint()),
        ("description", json(&network.description)?),
        ("calibration", json(&network.calibration)?),
        ("provenance", json(&network.provenance)?),
    ];
    Ok(entries.map(|(key, value)| Entry { key: key.into(), value }).into())
}

/// What a head's outputs are, for people.
fn meaning(head: &Head) -> &'static str {
    match (head.output, head.kind) {
        (HeadOutput::WinDrawLoss, _) => "logits of win, draw and loss",
        (HeadOutput::Expectation, _) => "its hyperbolic tangent is wins minus losses",
        (HeadOutput::LeelaPlanes, _) => "logit of each move: 64 squares times 80 move planes",
        (HeadOutput::LeelaMoves, _) => "logit of each move of Leela's list",
        (HeadOutput::LeelaPairs, _) => "logit of each pair of squares, then of promotions",
        (HeadOutput::Plain, HeadKind::Value) => {
            "the map `value` of the calibration makes centipawns of it"
        }
        (HeadOutput::Plain, HeadKind::Moves) => {
            "the map `moves` of the calibration makes scores of them: 64 squares times 73 move planes"
        }
        (HeadOutput::Plain, HeadKind::MovesLeft) => "plies until the game ends",
        (HeadOutput::Plain, _) => "logit of each square",
    }
}

/// An input or output of `[batch, dims]` floats.
fn value_info(name: &str, dims: &[usize], doc: &str) -> ValueInfo {
    let batch = Dimension { value: None, name: Some("batch".into()) };
    let fixed = dims.iter().map(|&length| Dimension { value: Some(length as i64), name: None });
    let shape = TensorShape { dim: std::iter::once(batch).chain(fixed).collect() };
    let tensor = TensorType { element: FLOAT, shape: Some(shape) };
    ValueInfo {
        name: name.to_owned(),
        kind: Some(Type { tensor: Some(tensor) }),
        doc_string: doc.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::{Activation, Cockfish, ConvChess, Description, Leela, LeelaAttention, LeelaInput};

    fn networks() -> Vec<Network> {
        let input = LeelaInput::Classical;
        let leela = Leela { input, channels: 6, blocks: 1, squeezed: 2, is_older: false };
        let attention = LeelaAttention {
            input,
            channels: 6,
            layers: 2,
            heads: 3,
            hidden: 10,
            embedded: 2,
            generated: 4,
            activation: Activation::Mish,
        };
        let descriptions = [
            Description::batch_first_shared(),
            Description::cockfish(&Cockfish { filters: 4, blocks: 1, ..Cockfish::default() }),
            Description::convchess(&ConvChess::default(), &HeadKind::SELECTORS),
            Description::leela(&leela),
            Description::leela_attention(&attention),
        ];
        descriptions.map(|description| Network::random(description, 1).unwrap()).into()
    }

    /// The numbers are compared with another runtime's by scripts/judge_onnx.py.
    #[test]
    fn every_operation_reads_what_is_there() {
        for network in networks() {
            let bytes = onnx_file(&network).unwrap();
            assert!(bytes == onnx_file(&network).unwrap(), "equal networks give equal bytes");
            let graph = Model::decode(&*bytes).unwrap().graph.unwrap();
            let is_whites = network.description.encoding.is_whites_view();
            let view =
                if is_whites { "seen from White's side" } else { "seen from the side to move" };
            let mut seen = graph.input.iter().chain(&graph.output);
            assert!(seen.all(|one| one.doc_string.contains(view)), "{view}");
            let mut known = HashSet::from([PLANES.to_owned()]);
            for constant in &graph.initializer {
                let name = &constant.name;
                assert!(known.insert(name.clone()), "{name} is there twice");
            }
            for node in &graph.node {
                assert!(node.input.iter().all(|input| known.contains(input)), "{node:?}");
                assert!(node.output.iter().all(|output| known.insert(output.clone())), "{node:?}");
            }
            let outputs: Vec<&str> = graph.output.iter().map(|one| one.name.as_str()).collect();
            let heads: Vec<&str> =
                network.description.heads.iter().map(|head| head.kind.name()).collect();
            assert_eq!(outputs, heads);
            assert!(outputs.iter().all(|&output| known.contains(output)));
        }
    }

    #[test]
    fn what_a_network_lacks_is_named() {
        let mut network = networks().remove(0);
        network.tensors.remove("trunk.1.weight");
        assert_eq!(onnx_file(&network).unwrap_err(), "it has no trunk.1.weight");
    }
}
