//! Sums over the rows of a slice for each channel: what batch norms and biases need.

use super::passes::ColumnSums;

/// Column sums, in single precision inside a piece and in double across them.
#[derive(Clone, Debug, Default)]
pub(super) struct ChannelTotals {
    piece: Vec<f32>,
    pub total: Vec<f64>,
}

impl ChannelTotals {
    fn start(&mut self, width: usize) {
        self.piece.clear();
        self.piece.resize(width, 0.0);
        self.total.clear();
        self.total.resize(width, 0.0);
    }

    fn flush(&mut self) {
        for (total, piece) in self.total.iter_mut().zip(&mut self.piece) {
            *total += f64::from(*piece);
            *piece = 0.0;
        }
    }
}

/// The two kinds of sums of a stage, see [`super::batch_slice::BatchSlice::sums`].
#[derive(Clone, Debug, Default)]
pub(super) struct StageTotals {
    pub first: ChannelTotals,
    pub second: ChannelTotals,
}

impl StageTotals {
    pub fn start(&mut self, width: usize) {
        self.first.start(width);
        self.second.start(width);
    }

    pub fn columns(&mut self) -> ColumnSums<'_> {
        ColumnSums { first: &mut self.first.piece, second: &mut self.second.piece }
    }

    pub fn flush(&mut self) {
        self.first.flush();
        self.second.flush();
    }
}
