//! One training step: the phases of all shards, and what is summed between them.

use std::{sync::Mutex, thread};

use eval::cpu::matmul::Element;
use nets::{Activation, HeadKind, Network, POLICY_SIZE};

use super::{
    last::{Asked, HeadPart},
    loss::{PartOfLoss, cross_entropy_part, ordinal_part, tanh_part},
    parameters::Optimizer,
    plan::{Norm, Plan},
    shard::{Scratch, Shard},
};
use crate::{
    Examples, Loss, Objective, OptimizerSettings, OptimizerState, Step, TrainError,
    backend::check_together, dropout::Dropout,
};

/// Boards that [`Trainer::logits`] takes at a time.
const LOGITS_BATCH: usize = 1024;

/// Plan, optimizer and the shards.
#[derive(Debug)]
pub(super) struct Trainer<E> {
    objectives: Vec<Objective>,
    pub plan: Plan<E>,
    pub optimizer: Optimizer,
    workshop: Workshop<E>,
}

/// Parts that a batch is cut into: more than there are threads, so that a thread that has to wait
/// for a processor does not hold up the others, and always the same number, so that threads do not
/// change the result.
const SHARDS: usize = 8;

/// A batch's parts and the threads' memory.
#[derive(Debug)]
struct Workshop<E> {
    shards: Vec<Shard<E>>,
    /// One a thread.
    scratches: Vec<Scratch<E>>,
}

impl<E: Element> Workshop<E> {
    /// Runs a phase on every shard.
    fn each(&mut self, phase: impl Fn(&mut Shard<E>, &mut Scratch<E>) + Sync) {
        let queue = Mutex::new(self.shards.iter_mut());
        let work = |scratch: &mut Scratch<E>| {
            while let Some(shard) = queue.lock().ok().and_then(|mut queue| queue.next()) {
                phase(shard, scratch);
            }
        };
        let work = &work;
        let Some((own, others)) = self.scratches.split_last_mut() else { return };
        thread::scope(|scope| {
            for scratch in others {
                // Without a thread to be had, the others do its share.
                drop(thread::Builder::new().spawn_scoped(scope, move || work(scratch)));
            }
            work(own);
        });
    }
}

/// Column sums of a stage over all shards.
fn total<E: Element>(shards: &[Shard<E>], stage: usize) -> (Vec<f64>, Vec<f64>) {
    let mut totals = (Vec::new(), Vec::new());
    for shard in shards {
        let (first, second) = shard.sums(stage);
        if totals.0.is_empty() {
            totals = (first.to_vec(), second.to_vec());
            continue;
        }
        totals.0.iter_mut().zip(first).for_each(|(total, sum)| *total += sum);
        totals.1.iter_mut().zip(second).for_each(|(total, sum)| *total += sum);
    }
    totals
}

/// Adds a shard's part; the first one overwrites.
fn accumulate(target: &mut [f32], source: &[f32], first: bool) {
    for (target, source) in target.iter_mut().zip(source) {
        *target = if first { *source } else { *target + source };
    }
}

impl<E: Element> Trainer<E> {
    pub fn new(
        network: &Network,
        objectives: &[Objective],
        settings: OptimizerSettings,
        threads: usize,
    ) -> Result<Self, TrainError> {
        if objectives.is_empty() {
            return Err(TrainError::Config("no head is to be trained".to_owned()));
        }
        check_together(objectives).map_err(TrainError::Config)?;
        let heads: Vec<HeadKind> = objectives.iter().map(|objective| objective.head).collect();
        let plan = Plan::new(network, &heads, settings.dropout > 0.0)?;
        let shards = (0..SHARDS).map(|_| Shard::default()).collect();
        let scratches = (0..threads.max(1)).map(|_| Scratch::default()).collect();
        let workshop = Workshop { shards, scratches };
        let optimizer = Optimizer { settings, steps: 0 };
        Ok(Self { objectives: objectives.to_vec(), plan, optimizer, workshop })
    }

    pub fn threads(&self) -> usize {
        self.workshop.scratches.len()
    }

