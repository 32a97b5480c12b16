//! The page's server from outside: real connections to a listening server.

mod analysis;
mod games;
mod lab;
mod refusals;
mod visitor;
