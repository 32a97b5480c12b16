//! The bounds that the zero-window passes of one depth ask, and the interval that is left.
//!
//! MTD(f) (Plaat 1996) as a bisection: from the last depth's value in steps that lengthen while all
//! answers point one way, then halving the interval.

use eval::EvalError;

use super::pass::{Context, PassEnd, Root, Searcher};
use crate::{
    cache::{Bounds, NO_MOVE},
    score::{LARGEST_VALUE, MATE, MATE_BOUND, TABLE_WIN, Value},
};

/// Passes that one depth may take: an ordinary depth takes a dozen, contradictory bounds could go
/// on for ever.
const MOST_PASSES: u32 = 100;

/// The interval in which the root's value lies.
#[derive(Clone, Debug)]
pub(super) struct Driver {
    pub found: Bounds,
    /// Width of the interval, in centipawns, that is narrow enough.
    tolerance: Value,
    bound: Value,
    up: Value,
    down: Value,
    passes: u32,
}

impl Driver {
    /// Begins at `guess`, within the bounds that are known already.
    pub(super) fn new(known: Option<Bounds>, guess: Value, tolerance: Value) -> Self {
        // The move that is remembered may be one to try first, not the one behind the lower bound:
        // a pass has to show it.
        let known = known.unwrap_or_default();
        let found =
            Bounds { lower: known.lower.max(-MATE), upper: known.upper.min(MATE), best: NO_MOVE };
        let mut driver = Self { found, tolerance, bound: 0, up: 0, down: 0, passes: 0 };
        driver.bound = driver.within(guess);
        driver
    }

    /// The next question: is the value at least this? `None` once the depth is done.
    pub(super) fn bound(&self) -> Option<Value> {
        let Bounds { lower, upper, best } = self.found;
        // Mates and wins by tables are counted exactly.
        let is_certain = lower > LARGEST_VALUE || upper < -LARGEST_VALUE;
        let open = best == NO_MOVE || upper - lower > if is_certain { 0 } else { self.tolerance };
        (open && self.passes < MOST_PASSES).then_some(self.bound)
    }

    /// Has a pass shown that the best move is worth its bound? Until then it is only the move
    /// with the largest lower bound, which may be a draw that is known exactly among better moves
    /// that are not.
    pub(super) fn has_proven_move(&self) -> bool {
        self.up > 0
    }

    /// Takes the answer to [`Driver::bound`].
    pub(super) fn take(&mut self, answer: Bounds) {
        let reached = answer.lower >= self.bound;
        let found = &mut self.found;
        if answer.lower > found.lower || reached {
            // The move behind the lower bound, also where a pass failed low and still raised it.
            found.best = answer.best;
        }
        found.lower = found.lower.max(answer.lower);
        found.upper = found.upper.min(answer.upper);
        // A certain value that is no mate is a win by tables.
        if found.lower > LARGEST_VALUE && found.upper <= MATE_BOUND {
            found.upper = found.upper.min(TABLE_WIN);
        }
        if found.upper < -LARGEST_VALUE && found.lower >= -MATE_BOUND {
            found.lower = found.lower.max(-TABLE_WIN);
        }
        if found.upper < found.lower {
            // Repetitions, reduced moves and deeper knowledge can make two passes disagree: the
            // latest answer counts. Without a move yet, it refutes what was known before.
            let latest = if reached { answer.lower } else { answer.upper };
            let lower = if found.best == NO_MOVE { -MATE } else { latest };
            (found.lower, found.upper) = (lower, latest);
        }
        let step = if reached { &mut self.up } else { &mut self.down };
        *step = longer(*step);
        self.passes += 1;
        let Bounds { lower, upper, .. } = self.found;
        let next = if self.down == 0 {
            // Only upwards so far: expect to be right, then lengthen the steps.
            let next = lower + 1 + self.tolerance.max(self.up - 1);
            if next > LARGEST_VALUE && lower < MATE_BOUND { MATE_BOUND + 1 } else { next }
        } else if self.up == 0 {
            let next = upper - self.tolerance.max(self.down - 1);
            if next < -LARGEST_VALUE && upper > -MATE_BOUND { -MATE_BOUND - 1 } else { next }
        } else {
            lower + (upper - lower + 1) / 2
        };
        self.bound = self.within(next);
    }

    /// The nearest bound whose answer is not known yet; without a best move, the lower bound too.
    fn within(&self, bound: Value) -> Value {
        let Bounds { lower, upper, best } = self.found;
        let least = if best == NO_MOVE { lower } else { lower + 1 };
        bound.clamp(least, upper.max(least))
    }
}

