//! Writes a network of Leela's kind with random weights: for outside judges and measurements.
//!
//!     cargo run --release -p batch-first-nets --example leela_file -- OUT.pb.gz CHANNELS BLOCKS SQUEEZED [list]
//!
//! SQUEEZED is the number of channels between squeeze and excitation, 0 for blocks without them.
//! With `list` the policy is a list of moves and the value one number, as in older networks.

use nets::{Description, Leela, Network, leela_file};

const USAGE: &str = "leela_file OUT.pb.gz CHANNELS BLOCKS SQUEEZED [list]";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, channels, blocks, squeezed, rest @ ..] = arguments.as_slice() else {
        return Err(USAGE.into());
    };
    let choice = Leela {
        channels: channels.parse()?,
        blocks: blocks.parse()?,
        squeezed: squeezed.parse()?,
        is_older: rest.first().is_some_and(|word| word == "list"),
    };
    let mut network = Network::random(Description::leela(&choice), 1)?;
    for (name, tensor) in &mut network.tensors {
        // Otherwise activations would grow from block to block.
        if name.ends_with(".layers.1.norm.scale") {
            tensor.data.fill(0.3);
        }
    }
    std::fs::write(path, leela_file(&network)?)?;
    Ok(())
}
