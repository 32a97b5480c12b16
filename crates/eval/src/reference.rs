//! The reference implementation: every layer by its definition, in `f64`. Tests compare the kernels
//! and the training code with it, so it has padding, activations and batch norm of its own and
//! shares no arithmetic with them.
//!
//! Conventions of all implementations:
//! * a board is `[64][channels]`, square `rank * 8 + file`;
//! * a convolution is a cross-correlation, as in PyTorch and Burn: weight `[out][in][row][column]`
//!   multiplies the input at row `rank + row * dilation`, column `file + column * dilation` of the
//!   padded board;
//! * `same` padding adds `dilation * (kernel - 1)` rows and columns of zeros, half of them (rounded
//!   down) before the board (3x3: one before and one after; 2x2 with dilation 1: one after);
//! * the kernel of a `valid` convolution is as large as the board, so the output is one cell;
//! * batch norm uses the running statistics: `(x - mean) / sqrt(variance + 1e-5) * scale + shift`.

mod attention;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use board::Color;
use nets::{
    Activation, BoardSeen, Encoding, HeadKind, HeadOutput, LEELA_PLANES, Layer, LeelaPlanes,
    MovePlaces, Network, Padding, Pooling, SELU, Squares,
};

use crate::{Answered, Batch, EvalError, Evaluator, Scores, folded::tensor};

/// Raw outputs of a network for one position, before calibration, by head.
pub type Logits = BTreeMap<HeadKind, Vec<f32>>;

/// The cells of a board: `cells * channels` numbers, channels last.
#[derive(Clone)]
struct Cells {
    cells: usize,
    channels: usize,
    data: Vec<f64>,
}

impl Cells {
    /// Computes each number from its cell and channel.
    fn compute(cells: usize, channels: usize, at: impl Fn(usize, usize) -> f64) -> Self {
        let data = (0..cells * channels).map(|index| at(index / channels, index % channels));
        Self { cells, channels, data: data.collect() }
    }

    fn at(&self, cell: usize, channel: usize) -> f64 {
        self.data[cell * self.channels + channel]
    }
}

/// Runs every head of `network` on one position, given from its mover's side.
///
/// # Errors
/// The description cannot be run or a tensor is missing.
pub fn run(network: &Network, squares: &Squares, turn: Color) -> Result<Logits, EvalError> {
    let kinds: Vec<HeadKind> = network.description.heads.iter().map(|head| head.kind).collect();
    run_heads(network, &BoardSeen::alone(squares, turn), &kinds)
}

/// Runs the heads named in `kinds` that `network` has.
///
/// # Errors
/// As [`run`].
pub fn run_heads(
    network: &Network,
    seen: &BoardSeen<'_>,
    kinds: &[HeadKind],
) -> Result<Logits, EvalError> {
    let unsupported =
        |reason: String| EvalError::Unsupported { network: network.name.clone(), reason };
    let description = &network.description;
    description.check().map_err(unsupported)?;
    let mut input = Cells::compute(64, description.encoding.planes(), |_, _| 0.0);
    if let Encoding::Leela(form) = description.encoding {
        let planes = LeelaPlanes::of(seen, form);
        input = Cells::compute(64, LEELA_PLANES, |square, plane| {
            let is_set = planes.mask(plane) >> square & 1 == 1;
            if is_set { f64::from(planes.value(plane)) } else { 0.0 }
        });
    } else {
        let states = description.encoding.states_of(seen.squares, seen.turn);
        for (square, state) in states.into_iter().enumerate() {
            for (plane, value) in description.encoding.planes_of(usize::from(state)) {
                input.data[square * input.channels + plane] = f64::from(value);
            }
        }
    }
    let trunk = layers(network, "trunk", &description.trunk, input)?;
    let mut logits = Logits::new();
    for head in description.heads.iter().filter(|head| kinds.contains(&head.kind)) {
        let output = layers(network, head.kind.name(), &head.layers, trunk.clone())?;
        logits.insert(head.kind, output.data.iter().map(|&value| value as f32).collect());
    }
    Ok(logits)
}

fn layers(
    network: &Network,
    prefix: &str,
    layers: &[Layer],
    mut cells: Cells,
) -> Result<Cells, EvalError> {
    for (index, layer) in layers.iter().enumerate() {
        cells = self::layer(network, &format!("{prefix}.{index}"), layer, &cells)?;
    }
    Ok(cells)
}

