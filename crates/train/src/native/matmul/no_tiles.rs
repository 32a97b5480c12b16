//! Stands in for the tile unit on other processors. `Tiles::configure` answers `None` there, so this
//! function is never called.

use super::TileBlock;

/// # Safety
/// None needed.
pub unsafe fn block(_operands: &TileBlock) {}
