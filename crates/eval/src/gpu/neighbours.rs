//! The neighbourhoods of all squares as rows of a matrix (im2col), which turns a convolution into a
//! matrix product with `f32` sums. Burn's own convolution sums in the format of its inputs, and
//! half-precision sums change scores more than half-precision inputs do.

use burn::{
    backend::{Backend, Dispatch, backend_extension, tensor::FloatTensor},
    tensor::{Shape, Tensor as Array},
};
use burn_cubecl::{CubeBackend, kernel::into_contiguous, tensor::CubeTensor};
use cubecl::prelude::*;

/// Threads of a block.
const UNITS: u32 = 256;

/// The neighbourhoods `[boards * side * side, kernel * kernel * channels]` of boards `[boards,
/// side, side, channels]`, row by row of the kernel; zero beyond the edge.
pub(crate) fn neighbours(boards: Array<4>, kernel: usize) -> Array<2> {
    Array::from_dispatch(Dispatch::neighbours(boards.into_dispatch(), kernel))
}

/// The operation that Burn does not have.
#[backend_extension(Cube, Fusion)]
pub(crate) trait NeighbourOps: Backend {
    #[fusion(dtype = boards, shape = output_shape(boards, kernel))]
    fn neighbours(boards: FloatTensor<Self>, kernel: usize) -> FloatTensor<Self>;
}

fn output_shape(boards: &Shape, kernel: &usize) -> Shape {
    Shape::from([boards[0] * boards[1] * boards[2], kernel * kernel * boards[3]])
}

impl NeighbourOps for CubeBackend {
    fn neighbours(boards: FloatTensor<Self>, kernel: usize) -> FloatTensor<Self> {
        let boards = into_contiguous(boards);
        let (side, channels) = (boards.meta.shape()[1], boards.meta.shape()[3]);
        let dtype = boards.dtype;
        let shape = output_shape(boards.meta.shape(), &kernel);
        let count = shape.num_elements();
        let buffer = boards.client.empty(count * dtype.size());
        let output = CubeTensor::new_contiguous(
            boards.client.clone(),
            boards.device.clone(),
            shape,
            buffer,
            dtype,
        );
        let blocks = count.div_ceil(UNITS as usize) as u32;
        // WebGPU guarantees 65,535 blocks in each dimension.
        let columns = blocks.min(32_768);
        neighbour_kernel::launch(
            &output.client,
            CubeCount::Static(columns, blocks.div_ceil(columns), 1),
            CubeDim::new_1d(UNITS),
            boards.into_tensor_arg(),
            output.clone().into_tensor_arg(),
            side,
            channels,
            kernel,
            burn::backend::cubecl::dtype_to_storage_type(dtype),
        );
        output
    }
}

#[cube(launch)]
fn neighbour_kernel<F: Float>(
    boards: &Tensor<F>,
    output: &mut Tensor<F>,
    #[comptime] side: usize,
    #[comptime] channels: usize,
    #[comptime] kernel: usize,
    #[define(F)] _dtype: ElemType,
) {
    let at = ABSOLUTE_POS;
    if at < output.len() {
        let channel = at % channels;
        let step = at / channels % comptime!(kernel * kernel);
        let square = at / comptime!(kernel * kernel * channels);
        let board = square / comptime!(side * side);
        let square = square % comptime!(side * side);
        // Unsigned subtraction wraps, so a negative index is larger than `side`.
        let rank = square / side + step / kernel - comptime!(kernel / 2);
        let file = square % side + step % kernel - comptime!(kernel / 2);
        let mut value = F::from_int(0);
        if rank < side && file < side {
            value = boards[((board * side + rank) * side + file) * channels + channel];
        }
        output[at] = value;
    }
}