fn layer(network: &Network, name: &str, layer: &Layer, input: &Cells) -> Result<Cells, EvalError> {
    let weight = || tensor(network, &format!("{name}.weight"));
    let (output, norm, activation) = match layer {
        Layer::Branches { branches, norm, activation } => {
            let mut outputs = Vec::new();
            for (index, branch) in branches.iter().enumerate() {
                let weight = tensor(network, &format!("{name}.branches.{index}.weight"))?;
                outputs.push(same_convolution(input, weight, branch.kernel, branch.dilation));
            }
            (concatenate(&outputs), *norm, *activation)
        }
        &Layer::Conv { kernel, padding: Padding::Same, norm, activation, .. } => {
            (same_convolution(input, weight()?, [kernel; 2], [1; 2]), norm, activation)
        }
        // The weights are in the order of a dense layer's: inputs, then cells.
        &Layer::Conv { padding: Padding::Valid, norm, activation, .. }
        | &Layer::Dense { norm, activation, .. } => (dense(input, weight()?), norm, activation),
        Layer::Residual { layers, activation } => {
            let inner = self::layers(network, &format!("{name}.layers"), layers, input.clone())?;
            let sum = |cell, channel| {
                activated(*activation, inner.at(cell, channel) + input.at(cell, channel))
            };
            return Ok(Cells::compute(input.cells, input.channels, sum));
        }
        &Layer::Pool { pooling, size } => return Ok(pool(input, pooling, size)),
        &Layer::SqueezeExcite { activation, .. } => {
            return squeeze_excite(network, name, activation, input);
        }
        Layer::AppendMean => return Ok(append_mean(input)),
        &Layer::Gate { activation } => return attention::gate(network, name, activation, input),
        &Layer::LayerNorm { millionths } => {
            return attention::layer_norm(network, name, millionths, input);
        }
        Layer::Attention(own) => return attention::attention(network, name, own, input),
        &Layer::BoardEmbedding { planes, channels } => {
            return attention::board_embedding(network, name, planes, channels, input);
        }
        &Layer::MoveAttention { width } => {
            return attention::move_attention(network, name, width, input);
        }
    };
    let output =
        if norm { normalised(network, name, &output)? } else { biased(network, name, &output)? };
    Ok(Cells::compute(output.cells, output.channels, |cell, channel| {
        activated(activation, output.at(cell, channel))
    }))
}

/// Batch norm by its running statistics.
fn normalised(network: &Network, name: &str, input: &Cells) -> Result<Cells, EvalError> {
    let part = |part: &str| tensor(network, &format!("{name}.norm.{part}"));
    let (scale, shift) = (part("scale")?, part("shift")?);
    let (mean, variance) = (part("mean")?, part("variance")?);
    Ok(Cells::compute(input.cells, input.channels, |cell, channel| {
        let [scale, shift, mean, variance] =
            [scale, shift, mean, variance].map(|values| f64::from(values[channel]));
        scale * (input.at(cell, channel) - mean) / (variance + 1e-5).sqrt() + shift
    }))
}

fn biased(network: &Network, name: &str, input: &Cells) -> Result<Cells, EvalError> {
    let bias = tensor(network, &format!("{name}.bias"))?;
    Ok(Cells::compute(input.cells, input.channels, |cell, channel| {
        input.at(cell, channel) + f64::from(bias[channel])
    }))
}

/// An activation by its definition. `Gelu` and `Silu` are `x` times a distribution function: the
/// standard normal and the logistic one.
#[must_use]
pub fn activated(activation: Activation, x: f64) -> f64 {
    match activation {
        Activation::Identity => x,
        Activation::Relu if x > 0.0 => x,
        Activation::Relu => 0.0,
        Activation::LeakyRelu if x > 0.0 => x,
        Activation::LeakyRelu => x / 100.0,
        Activation::Gelu => x * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2) / 2.0,
        Activation::Silu => x * logistic(x),
        Activation::Tanh => hyperbolic_tangent(x),
        // ln(1 + e^x), without overflow.
        Activation::Mish => x * hyperbolic_tangent(x.max(0.0) + (-x.abs()).exp().ln_1p()),
        Activation::SquaredRelu if x > 0.0 => x * x,
        Activation::SquaredRelu => 0.0,
        Activation::Selu if x > 0.0 => f64::from(SELU[1]) * x,
        Activation::Selu => f64::from(SELU[0]) * f64::from(SELU[1]) * x.exp_m1(),
    }
}

/// `1 / (1 + e^-x)`, computed from `e^-|x|`, which cannot overflow.
fn logistic(x: f64) -> f64 {
    let small = (-x.abs()).exp();
    if x < 0.0 { small / (1.0 + small) } else { 1.0 / (1.0 + small) }
}

