//! The sums of one player's view of the board, made from those of the last board with the king on
//! the same square.

use board::{Bitboard, Color};

use super::{Pieces, STACKS, StockfishNetwork, WIDTH, features::feature};

/// The largest input of a layer: 1 in the network's units.
pub(super) const ONE: i16 = 127;

/// A board as one player saw it, and its sums.
pub(super) struct View {
    pieces: Pieces,
    sums: Box<[i16; WIDTH]>,
    worths: [i32; STACKS],
}

impl View {
    /// The view of a board without pieces.
    pub fn empty(biases: &[i16]) -> Self {
        let mut sums = Box::new([0; WIDTH]);
        sums.copy_from_slice(biases);
        Self { pieces: Pieces([Bitboard::EMPTY; 12]), sums, worths: [0; STACKS] }
    }

    /// Adds the pieces that are new and takes away those that are gone.
    #[inline(always)]
    pub fn update(
        &mut self,
        network: &StockfishNetwork,
        pieces: &Pieces,
        player: Color,
        king: usize,
    ) {
        let before = self.pieces;
        for (kind, (&now, &before)) in pieces.0.iter().zip(&before.0).enumerate() {
            for square in now & !before {
                let feature = feature(player, king, kind, usize::from(square));
                self.change(network, feature, i16::wrapping_add, i32::wrapping_add);
            }
            for square in before & !now {
                let feature = feature(player, king, kind, usize::from(square));
                self.change(network, feature, i16::wrapping_sub, i32::wrapping_sub);
            }
        }
        self.pieces = *pieces;
    }

    /// Adds a feature or takes it away, as the two functions do.
    #[inline(always)]
    fn change(
        &mut self,
        network: &StockfishNetwork,
        feature: usize,
        of_sum: impl Fn(i16, i16) -> i16,
        of_worth: impl Fn(i32, i32) -> i32,
    ) {
        let row = &network.weights[feature * WIDTH..][..WIDTH];
        self.sums.iter_mut().zip(row).for_each(|(sum, &weight)| *sum = of_sum(*sum, weight));
        let worths = self.worths.iter_mut().zip(&network.worths[feature]);
        worths.for_each(|(sum, &worth)| *sum = of_worth(*sum, worth));
    }

    /// What the layers see: the products of both halves of the sums, each between 0 and 1.
    #[inline(always)]
    pub fn inputs(&self, inputs: &mut [i16]) {
        let (one, other) = self.sums.split_at(WIDTH / 2);
        for ((input, &one), &other) in inputs.iter_mut().zip(one).zip(other) {
            *input = (one.clamp(0, ONE) * other.clamp(0, ONE)) >> 7;
        }
    }

    /// What the pieces are worth by themselves, by the table of a stack.
    pub fn worth(&self, stack: usize) -> i32 {
        self.worths[stack]
    }
}
