//! The plain executor: every layer straight from its definition, in `f32`, slow and obviously
//! right. The kernels and the training code are checked against it.
//!
//! Conventions that all executors share:
//! * a board is `[64][channels]`, square `rank * 8 + file`;
//! * a convolution is a cross-correlation, as in PyTorch and Burn: weight `[out][in][row][column]`
//!   multiplies the input at `rank + start + row * dilation`, `file + start + column * dilation`,
//!   zero outside the board;
//! * `start` is `-(dilation * (kernel - 1)) / 2` (3x3: one step back; 2x2 with dilation 2: -1 and
//!   +1);
//! * a `valid` convolution, as large as the board, multiplies every cell once and leaves one;
//! * batch norm uses the running statistics: `(x - mean) / sqrt(variance + 1e-5) * scale + shift`.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use board::Color;
use nets::{
    Activation, HeadKind, LEAKY_SLOPE, Layer, NORM_EPSILON, Network, Padding, Pooling, Squares,
};

use crate::{Answered, Batch, EvalError, Evaluator, Scores, folded::tensor};

/// Raw outputs of a network for one position, before calibration, by head.
pub type Logits = BTreeMap<HeadKind, Vec<f32>>;

/// Activations: `cells * channels` numbers, channels last.
#[derive(Clone)]
struct Cells {
    cells: usize,
    channels: usize,
    data: Vec<f32>,
}

impl Cells {
    fn zeros(cells: usize, channels: usize) -> Self {
        Self { cells, channels, data: vec![0.0; cells * channels] }
    }
}

/// Runs every head of `network` on one position, given from its mover's side.
///
/// # Errors
/// The description cannot be run or a tensor is missing.
pub fn run(network: &Network, squares: &Squares, turn: Color) -> Result<Logits, EvalError> {
    let kinds: Vec<HeadKind> = network.description.heads.iter().map(|head| head.kind).collect();
    run_heads(network, squares, turn, &kinds)
}

