//! Attention on a device. Products are in the network's number format, the softmax in `f32`.

use burn::tensor::{DType, Tensor as Array, activation::softmax};
use nets::LEELA_MOVE_PAIRS;

use super::network::{DeviceStep, Flow, run};
use crate::EvalError;

/// An attention layer.
#[derive(Clone, Debug)]
pub(super) struct AttentionStep {
    pub heads: usize,
    /// Query, key and value of each cell in one product: weights `[inputs, 3 * width]`, bias `[1, 3 *
    /// width]`. Queries are divided by the root of a head's width.
    pub projections: (Array<2>, Array<2>),
    pub board: Option<BoardScoresStep>,
}

/// The scores that the whole board adds.
#[derive(Clone, Debug)]
pub(super) struct BoardScoresStep {
    /// The layers that generate so many outputs for each head.
    pub layers: Vec<DeviceStep>,
    /// `[generated, cells * cells]`
    pub scores: Array<2>,
}

impl AttentionStep {
    pub fn run(&self, boards: Array<4>) -> Result<Array<4>, EvalError> {
        let [count, side, _, _] = boards.dims();
        let cells = side * side;
        let (weight, _) = &self.projections;
        let width = weight.dims()[1] / 3;
        let projected = projected(boards.clone(), &self.projections);
        let part = |index: usize| {
            let part = projected.clone().narrow(2, index * width, width);
            part.reshape([count, cells, self.heads, width / self.heads]).swap_dims(1, 2)
        };
        let mut scores = part(0).matmul(part(1).transpose()).cast(DType::F32);
        if let Some(board) = &self.board {
            scores = scores + board.run(boards, self.heads)?;
        }
        let chances = softmax(scores, 3).cast(weight.dtype());
        let mixed = chances.matmul(part(2)).swap_dims(1, 2);
        Ok(mixed.reshape([count, side, side, width]))
    }
}

impl BoardScoresStep {
    /// `[boards, heads, cells, cells]`
    fn run(&self, boards: Array<4>, heads: usize) -> Result<Array<4>, EvalError> {
        let [count, side, _, _] = boards.dims();
        let cells = side * side;
        let generated = run(&self.layers, Flow::Cells(boards))?.cells()?;
        let [each, _] = self.scores.dims();
        let generated = generated.reshape([count * heads, each]).cast(self.scores.dtype());
        let scores = generated.matmul(self.scores.clone()).cast(DType::F32);
        Ok(scores.reshape([count, heads, cells, cells]))
    }
}

/// Leela's policy over pairs of squares.
#[derive(Clone, Debug)]
pub(super) struct MoveAttentionStep {
    /// Query and key of each cell in one product, as [`AttentionStep::projections`].
    pub projections: (Array<2>, Array<2>),
    /// `[width, 3]`: what a key adds for a promotion to queen, rook or bishop.
    pub promotions: Array<2>,
}

impl MoveAttentionStep {
    /// `[boards, 1, 1, pairs]`
    pub fn run(&self, boards: Array<4>) -> Array<4> {
        let count = boards.dims()[0];
        let [width, pieces] = self.promotions.dims();
        let projected = projected(boards, &self.projections);
        let key = projected.clone().narrow(2, width, width);
        let pairs = projected.narrow(2, 0, width).matmul(key.clone().transpose());
        // From rank 7 to rank 8.
        let plain = pairs.clone().narrow(1, 48, 8).narrow(2, 56, 8).reshape([count, 8, 8, 1]);
        let targets = key.narrow(1, 56, 8).reshape([count * 8, width]);
        let added = targets.matmul(self.promotions.clone()).reshape([count, 1, 8, pieces]);
        let all = [pairs.reshape([count, 64 * 64]), (plain + added).reshape([count, 64 * pieces])];
        Array::cat(all.into(), 1).reshape([count, 1, 1, LEELA_MOVE_PAIRS])
    }
}

/// A product of each cell with a weight and a bias: `[boards, cells, outputs]`.
fn projected(boards: Array<4>, (weight, bias): &(Array<2>, Array<2>)) -> Array<3> {
    let [count, side, _, channels] = boards.dims();
    let cells = boards.reshape([count * side * side, channels]).cast(weight.dtype());
    let outputs = cells.matmul(weight.clone()) + bias.clone();
    outputs.reshape([count, side * side, weight.dims()[1]])
}