impl Searcher {
    /// Value and best move of the root at one depth, by zero-window passes of up to `width`
    /// positions a batch, and whether the depth is complete; `line`: rank of the line, from 1, and a
    /// guess of its value.
    pub(super) fn resolve(
        &mut self,
        root: &Root<'_>,
        (rank, guess): (usize, Value),
        tolerance: Value,
        width: usize,
        context: &mut Context<'_, '_>,
    ) -> Result<(Bounds, bool), EvalError> {
        let known =
            if root.has_all_moves { context.cache.bounds(root.key(), root.depth) } else { None };
        let mut driver = Driver::new(known, guess, tolerance);
        while let Some(bound) = driver.bound() {
            self.line = (rank, driver.found);
            let end = self.pass(root, bound, width, context)?;
            if let PassEnd::Decided(bounds) = end {
                driver.take(bounds);
            }
            if end == PassEnd::Interrupted || driver.bound().is_some() && context.timer.is_over() {
                let best = if driver.has_proven_move() { driver.found.best } else { NO_MOVE };
                return Ok((Bounds { best, ..driver.found }, false));
            }
        }
        Ok((driver.found, driver.found.best != NO_MOVE))
    }
}

/// Steps of the search for the value: 1, then 8, 24, 72 … centipawns; none is taken smaller than
/// the tolerance.
fn longer(step: Value) -> Value {
    match step {
        0 => 1,
        1 => 8,
        longer => longer.saturating_mul(3).min(LARGEST_VALUE),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::score::INFINITY;

    /// A draw that is known exactly looks like the best of moves whose values are still open: an
    /// interrupted search that believed it gave won games away.
    #[test]
    fn a_move_is_proven_only_by_reaching_a_bound() {
        let mut driver = Driver::new(None, 300, 0);
        driver.take(Bounds { lower: 0, upper: 200, best: 7 });
        driver.take(Bounds { lower: 0, upper: 150, best: 7 });
        assert!(!driver.has_proven_move());
        let bound = driver.bound().unwrap();
        driver.take(Bounds { lower: bound, upper: INFINITY, best: 2 });
        assert!(driver.has_proven_move() && driver.found.best == 2);
        // Later passes that fail low do not bring the draw back.
        let bound = driver.bound().unwrap();
        driver.take(Bounds { lower: 0, upper: bound - 1, best: 7 });
        assert!(driver.has_proven_move() && driver.found.best == 2);
    }

    proptest! {
        #[test]
        fn truthful_answers_lead_to_the_value(
            value in prop_oneof![
                -LARGEST_VALUE..=LARGEST_VALUE,
                TABLE_WIN - 200..=TABLE_WIN,
                -TABLE_WIN..200 - TABLE_WIN,
                MATE_BOUND + 1..=MATE,
                -MATE..-MATE_BOUND,
            ],
            guess in -LARGEST_VALUE..=LARGEST_VALUE,
            tolerance in 0..20,
        ) {
            let mut driver = Driver::new(None, guess, tolerance);
            while let Some(bound) = driver.bound() {
                driver.take(if value >= bound {
                    Bounds { lower: bound, upper: INFINITY, best: 3 }
                } else {
                    Bounds { lower: -INFINITY, upper: bound - 1, best: 4 }
                });
            }
            let Bounds { lower, upper, best } = driver.found;
            prop_assert!((lower..=upper).contains(&value) && upper - lower <= tolerance && best == 3);
            prop_assert!(driver.passes < 60, "{} passes", driver.passes);
        }

        /// A known lower bound that passes refute once sent the search down by a centipawn a pass.
        #[test]
        fn a_wrong_known_bound_costs_few_passes(
            known in -LARGEST_VALUE..=LARGEST_VALUE,
            value in -LARGEST_VALUE..=LARGEST_VALUE,
            tolerance in 0..20,
        ) {
            let bounds = Bounds { lower: known, upper: MATE, best: 5 };
            let mut driver = Driver::new(Some(bounds), known, tolerance);
            while let Some(bound) = driver.bound() {
                driver.take(if value >= bound {
                    Bounds { lower: bound, upper: INFINITY, best: 3 }
                } else {
                    Bounds { lower: -INFINITY, upper: bound - 1, best: 4 }
                });
            }
            let Bounds { lower, upper, best } = driver.found;
            prop_assert!((lower..=upper).contains(&value) && best == 3);
            prop_assert!(driver.passes < 60, "{} passes", driver.passes);
        }

        /// Bounds that contradict each other once kept a search busy for ever, far beyond its time.
        #[test]
        fn contradictory_answers_come_to_an_end(
            answers in proptest::collection::vec((any::<bool>(), 0..400_i32, any::<bool>()), 200),
            guess in -300..300,
        ) {
            let mut driver = Driver::new(None, guess, 0);
            let mut asked = 0;
            for (reaches, distance, has_move) in answers {
                let Some(bound) = driver.bound() else { break };
                asked += 1;
                prop_assert!((-MATE..=MATE).contains(&bound), "{bound}");
                let best = if has_move { 1 } else { NO_MOVE };
                driver.take(if reaches {
                    Bounds { lower: (bound + distance).min(MATE), upper: INFINITY, best }
                } else {
                    Bounds { lower: -INFINITY, upper: (bound - 1 - distance).max(-MATE), best }
                });
            }
            prop_assert!(asked <= MOST_PASSES && driver.bound().is_none());
        }
    }
}
