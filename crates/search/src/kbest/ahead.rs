//! What a batch holds besides the work that one question makes certain.
//!
//! One zero-window question has some ten positions at a time that are likelier than not to be
//! needed, and a device wants hundreds. But the next questions are known before the answer is: the
//! separators near this one, since the driver closes in on the value from both sides, at this depth
//! and at the next ones. They are further roots of the same pool, each with a doubt of its own;
//! what they find out is in memory when they are asked. And doubts change while a pass goes on:
//! what was opened in case another move fails is certain once it has failed.

use nets::MoveScores;

use super::{
    TOLERANCE,
    frame::{FrameRef, LAST_LEVEL, State, levels},
    pass::{Context, Root, Searcher},
    pool::Order,
};
use crate::score::{LARGEST_VALUE, Value};

/// How many separators above the one that is asked questions go, and how many below.
const NEIGHBOURS: Value = 2;

/// Levels of doubt for each separator that a question is away from the one that is asked. This and
/// [`DEEPER`] are by trial (docs/2-search.md).
const NEIGHBOUR: u8 = 4;

/// Levels of doubt for each step that a question is deeper than the one that is asked.
const DEEPER: u8 = 8;

/// How many steps deeper questions go.
const STEPS: i16 = 4;

/// Evaluators that like fewer positions at once are filled well enough by one question.
const FEWEST_AT_ONCE: usize = 4;

/// Evaluations between two looks at all open positions, at least: a look at a few hundred costs the
/// time of one.
const EVALUATIONS_A_LOOK: u64 = 32;

/// Where there is memory for many positions, open or not, all of which a look walks over: so many
/// for each evaluation since the last.
const POSITIONS_AN_EVALUATION: u64 = 8;

impl Searcher {
    /// Are so many positions on their way, whatever they are, that one question does not have them?
    pub(super) fn looks_ahead(&self, at_once: usize) -> bool {
        let has_doubts = self.order == Order::Need && self.move_scores == MoveScores::Policy;
        has_doubts && at_once >= FEWEST_AT_ONCE
    }

    /// Has enough happened since the last look at all open positions?
    pub(super) fn is_to_weigh(&self) -> bool {
        let positions = self.frames.slot_count() as u64;
        self.evaluations
            >= self.weighed + EVALUATIONS_A_LOOK.max(positions / POSITIONS_AN_EVALUATION)
    }

