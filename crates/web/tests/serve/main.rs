//! The page's server from outside: real connections to a listening server.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod analysis;
mod games;
mod lab;
mod refusals;
mod visitor;
