//! A search with its memory: what the UCI loop, `analyze` and matches hold.

use std::str::FromStr;

use board::Game;
use eval::Evaluator;
use nets::Calibration;

use crate::{AlphaBeta, Control, KBest, Limits, Outcome, Puct, SearchInfo, Settings};

/// Which search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// Batch First's own.
    #[default]
    KBest,
    AlphaBeta,
    Puct,
}

impl Algorithm {
    /// All of them, the default first.
    pub const ALL: [Self; 3] = [Self::KBest, Self::AlphaBeta, Self::Puct];

    /// Name in options and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::KBest => "kbest",
            Self::AlphaBeta => "alphabeta",
            Self::Puct => "puct",
        }
    }

    /// A search of this kind over an evaluator; `calibration` is that of its network.
    #[must_use]
    pub fn build(
        self,
        evaluator: Box<dyn Evaluator>,
        calibration: &Calibration,
        settings: &Settings,
    ) -> Box<dyn Search> {
        match self {
            Self::KBest => Box::new(KBest::new(evaluator, calibration, settings)),
            Self::AlphaBeta => Box::new(AlphaBeta::new(evaluator, calibration, settings)),
            Self::Puct => Box::new(Puct::new(evaluator, calibration, settings)),
        }
    }
}

impl FromStr for Algorithm {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == text).ok_or_else(|| {
            format!("`{text}` is no search; there are {}", Self::ALL.map(Self::name).join(", "))
        })
    }
}

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
