//! From options to a search, built in one place: [`EngineOptions`] -> network -> evaluator ->
//! search.
//!
//! Front ends (UCI, the page, matches, files of games, the command line) fill in the options and
//! ask for an [`Engine`], or for a [`SharedEngine`] whose evaluators many searches use together.

mod bench;
mod build;
mod error;
mod evaluate;
mod int8;
mod measured;
mod moves_left;
mod named_options;
mod networks;
mod options;
mod shared;
mod speed;

pub use bench::{BenchResult, bench};
pub use build::{Engine, EngineBuilder, build, choose, evaluator, has_search};
pub use error::EngineError;
pub use evaluate::evaluate;
pub use named_options::{NamedOption, NamedOptions, OptionChange, OptionError, OptionKind};
pub use networks::{
    NetworkSpeed, Placing, compare, embedded, fitting, is_named, load, load_or_large, placings,
};
pub use options::EngineOptions;
pub use search::{Algorithm, SEARCHES, SearchEntry};
pub use shared::SharedEngine;
