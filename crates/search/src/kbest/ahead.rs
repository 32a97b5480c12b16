//! What a batch holds besides the work that one question makes certain.
//!
//! One zero-window question has some ten positions at a time that are likelier than not to be needed, and a device wants
//! hundreds. But the next questions are known before the answer is: the separators next to this one, since the driver closes in on
//! the value from both sides, and then about the same separator at the next depths. They are further roots of the same pool,
//! each with a doubt of its own; what they find out is in memory when they are asked. And doubts change while a pass goes on: what was
//! opened in case another move fails is certain once it has failed.

use nets::MoveScores;

use super::{
    TOLERANCE,
    frame::{FrameRef, State, levels},
    pass::{Context, Root, Searcher},
    pool::Order,
};
use crate::score::{LARGEST_VALUE, Value};

/// Levels of doubt of a question about a separator next to the one that is asked: it is asked in seven cases of ten.
const NEIGHBOUR: u8 = 4;

/// Levels of doubt for each step that a question is deeper than the one that is asked.
const DEEPER: u8 = 8;

/// How many steps deeper questions go.
const STEPS: i16 = 4;

/// Evaluators that like smaller batches are filled well enough by one question.
const SMALLEST_BATCH: usize = 4;

/// Evaluations between two looks at all open positions, at least: such a look costs the time of a few.
pub(super) const EVALUATIONS_A_LOOK: u64 = 32;

impl Searcher {
    /// Are batches so large that one question does not fill them?
    pub(super) fn looks_ahead(&self, preferred_batch: usize) -> bool {
        let has_doubts = self.order == Order::Need && self.move_scores == MoveScores::Policy;
        has_doubts && preferred_batch >= SMALLEST_BATCH
    }

    /// One more root of the pass.
    pub(super) fn add_root(&mut self, root: &Root<'_>, depth: i16, separator: Value, level: u8) -> FrameRef {
        let check = root.position.is_check();
        let top = self.frames.add(root.position.clone(), check, root.key(), depth, separator, 0);
        if let Some(frame) = self.frames.get_mut(top) {
            frame.speculation = level;
        }
        self.tops.push((top, level));
        top
    }

    /// Puts the questions into the pool that will most likely follow the one about this separator.
    pub(super) fn look_ahead(&mut self, root: &Root<'_>, separator: Value, context: &Context<'_>) {
        // Nobody will ask them if the search ends before.
        let left = context.deadline.evaluations_left().min(context.deadline.affordable());
        let steps = if left > self.evaluations / 2 { STEPS } else { 0 };
        let deepening = self.selectivity.deepening;
        let neighbours = [separator + TOLERANCE + 1, separator - TOLERANCE];
        let neighbours = neighbours.map(|separator| (root.depth, separator, NEIGHBOUR));
        let deeper = (1..=steps).map(|step| {
            let depth = root.depth + step * deepening;
            (depth, separator, DEEPER * step as u8)
        });
        for (depth, separator, level) in neighbours.into_iter().chain(deeper) {
            let is_known = root.complete
                && context
                    .memory
                    .bounds(root.key(), depth)
                    .is_some_and(|known| known.lower >= separator || known.upper < separator);
            let is_asked = depth <= root.last_depth && separator.abs() <= LARGEST_VALUE;
            if is_asked && !is_known {
                let top = self.add_root(root, depth, separator, level);
                self.ask_moves(root, top, context.memory);
            }
        }
    }

    /// Leaves the memory for open positions to the question that is asked.
    pub(super) fn drop_ahead(&mut self) {
        for (top, _) in self.tops.split_off(1.min(self.tops.len())) {
            self.drop_frame(top);
        }
    }

    /// Doubts and tickets of all open positions anew, from the roots down.
    pub(super) fn weigh(&mut self) {
        self.weighed = self.evaluations;
        self.pool.clear();
        self.frames.forget_levels();
        let mut work = std::mem::take(&mut self.doomed);
        for &(top, level) in &self.tops {
            if let Some(frame) = self.frames.get_mut(top) {
                frame.speculation = level;
                work.push(top);
            }
        }
        while let Some(reference) = work.pop() {
            let Some(frame) = self.frames.get_mut(reference) else { continue };
            let (state, level, is_verifying) = (frame.state, frame.speculation, !frame.verify.is_empty());
            let children = std::mem::take(&mut frame.children);
            let mut doubt = 0.0;
            for &child in &children {
                let Some(frame) = self.frames.get_mut(child) else { continue };
                let Some(link) = frame.parents.iter().find(|link| link.frame == reference) else { continue };
                let here = level.saturating_add(levels(doubt));
                doubt += link.doubt;
                if here < frame.speculation {
                    frame.speculation = here;
                    work.push(child);
                }
            }
            if let Some(frame) = self.frames.get_mut(reference) {
                (frame.children, frame.doubt) = (children, doubt);
            }
            if state == State::Open {
                self.enqueue(reference, if is_verifying { 0 } else { levels(doubt) });
            }
        }
        self.doomed = work;
    }
}

#[cfg(test)]
mod tests {
    use board::Position;
    use nets::Calibration;

    use super::*;
    use crate::{kbest::frame::Link, selectivity::PLY};

    #[test]
    fn a_doubt_ends_with_its_reason() {
        let calibration = Calibration { move_scores: MoveScores::Policy, ..Calibration::default() };
        let mut searcher = Searcher::new(&calibration, 1 << 20);
        let position = Position::default();
        let (depth, last_depth) = (2 * PLY, 9 * PLY);
        let root = Root { position: &position, moves: &[], complete: true, history: &[], depth, last_depth };
        let top = searcher.add_root(&root, depth, 0, 6);
        let mut open = |parents: &[(FrameRef, f32)]| {
            let child = searcher.frames.add(position.clone(), false, 1, PLY, 0, 1);
            for (index, &(frame, doubt)) in (0..).zip(parents) {
                let link = Link { frame, edge: index, reduced: false, cost: 0, doubt };
                searcher.frames.get_mut(child).unwrap().parents.push(link);
                searcher.frames.get_mut(frame).unwrap().children.push(child);
            }
            child
        };
        let first = open(&[(top, 1.0)]);
        let second = open(&[(top, 0.5)]);
        let third = open(&[(top, 0.25)]);
        // Needed if the first is, or the third.
        let both = open(&[(third, 0.5), (first, 0.5)]);
        let levels = |searcher: &Searcher| {
            [first, second, third, both]
                .map(|frame| searcher.frames.get(frame).map(|frame| frame.speculation))
        };
        searcher.weigh();
        assert_eq!(levels(&searcher), [Some(6), Some(6 + 12), Some(6 + 18), Some(6)]);
        searcher.frames.get_mut(top).unwrap().children.remove(0);
        searcher.drop_frame(first);
        searcher.weigh();
        assert_eq!(levels(&searcher), [None, Some(6), Some(6 + 6), Some(6 + 6)]);
    }
}
