//! A search with its memory: what the UCI loop, `analyze` and matches hold.

use board::Game;

use crate::{Control, Limits, Outcome, SearchInfo, Settings};

/// A search that keeps its tree from move to move.
pub trait Search: Send {
    /// Thinks about the current position of `game`. `report` gets every new line; it is called on this thread.
    ///
    /// # Errors
    /// The evaluator failed.
    fn search(
        &mut self,
        game: &Game,
        limits: &Limits,
        control: &Control,
        report: &mut dyn FnMut(&SearchInfo),
    ) -> Result<Outcome, eval::EvalError>;

    /// New options; what memory no longer fits is given up.
    fn configure(&mut self, settings: &Settings);

    /// Forgets everything learned (`ucinewgame`, a changed network).
    fn clear(&mut self);
}
