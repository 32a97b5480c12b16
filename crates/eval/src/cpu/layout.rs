//! Where activations lie in memory.
//!
//! Activations lie in blocks of 32 channels, board after board: `[board][channel
//! block][copy][rank][file][32]`. A layer that a 3x3 convolution follows is stored in three copies,
//! shifted one file left, not at all, and one file right, with an empty rank below and above: then
//! each of the nine taps reads consecutive cells at one constant step, and no tile row is wasted on
//! padding. (5x5 and 7x7: five and seven copies.) Cells outside the board are zeroed once, at
//! allocation, and never written; a store that would leave the board repeats the middle copy
//! instead.

/// Channels in a block: the width of a panel and the depth of a step.
pub(crate) const BLOCK: usize = 32;

/// Boards that go through the layers of whole boards together, so that activations stay in the
/// cache.
pub(crate) const GROUP: usize = 8;

/// Boards that go through the layers of single cells together, so that large dense weights are read
/// less often. Also the most rows of a product.
pub(crate) const CHUNK: usize = 32;

/// Where the activations of one tensor lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Ranks and files of the board; 1 for a single cell.
    pub side: usize,
    /// Blocks of 32 channels.
    pub blocks: usize,
    /// How many cells a following convolution looks to each side.
    reach: usize,
}

impl Layout {
    /// The layout of `channels` on a board, for a following layer that looks `reach` cells to each
    /// side.
    pub fn new(side: usize, channels: usize, reach: usize) -> Self {
        // A single cell has no neighbours to look at.
        Self { side, blocks: channels.div_ceil(BLOCK), reach: if side == 1 { 0 } else { reach } }
    }

    /// Cells of a board.
    pub fn cells(&self) -> usize {
        self.side * self.side
    }

    /// Stored copies of a row.
    fn copies(&self) -> usize {
        2 * self.reach + 1
    }

    /// Elements from a block of channels to the next.
    pub fn block_stride(&self) -> usize {
        self.copies() * (self.side + 2 * self.reach) * self.side * BLOCK
    }

    /// Elements from a board to the next.
    pub fn board_stride(&self) -> usize {
        self.blocks * self.block_stride()
    }

    /// Element offset, in the first block, of the row that a tap reads for output cell `cell`; the
    /// rows for the following cells follow it.
    pub fn tap(&self, cell: usize, rank_step: isize, file_step: isize) -> usize {
        let copy = (file_step + self.reach as isize) as usize;
        let rank = ((cell / self.side + self.reach) as isize + rank_step) as usize;
        ((copy * (self.side + 2 * self.reach) + rank) * self.side + cell % self.side) * BLOCK
    }

    /// Element offset of channel `position` of a cell.
    pub fn element(&self, cell: usize, position: usize) -> usize {
        self.tap(cell, 0, 0) + position / BLOCK * self.block_stride() + position % BLOCK
    }

    /// How a layer writes rows, each a cell.
    pub fn store(&self) -> Store {
        let reach = self.reach as isize;
        let mut targets = Vec::with_capacity(self.cells() * self.copies());
        for cell in 0..self.cells() {
            for file_step in -reach..=reach {
                // The copy for step `s` holds at file `f` what the board holds at `f + s`.
                let file = (cell % self.side) as isize - file_step;
                let target = if (0..self.side as isize).contains(&file) {
                    self.tap(cell / self.side * self.side + file as usize, 0, file_step)
                } else {
                    self.tap(cell, 0, 0)
                };
                targets.push(target as u32);
            }
        }
        Store { copies: self.copies(), block_stride: self.block_stride(), targets }
    }

    /// How a layer writes rows, each the single cell of a board.
    pub fn store_boards(&self) -> Store {
        let targets = (0..CHUNK).map(|board| (board * self.board_stride()) as u32).collect();
        Store { copies: 1, block_stride: self.block_stride(), targets }
    }
}

/// How a layer writes its rows.
#[derive(Debug)]
pub(crate) struct Store {
    pub copies: usize,
    pub block_stride: usize,
    /// `copies` element offsets a row.
    pub targets: Vec<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_for_a_cell_is_read_by_its_neighbours() {
        for (side, reach) in [(8, 0), (8, 1), (8, 3), (4, 1), (2, 2), (1, 1)] {
            let layout = Layout::new(side, 40, reach);
            let store = layout.store();
            // Memory of one block that holds each cell's number plus one; 0 elsewhere.
            let mut memory = vec![0; layout.block_stride() / BLOCK];
            for (cell, targets) in store.targets.chunks_exact(store.copies).enumerate() {
                targets.iter().for_each(|&target| memory[target as usize / BLOCK] = cell + 1);
            }
            let reach = layout.reach as isize;
            for cell in 0..layout.cells() {
                for (rank_step, file_step) in
                    (-reach..=reach).flat_map(|r| (-reach..=reach).map(move |f| (r, f)))
                {
                    let rank = (cell / side) as isize + rank_step;
                    let file = (cell % side) as isize + file_step;
                    let inside =
                        (0..side as isize).contains(&rank) && (0..side as isize).contains(&file);
                    let expected =
                        if inside { rank as usize * side + file as usize + 1 } else { 0 };
                    assert_eq!(memory[layout.tap(cell, rank_step, file_step) / BLOCK], expected);
                }
            }
        }
    }
}