    /// One more root of the pass.
    pub(super) fn add_root(
        &mut self,
        root: &Root<'_>,
        depth: i16,
        separator: Value,
        level: u8,
    ) -> FrameRef {
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
        // With so few evaluations left nobody will ask them. (A clock's last moment is far off
        // where the usual time is over.)
        let left = context.deadline.evaluations_left().min(context.deadline.affordable());
        let steps = if left > self.evaluations / 2 { STEPS } else { 0 };
        let deepening = self.selectivity.deepening;
        let questions =
            (0..=steps).flat_map(|step| (-NEIGHBOURS..=NEIGHBOURS).map(move |away| (step, away)));
        for (step, away) in questions.filter(|&question| question != (0, 0)) {
            let (depth, separator) =
                (root.depth + step * deepening, separator + away * (TOLERANCE + 1));
            let level = DEEPER * step as u8 + NEIGHBOUR * away.unsigned_abs() as u8;
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
        let mut work = std::mem::take(&mut self.walk);
        for &(top, level) in &self.tops {
            if let Some(frame) = self.frames.get_mut(top) {
                frame.speculation = level;
                work.push(top);
            }
        }
        while let Some(reference) = work.pop() {
            let Some(frame) = self.frames.get_mut(reference) else { continue };
            let (state, level, is_verifying) =
                (frame.state, frame.speculation, !frame.verify.is_empty());
            let children = std::mem::take(&mut frame.children);
            let mut doubt = 0.0;
            for &child in &children {
                let Some(frame) = self.frames.get_mut(child) else { continue };
                let Some(link) = frame.parents.iter().find(|link| link.frame == reference) else {
                    continue;
                };
                let here = level.saturating_add(levels(doubt)).min(LAST_LEVEL);
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
        self.walk = work;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use board::Position;
    use eval::Mock;
    use nets::Calibration;

    use super::*;
    use crate::{
        Control, Limits,
        kbest::frame::{Link, Ranked},
        memory::{Bounds, Memory},
        selectivity::PLY,
        time::Watch,
    };

    #[test]
    fn next_come_the_neighbours_here_and_at_the_next_depths() {
        let calibration = Calibration { move_scores: MoveScores::Policy, ..Calibration::default() };
        let position = Position::default();
        let (depth, last_depth) = (2 * PLY, 3 * PLY);
        let root = Root {
            position: &position,
            moves: &[],
            complete: true,
            history: &[],
            depth,
            last_depth,
        };
        let mut memory = Memory::new(1);
        let asked = |memory: &mut Memory, nodes: u64| {
            let mut searcher = Searcher::new(&calibration, 1 << 20);
            searcher.evaluations = 100;
            let (control, limits) =
                (Control::default(), Limits { nodes: Some(nodes), ..Limits::default() });
            let mut watch = Watch::new(&limits, Duration::ZERO, &control);
            let context = Context { memory, evaluator: &mut Mock::new(1), deadline: &mut watch };
            searcher.look_ahead(&root, 50, &context);
            let question = |&(top, level): &(FrameRef, u8)| {
                let frame = searcher.frames.get(top)?;
                Some((frame.depth, frame.separator, level))
            };
            searcher.tops.iter().filter_map(question).collect::<Vec<_>>()
        };
        let around = |step: u8| {
            let at = |separator, away: u8| {
                (depth + i16::from(step) * PLY / 2, separator, DEEPER * step + NEIGHBOUR * away)
            };
            [at(32, 2), at(41, 1), at(50, 0), at(59, 1), at(68, 2)]
        };
        let [below, neighbour_below, _, neighbour_above, above] = around(0);
        let here = vec![below, neighbour_below, neighbour_above, above];
        let deeper = [here.clone(), around(1).to_vec(), around(2).to_vec()].concat();
        assert_eq!(asked(&mut memory, 1_000), deeper, "none after the last depth");
        assert_eq!(asked(&mut memory, 50), here, "no evaluations for another depth");
        memory.store_bounds(root.key(), depth, Bounds { lower: 45, upper: 1_000, best: 1 });
        assert_eq!(asked(&mut memory, 50), [neighbour_above, above], "the others are answered");
    }

    #[test]
    fn a_doubt_ends_with_its_reason() {
        let calibration = Calibration { move_scores: MoveScores::Policy, ..Calibration::default() };
        let mut searcher = Searcher::new(&calibration, 1 << 20);
        let position = Position::default();
        let (depth, last_depth) = (2 * PLY, 9 * PLY);
        let root = Root {
            position: &position,
            moves: &[],
            complete: true,
            history: &[],
            depth,
            last_depth,
        };
        let top = searcher.add_root(&root, depth, 0, 6);
        let mut open = |parents: &[(FrameRef, f32)]| {
            let child = searcher.frames.add(position.clone(), false, 1, PLY, 0, 1);
            for (index, &(frame, doubt)) in (0..).zip(parents) {
                let link = Link { frame, edge: index, reduced: false, cost: 0, doubt };
                searcher.frames.get_mut(child).unwrap().parents.push(link);
                searcher.frames.get_mut(frame).unwrap().children.push(child);
            }
            let frame = searcher.frames.get_mut(child).unwrap();
            frame.find_legal();
            frame.ranked.push(Ranked::new(0, 0, false));
            searcher.line_up(child);
            child
        };
        let first = open(&[(top, 1.0)]);
        let second = open(&[(top, 0.5)]);
        let third = open(&[(top, 100.0)]);
        // Needed if the first is, or the third.
        let both = open(&[(third, 0.5), (first, 0.5)]);
        let last = open(&[(top, 0.5)]);
        let at = |searcher: &Searcher| {
            [first, second, third, both, last].map(|child| {
                let frame = searcher.frames.get(child)?;
                // Whoever has a move to open waits in the pool.
                let extra = levels(frame.children.len() as f32 * 0.5);
                assert_eq!(
                    frame.ticket_level,
                    frame.speculation.saturating_add(extra).min(LAST_LEVEL)
                );
                Some(frame.speculation)
            })
        };
        searcher.weigh();
        assert_eq!(at(&searcher), [Some(6), Some(18), Some(24), Some(6), Some(LAST_LEVEL)]);
        searcher.frames.get_mut(top).unwrap().children.remove(0);
        searcher.drop_frame(first);
        searcher.weigh();
        assert_eq!(at(&searcher), [None, Some(6), Some(12), Some(12), Some(LAST_LEVEL)]);
    }
}
