//! Attention and the layers that come with it, from their definitions.

use nets::{Activation, Attention, Layer, Network, SHARED_SCORES};

use super::{Cells, activated, layer};
use crate::{
    EvalError,
    folded::{scale_and_shift, tensor},
};

pub(super) fn gate(
    network: &Network,
    name: &str,
    activation: Activation,
    input: &Cells,
) -> Result<Cells, EvalError> {
    let [scale, shift] = scale_and_shift(network, name)?;
    Ok(Cells::compute(input.cells, input.channels, |cell, channel| {
        let at = cell * input.channels + channel;
        activated(activation, input.at(cell, channel) * f64::from(scale[at]) + f64::from(shift[at]))
    }))
}

pub(super) fn layer_norm(
    network: &Network,
    name: &str,
    millionths: u32,
    input: &Cells,
) -> Result<Cells, EvalError> {
    let [scale, shift] = scale_and_shift(network, name)?;
    let count = input.channels as f64;
    let moments = |cell: usize| {
        let row = (0..input.channels).map(|channel| input.at(cell, channel));
        let mean = row.clone().sum::<f64>() / count;
        let variance = row.map(|x| (x - mean) * (x - mean)).sum::<f64>() / count;
        (mean, (variance + f64::from(millionths) * 1e-6).sqrt())
    };
    let moments: Vec<_> = (0..input.cells).map(moments).collect();
    Ok(Cells::compute(input.cells, input.channels, |cell, channel| {
        let (mean, deviation) = moments[cell];
        f64::from(scale[channel]) * (input.at(cell, channel) - mean) / deviation
            + f64::from(shift[channel])
    }))
}

pub(super) fn attention(
    network: &Network,
    name: &str,
    attention: &Attention,
    input: &Cells,
) -> Result<Cells, EvalError> {
    let projection = Layer::each_cell(attention.width, Activation::Identity);
    let projected = |part: &str| layer(network, &format!("{name}.{part}"), &projection, input);
    let (query, key, value) = (projected("query")?, projected("key")?, projected("value")?);
    let depth = attention.width / attention.heads;
    let mut scores = Vec::new();
    for head in 0..attention.heads {
        scores.push(Cells::compute(input.cells, input.cells, |from, to| {
            let channels = head * depth..(head + 1) * depth;
            let sum: f64 = channels.map(|at| query.at(from, at) * key.at(to, at)).sum();
            sum / (depth as f64).sqrt()
        }));
    }
    add_board_scores(network, name, attention, input, &mut scores)?;
    let chances: Vec<Cells> = scores.iter().map(softmax).collect();
    Ok(Cells::compute(input.cells, attention.width, |cell, channel| {
        let chances = &chances[channel / depth];
        (0..input.cells).map(|other| chances.at(cell, other) * value.at(other, channel)).sum()
    }))
}

fn add_board_scores(
    network: &Network,
    name: &str,
    attention: &Attention,
    input: &Cells,
    scores: &mut [Cells],
) -> Result<(), EvalError> {
    let Some(board) = &attention.board else { return Ok(()) };
    let mut cells = input.clone();
    for (part, own) in attention.board_layers() {
        cells = layer(network, &format!("{name}.{part}"), &own, &cells)?;
    }
    let shared = tensor(network, SHARED_SCORES)?;
    for (head, scores) in scores.iter_mut().enumerate() {
        for (pair, score) in scores.data.iter_mut().enumerate() {
            let row = &shared[pair * board.generated..][..board.generated];
            let products = row.iter().zip(&cells.data[head * board.generated..]);
            *score += products.map(|(&weight, x)| f64::from(weight) * x).sum::<f64>();
        }
    }
    Ok(())
}

/// A softmax over the channels of each cell.
fn softmax(scores: &Cells) -> Cells {
    let row = |cell: usize| (0..scores.channels).map(move |channel| scores.at(cell, channel));
    let totals: Vec<(f64, f64)> = (0..scores.cells)
        .map(|cell| {
            let largest = row(cell).fold(f64::NEG_INFINITY, f64::max);
            (largest, row(cell).map(|score| (score - largest).exp()).sum())
        })
        .collect();
    Cells::compute(scores.cells, scores.channels, |cell, channel| {
        let (largest, total) = totals[cell];
        (scores.at(cell, channel) - largest).exp() / total
    })
}

pub(super) fn board_embedding(
    network: &Network,
    name: &str,
    planes: usize,
    channels: usize,
    input: &Cells,
) -> Result<Cells, EvalError> {
    let weight = tensor(network, &format!("{name}.weight"))?;
    let bias = tensor(network, &format!("{name}.bias"))?;
    let inputs = input.cells * planes;
    Ok(Cells::compute(input.cells, input.channels + channels, |cell, channel| {
        if channel < input.channels {
            return input.at(cell, channel);
        }
        let output = cell * channels + channel - input.channels;
        let row = &weight[output * inputs..][..inputs];
        let products = row
            .iter()
            .enumerate()
            .map(|(at, &weight)| f64::from(weight) * input.at(at / planes, at % planes));
        f64::from(bias[output]) + products.sum::<f64>()
    }))
}

pub(super) fn move_attention(
    network: &Network,
    name: &str,
    width: usize,
    input: &Cells,
) -> Result<Cells, EvalError> {
    let projection = Layer::each_cell(width, Activation::Identity);
    let projected = |part: &str| layer(network, &format!("{name}.{part}"), &projection, input);
    let (query, key) = (projected("query")?, projected("key")?);
    let rows = tensor(network, &format!("{name}.promotion.weight"))?;
    let product = |cell: usize, row: usize| {
        let row = &rows[row * width..][..width];
        let products = row.iter().enumerate().map(|(at, &x)| f64::from(x) * key.at(cell, at));
        products.sum::<f64>()
    };
    let pair = |from: usize, to: usize| {
        let products = (0..width).map(|at| query.at(from, at) * key.at(to, at));
        products.sum::<f64>() / (width as f64).sqrt()
    };
    let mut logits: Vec<f64> = (0..64 * 64).map(|at| pair(at / 64, at % 64)).collect();
    for (from, to) in (0..8).flat_map(|from| (0..8).map(move |to| (from, to))) {
        let plain = pair(48 + from, 56 + to) + product(56 + to, 3);
        logits.extend((0..3).map(|piece| plain + product(56 + to, piece)));
    }
    Ok(Cells { cells: 1, channels: logits.len(), data: logits })
}
