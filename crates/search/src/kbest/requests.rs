//! What nodes ask the network, and what is on its way.

use std::{
    collections::{HashSet, VecDeque},
    hash::BuildHasherDefault,
};

use eval::Batch;
use nets::MoveScores;

use super::{
    keys::KeyHasher,
    node::{Node, NodeId},
};
use crate::cache::SearchCache;

/// What the network is asked about a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// The value, and with it the policy of a network that has one.
    Value,
    /// The value without the policy.
    ValueAlone,
    Moves,
}

/// A request for the next batch, and the node that makes it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub node: NodeId,
    pub ask: Ask,
}

/// A request as the evaluator sees it: the position's key, and whether its value and its moves are
/// asked for.
pub(super) type RequestKey = (u64, bool, bool);

/// A batch that has been sent.
#[derive(Debug, Default)]
pub(super) struct Sent {
    pub requests: Vec<Request>,
    /// The evaluations that it counts for.
    pub evaluations: u64,
}

/// Requests that have been sent and not been answered.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    /// Batch after batch, the oldest first.
    pub batches: VecDeque<Sent>,
    pub keys: HashSet<RequestKey, BuildHasherDefault<KeyHasher>>,
    /// Requests whose key is in flight already, for other depths or bounds, or evaluated by another
    /// thread.
    pub waiting: Vec<Request>,
    /// Batches and lists of requests whose memory can be used again; the lists are empty.
    pub spare: Vec<Batch>,
    pub spare_requests: Vec<Vec<Request>>,
}

impl InFlight {
    /// Batches in flight.
    pub fn len(&self) -> usize {
        self.batches.len()
    }

    /// Is no answer to be waited for, of this thread or of another?
    pub fn awaits_nothing(&self) -> bool {
        self.batches.is_empty() && self.waiting.is_empty()
    }

    /// Forgets the requests that wait.
    pub fn forget_waiting(&mut self) {
        self.waiting.clear();
    }
}

/// Does the cache hold what a node asks for?
pub(super) fn is_answered(cache: &SearchCache, node: &Node, ask: Ask) -> bool {
    let key = node.position.key();
    match ask {
        Ask::Value | Ask::ValueAlone => cache.value(key).is_some(),
        Ask::Moves => cache.has_scores(key, Some(node.legal().len())),
    }
}

/// How the evaluator sees a request.
pub(super) fn request_key(move_scores: MoveScores, key: u64, ask: Ask) -> RequestKey {
    match ask {
        Ask::ValueAlone => (key, true, false),
        // A policy comes with the value.
        _ if move_scores == MoveScores::Policy => (key, true, true),
        Ask::Value => (key, true, false),
        Ask::Moves => (key, false, true),
    }
}

/// Claims the position of a request for this thread. False where the request has to wait: another
/// thread evaluates the position while this one has other work, or has evaluated it by now.
pub(super) fn claim(cache: &SearchCache, node: &Node, ask: Ask, has_other_work: bool) -> bool {
    let key = node.position.key();
    let is_free = cache.claim(key);
    let is_known = is_free && is_answered(cache, node, ask);
    if is_known {
        cache.release(key);
    }
    !is_known && (is_free || !has_other_work)
}