/// Runs the heads named in `kinds` that `network` has.
///
/// # Errors
/// As [`run`].
pub fn run_heads(
    network: &Network,
    squares: &Squares,
    turn: Color,
    kinds: &[HeadKind],
) -> Result<Logits, EvalError> {
    let unsupported =
        |reason: String| EvalError::Unsupported { network: network.name.clone(), reason };
    let description = &network.description;
    description.check().map_err(unsupported)?;
    let mut input = Cells::zeros(64, description.encoding.planes());
    for (square, state) in description.encoding.states_of(squares, turn).into_iter().enumerate() {
        for (plane, value) in description.encoding.planes_of(usize::from(state)) {
            input.data[square * input.channels + plane] = value;
        }
    }
    let trunk = layers(network, "trunk", &description.trunk, input)?;
    let mut logits = Logits::new();
    for head in description.heads.iter().filter(|head| kinds.contains(&head.kind)) {
        let output = layers(network, head.kind.name(), &head.layers, trunk.clone())?;
        logits.insert(head.kind, output.data);
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
    let (mut output, norm, activation) = match layer {
        Layer::Branches { branches, norm, activation } => {
            let channels = branches.iter().map(|branch| branch.channels).sum();
            let mut output = Cells::zeros(64, channels);
            let mut first = 0;
            for (index, branch) in branches.iter().enumerate() {
                let weight = tensor(network, &format!("{name}.branches.{index}.weight"))?;
                let convolution = Convolution {
                    kernel: branch.kernel,
                    dilation: branch.dilation,
                    channels: branch.channels,
                    weight,
                };
                convolution.same(input, &mut output, first);
                first += branch.channels;
            }
            (output, *norm, *activation)
        }
        &Layer::Conv { kernel, channels, padding, norm, activation } => {
            let cells = if padding == Padding::Valid { 1 } else { input.cells };
            let mut output = Cells::zeros(cells, channels);
            let convolution =
                Convolution { kernel: [kernel; 2], dilation: [1; 2], channels, weight: weight()? };
            match padding {
                Padding::Same => convolution.same(input, &mut output, 0),
                Padding::Valid => convolution.valid(input, &mut output),
            }
            (output, norm, activation)
        }
        &Layer::Dense { channels, norm, activation } => {
            let (mut output, weight) = (Cells::zeros(1, channels), weight()?);
            let inputs = input.cells * input.channels;
            for (value, weights) in output.data.iter_mut().zip(weight.chunks_exact(inputs)) {
                for (index, weight) in weights.iter().enumerate() {
                    let (channel, cell) = (index / input.cells, index % input.cells);
                    *value += input.data[cell * input.channels + channel] * weight;
                }
            }
            (output, norm, activation)
        }
        Layer::Residual { layers, activation } => {
            let mut output =
                self::layers(network, &format!("{name}.layers"), layers, input.clone())?;
            output.data.iter_mut().zip(&input.data).for_each(|(value, input)| *value += input);
            activate(&mut output, *activation);
            return Ok(output);
        }
        &Layer::Pool { pooling, size } => return Ok(pool(input, pooling, size)),
        Layer::AppendMean => return Ok(append_mean(input)),
    };
    if norm {
        let [scale, shift, mean, variance] = ["scale", "shift", "mean", "variance"]
            .map(|part| tensor(network, &format!("{name}.norm.{part}")));
        let (scale, shift, mean, variance) = (scale?, shift?, mean?, variance?);
        for row in output.data.chunks_exact_mut(output.channels) {
            for (channel, value) in row.iter_mut().enumerate() {
                *value = (*value - mean[channel]) / (variance[channel] + NORM_EPSILON).sqrt()
                    * scale[channel]
                    + shift[channel];
            }
        }
    } else {
        let bias = tensor(network, &format!("{name}.bias"))?;
        for row in output.data.chunks_exact_mut(output.channels) {
            row.iter_mut().zip(bias).for_each(|(value, bias)| *value += bias);
        }
    }
    activate(&mut output, activation);
    Ok(output)
}

fn activate(cells: &mut Cells, activation: Activation) {
    cells.data.iter_mut().for_each(|value| *value = activated(*value, activation));
}

/// An activation from its definition, in double precision.
#[must_use]
pub fn activated(value: f32, activation: Activation) -> f32 {
    let x = f64::from(value);
    match activation {
        Activation::Identity => value,
        Activation::Relu => value.max(0.0),
        Activation::LeakyRelu => value.max(0.0) + LEAKY_SLOPE * value.min(0.0),
        Activation::Gelu => (0.5 * x * (1.0 + libm::erf(x / std::f64::consts::SQRT_2))) as f32,
        Activation::Silu => (x / (1.0 + (-x).exp())) as f32,
        Activation::Tanh => x.tanh() as f32,
    }
}

fn pool(input: &Cells, pooling: Pooling, size: usize) -> Cells {
    let side = input.cells.isqrt();
    let new_side = side / size;
    let mut output = Cells::zeros(new_side * new_side, input.channels);
    for (place, value) in output.data.iter_mut().enumerate() {
        let (cell, channel) = (place / input.channels, place % input.channels);
        let window = (0..size * size).map(|index| {
            let rank = cell / new_side * size + index / size;
            let file = cell % new_side * size + index % size;
            input.data[(rank * side + file) * input.channels + channel]
        });
        *value = match pooling {
            Pooling::Max => window.fold(f32::NEG_INFINITY, f32::max),
            Pooling::Average => window.sum::<f32>() / (size * size) as f32,
        };
    }
    output
}

fn append_mean(input: &Cells) -> Cells {
    let channels = input.channels;
    let mut means = vec![0.0; channels];
    for row in input.data.chunks_exact(channels) {
        means.iter_mut().zip(row).for_each(|(mean, value)| *mean += value / input.cells as f32);
    }
    let mut output = Cells { cells: input.cells, channels: 2 * channels, data: Vec::new() };
    for row in input.data.chunks_exact(channels) {
        output.data.extend_from_slice(row);
        output.data.extend_from_slice(&means);
    }
    output
}

/// Offset of the first kernel row (or column) from the output square.
#[must_use]
pub(crate) fn kernel_start(kernel: usize, dilation: usize) -> isize {
    -((dilation * (kernel - 1) / 2) as isize)
}

struct Convolution<'a> {
    kernel: [usize; 2],
    dilation: [usize; 2],
    channels: usize,
    /// `[channels][inputs][rows][columns]`
    weight: &'a [f32],
}

