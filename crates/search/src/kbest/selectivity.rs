//! Which moves are searched less deeply, or not at all.
//!
//! Moves are ordered by the move network. A late quiet move that gives no check is first searched to a smaller depth,
//! the smaller the later it comes (logarithmically, as late-move reductions in alpha-beta engines); if it still reaches
//! the separator it is searched again to its full depth before that is believed. Next to the leaves a late quiet move
//! whose score lies far below the separator is not searched.

use board::{Move, Role};

use super::{PLY, frame::Frame};
use crate::quiet::exchange;

/// What is to be done with a move, unless it gives check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// Search to full depth.
    Full,
    /// Search to this many plies less.
    Reduced(i16),
    /// Take it to miss the separator.
    Skip,
}

/// The rules; `None` switches one off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Selectivity {
    /// Divides ln(depth) x ln(rank) into plies of reduction.
    pub reduction_divisor: Option<f32>,
    /// At depth 1 a late quiet move is skipped when its score plus this is below the separator, centipawns.
    pub skip_margin: Option<i32>,
}

/// Moves in front of the order that are always searched in full.
const ALWAYS_FULL: usize = 3;

impl Default for Selectivity {
    fn default() -> Self {
        Self { reduction_divisor: Some(2.0), skip_margin: Some(150) }
    }
}

impl Selectivity {
    /// Every move to full depth.
    pub(super) const NONE: Self = Self { reduction_divisor: None, skip_margin: None };

    /// What is to be done with the move at this place of the frame's order.
    pub(super) fn wish(&self, frame: &Frame, place: usize) -> Wish {
        let edge = frame.edges[place];
        if frame.depth < PLY || place < ALWAYS_FULL || frame.ply == 0 && place < 2 * ALWAYS_FULL {
            return Wish::Full;
        }
        if is_forcing(frame, edge.mv) || frame.position.is_check() {
            return Wish::Full;
        }
        if frame.depth == PLY {
            let hopeless = self
                .skip_margin
                .is_some_and(|margin| frame.ply > 0 && i32::from(edge.score) + margin < frame.separator);
            return if hopeless { Wish::Skip } else { Wish::Full };
        }
        let Some(divisor) = self.reduction_divisor else { return Wish::Full };
        let depth = f32::from(frame.depth) / f32::from(PLY);
        let plies = (0.5 + depth.ln() * (1.0 + place as f32).ln() / divisor) as i16;
        if plies > 0 { Wish::Reduced(plies) } else { Wish::Full }
    }
}

/// Promotions and captures that lose nothing.
fn is_forcing(frame: &Frame, mv: Move) -> bool {
    mv.promotion() == Some(Role::Queen) || mv.is_capture() && exchange(&frame.position, mv) >= 0
}
