//! placeholder
/// Placeholder, to be written.
#[derive(Debug)]
pub struct Cached;
