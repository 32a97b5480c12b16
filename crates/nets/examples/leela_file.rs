//! Writes a network of Leela's kind with random weights: for outside judges and measurements.
//!
//!     cargo run --release -p batch-first-nets --example leela_file -- OUT.pb.gz CHANNELS BLOCKS SQUEEZED [list]
//!
//! SQUEEZED is the number of channels between squeeze and excitation, 0 for blocks without them.
//! With `list` the policy is a list of moves and the value one number, as in older networks.

use nets::{
    Activation, Description, Encoding, Head, HeadKind, HeadOutput, LEELA_MOVE_PLANES, LEELA_MOVES,
    Layer, Network, Padding, leela_file,
};

const USAGE: &str = "leela_file OUT.pb.gz CHANNELS BLOCKS SQUEEZED [list]";

fn conv(kernel: usize, channels: usize, norm: bool, activation: Activation) -> Layer {
    Layer::Conv { kernel, channels, padding: Padding::Same, norm, activation }
}

fn description(channels: usize, blocks: usize, squeezed: usize, is_older: bool) -> Description {
    let (relu, identity) = (Activation::Relu, Activation::Identity);
    let mut inner = vec![conv(3, channels, true, relu), conv(3, channels, true, identity)];
    if squeezed > 0 {
        inner.push(Layer::SqueezeExcite { channels: squeezed, activation: relu });
    }
    let mut trunk = vec![conv(3, channels, true, relu)];
    trunk.resize(blocks + 1, Layer::Residual { layers: inner, activation: relu });
    let dense = |channels, activation| Layer::Dense { channels, norm: false, activation };
    let (moves, policy, value, outputs) = if is_older {
        let moves = vec![conv(1, 32, true, relu), dense(LEELA_MOVES, identity)];
        (moves, HeadOutput::LeelaMoves, HeadOutput::Expectation, 1)
    } else {
        let last = conv(3, LEELA_MOVE_PLANES, false, identity);
        let moves = vec![conv(3, channels, true, relu), last];
        (moves, HeadOutput::LeelaPlanes, HeadOutput::WinDrawLoss, 3)
    };
    let values = vec![conv(1, 32, true, relu), dense(128, relu), dense(outputs, identity)];
    let heads = vec![
        Head { kind: HeadKind::Moves, output: policy, layers: moves },
        Head { kind: HeadKind::Value, output: value, layers: values },
    ];
    Description { encoding: Encoding::Leela112, trunk, heads }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, channels, blocks, squeezed, rest @ ..] = arguments.as_slice() else {
        return Err(USAGE.into());
    };
    let is_older = rest.first().is_some_and(|word| word == "list");
    let description = description(channels.parse()?, blocks.parse()?, squeezed.parse()?, is_older);
    let mut network = Network::random(description, 1)?;
    for (name, tensor) in &mut network.tensors {
        // Otherwise activations would grow from block to block.
        if name.ends_with(".layers.1.norm.scale") {
            tensor.data.fill(0.3);
        }
    }
    std::fs::write(path, leela_file(&network)?)?;
    Ok(())
}