    pub fn restore(
        &mut self,
        network: &Network,
        optimizer: &OptimizerState,
    ) -> Result<(), TrainError> {
        self.plan.take(network)?;
        self.optimizer.restore(&mut self.plan.parameters, optimizer)
    }

    fn check(&self, batch: &Examples, heads: &[usize], labelled: bool) -> Result<(), TrainError> {
        let boards = batch.squares.len();
        let bad =
            |what| Err(TrainError::Backend(format!("a batch of {boards} positions with {what}")));
        for &head in heads {
            let Objective { head: kind, loss, .. } = self.objectives[head];
            let asked = Asked::of(batch, kind);
            if kind == HeadKind::Moves {
                if !asked.covers(boards) {
                    return bad(format!("{} moves", batch.moves.len()));
                }
                if let Some(index) =
                    batch.moves.iter().find(|&&index| usize::from(index) >= POLICY_SIZE)
                {
                    return bad(format!("move index {index}"));
                }
            }
            let labels = batch.labels(kind).len();
            match loss {
                _ if !labelled => {}
                Loss::CrossEntropy
                    if kind.is_selector()
                        && (batch.targets.len() != boards
                            || batch.targets.iter().any(|&target| target > 63)) =>
                {
                    return bad(format!("{} squares to choose", batch.targets.len()));
                }
                Loss::CrossEntropy
                    if !kind.is_selector()
                        && (batch.weights.len() != boards || batch.ends.len() != boards) =>
                {
                    return bad(format!("{} weights", batch.weights.len()));
                }
                Loss::Ordinal | Loss::Tanh { .. } if labels != boards * asked.each => {
                    return bad(format!("{labels} {} labels", kind.name()));
                }
                _ => {}
            }
        }
        if self.plan.whites_view && batch.turns.len() != boards {
            return bad(format!("{} movers", batch.turns.len()));
        }
        if let Some(class) =
            batch.squares.iter().flat_map(|squares| squares.0).find(|&class| class > 15)
        {
            return bad(format!("a square of class {class}"));
        }
        Ok(())
    }

