//! Replaces the tile unit on other processors, where `Tiles::configure` returns `None` and this
//! function is never called.

use super::TileBlock;

/// # Safety
/// None needed.
pub unsafe fn block(_operands: &TileBlock) {}
