//! Every code path gives the scores of the reference, for odd shapes and any batch size.

#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests")]

mod architectures;
mod batches;
mod descriptions;
mod inputs;
mod int8;
mod tolerance;
