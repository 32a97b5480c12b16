//! Time management: how long a search may take, and when it has to end.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use board::Move;

use crate::{Clock, Control, Limits, score::Value};

/// When to stop: `soft` before something new is begun, `hard` at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Budget {
    soft: Option<Duration>,
    hard: Option<Duration>,
}

impl Budget {
    fn of(limits: &Limits, overhead: Duration) -> Self {
        let mut budget = Self { soft: None, hard: None };
        if let Some(movetime) = limits.movetime {
            budget.hard = Some(movetime.saturating_sub(overhead));
        }
        if let Some(clock) = limits.clock {
            let (soft, hard) = shares(clock, overhead);
            budget.soft = Some(soft);
            budget.hard = Some(budget.hard.map_or(hard, |limit| limit.min(hard)));
        }
        budget
    }
}

/// Usual and largest time for a move from what the clock shows.
fn shares(clock: Clock, overhead: Duration) -> (Duration, Duration) {
    let moves = clock.moves_to_go.unwrap_or(28).clamp(1, 28);
    // The overhead is lost on every move that is still to come.
    let usable = clock.remaining.saturating_sub(overhead);
    let spare = clock.remaining.saturating_sub(overhead * (moves + 1));
    // Where the overhead exceeds the clock, a share of the clock is used all the same.
    let share = (spare / moves).max(usable / (2 * moves))
        + clock.increment.saturating_sub(overhead).mul_f64(0.75);
    let most = if moves == 1 { usable.mul_f64(0.9) } else { usable.mul_f64(0.4) };
    let soft = share.min(most);
    (soft, (share * 4).min(most))
}

/// Factors of the usual time by the number of depths with the same best move: 0, 1, 2 …
const BY_STABILITY: [f64; 5] = [1.5, 1.2, 1.0, 0.85, 0.75];

/// Factors of the usual time if none or all of the evaluations went into the best move.
const BY_SHARE: [f64; 2] = [1.4, 0.8];

/// Centipawns that the root has to lose from one whole depth to the next to be worth a third more
/// time.
const TROUBLE: Value = 30;

/// The share of the usual time in which another depth is begun. The next one takes longer than this
/// one did, the more the deeper it goes at once.
pub(crate) const TO_BEGIN_A_PLY: f64 = 0.6;

/// As [`TO_BEGIN_A_PLY`], half a ply deeper.
pub(crate) const TO_BEGIN_HALF_A_PLY: f64 = 0.75;

/// Statistics of the depths so far, which scale the usual time.
#[derive(Clone, Copy, Debug, Default)]
struct IterationStats {
    last: Option<(Move, Value)>,
    /// Depths in a row before the last one that had its best move.
    stable: usize,
    is_falling: bool,
    /// Share of the evaluations that went into the best move; `None` where it is not counted.
    share: Option<f64>,
}

impl IterationStats {
    fn note(&mut self, best: Move, value: Value, share: Option<f64>) {
        self.stable = match self.last {
            Some((last, _)) if last == best => self.stable + 1,
            _ => 0,
        };
        self.is_falling = self.last.is_some_and(|(_, last)| value < last - TROUBLE);
        self.share = share;
        self.last = Some((best, value));
    }

    /// Factor of the usual time.
    fn factor(&self) -> f64 {
        if self.last.is_none() {
            return 1.0;
        }
        let stability = BY_STABILITY[self.stable.min(BY_STABILITY.len() - 1)];
        let [none, all] = BY_SHARE;
        let share = self.share.map_or(1.0, |share| none + (all - none) * share);
        stability * share * if self.is_falling { 4.0 / 3.0 } else { 1.0 }
    }
}

/// Largest first batch where time is limited and the evaluator's speed unknown, in evaluations.
const UNTIMED_BATCH: u64 = 16;

/// A limit of n evaluations also ends a search after n + 100 times so many steps of its tree: where
/// all positions are known, no evaluation would end it.
const STEPS_AN_EVALUATION: u64 = 100;

/// Steps of a tree between two looks at the clock.
const STEPS_BETWEEN_CLOCKS: u64 = 64;

/// The clock, the count of evaluations and the stop flag of one search.
#[derive(Debug)]
pub(crate) struct TimeManager<'a> {
    control: &'a Control,
    started: Instant,
    /// From when time limits count: the start, or the ponder hit.
    origin: Option<Instant>,
    budget: Budget,
    infinite: bool,
    nodes_limit: u64,
    nodes: u64,
    steps: u64,
    /// Evaluations of `nodes` that have no answer yet.
    in_flight: u64,
    /// The evaluations of all threads of the search, where it has several.
    together: Option<Arc<AtomicU64>>,
    iterations: IterationStats,
}

impl<'a> TimeManager<'a> {
    pub(crate) fn new(limits: &Limits, overhead: Duration, control: &'a Control) -> Self {
        let started = Instant::now();
        Self {
            control,
            started,
            origin: (!limits.ponder).then_some(started),
            budget: Budget::of(limits, overhead),
            infinite: limits.infinite,
            nodes_limit: limits.nodes.unwrap_or(u64::MAX),
            nodes: 0,
            steps: 0,
            in_flight: 0,
            together: None,
            iterations: IterationStats::default(),
        }
    }

