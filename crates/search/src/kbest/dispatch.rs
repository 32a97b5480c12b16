//! The loop of a pass: fill a batch, send it, receive answers, back them up.
//!
//! Batches are answered in the order in which they are sent. Evaluators that work in the
//! background have several batches in flight, so that the tree works while they do.

use eval::{Answered, EvalError, Evaluator, Stream};
use nets::MoveScores;

use super::{
    node::NodeId,
    pass::{Context, PassEnd, Root, Searcher},
    queue::Order,
    requests::{Ask, InFlight, Request, Sent, claim, is_answered, request_key},
};
use crate::{
    cache::{Bounds, SearchCache},
    score::{Value, from_evaluation},
    selectivity::PLY,
    view::View,
};

/// Work up to this priority is evaluated even where no batch has a free place for it: at no node on
/// the way from the root is the chance that it is not needed above 2 %.
const CERTAIN_PRIORITY: usize = 0;

/// How much work the evaluator prefers to have.
#[derive(Clone, Copy, Debug)]
struct WantedLoad {
    /// Positions that a batch takes in any case; beyond, only certain work.
    batch: usize,
    /// Batches in flight at once.
    batches: usize,
    moves_are_dear: bool,
}

/// What filling a batch came to.
enum Filled {
    /// Requests are pending, or nothing is left to expand for now.
    Batch,
    /// The root closed meanwhile.
    Decided(Bounds),
    /// There is no memory for another node, and nothing to wait for.
    OutOfMemory,
}

impl Searcher {
    /// As [`Searcher::pass`], which takes back what this leaves in flight.
    pub(super) fn run_pass(
        &mut self,
        root: &Root<'_>,
        bound: Value,
        width: usize,
        context: &mut Context<'_, '_>,
    ) -> Result<PassEnd, EvalError> {
        let root_node = self.begin_pass(root, bound, context.cache);
        let load = self.load(context.evaluator);
        // Elsewhere a leaf and an inner node of one position could be evaluated side by side.
        self.moves_are_dear = load.moves_are_dear
            && self.move_scores == MoveScores::Policy
            && (width, load.batches) == (1, 1);
        let asks_ahead = self.asks_ahead(load.batch.min(width) * load.batches);
        if asks_ahead {
            self.add_questions_ahead(root, bound, context);
        }
        self.reprioritised_at = self.evaluations;
        loop {
            if asks_ahead && self.is_to_reprioritise() {
                self.reprioritise();
            }
            let width = if width > 1 {
                let most = context.timer.evaluations_left().min(context.timer.affordable());
                (width as u64).min(most.max(1)) as usize
            } else {
                width // One position at a time needs no look at the clock.
            };
            match self.fill_batch(root, root_node, width, load, context) {
                Filled::Decided(bounds) => return Ok(PassEnd::Decided(bounds)),
                Filled::OutOfMemory => return Ok(PassEnd::Interrupted),
                Filled::Batch => {}
            }
            let nodes = &self.nodes;
            self.pending.retain(|request| nodes.get(request.node).is_some());
            let is_over = context.timer.is_over();
            if is_over && self.in_flight.len() == 0 {
                return Ok(PassEnd::Interrupted);
            }
            if !is_over && self.fills_enough(width, load) {
                let sent = self.send(width, context)?;
                if sent > 0 && context.timer.control().wants_view() {
                    self.show_view(root, bound, width, context);
                }
                // The tree works while the device does. A request that is in flight already is not
                // sent again.
                let has_more_work = if sent == 0 {
                    self.queue.len() > 0
                } else {
                    self.in_flight.len() < load.batches
                };
                if has_more_work {
                    continue;
                }
            }
            if self.in_flight.len() == 0 {
                match self.go_on_alone(root, root_node, context.cache) {
                    Some(end) => return Ok(end),
                    None => continue,
                }
            }
            self.receive(root, context)?;
            if let Some(bounds) = self.back_up(root, root_node, context.cache) {
                return Ok(PassEnd::Decided(bounds));
            }
        }
    }

    /// With nothing in flight: what waits for other threads is answered by now, or is asked for
    /// here. The end of the pass, if it ends.
    fn go_on_alone(
        &mut self,
        root: &Root<'_>,
        root_node: NodeId,
        cache: &SearchCache,
    ) -> Option<PassEnd> {
        if !self.pending.is_empty() {
            return None;
        }
        if self.in_flight.waiting.is_empty() {
            // Not reached: an open root has open work.
            return (self.queue.len() == 0).then_some(PassEnd::Interrupted);
        }
        self.resume_waiting(root, cache);
        self.back_up(root, root_node, cache).map(PassEnd::Decided)
    }

