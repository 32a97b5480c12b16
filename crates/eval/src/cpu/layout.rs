//! The memory layout of activations, which lets a convolution read its input without tests for the
//! edge of the board.
//!
//! Activations are stored in blocks of 32 channels: `[board][channel
//! block][copy][rank][file][32]`. The input of a 3x3 convolution is stored in three copies: shifted
//! one file left, not shifted, and shifted one file right, each with an empty rank below and above.
//! Then each of the nine kernel cells reads consecutive cells with a constant stride, and no tile
//! row is wasted on padding. (5x5 and 7x7 kernels need five and seven copies.) Cells outside the
//! board are zeroed at allocation and never written: a store that would leave the board repeats the
//! store to the middle copy.

/// Channels in a block: the width of a panel and the depth of a step.
pub(crate) const BLOCK: usize = 32;

/// Boards that pass through the layers of whole boards together. The number is small so that
/// activations stay in the CPU cache.
pub(crate) const GROUP: usize = 8;

/// Boards that pass through the layers of single cells together. The number is large so that the
/// weights of dense layers are read less often. It is also the most rows of a product.
pub(crate) const CHUNK: usize = 32;

/// The layout of one tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Ranks and files of the board; 1 for a single cell.
    pub side: usize,
    /// Blocks of 32 channels.
    pub blocks: usize,
    /// Half the kernel side of the following convolution, rounded down.
    reach: usize,
}

impl Layout {
    /// The layout of `channels` on a board, for a following layer that reads `reach` cells to each
    /// side.
    pub fn new(side: usize, channels: usize, reach: usize) -> Self {
        // A single cell has no neighbours.
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

    /// Elements from one block of channels to the next.
    pub fn block_stride(&self) -> usize {
        let rows = self.copies() * (self.side + 2 * self.reach) * self.side;
        // The blocks of a cell would all compete for the same places of the first cache if they
        // were a power of two apart.
        let padding = if rows == 64 { 8 } else { 0 };
        (rows + padding) * BLOCK
    }

    /// Elements from one board to the next.
    pub fn board_stride(&self) -> usize {
        self.blocks * self.block_stride()
    }

    /// Element offset, in the first block, of the row that a kernel cell reads for output cell
    /// `cell`. The rows for the next output cells follow it.
    pub fn tap(&self, cell: usize, rank_step: isize, file_step: isize) -> usize {
        let copy = (file_step + self.reach as isize) as usize;
        let rank = ((cell / self.side + self.reach) as isize + rank_step) as usize;
        ((copy * (self.side + 2 * self.reach) + rank) * self.side + cell % self.side) * BLOCK
    }

    /// Element offset of channel `position` of a cell. The cells of the middle copy follow one
    /// another.
    #[inline(always)]
    pub fn element(&self, cell: usize, position: usize) -> usize {
        let first = self.reach * (self.side + 2 * self.reach + 1) * self.side;
        (first + cell) * BLOCK + position / BLOCK * self.block_stride() + position % BLOCK
    }

    /// The targets of a layer whose rows are the cells of a board.
    pub fn store(&self) -> Store {
        let reach = self.reach as isize;
        let mut targets = Vec::with_capacity(self.cells() * self.copies());
        for cell in 0..self.cells() {
            for file_step in -reach..=reach {
                // The copy for step `s` holds at file `f` the cell at file `f + s`.
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

    /// The targets of a layer whose rows are boards of a single cell.
    pub fn store_boards(&self) -> Store {
        let targets = (0..CHUNK).map(|board| (board * self.board_stride()) as u32).collect();
        Store { copies: 1, block_stride: self.block_stride(), targets }
    }
}

/// Where a layer writes its rows.
#[derive(Debug)]
pub(crate) struct Store {
    /// Targets of each row.
    pub copies: usize,
    /// Elements from one block of channels to the next.
    pub block_stride: usize,
    /// Element offsets, `copies` for each row.
    pub targets: Vec<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_cell_is_read_by_its_neighbours() {
        for (side, reach) in [(8, 0), (8, 1), (8, 3), (4, 1), (2, 2), (1, 1)] {
            let layout = Layout::new(side, 40, reach);
            let store = layout.store();
            // Memory of one block: the index of each cell plus one, and 0 elsewhere.
            let mut memory = vec![0; layout.block_stride() / BLOCK];
            for (cell, targets) in store.targets.chunks_exact(store.copies).enumerate() {
                targets.iter().for_each(|&target| memory[target as usize / BLOCK] = cell + 1);
            }
            let reach = layout.reach as isize;
            for cell in 0..layout.cells() {
                for (rank_step, file_step) in
                    (-reach..=reach).flat_map(|r| (-reach..=reach).map(move |f| (r, f)))
                {
                    assert_eq!(layout.element(cell, 7), layout.tap(cell, 0, 0) + 7);
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