    /// Notes a completed depth: its best move and value, and the share of all evaluations that went
    /// into this move, if it was counted.
    pub(crate) fn note_depth(&mut self, best: Move, value: Value, share: Option<f64>) {
        self.iterations.note(best, value, share);
    }

    /// From here on this thread's evaluations count together with those of others.
    pub(crate) fn count_together(&mut self, evaluations: &Arc<AtomicU64>) {
        self.together = Some(Arc::clone(evaluations));
    }

    /// Evaluations made, those of other threads included.
    pub(crate) fn nodes(&self) -> u64 {
        self.together.as_ref().map_or(self.nodes, |together| together.load(Ordering::Relaxed))
    }

    /// Since the search began.
    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Must the answer wait? True while pondering and in an infinite search, until the search is
    /// stopped.
    pub(crate) fn must_wait(&mut self) -> bool {
        self.origin = self.origin.or_else(|| self.control.ponder_hit_at());
        !self.control.is_stopped() && (self.infinite || self.origin.is_none())
    }

    /// Blocks while the answer must wait.
    pub(crate) fn wait(&mut self) {
        while self.must_wait() {
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn past(&mut self, limit: Option<Duration>) -> bool {
        if self.must_wait() {
            return false;
        }
        match (limit, self.origin) {
            (Some(limit), Some(origin)) => origin.elapsed() >= limit,
            _ => false,
        }
    }

    /// As [`Self::past`], but pondering counts: what was thought in the opponent's time need not be
    /// thought again in ours.
    fn past_with_pondering(&mut self, limit: Option<Duration>) -> bool {
        !self.must_wait() && limit.is_some_and(|limit| self.started.elapsed() >= limit)
    }

    /// After a ponder hit on the clock: was the usual time thought before it, or has the longest
    /// time been thought in all?
    fn has_pondered_enough(&mut self) -> bool {
        let (Some(soft), Some(origin)) = (self.budget.soft, self.origin) else { return false };
        let pondered = origin.saturating_duration_since(self.started);
        !pondered.is_zero()
            && (pondered >= soft.mul_f64(self.iterations.factor())
                || self.past_with_pondering(self.budget.hard))
    }

    /// True when no further depth should be begun: this share of the scaled usual time is spent.
    pub(crate) fn is_late(&mut self, share: f64) -> bool {
        let soft = self.budget.soft.map(|soft| soft.mul_f64(share * self.iterations.factor()));
        self.is_over() || self.past_with_pondering(soft)
    }

    /// True when this move's usual time is spent.
    pub(crate) fn is_spent(&mut self) -> bool {
        self.is_over() || self.past_with_pondering(self.budget.soft)
    }

    /// True when the search must end now.
    pub(crate) fn is_over(&mut self) -> bool {
        self.control.is_stopped()
            || self.nodes >= self.nodes_limit
            || self.steps / STEPS_AN_EVALUATION > self.nodes_limit.saturating_add(100)
            || self.past(self.budget.hard)
            || self.has_pondered_enough()
    }

    /// Counts a step of the tree; every few steps it is true when the search must end now. A search
    /// through known positions takes time but no evaluations.
    pub(crate) fn is_over_at_step(&mut self) -> bool {
        self.steps += 1;
        self.steps.is_multiple_of(STEPS_BETWEEN_CLOCKS) && self.is_over()
    }

    /// Evaluations that may still be made.
    pub(crate) fn evaluations_left(&self) -> u64 {
        self.nodes_limit - self.nodes.min(self.nodes_limit)
    }

    /// Evaluations that the time left allows at the speed so far; a small number before the first
    /// answer.
    pub(crate) fn affordable(&self) -> u64 {
        let (Some(hard), Some(origin)) = (self.budget.hard, self.origin) else { return u64::MAX };
        let answered = self.nodes - self.in_flight;
        let affordable = if answered == 0 {
            UNTIMED_BATCH
        } else {
            let left = hard.saturating_sub(origin.elapsed()).as_secs_f64();
            (answered as f64 / self.started.elapsed().as_secs_f64().max(1e-6) * left) as u64
        };
        affordable.saturating_sub(self.in_flight)
    }

    /// The handle that may stop the search.
    pub(crate) fn control(&self) -> &Control {
        self.control
    }

    /// Counts evaluations.
    pub(crate) fn spend(&mut self, evaluations: u64) {
        self.nodes += evaluations;
        if let Some(together) = &self.together {
            together.fetch_add(evaluations, Ordering::Relaxed);
        }
    }

    /// Counts evaluations that are asked for now and answered later.
    pub(crate) fn send(&mut self, evaluations: u64) {
        self.spend(evaluations);
        self.in_flight += evaluations;
    }

    /// Counts answers.
    pub(crate) fn receive(&mut self, evaluations: u64) {
        self.in_flight = self.in_flight.saturating_sub(evaluations);
    }
}

#[cfg(test)]
mod tests;