/// `(1 - e^-2|x|) / (1 + e^-2|x|)` with the sign of `x`.
fn hyperbolic_tangent(x: f64) -> f64 {
    let small = (-2.0 * x.abs()).exp_m1();
    (-small / (2.0 + small)).copysign(x)
}

/// One board with the channels of all `boards`, in their order.
fn concatenate(boards: &[Cells]) -> Cells {
    let cells = boards.first().map_or(0, |board| board.cells);
    let rows = (0..cells).map(|cell| {
        boards.iter().flat_map(move |board| (0..board.channels).map(move |c| board.at(cell, c)))
    });
    let channels = boards.iter().map(|board| board.channels).sum();
    Cells { cells, channels, data: rows.flatten().collect() }
}

/// An axis of `side` cells with its padding: `None` is a zero outside the board.
fn padded_axis(side: usize, kernel: usize, dilation: usize) -> Vec<Option<usize>> {
    let total = dilation * (kernel - 1);
    let mut axis = vec![None; side + total];
    for cell in 0..side {
        axis[total / 2 + cell] = Some(cell);
    }
    axis
}

/// A convolution with `same` padding and a dilated kernel. `weight` is
/// `[channels][inputs][rows][columns]`.
fn same_convolution(
    input: &Cells,
    weight: &[f32],
    kernel: [usize; 2],
    dilation: [usize; 2],
) -> Cells {
    let side = input.cells.isqrt();
    let [ranks, files] = [0, 1].map(|axis| padded_axis(side, kernel[axis], dilation[axis]));
    let filter = input.channels * kernel[0] * kernel[1];
    Cells::compute(input.cells, weight.len() / filter, |cell, channel| {
        let weight = &weight[channel * filter..][..filter];
        let mut sum = 0.0;
        for row in 0..kernel[0] {
            for column in 0..kernel[1] {
                let rank = ranks[cell / side + row * dilation[0]];
                let file = files[cell % side + column * dilation[1]];
                let (Some(rank), Some(file)) = (rank, file) else { continue };
                for plane in 0..input.channels {
                    let weight = weight[(plane * kernel[0] + row) * kernel[1] + column];
                    sum += f64::from(weight) * input.at(rank * side + file, plane);
                }
            }
        }
        sum
    })
}

/// A dense layer. `weight` is `[outputs][channels][cells]`.
fn dense(input: &Cells, weight: &[f32]) -> Cells {
    let inputs = input.cells * input.channels;
    Cells::compute(1, weight.len() / inputs, |_, output| {
        let mut weights = weight[output * inputs..].iter();
        let mut sum = 0.0;
        for channel in 0..input.channels {
            for (cell, &weight) in (0..input.cells).zip(weights.by_ref()) {
                sum += f64::from(weight) * input.at(cell, channel);
            }
        }
        sum
    })
}

fn pool(input: &Cells, pooling: Pooling, size: usize) -> Cells {
    let side = input.cells.isqrt();
    let pooled_side = side / size;
    Cells::compute(pooled_side * pooled_side, input.channels, |cell, channel| {
        let (rank, file) = (cell / pooled_side * size, cell % pooled_side * size);
        let mut window = Vec::new();
        for row in rank..rank + size {
            window.extend((file..file + size).map(|column| input.at(row * side + column, channel)));
        }
        match pooling {
            Pooling::Max => window.into_iter().fold(f64::NEG_INFINITY, f64::max),
            Pooling::Average => window.iter().sum::<f64>() / window.len() as f64,
        }
    })
}

fn append_mean(input: &Cells) -> Cells {
    let mean = |channel| {
        (0..input.cells).map(|cell| input.at(cell, channel)).sum::<f64>() / input.cells as f64
    };
    let means: Vec<f64> = (0..input.channels).map(mean).collect();
    Cells::compute(input.cells, 2 * input.channels, |cell, channel| {
        if channel < input.channels {
            input.at(cell, channel)
        } else {
            means[channel - input.channels]
        }
    })
}