    /// Cuts `boards` boards from `from` on into one part a shard.
    fn assign(&mut self, from: usize, boards: usize, asked: &[Asked<'_>]) {
        let count = self.workshop.shards.len();
        for (index, shard) in self.workshop.shards.iter_mut().enumerate() {
            let (first, end) = (from + index * boards / count, from + (index + 1) * boards / count);
            shard.assign(&self.plan, first, end - first, asked);
        }
    }

    fn asked<'a>(&self, batch: &'a Examples) -> Vec<Asked<'a>> {
        self.objectives.iter().map(|objective| Asked::of(batch, objective.head)).collect()
    }

    /// Outputs of one head with running statistics.
    pub fn logits(&mut self, kind: HeadKind, batch: &Examples) -> Result<Vec<f32>, TrainError> {
        let head = self.objectives.iter().position(|objective| objective.head == kind);
        let head = head.ok_or_else(|| {
            TrainError::Backend(format!("the {} head is not trained here", kind.name()))
        })?;
        self.check(batch, &[head], false)?;
        self.plan.use_running_statistics();
        self.plan.dropout = None;
        // Other heads are not asked for anything.
        let asked: Vec<Asked<'_>> = (0..self.objectives.len())
            .map(|other| if other == head { Asked::of(batch, kind) } else { Asked::nothing() })
            .collect();
        let mut logits = Vec::with_capacity(asked[head].before(batch.squares.len()));
        for first in (0..batch.squares.len()).step_by(LOGITS_BATCH) {
            let boards = LOGITS_BATCH.min(batch.squares.len() - first);
            self.assign(first, boards, &asked);
            let plan = &self.plan;
            self.workshop.each(|shard, scratch| {
                for stage in 0..plan.stages.len() {
                    shard.forward(plan, stage, batch, scratch);
                }
                shard.logits(plan, head, &asked[head], batch, scratch);
            });
            for shard in &self.workshop.shards {
                logits.extend_from_slice(&shard.heads[head].logits);
            }
        }
        Ok(logits)
    }

    /// Forward with batch statistics; the outputs of each head.
    fn forward(&mut self, batch: &Examples) -> Vec<Vec<f32>> {
        let boards = batch.squares.len();
        let asked = self.asked(batch);
        let OptimizerSettings { dropout: rate, dropout_seed: seed, .. } = self.optimizer.settings;
        self.plan.dropout =
            (rate > 0.0).then_some(Dropout { rate, seed, step: self.optimizer.steps });
        self.assign(0, boards, &asked);
        for stage in 0..self.plan.stages.len() {
            let plan = &self.plan;
            self.workshop.each(|shard, scratch| shard.forward(plan, stage, batch, scratch));
            match self.plan.stages[stage].norm {
                Norm::Batch { .. } => {
                    let (sums, squares) = total(&self.workshop.shards, stage);
                    let count = boards * self.plan.stages[stage].cells;
                    self.plan.use_batch_statistics(stage, &sums, &squares, count);
                }
                Norm::Bias(_) => self.plan.use_bias(stage),
                Norm::Nothing => {}
            }
        }
        let plan = &self.plan;
        self.workshop.each(|shard, scratch| {
            for (head, asked) in asked.iter().enumerate() {
                shard.logits(plan, head, asked, batch, scratch);
            }
        });
        let logits = |head: usize| {
            let parts =
                self.workshop.shards.iter().map(|shard| shard.heads[head].logits.as_slice());
            parts.collect::<Vec<_>>().concat()
        };
        (0..asked.len()).map(logits).collect()
    }

    /// The loss of one head, before its weight; leaves the slopes of the weighted loss in the
    /// shards.
    fn loss(&mut self, head: usize, logits: &[f32], batch: &Examples) -> f32 {
        let Objective { head: kind, loss, weight } = self.objectives[head];
        let (asked, labels) = (Asked::of(batch, kind), batch.labels(kind));
        let is_tanh = self.plan.lasts[head].activation == Activation::Tanh;
        self.workshop.each(|shard, _| {
            let (first, boards) = (shard.first, shard.boards);
            let HeadPart { first: from, slopes, part, .. } = &mut shard.heads[head];
            let range = *from..*from + slopes.len();
            *part = PartOfLoss::default();
            match loss {
                Loss::Ordinal => ordinal_part(logits, labels, *from, slopes, part),
                Loss::Tanh { scale } => {
                    tanh_part(&logits[range.clone()], &labels[range], scale, is_tanh, slopes, part);
                }
                Loss::CrossEntropy => {
                    for board in first..first + boards {
                        let moves = asked.before(board)..asked.before(board + 1);
                        let slopes = &mut slopes[moves.start - *from..moves.end - *from];
                        let (played, weight) = match batch.targets.get(board) {
                            Some(&target) => (usize::from(target), 1.0),
                            None => (0, batch.weights[board]),
                        };
                        cross_entropy_part(&logits[moves], played, weight, slopes, part);
                    }
                }
            }
        });
        let mut mean = self.divide(weight, |shard| {
            let head = &mut shard.heads[head];
            (&mut head.slopes, &head.part)
        });
        if loss == Loss::Ordinal && asked.each > 1 {
            mean += self.sibling_loss(head, logits, batch);
        }
        mean
    }

    /// Where positions have several moves each: the mean over the pairs of moves of one position.
    fn sibling_loss(&mut self, head: usize, logits: &[f32], batch: &Examples) -> f32 {
        let Objective { head: kind, weight, .. } = self.objectives[head];
        let (each, labels) = (Asked::of(batch, kind).each, batch.labels(kind));
        for shard in &mut self.workshop.shards {
            let HeadPart { first, slopes, sibling_slopes, sibling_part, .. } =
                &mut shard.heads[head];
            *sibling_part = PartOfLoss::default();
            sibling_slopes.resize(slopes.len(), 0.0);
            let range = *first..*first + slopes.len();
            let boards = logits[range.clone()].chunks(each).zip(labels[range].chunks(each));
            for ((logits, labels), slopes) in boards.zip(sibling_slopes.chunks_mut(each)) {
                ordinal_part(logits, labels, 0, slopes, sibling_part);
            }
        }
        let mean = self.divide(weight, |shard| {
            let head = &mut shard.heads[head];
            (&mut head.sibling_slopes, &head.sibling_part)
        });
        for shard in &mut self.workshop.shards {
            let HeadPart { slopes, sibling_slopes, .. } = &mut shard.heads[head];
            accumulate(slopes, sibling_slopes, false);
        }
        mean
    }

    /// The mean over the terms of all shards; slopes of the sum become slopes of `weight` times the
    /// mean.
    fn divide(
        &mut self,
        weight: f32,
        of: impl for<'a> Fn(&'a mut Shard<E>) -> (&'a mut Vec<f32>, &'a PartOfLoss),
    ) -> f32 {
        let (mut count, mut sum) = (0.0, 0.0);
        for shard in &mut self.workshop.shards {
            let (_, part) = of(shard);
            count += part.count;
            sum += part.sum;
        }
        let count = if count > 0.0 { count } else { 1.0 };
        for shard in &mut self.workshop.shards {
            let (slopes, _) = of(shard);
            for slope in slopes {
                *slope = (f64::from(*slope) * f64::from(weight) / count) as f32;
            }
        }
        (sum / count) as f32
    }

    /// All gradients, from the slopes in the shards.
    fn backward(&mut self, batch: &Examples) {
        let asked = self.asked(batch);
        let plan = &self.plan;
        self.workshop.each(|shard, scratch| {
            for (head, asked) in asked.iter().enumerate().rev() {
                shard.backward_last(plan, head, asked, scratch);
            }
        });
        for (head, last) in self.plan.lasts.iter().enumerate() {
            for (index, shard) in self.workshop.shards.iter().enumerate() {
                let parameters = &mut self.plan.parameters;
                accumulate(
                    &mut parameters[last.weight].gradient,
                    &shard.heads[head].weights,
                    index == 0,
                );
                accumulate(
                    &mut parameters[last.bias].gradient,
                    &shard.heads[head].biases,
                    index == 0,
                );
            }
        }
        for stage in (0..self.plan.stages.len()).rev() {
            let (sums, products) = total(&self.workshop.shards, stage);
            let count = batch.squares.len() * self.plan.stages[stage].cells;
            self.plan.norm_backward(stage, &sums, &products, count);
            let plan = &self.plan;
            self.workshop.each(|shard, scratch| shard.backward(plan, stage, batch, scratch));
            let size = self.plan.stages[stage].gradient_size;
            if let Some((first, others)) = self.workshop.shards.split_first_mut() {
                for other in others {
                    accumulate(&mut first.weights[..size], &other.weights[..size], false);
                }
                self.plan.set_gradient(stage, &first.weights[..size]);
            }
        }
    }

    /// Loss, outputs and gradients of a batch.
    pub fn gradients(&mut self, batch: &Examples) -> Result<Step, TrainError> {
        let heads: Vec<usize> = (0..self.objectives.len()).collect();
        self.check(batch, &heads, true)?;
        let logits = self.forward(batch);
        let losses: Vec<f32> =
            heads.iter().map(|&head| self.loss(head, &logits[head], batch)).collect();
        let weights = self.objectives.iter().map(|objective| objective.weight);
        let loss = losses.iter().zip(weights).map(|(loss, weight)| loss * weight).sum::<f32>();
        self.backward(batch);
        Ok(Step { loss, losses, logits })
    }

    pub fn step(&mut self, batch: &Examples, learning_rate: f32) -> Result<Step, TrainError> {
        if batch.squares.is_empty() {
            return Err(TrainError::Backend("an empty batch".to_owned()));
        }
        let step = self.gradients(batch)?;
        self.plan
            .update_running_statistics(self.optimizer.settings.norm_momentum, batch.squares.len());
        self.optimizer.update(&mut self.plan.parameters, learning_rate);
        self.plan.pack();
        Ok(step)
    }
}
