//! The input layer as one kernel that never materialises the input planes: it unpacks the boards,
//! finds the attackers of each square, and sums the weights of squares whose state is not 0, which
//! are the occupied ones in most encodings.

use burn::{
    backend::{Backend, Dispatch, backend_extension, tensor::FloatTensor, tensor::IntTensor},
    tensor::{DType, Device, Int, Shape, Tensor as Array, TensorData},
};
use burn_cubecl::{CubeBackend, kernel::into_contiguous, tensor::CubeTensor};
use cubecl::prelude::*;
use nets::{Branch, Encoding, kernel_start};

use super::{attackers::attackers, packed::BYTES};

/// Threads of a board.
const UNITS: u32 = 128;

/// Added to the rank and file steps of a tap, so that they are not negative.
const MIDDLE: i32 = 32;

/// The layer's tables on a device.
#[derive(Clone, Debug)]
pub(crate) struct InputLayer {
    /// `[slots, channels]`: the kernel cells of each channel's convolution as `(rank step + 32) * 64
    /// + file step + 32`. Unused slots of a small convolution are 0, which is off the board.
    taps: Array<2, Int>,
    /// `[slots, states, channels]`: the weight that a square in a state adds.
    weights: Array<3>,
    /// `[channels]`
    bias: Array<1>,
    /// Do the states include the attackers of a square?
    with_attackers: bool,
    relu: bool,
}

impl InputLayer {
    /// Uploads the tables of these convolutions. Their weights are `[channels, planes, rows,
    /// columns]`; `factors` and the bias are the folded batch norm.
    pub fn new(
        encoding: Encoding,
        branches: &[Branch],
        weights: &[&[f32]],
        (factors, bias): (&[f32], Vec<f32>),
        relu: bool,
        device: &Device,
    ) -> Self {
        let slots =
            branches.iter().map(|branch| branch.kernel[0] * branch.kernel[1]).max().unwrap_or(1);
        let (channels, states, planes) = (bias.len(), encoding.states(), encoding.planes());
        let mut taps = vec![0_i32; slots * channels];
        let mut table = vec![0.0_f32; slots * states * channels];
        let mut first = 0;
        for (branch, weights) in branches.iter().zip(weights) {
            let [rows, columns] = branch.kernel;
            let step = |axis: usize, index: usize| {
                let start = kernel_start(branch.kernel[axis], branch.dilation[axis]);
                (start + (index * branch.dilation[axis]) as isize) as i32 + MIDDLE
            };
            for slot in 0..rows * columns {
                let (row, column) = (slot / columns, slot % columns);
                for channel in 0..branch.channels {
                    let to = first + channel;
                    taps[slot * channels + to] = step(0, row) * 2 * MIDDLE + step(1, column);
                    for state in 0..states {
                        let sum: f32 = encoding
                            .planes_of(state)
                            .iter()
                            .map(|&(plane, value)| {
                                value * weights[(channel * planes + plane) * rows * columns + slot]
                            })
                            .sum();
                        table[(slot * states + state) * channels + to] = sum * factors[to];
                    }
                }
            }
            first += branch.channels;
        }
        Self {
            taps: Array::from_data(TensorData::new(taps, [slots, channels]), (device, DType::I32)),
            weights: Array::from_data(
                TensorData::new(table, [slots, states, channels]),
                (device, DType::F32),
            ),
            bias: Array::from_data(TensorData::new(bias, [channels]), (device, DType::F32)),
            with_attackers: encoding.has_attackers(),
            relu,
        }
    }

    /// Converts the weights to another number format.
    #[must_use]
    pub fn cast(self, dtype: DType) -> Self {
        Self { weights: self.weights.cast(dtype), ..self }
    }

    /// Outputs `[boards, 8, 8, channels]` of boards from [`super::packed::pack`], four bytes in each
    /// number.
    pub fn run(&self, boards: Array<1, Int>, count: usize) -> Array<4> {
        let output = Dispatch::input_layer(
            boards.into_dispatch(),
            self.taps.clone().into_dispatch(),
            self.weights.clone().into_dispatch(),
            self.bias.clone().into_dispatch(),
            count,
            self.with_attackers,
            self.relu,
        );
        Array::from_dispatch(output)
    }
}

/// The operation that Burn does not have.
#[backend_extension(Cube, Fusion)]
pub(crate) trait InputOps: Backend {
    #[fusion(dtype = weights, shape = output_shape(weights, count))]
    fn input_layer(
        boards: IntTensor<Self>,
        taps: IntTensor<Self>,
        weights: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        count: usize,
        with_attackers: bool,
        relu: bool,
    ) -> FloatTensor<Self>;
}