    fn load(&self, evaluator: &dyn Evaluator) -> WantedLoad {
        let Stream { batch, in_flight, moves_are_dear } = evaluator.preferred_stream();
        let fill = self.rules.fill;
        let batch = if fill == 0 { batch } else { fill };
        WantedLoad { batch, batches: in_flight, moves_are_dear }
    }

    /// Expands nodes until `width` requests are pending, the rest of the work is not certain, or
    /// the time is over.
    fn fill_batch(
        &mut self,
        root: &Root<'_>,
        root_node: NodeId,
        width: usize,
        load: WantedLoad,
        context: &mut Context<'_, '_>,
    ) -> Filled {
        while self.pending.len() < width {
            if context.timer.is_over_at_step() {
                break;
            }
            let open = self.nodes.open_count();
            if self.queue.len() > 4 * open + 1024 {
                let nodes = &self.nodes;
                self.queue.retain(|entry| nodes.is_valid(entry));
            }
            let is_crowded = open > self.node_limit;
            if is_crowded {
                self.drop_questions_ahead();
            }
            let is_uncertain =
                self.queue.next_priority().is_some_and(|priority| priority > CERTAIN_PRIORITY);
            if is_uncertain && self.pending.len() >= load.batch && self.rules.order == Order::Need {
                break; // It can wait for the answers to this batch.
            }
            let entry = if is_crowded { self.queue.pop_deepest() } else { self.queue.pop() };
            let Some(entry) = entry else { break };
            if !self.expand_next(root, entry, context.cache) {
                if self.pending.is_empty() && self.in_flight.awaits_nothing() {
                    return Filled::OutOfMemory;
                }
                break; // The nodes that exist come first.
            }
            if let Some(bounds) = self.back_up(root, root_node, context.cache) {
                return Filled::Decided(bounds);
            }
        }
        Filled::Batch
    }

    /// Are there enough pending requests for a batch? A further batch is for a device that would
    /// wait otherwise: half of one would delay the next.
    fn fills_enough(&self, width: usize, load: WantedLoad) -> bool {
        let enough =
            if self.in_flight.len() == 0 { 1 } else { load.batch.min(width).div_ceil(2).max(1) };
        self.pending.len() >= enough
    }

    fn show_view(&self, root: &Root<'_>, bound: Value, width: usize, context: &Context<'_, '_>) {
        let (line, Bounds { lower, upper, .. }) = self.line;
        context.timer.control().show(View {
            depth: (root.depth / PLY) as u32,
            line,
            lower,
            upper,
            bound,
            open: self.nodes.open_count(),
            bins: self.queue.counts(),
            batch: self.last_batch,
            width,
            batches: self.batches,
            evaluations: self.evaluations,
            elapsed: context.timer.elapsed(),
        });
    }

    /// Sends at most `width` of the pending requests, each key once. Their number; 0 where all keys
    /// are in flight already, known by now, or claimed by other threads while there is other work.
    pub(super) fn send(
        &mut self,
        width: usize,
        context: &mut Context<'_, '_>,
    ) -> Result<usize, EvalError> {
        let mut batch = self.in_flight.spare.pop().unwrap_or_default();
        batch.clear();
        let mut sent = self.in_flight.spare_requests.pop().unwrap_or_default();
        let mut evaluations = 0;
        sent.extend(self.pending.drain(..width.min(self.pending.len())));
        let cache = context.cache;
        // Where memory is short there is none for other work.
        let has_other_work = self.queue.len() > 0 && self.nodes.open_count() <= self.node_limit;
        sent.retain(|request| {
            let Some(node) = self.nodes.get_mut(request.node) else { return false };
            let position_key = node.position.key();
            let key @ (_, value, moves) = request_key(self.move_scores, position_key, request.ask);
            if !self.in_flight.keys.insert(key) {
                self.in_flight.waiting.push(*request);
                return false;
            }
            if moves {
                node.generate_moves();
            }
            if self.has_company && !claim(cache, node, request.ask, has_other_work) {
                self.in_flight.keys.remove(&key);
                self.in_flight.waiting.push(*request);
                return false;
            }
            batch.push(&node.position, value, if moves { node.legal() } else { &[] });
            self.spent[usize::from(node.root_edge)] += 1;
            // Moves that are asked for after the value are no evaluation of their own.
            let is_second = self.moves_are_dear
                && request.ask == Ask::Moves
                && cache.value(position_key).is_some();
            evaluations += u64::from(!is_second);
            true
        });
        let count = batch.len();
        if count == 0 {
            self.in_flight.spare.push(batch);
            self.in_flight.spare_requests.push(sent);
            return Ok(0);
        }
        self.batches += 1;
        self.evaluations += evaluations;
        self.last_batch = count;
        self.in_flight.batches.push_back(Sent { requests: sent, evaluations });
        context.evaluator.submit(batch)?;
        context.timer.send(evaluations);
        Ok(count)
    }

