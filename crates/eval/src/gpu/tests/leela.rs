//! Networks of Leela's: planes of earlier positions, attention, and policies of other forms.

use board::CastlingMode;
use nets::{Activation, Description, Head, Layer, Leela, LeelaAttention, LeelaInput, Network};

use super::*;

/// A network whose biases, norms and gates are not the neutral ones of random networks.
fn network(description: Description, seed: u64) -> Network {
    let mut network = Network::random(description, seed).unwrap();
    for (name, tensor) in &mut network.tensors {
        let (middle, width) = match name.rsplit('.').next() {
            Some("scale" | "variance") => (1.0, 0.8),
            Some("bias" | "shift" | "mean") => (0.0, 0.4),
            _ => continue,
        };
        for (at, value) in tensor.data.iter_mut().enumerate() {
            *value = middle + width * ((at * 37 + 11) % 101) as f32 / 101.0 - width / 2.0;
        }
    }
    network
}

const CONVOLUTIONAL: Leela =
    Leela { input: LeelaInput::Classical, channels: 24, blocks: 2, squeezed: 8, is_older: false };

const ATTENTION: LeelaAttention = LeelaAttention {
    input: LeelaInput::Hectoplies,
    channels: 40,
    layers: 2,
    heads: 5,
    hidden: 70,
    embedded: 9,
    generated: 0,
    activation: Activation::Relu,
};

/// With scores of the board, Mish, and enough channels for half precision in every large layer.
const BOARD_SCORES: LeelaAttention = LeelaAttention {
    input: LeelaInput::Classical,
    channels: 136,
    heads: 8,
    generated: 33,
    activation: Activation::Mish,
    ..ATTENTION
};

/// The other embedding: each square has a shift of its own.
fn with_map_embedding(choice: &LeelaAttention) -> Description {
    let mut description = Description::leela_attention(choice);
    let embedding = [
        Layer::each_cell(choice.channels, Activation::Identity),
        Layer::Gate { activation: choice.activation },
    ];
    description.trunk.splice(..2, embedding);
    description
}

/// Positions of a game, and one with every kind of promotion.
fn seen() -> Vec<Position> {
    let mut seen = positions(40);
    let fen = "rn5r/P1P4P/8/4k3/8/3K4/p1p4p/RN5R w - - 61 90";
    let promotions = Position::from_fen(fen, CastlingMode::Standard).unwrap();
    seen.push(promotions.remembering());
    seen
}

#[test]
fn convolutional_networks_agree_with_plain_arithmetic() {
    for (input, is_older) in [(LeelaInput::Classical, false), (LeelaInput::Canonical, true)] {
        let choice = Leela { input, is_older, ..CONVOLUTIONAL };
        agrees_on(&seen(), network(Description::leela(&choice), 1), 1e-4);
    }
}

#[test]
fn attention_agrees_with_plain_arithmetic() {
    for description in [Description::leela_attention(&ATTENTION), with_map_embedding(&BOARD_SCORES)]
    {
        agrees_on(&seen(), network(description, 2), 1e-4);
    }
}

#[test]
fn heads_on_input_planes_agree_with_plain_arithmetic() {
    let mut description = Description::leela(&Leela { blocks: 0, ..CONVOLUTIONAL });
    let trunk = std::mem::take(&mut description.trunk);
    for Head { layers, .. } in &mut description.heads {
        layers.splice(..0, trunk.iter().cloned());
    }
    agrees(network(description, 4), 1e-4);
}

#[test]
fn half_precision_changes_the_outputs_little() {
    // The small layers of the first two are computed in `f32`.
    let convolutional = Description::leela(&CONVOLUTIONAL);
    let [small, large] = [ATTENTION, BOARD_SCORES].map(|it| Description::leela_attention(&it));
    for description in [convolutional, small, large] {
        let network = Arc::new(network(description, 5));
        let batch = batch(&network, &seen());
        let mut evaluator = evaluator(&network, None);
        let found = evaluator.evaluate(batch.clone()).unwrap().scores;
        let exact = Reference::new(Arc::clone(&network)).evaluate(batch).unwrap().scores;
        let (value_mean, value_most) = differences(&found.values, &exact.values);
        let (move_mean, move_most) = differences(&found.moves, &exact.moves);
        let found = [value_mean, value_most, move_mean, move_most];
        println!("{}: values and moves differ by {found:?}", evaluator.describe());
        let limits = [0.002, 0.005, 0.01, 0.1];
        assert!(found.iter().zip(limits).all(|(found, limit)| *found <= limit), "{found:?}");
    }
}