fn squeeze_excite(
    network: &Network,
    name: &str,
    activation: Activation,
    input: &Cells,
) -> Result<Cells, EvalError> {
    let layer = |part: &str, inputs: &[f64]| {
        let weight = tensor(network, &format!("{name}.{part}.weight"))?;
        let bias = tensor(network, &format!("{name}.{part}.bias"))?;
        let row = |(row, &bias): (&[f32], &f32)| {
            let products = row.iter().zip(inputs).map(|(&weight, input)| f64::from(weight) * input);
            f64::from(bias) + products.sum::<f64>()
        };
        Ok::<Vec<f64>, EvalError>(weight.chunks(inputs.len()).zip(bias).map(row).collect())
    };
    let mean = |channel| {
        (0..input.cells).map(|cell| input.at(cell, channel)).sum::<f64>() / input.cells as f64
    };
    let means: Vec<f64> = (0..input.channels).map(mean).collect();
    let hidden: Vec<f64> =
        layer("squeeze", &means)?.into_iter().map(|x| activated(activation, x)).collect();
    let excited = layer("excite", &hidden)?;
    let (factors, summands) = excited.split_at(input.channels);
    Ok(Cells::compute(input.cells, input.channels, |cell, channel| {
        input.at(cell, channel) * logistic(factors[channel]) + summands[channel]
    }))
}

/// An [`Evaluator`] over [`run_heads`], for tests of other evaluators.
#[derive(Clone, Debug)]
pub struct Reference {
    network: Arc<Network>,
    waiting: VecDeque<Batch>,
}

impl Reference {
    /// Evaluates with `network`.
    #[must_use]
    pub fn new(network: Arc<Network>) -> Self {
        Self { network, waiting: VecDeque::new() }
    }
}

impl Evaluator for Reference {
    fn submit(&mut self, batch: Batch) -> Result<(), EvalError> {
        crate::cpu::check_heads(&self.network, &batch)?;
        self.waiting.push_back(batch);
        Ok(())
    }

    fn wait(&mut self) -> Result<Answered, EvalError> {
        let batch = self.waiting.pop_front().ok_or(EvalError::NothingInFlight)?;
        let (calibration, encoding) =
            (&self.network.calibration, self.network.description.encoding);
        let mut scores = Scores { values: Vec::new(), moves: vec![0.0; batch.moves.len()] };
        let output_of = |kind| {
            self.network.description.head(kind).map_or(HeadOutput::Plain, |head| head.output)
        };
        for (index, query) in batch.queries.iter().enumerate() {
            let mut kinds = Vec::new();
            kinds.extend(query.value.then_some(HeadKind::Value));
            kinds.extend((query.move_count > 0).then_some(HeadKind::Moves));
            let logits = run_heads(&self.network, &batch.seen(index), &kinds)?;
            let value = logits.get(&HeadKind::Value).map_or(0.0, |logits| {
                calibration.value.apply(output_of(HeadKind::Value).value_of(logits))
            });
            let turned = encoding.is_whites_view() && query.turn.is_black();
            scores.values.push(if turned { -value } else { value });
            if let Some(moves) = logits.get(&HeadKind::Moves) {
                let output = output_of(HeadKind::Moves);
                let places = MovePlaces::new(output, encoding, &query.squares);
                for number in query.move_range() {
                    let logit = moves[places.of(batch.moves[number])];
                    scores.moves[number] = calibration.moves.apply(logit);
                }
            }
        }
        Ok(Answered { batch, scores })
    }

    fn in_flight(&self) -> usize {
        self.waiting.len()
    }

    fn preferred_batch(&self) -> usize {
        1
    }

    fn largest_batch(&self) -> usize {
        65_536
    }

    fn describe(&self) -> String {
        format!("network {}, plain f64 reference, 1 thread", self.network.name)
    }
}

#[cfg(test)]
mod tests {
    use nets::{Branch, Description, Encoding, Head, NORM_EPSILON, kernel_start};

    use super::*;

    fn set(network: &mut Network, name: &str, change: impl Fn(&mut Vec<f32>)) {
        change(&mut network.tensors.get_mut(name).unwrap().data);
    }

    /// A network of one branch with one channel, and an 8x8 layer that sums all squares.
    fn tiny(kernel: [usize; 2], dilation: [usize; 2]) -> Network {
        let layers = vec![
            Layer::Branches {
                branches: vec![Branch { kernel, dilation, channels: 1 }],
                norm: true,
                activation: Activation::Relu,
            },
            Layer::Conv {
                kernel: 8,
                channels: 1,
                padding: Padding::Valid,
                norm: false,
                activation: Activation::Identity,
            },
        ];
        let heads = vec![Head::plain(HeadKind::Value, layers)];
        let description =
            Description { encoding: Encoding::BatchFirst15, trunk: Vec::new(), heads };
        let mut network = Network::random(description, 0).unwrap();
        set(&mut network, "value.0.branches.0.weight", |data| data.fill(0.0));
        set(&mut network, "value.0.norm.variance", |data| data.fill(1.0 - NORM_EPSILON));
        // The weight of a square is its number, so the output tells which square is active.
        set(&mut network, "value.1.weight", |data| {
            data.iter_mut().enumerate().for_each(|(square, weight)| *weight = square as f32);
        });
        network
    }