impl Convolution<'_> {
    /// Adds this convolution's outputs into the channels of `output` from `first` on.
    fn same(&self, input: &Cells, output: &mut Cells, first: usize) {
        let side = input.cells.isqrt();
        let start = [0, 1].map(|axis| kernel_start(self.kernel[axis], self.dilation[axis]));
        let at = |place: usize, axis: usize, step: usize| {
            usize::try_from(place as isize + start[axis] + (step * self.dilation[axis]) as isize)
                .ok()
                .filter(|&place| place < side)
        };
        for rank in 0..side {
            for file in 0..side {
                for row in 0..self.kernel[0] {
                    for column in 0..self.kernel[1] {
                        let (Some(from_rank), Some(from_file)) =
                            (at(rank, 0, row), at(file, 1, column))
                        else {
                            continue;
                        };
                        let (from, to) = (from_rank * side + from_file, rank * side + file);
                        for channel in 0..self.channels {
                            output.data[to * output.channels + first + channel] +=
                                self.dot(input, from, channel, row, column);
                        }
                    }
                }
            }
        }
    }

    /// A kernel as large as the board.
    fn valid(&self, input: &Cells, output: &mut Cells) {
        let side = self.kernel[0];
        for cell in 0..input.cells {
            for channel in 0..self.channels {
                output.data[channel] += self.dot(input, cell, channel, cell / side, cell % side);
            }
        }
    }

    /// The inputs of cell `from` times the weights of one output channel at one kernel cell.
    fn dot(&self, input: &Cells, from: usize, channel: usize, row: usize, column: usize) -> f32 {
        let [rows, columns] = self.kernel;
        (0..input.channels)
            .map(|plane| {
                let weight = ((channel * input.channels + plane) * rows + row) * columns + column;
                input.data[from * input.channels + plane] * self.weight[weight]
            })
            .sum()
    }
}

/// An [`Evaluator`] that answers with [`run`]: for tests and for checking others.
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
        let calibration = &self.network.calibration;
        let mut scores = Scores { values: Vec::new(), moves: vec![0.0; batch.moves.len()] };
        for query in &batch.queries {
            let mut kinds = Vec::new();
            kinds.extend(query.value.then_some(HeadKind::Value));
            kinds.extend((query.move_count > 0).then_some(HeadKind::Moves));
            let logits = run_heads(&self.network, &query.squares, query.turn, &kinds)?;
            let value = logits
                .get(&HeadKind::Value)
                .map_or(0.0, |logits| calibration.value.apply(logits[0]));
            let turned =
                self.network.description.encoding.is_whites_view() && query.turn.is_black();
            scores.values.push(if turned { -value } else { value });
            if let Some(moves) = logits.get(&HeadKind::Moves) {
                for place in query.move_range() {
                    scores.moves[place] =
                        calibration.moves.apply(moves[usize::from(batch.moves[place])]);
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
        format!("network {}, plain f32 reference, 1 thread", self.network.name)
    }
}

#[cfg(test)]
mod tests {
    use nets::{Branch, Description, Encoding, Head};

    use super::*;

    fn set(network: &mut Network, name: &str, change: impl Fn(&mut Vec<f32>)) {
        change(&mut network.tensors.get_mut(name).unwrap().data);
    }

    /// One branch, one channel, and an 8x8 sum of everything.
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
        let heads = vec![Head { kind: HeadKind::Value, layers }];
        let description =
            Description { encoding: Encoding::BatchFirst15, trunk: Vec::new(), heads };
        let mut network = Network::random(description, 0).unwrap();
        set(&mut network, "value.0.branches.0.weight", |data| data.fill(0.0));
        set(&mut network, "value.0.norm.variance", |data| data.fill(1.0 - NORM_EPSILON));
        // Squares are told apart by powers of two of their number.
        set(&mut network, "value.1.weight", |data| {
            data.iter_mut().enumerate().for_each(|(square, weight)| *weight = square as f32);
        });
        network
    }

    #[test]
    fn a_single_weight_reads_the_square_that_the_definition_names() {
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
}
