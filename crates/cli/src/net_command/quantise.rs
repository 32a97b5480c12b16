//! `batch-first net quantise`: decides whether int8 may be the default format of a network.

use anyhow::ensure;
use nets::Network;
use train::{LARGEST_FALL, LARGEST_RISE};

use super::{HeldOutArgs, heads, print};

/// Measures the cost of int8 and returns whether it is small. If so, the network gets the ranges of
/// int8, otherwise it loses them.
///
/// # Errors
/// The network cannot be computed in integers.
pub fn run(network: &mut Network, data: &HeldOutArgs) -> anyhow::Result<bool> {
    let heads = heads(network);
    ensure!(!heads.is_empty(), "the network has no heads");
    let held_out = heads
        .into_iter()
        .map(|head| Ok((head, data.held_out(network, head)?)))
        .collect::<anyhow::Result<Vec<_>>>()?;
    for cost in train::quantise(network, &held_out, data.threads())? {
        print(&format!(
            "in int8 {cost}: {}",
            if cost.is_small() { "next to nothing" } else { "too much" }
        ))?;
    }
    Ok(network.int8_ranges.is_some())
}

/// The message about a cost that is too large.
pub fn refusal() -> String {
    format!(
        "int8 stays on request for this network: tau-b may fall by {LARGEST_FALL}, the cross entropy of a policy rise by \
         {LARGEST_RISE}"
    )
}