fn output_shape(weights: &Shape, count: &usize) -> Shape {
    Shape::from([*count, 8, 8, weights[2]])
}

impl InputOps for CubeBackend {
    fn input_layer(
        boards: IntTensor<Self>,
        taps: IntTensor<Self>,
        weights: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        count: usize,
        with_attackers: bool,
        relu: bool,
    ) -> FloatTensor<Self> {
        let [boards, taps, weights, bias] = [boards, taps, weights, bias].map(into_contiguous);
        let (slots, states, channels) =
            (weights.meta.shape()[0], weights.meta.shape()[1], weights.meta.shape()[2]);
        let dtype = weights.dtype;
        let shape = output_shape(weights.meta.shape(), &count);
        let buffer = weights.client.empty(shape.num_elements() * dtype.size());
        let output = CubeTensor::new_contiguous(
            weights.client.clone(),
            weights.device.clone(),
            shape,
            buffer,
            dtype,
        );
        input_kernel::launch(
            &output.client,
            CubeCount::Static(count as u32, 1, 1),
            CubeDim::new_1d(UNITS),
            boards.into_tensor_arg(),
            taps.into_tensor_arg(),
            weights.into_tensor_arg(),
            bias.into_tensor_arg(),
            output.clone().into_tensor_arg(),
            slots,
            states,
            channels,
            with_attackers,
            relu,
            burn::backend::cubecl::dtype_to_storage_type(dtype),
        );
        output
    }
}

/// A byte of the packed boards.
#[cube]
fn byte(boards: &Tensor<u32>, at: usize) -> u32 {
    (boards[at / 4] >> (8 * (at % 4) as u32)) & 255
}

/// The state of a square of the board whose bytes begin at `first`.
#[cube]
fn state(boards: &Tensor<u32>, first: usize, square: usize) -> u32 {
    let (row, bit) = (square / 8, (square % 8) as u32);
    let held = byte(boards, first + row);
    let mut state = 0_u32;
    if (held >> bit) & 1 == 1 {
        let mut before = (held & ((1_u32 << bit) - 1)).count_ones();
        for other in 0..8_usize {
            if other < row {
                before += byte(boards, first + other).count_ones();
            }
        }
        let pair = byte(boards, first + 8 + (before / 2) as usize);
        state = (pair >> (4 * (before % 2))) & 15;
    }
    state + 16 * (byte(boards, first + comptime!(BYTES - 1)) >> 4)
}

#[cube(launch)]
fn input_kernel<F: Float>(
    boards: &Tensor<u32>,
    taps: &Tensor<i32>,
    weights: &Tensor<F>,
    bias: &Tensor<f32>,
    output: &mut Tensor<F>,
    #[comptime] slots: usize,
    #[comptime] states: usize,
    #[comptime] channels: usize,
    #[comptime] with_attackers: bool,
    #[comptime] relu: bool,
    #[define(F)] _dtype: ElemType,
) {
    let board = CUBE_POS_X as usize;
    let unit = UNIT_POS as usize;
    let mut held = Shared::<[u32]>::new_slice(64_usize);
    if unit < 64 {
        held[unit] = state(boards, board * comptime!(BYTES), unit);
    }
    sync_cube();
    if comptime!(with_attackers) {
        let mut attacked = 0_u32;
        if unit < 64 {
            attacked = attackers(&held, unit as i32);
        }
        // All threads read before any of them writes.
        sync_cube();
        if unit < 64 {
            held[unit] += attacked;
        }
        sync_cube();
    }
    let mut at = unit;
    while at < comptime!(64 * channels) {
        let square = (at / channels) as i32;
        let channel = at % channels;
        let mut sum = bias[channel];
        for slot in 0..slots {
            let tap = taps[slot * channels + channel];
            let rank = square / 8 + tap / comptime!(2 * MIDDLE) - comptime!(MIDDLE);
            let file = square % 8 + tap % comptime!(2 * MIDDLE) - comptime!(MIDDLE);
            // A negative coordinate becomes a very large number.
            if (rank as u32) < 8 && (file as u32) < 8 {
                let state = held[(rank * 8 + file) as usize];
                if state != 0 {
                    sum += f32::cast_from(
                        weights[(slot * states + state as usize) * channels + channel],
                    );
                }
            }
        }
        if comptime!(relu) {
            sum = max(sum, 0.0_f32);
        }
        output[board * comptime!(64 * channels) + at] = F::cast_from(sum);
        at += comptime!(UNITS as usize);
    }
}
