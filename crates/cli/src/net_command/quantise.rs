//! `batch-first net quantise`: may a network be computed in eight-bit integers unasked?

use anyhow::ensure;
use nets::Network;
use train::{LARGEST_FALL, LARGEST_RISE};

use super::{Data, heads, print};
/// Measures it; may they be used? Then the network has their ranges, otherwise it has none.
///
/// # Errors
/// The network cannot be computed in integers.
pub fn run(network: &mut Network, data: &Data) -> anyhow::Result<bool> {
    let heads = heads(network);
    ensure!(!heads.is_empty(), "the network has no heads");
    let judged = heads
        .into_iter()
        .map(|head| Ok((head, data.held_out(network, head)?)))
        .collect::<anyhow::Result<Vec<_>>>()?;
    for cost in train::quantise(network, &judged, data.threads())? {
        print(&format!(
            "in int8 {cost}: {}",
            if cost.is_small() { "next to nothing" } else { "too much" }
        ))?;
    }
    Ok(network.int8_ranges.is_some())
}

/// Why not.
pub fn refusal() -> String {
    format!(
        "int8 stays on request for this network: tau-b may fall by {LARGEST_FALL}, the cross entropy of a policy rise by \
         {LARGEST_RISE}"
    )
}