    /// Waits for the oldest batch and gives its answers to the nodes that asked.
    pub(super) fn receive(
        &mut self,
        root: &Root<'_>,
        context: &mut Context<'_, '_>,
    ) -> Result<(), EvalError> {
        let (mut requests, answered) = self.receive_oldest(context)?;
        let cache = context.cache;
        for (request, &value) in requests.drain(..).zip(&answered.scores.values) {
            match request.ask {
                Ask::Moves => self.order_moves(root, request.node, cache),
                Ask::Value | Ask::ValueAlone => {
                    let value = self.corrected(request.node, from_evaluation(value));
                    if let Some(value) = value
                        && let Some((lower, upper)) =
                            self.apply_value(root, request.node, value, cache)
                    {
                        self.close(request.node, lower, upper, cache, true);
                    }
                }
            }
        }
        self.in_flight.spare.push(answered.batch);
        self.in_flight.spare_requests.push(requests);
        self.withdraw_answered(cache);
        self.resume_waiting(root, cache);
        Ok(())
    }

    /// Takes requests out of the next batch whose answers have arrived for another node.
    fn withdraw_answered(&mut self, cache: &SearchCache) {
        let (nodes, waiting) = (&self.nodes, &mut self.in_flight.waiting);
        self.pending.retain(|request| {
            let Some(node) = nodes.get(request.node) else { return false };
            let is_known = is_answered(cache, node, request.ask);
            if is_known {
                waiting.push(*request);
            }
            !is_known
        });
    }

    /// Goes on with nodes that waited for a key which is no longer in flight in this thread: with
    /// the answer if it is known, else it is asked for again.
    fn resume_waiting(&mut self, root: &Root<'_>, cache: &SearchCache) {
        for request in std::mem::take(&mut self.in_flight.waiting) {
            let Some(node) = self.nodes.get(request.node) else { continue };
            let key = node.position.key();
            if self.in_flight.keys.contains(&request_key(self.move_scores, key, request.ask)) {
                self.in_flight.waiting.push(request);
                continue;
            }
            let value = self.known_value(request.node, cache);
            if let Some((lower, upper)) = self.begin_node(root, request.node, value, cache) {
                self.close(request.node, lower, upper, cache, true);
            }
        }
    }

    /// Waits for every batch in flight; later passes find the answers in the cache.
    pub(super) fn drain(&mut self, context: &mut Context<'_, '_>) -> Result<(), EvalError> {
        while self.in_flight.len() > 0 {
            let (_, answered) = self.receive_oldest(context)?;
            self.in_flight.spare.push(answered.batch);
        }
        Ok(())
    }

    /// Waits for the oldest batch and stores its answers in the cache.
    fn receive_oldest(
        &mut self,
        context: &mut Context<'_, '_>,
    ) -> Result<(Vec<Request>, Answered), EvalError> {
        let Sent { requests, evaluations } = self.in_flight.batches.pop_front().unwrap_or_default();
        let answered = context.evaluator.wait()?;
        context.timer.receive(evaluations);
        for (query, &value) in answered.batch.queries.iter().zip(&answered.scores.values) {
            let moves = &answered.scores.moves[query.move_range()];
            context.cache.store_answer(
                query.key,
                query.value.then_some(value),
                moves,
                self.move_scores,
            );
            self.in_flight.keys.remove(&(query.key, query.value, !moves.is_empty()));
            if self.has_company {
                context.cache.release(query.key);
            }
        }
        Ok((requests, answered))
    }

    /// After an error: waits for what the evaluator still works on and forgets it.
    pub(super) fn abort(&mut self, evaluator: &mut dyn Evaluator) {
        for _ in 0..evaluator.in_flight() {
            evaluator.wait().ok();
        }
        self.in_flight = InFlight::default();
    }
}
