//! Whole runs on data made here: random games whose positions are labelled with their material
//! balance.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod random_games;
mod selectors;
mod streams;
mod whole_runs;
