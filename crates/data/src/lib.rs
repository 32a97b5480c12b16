//! From files of games and evaluations to packed, shuffled training records.

mod record;

pub use record::{GameResult, MATE_LABEL, NO_LABEL, Record, mate_label};
