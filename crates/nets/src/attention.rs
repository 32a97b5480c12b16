//! Attention among the cells of a board (Vaswani and others, 2017), as Leela's newer networks have
//! it: the projections, and scores that the whole board adds to those of pairs of cells ("smolgen").

use serde::{Deserialize, Serialize};

use crate::{Activation, Layer, Shape, layer::MAX_CHANNELS};

/// The tensor that all layers with [`BoardScores`] of a network share: `[cells * cells, generated]`,
/// the scores of a query cell with each key cell in sequence.
pub const SHARED_SCORES: &str = "board-scores.weight";

/// Most heads of a layer: the scores of each take 16 KiB a board. Leela's largest networks have 32.
const MAX_HEADS: usize = 128;

/// The projections of an attention layer.
pub(crate) const PROJECTIONS: [&str; 3] = ["query", "key", "value"];

/// Multi-head attention: each cell's query is compared with each cell's key; a softmax over the
/// scores, divided by the root of a head's width, weights the cells' values. The output is that of
/// all heads in sequence, without a last projection.
///
/// Tensors `{n}.{query,key,value}.{weight,bias}` `[width, inputs]`, and those of [`BoardScores`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attention {
    pub heads: usize,
    /// Channels of query, key and value of all heads together.
    pub width: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub board: Option<BoardScores>,
}

/// Scores that are computed from the whole board and added before the softmax: a projection of each
/// cell, a dense layer over the board, layer norm, a dense layer with so many outputs a head, layer
/// norm, and for each head the [shared](SHARED_SCORES) matrix.
///
/// Tensors `{n}.board.{compress,hidden,generate}.{weight,bias}` and
/// `{n}.board.{hidden-norm,generate-norm}.{scale,shift}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoardScores {
    /// Channels of the projection of a cell.
    pub compressed: usize,
    /// Outputs of the first dense layer.
    pub hidden: usize,
    /// Outputs of the second dense layer for each head.
    pub generated: usize,
    /// Of both dense layers.
    pub activation: Activation,
}

impl Attention {
    /// The layers by which the board's scores are generated, one after the other, with their names
    /// after the layer's own; none without [`BoardScores`].
    #[must_use]
    pub fn board_layers(&self) -> Vec<(&'static str, Layer)> {
        let Some(board) = &self.board else { return Vec::new() };
        let dense = |channels| Layer::Dense { channels, norm: false, activation: board.activation };
        let norm = Layer::LayerNorm { millionths: 1000 };
        vec![
            ("board.compress", Layer::each_cell(board.compressed, Activation::Identity)),
            ("board.hidden", dense(board.hidden)),
            ("board.hidden-norm", norm.clone()),
            ("board.generate", dense(self.heads.saturating_mul(board.generated))),
            ("board.generate-norm", norm),
        ]
    }

    /// As [`Layer::output_shape`].
    pub(crate) fn output_shape(&self, input: Shape) -> Result<Shape, String> {
        let &Self { heads, width, .. } = self;
        if input.cells != 64 {
            return Err(format!("attention over {} cells instead of 64", input.cells));
        }
        if heads > MAX_HEADS {
            return Err(format!("attention of {heads} heads, more than {MAX_HEADS}"));
        }
        if heads == 0 || width == 0 || width > MAX_CHANNELS || !width.is_multiple_of(heads) {
            return Err(format!("attention of {heads} heads over {width} channels"));
        }
        let mut shape = input;
        for (name, layer) in self.board_layers() {
            shape = layer.output_shape(shape).map_err(|reason| format!("{name}: {reason}"))?;
        }
        Ok(Shape { cells: input.cells, channels: width })
    }

    /// Multiplications without those of its inner layers.
    pub(crate) fn multiply_adds(&self, input: Shape) -> u64 {
        let pairs = (input.cells * input.cells) as u64;
        let of_board = self.board.as_ref().map_or(0, |board| self.heads * board.generated);
        pairs.saturating_mul((2 * self.width + of_board) as u64)
    }
}
