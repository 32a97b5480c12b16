//! One training step: the phases of all shards, and what is summed between them.

use std::{sync::Mutex, thread};

use eval::cpu::matmul::Element;
use nets::{HeadKind, Network, POLICY_SIZE};

use super::{
    loss::{PartOfLoss, ordinal_part},
    parameters::Adam,
    plan::{Norm, Plan},
    shard::{Scratch, Shard},
};
use crate::{Examples, OptimizerSettings, OptimizerState, Step, TrainError};

/// Boards that [`Trainer::logits`] takes at a time.
const LOGITS_BATCH: usize = 1024;

/// Plan, optimizer and the shards.
#[derive(Debug)]
pub(super) struct Trainer<E> {
    pub plan: Plan<E>,
    pub adam: Adam,
    workshop: Workshop<E>,
}

/// Parts that a batch is cut into: more than there are threads, so that a thread that has to wait for a processor does
/// not hold up the others, and always the same number, so that threads do not change the result.
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

/// Column sums over all shards.
fn total<E: Element>(shards: &[Shard<E>]) -> (Vec<f64>, Vec<f64>) {
    let mut totals = (Vec::new(), Vec::new());
    for shard in shards {
        let (first, second) = shard.sums();
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
        head: HeadKind,
        settings: OptimizerSettings,
        threads: usize,
    ) -> Result<Self, TrainError> {
        let plan = Plan::new(network, head)?;
        let shards = (0..SHARDS).map(|_| Shard::default()).collect();
        let scratches = (0..threads.max(1)).map(|_| Scratch::default()).collect();
        let workshop = Workshop { shards, scratches };
        Ok(Self { plan, adam: Adam { settings, steps: 0 }, workshop })
    }

    pub fn threads(&self) -> usize {
        self.workshop.scratches.len()
    }

    pub fn restore(&mut self, network: &Network, optimizer: &OptimizerState) -> Result<(), TrainError> {
        self.plan.take(network)?;
        self.adam.restore(&mut self.plan.parameters, optimizer)
    }

    fn check(&self, batch: &Examples, labelled: bool) -> Result<(), TrainError> {
        let boards = batch.squares.len();
        let bad = |what: String| Err(TrainError::Backend(what));
        if labelled && batch.labels.len() != boards * batch.outputs_each() {
            return bad(format!("a batch of {boards} positions with {} labels", batch.labels.len()));
        }
        if self.plan.last.kind == HeadKind::Moves {
            if batch.moves.len() != boards * batch.outputs_each() {
                return bad(format!("a batch of {boards} positions with {} moves", batch.moves.len()));
            }
            if let Some(index) = batch.moves.iter().find(|&&index| usize::from(index) >= POLICY_SIZE) {
                return bad(format!("a batch with move index {index}"));
            }
        }
        if let Some(class) = batch.squares.iter().flat_map(|squares| squares.0).find(|&class| class > 15) {
            return bad(format!("a batch with a square of class {class}"));
        }
        Ok(())
    }

    /// Cuts `boards` boards with `outputs` outputs each into one part a shard.
    fn assign(&mut self, boards: usize, outputs: usize) {
        let count = self.workshop.shards.len();
        for (index, shard) in self.workshop.shards.iter_mut().enumerate() {
            let (first, end) = (index * boards / count, (index + 1) * boards / count);
            shard.assign(&self.plan, first, end - first, outputs);
        }
    }

    /// Outputs with running statistics.
    pub fn logits(&mut self, batch: &Examples) -> Result<Vec<f32>, TrainError> {
        self.check(batch, false)?;
        self.plan.use_running_statistics();
        let outputs = batch.outputs_each();
        let mut logits = Vec::with_capacity(batch.squares.len() * outputs);
        for (index, squares) in batch.squares.chunks(LOGITS_BATCH).enumerate() {
            let moves = batch.moves.get(index * LOGITS_BATCH * outputs..).unwrap_or_default();
            self.assign(squares.len(), outputs);
            let plan = &self.plan;
            self.workshop.each(|shard, scratch| {
                for stage in 0..plan.stages.len() {
                    shard.forward(plan, stage, squares, scratch);
                }
                shard.logits(plan, moves);
            });
            for shard in &self.workshop.shards {
                logits.extend_from_slice(&shard.logits);
            }
        }
        Ok(logits)
    }

    /// Forward with batch statistics; the outputs.
    fn forward(&mut self, batch: &Examples) -> Vec<f32> {
        let boards = batch.squares.len();
        self.assign(boards, batch.outputs_each());
        for stage in 0..self.plan.stages.len() {
            let plan = &self.plan;
            self.workshop.each(|shard, scratch| shard.forward(plan, stage, &batch.squares, scratch));
            match self.plan.stages[stage].norm {
                Norm::Batch { .. } => {
                    let (sums, squares) = total(&self.workshop.shards);
                    let count = boards * self.plan.stages[stage].cells;
                    self.plan.use_batch_statistics(stage, &sums, &squares, count);
                }
                Norm::Bias(_) => self.plan.use_bias(stage),
            }
        }
        let plan = &self.plan;
        self.workshop.each(|shard, _| shard.logits(plan, &batch.moves));
        self.workshop.shards.iter().flat_map(|shard| shard.logits.iter().copied()).collect()
    }

    /// The mean loss over pairs, and where positions have several moves each, added to it the mean over the pairs of
    /// moves of one position; leaves its slopes in the shards.
    fn loss(&mut self, logits: &[f32], labels: &[i32]) -> f32 {
        self.workshop.each(|shard, _| {
            shard.part = PartOfLoss::default();
            ordinal_part(
                logits,
                labels,
                shard.first * shard.outputs_each,
                &mut shard.slopes,
                &mut shard.part,
            );
        });
        let mut loss = self.divide_by_pairs(|shard| (&mut shard.slopes, &shard.part));
        let each = self.workshop.shards.first().map_or(1, |shard| shard.outputs_each);
        if each > 1 {
            for shard in &mut self.workshop.shards {
                shard.sibling_part = PartOfLoss::default();
                shard.sibling_slopes.resize(shard.slopes.len(), 0.0);
                let range = shard.first * each..(shard.first + shard.boards) * each;
                let boards = logits[range.clone()].chunks(each).zip(labels[range].chunks(each));
                for ((logits, labels), slopes) in boards.zip(shard.sibling_slopes.chunks_mut(each)) {
                    ordinal_part(logits, labels, 0, slopes, &mut shard.sibling_part);
                }
            }
            loss += self.divide_by_pairs(|shard| (&mut shard.sibling_slopes, &shard.sibling_part));
            for shard in &mut self.workshop.shards {
                accumulate(&mut shard.slopes, &shard.sibling_slopes, false);
            }
        }
        loss
    }

    /// The mean over the pairs of all shards; slopes of the sum become slopes of the mean.
    fn divide_by_pairs(
        &mut self,
        of: impl for<'a> Fn(&'a mut Shard<E>) -> (&'a mut Vec<f32>, &'a PartOfLoss),
    ) -> f32 {
        let (mut pairs, mut sum) = (0, 0.0);
        for shard in &mut self.workshop.shards {
            let (_, part) = of(shard);
            pairs += part.pairs;
            sum += part.sum;
        }
        let count = pairs.max(1) as f64;
        for shard in &mut self.workshop.shards {
            let (slopes, _) = of(shard);
            slopes.iter_mut().for_each(|slope| *slope = (f64::from(*slope) / count) as f32);
        }
        (sum / count) as f32
    }

    /// All gradients, from the slopes in the shards.
    fn backward(&mut self, batch: &Examples) {
        let boards = batch.squares.len();
        let plan = &self.plan;
        self.workshop.each(|shard, scratch| shard.backward_last(plan, &batch.moves, scratch));
        let (weight, bias) = (self.plan.last.weight, self.plan.last.bias);
        for (index, shard) in self.workshop.shards.iter().enumerate() {
            let parameters = &mut self.plan.parameters;
            accumulate(&mut parameters[weight].gradient, &shard.last_weights, index == 0);
            accumulate(&mut parameters[bias].gradient, &shard.last_biases, index == 0);
        }
        for stage in (0..self.plan.stages.len()).rev() {
            let (sums, products) = total(&self.workshop.shards);
            let count = boards * self.plan.stages[stage].cells;
            self.plan.norm_backward(stage, &sums, &products, count);
            let plan = &self.plan;
            self.workshop.each(|shard, scratch| shard.backward(plan, stage, &batch.squares, scratch));
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
        self.check(batch, true)?;
        let logits = self.forward(batch);
        let loss = self.loss(&logits, &batch.labels);
        if !loss.is_finite() || logits.iter().any(|logit| !logit.is_finite()) {
            return Err(TrainError::Diverged { step: self.adam.steps, loss });
        }
        self.backward(batch);
        Ok(Step { loss, logits })
    }

    pub fn step(&mut self, batch: &Examples, learning_rate: f32) -> Result<Step, TrainError> {
        if batch.squares.is_empty() {
            return Err(TrainError::Backend("an empty batch".to_owned()));
        }
        let step = self.gradients(batch)?;
        self.plan.update_running_statistics(self.adam.settings.norm_momentum, batch.squares.len());
        self.adam.update(&mut self.plan.parameters, learning_rate);
        self.plan.pack();
        Ok(step)
    }
}
