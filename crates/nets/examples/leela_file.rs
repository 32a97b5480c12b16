//! Writes a network of Leela's kind with random weights: for outside judges and measurements.
//!
//!     cargo run --release -p batch-first-nets --example leela_file -- OUT.pb.gz KIND NUMBER...
//!
//! KIND and its numbers: `conv CHANNELS BLOCKS SQUEEZED [list] [INPUT]` or
//! `attention CHANNELS LAYERS HEADS GENERATED [INPUT]`.
//!
//! SQUEEZED is the number of channels between squeeze and excitation, 0 for blocks without them.
//! With `list` the policy is a list of moves and the value one number, as in older networks; the
//! others guess the moves that are left, too.
//! GENERATED is the number of outputs a head that make the scores of the board, 0 for none. INPUT is
//! the number of the input format; the first is left out.

use nets::{
    Activation, Description, Head, HeadKind, Layer, Leela, LeelaAttention, LeelaInput, Network,
    Padding, leela_file,
};

const USAGE: &str = "leela_file OUT.pb.gz conv CHANNELS BLOCKS SQUEEZED [list] [INPUT], or
leela_file OUT.pb.gz attention CHANNELS LAYERS HEADS GENERATED [INPUT]";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, kind, channels, depth, third, rest @ ..] = arguments.as_slice() else {
        return Err(USAGE.into());
    };
    let (channels, depth, third) = (channels.parse()?, depth.parse()?, third.parse()?);
    let input = |word: Option<&String>| match word {
        Some(word) => LeelaInput::of_number(word.parse()?).ok_or_else(|| USAGE.into()),
        None => Ok::<_, Box<dyn std::error::Error>>(LeelaInput::Classical),
    };
    let description = if kind == "attention" {
        let [generated, rest @ ..] = rest else { return Err(USAGE.into()) };
        Description::leela_attention(&LeelaAttention {
            input: input(rest.first())?,
            channels,
            layers: depth,
            heads: third,
            hidden: 2 * channels,
            embedded: channels / 2,
            generated: generated.parse()?,
            activation: Activation::Mish,
        })
    } else {
        let is_older = rest.first().is_some_and(|word| word == "list");
        let input = input(rest.get(usize::from(is_older)))?;
        let choice = Leela { input, channels, blocks: depth, squeezed: third, is_older };
        let mut description = Description::leela(&choice);
        if !is_older {
            description.heads.push(moves_left());
        }
        description
    };
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

fn moves_left() -> Head {
    let activation = Activation::Relu;
    let (kernel, padding) = (1, Padding::Same);
    let conv = Layer::Conv { kernel, channels: 8, padding, norm: true, activation };
    let dense = |channels| Layer::Dense { channels, norm: false, activation };
    Head::plain(HeadKind::MovesLeft, vec![conv, dense(32), dense(1)])
}