    #[test]
    fn a_single_weight_reads_the_square_of_the_definition() {
        // (kernel, dilation, row, column, rank step, file step of the square that is read)
        for (kernel, dilation, row, column, rank, file) in [
            ([3, 3], [1, 1], 0, 0, -1, -1),
            ([3, 3], [1, 1], 1, 2, 0, 1),
            ([3, 3], [4, 4], 2, 0, 4, -4),
            ([2, 2], [2, 4], 0, 1, -1, 2),
            ([2, 2], [4, 2], 1, 0, 2, -1),
        ] {
            let mut network = tiny(kernel, dilation);
            let plane = 3;
            let place = (plane * kernel[0] + row) * kernel[1] + column;
            set(&mut network, "value.0.branches.0.weight", |data| data[place] = 1.0);
            for active in [0_i32, 7, 27, 36, 56, 63] {
                let mut squares = Squares::default();
                squares.0[active as usize] = plane as u8 + 1;
                // The output square that reads `active`, if it is on the board.
                let (to_rank, to_file) = (active / 8 - rank, active % 8 - file);
                let on_board = (0..8).contains(&to_rank) && (0..8).contains(&to_file);
                let expected = if on_board { (to_rank * 8 + to_file) as f32 } else { 0.0 };
                assert_eq!(
                    run(&network, &squares, Color::White).unwrap()[&HeadKind::Value],
                    [expected]
                );
            }
        }
    }

    #[test]
    fn norm_bias_and_relu_follow_their_definitions() {
        let mut network = tiny([1, 1], [1, 1]);
        set(&mut network, "value.0.branches.0.weight", |data| data[0] = 2.0);
        set(&mut network, "value.0.norm.mean", |data| data[0] = 1.0);
        set(&mut network, "value.0.norm.variance", |data| data[0] = 4.0 - NORM_EPSILON);
        set(&mut network, "value.0.norm.scale", |data| data[0] = 6.0);
        set(&mut network, "value.0.norm.shift", |data| data[0] = 1.0);
        set(&mut network, "value.1.bias", |data| data[0] = 0.25);
        let mut squares = Squares::default();
        // No piece: (0 - 1) / 2 * 6 + 1 = -2, clipped to 0 on every square.
        assert_eq!(run(&network, &squares, Color::White).unwrap()[&HeadKind::Value], [0.25]);
        // One active square: (2 - 1) / 2 * 6 + 1 = 4 there.
        squares.0[10] = 1;
        assert_eq!(run(&network, &squares, Color::White).unwrap()[&HeadKind::Value], [40.25]);
    }

    #[test]
    fn outputs_have_the_promised_sizes() {
        let network = Network::random(Description::batch_first(&[HeadKind::Moves]), 3).unwrap();
        let logits =
            run(&network, &Squares::of(&board::Position::default()), Color::White).unwrap();
        assert_eq!(logits.len(), 1);
        assert_eq!(logits[&HeadKind::Moves].len(), nets::POLICY_SIZE);
    }

    #[test]
    fn production_activations_agree_with_the_reference() {
        for activation in Activation::ALL {
            for step in -40_000..=40_000 {
                let x = step as f32 / 1000.0;
                let (expected, found) = (activated(activation, f64::from(x)), activation.apply(x));
                let error = (f64::from(found) - expected).abs() / expected.abs().max(1e-30);
                // Rounding to `f32`, and cancellation in Gelu's `1 + erf`.
                let tail = activation == Activation::Gelu && x < 0.0;
                let small = (f64::from(found) - expected).abs() < 1e-14;
                assert!(
                    error < 2e-7 || tail && small,
                    "{activation:?} of {x}: {found}, {expected}"
                );
            }
        }
    }

    #[test]
    fn production_kernel_offsets_agree_with_the_padded_board() {
        for side in [1, 2, 4, 8] {
            for (kernel, dilation) in (1..=8).flat_map(|k| (1..=8).map(move |d| (k, d))) {
                let padded = padded_axis(side, kernel, dilation);
                for (cell, step) in (0..side).flat_map(|c| (0..kernel).map(move |s| (c, s))) {
                    let at =
                        cell as isize + kernel_start(kernel, dilation) + (step * dilation) as isize;
                    let on_board = usize::try_from(at).ok().filter(|&at| at < side);
                    assert_eq!(on_board, padded[cell + step * dilation], "{kernel}, {dilation}");
                }
            }
        }
    }
}
