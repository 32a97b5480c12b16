//! Tests of the page's server over real connections.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod access;
mod analysis;
mod games;
mod lab;
mod maia;
mod test_server;
