//! Sums over the rows of a slice for each channel, which batch norms and biases need.

use super::passes::ColumnSums;

/// A sum for each channel: in single precision inside a group of boards, in double precision across
/// groups.
#[derive(Clone, Debug, Default)]
pub(super) struct ChannelTotals {
    group: Vec<f32>,
    pub total: Vec<f64>,
}

impl ChannelTotals {
    fn start(&mut self, width: usize) {
        self.group.clear();
        self.group.resize(width, 0.0);
        self.total.clear();
        self.total.resize(width, 0.0);
    }

    fn flush(&mut self) {
        for (total, group) in self.total.iter_mut().zip(&mut self.group) {
            *total += f64::from(*group);
            *group = 0.0;
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
    /// Resets the sums, for `width` channels.
    pub fn start(&mut self, width: usize) {
        self.first.start(width);
        self.second.start(width);
    }

    /// The sums of the current group, for the passes to add to.
    pub fn columns(&mut self) -> ColumnSums<'_> {
        ColumnSums { first: &mut self.first.group, second: &mut self.second.group }
    }

    /// Adds the sums of the current group to the totals.
    pub fn flush(&mut self) {
        self.first.flush();
        self.second.flush();
    }
}
