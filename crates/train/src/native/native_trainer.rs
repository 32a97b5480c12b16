//! Runs one training step: the passes over all slices, and the sums between them.

use std::{sync::Mutex, thread};

use super::matmul::Element;
use nets::{Activation, HeadKind, Network, POLICY_SIZE};

use super::{
    batch_slice::{BatchSlice, Scratch},
    graph::{Norm, TrainingGraph},
    loss::{LossSum, add_cross_entropy, add_ordinal_loss, add_tanh_loss},
    output_layer::{HeadOutputs, RequestedOutputs},
    parameters::Optimizer,
};
use crate::{
    Examples, Loss, Objective, OptimizerSettings, OptimizerState, StepResult, TrainError,
    backend::check_together, dropout::Dropout,
};

/// Boards that [`NativeTrainer::logits`] processes at a time.
const LOGITS_BATCH: usize = 1024;

/// The training graph with its optimizer, its slices and its threads' memory.
#[derive(Debug)]
pub(super) struct NativeTrainer<E> {
    objectives: Vec<Objective>,
    pub graph: TrainingGraph<E>,
    pub optimizer: Optimizer,
    workers: WorkerPool<E>,
}

/// Number of slices of a batch: more than a few threads, so that a delayed thread does not hold up
/// the others, and fixed, so that the number of threads does not change the result.
const SLICES: usize = 8;

/// The slices of a batch and the threads' memory.
#[derive(Debug)]
struct WorkerPool<E> {
    slices: Vec<BatchSlice<E>>,
    /// One for each thread.
    scratches: Vec<Scratch<E>>,
}

impl<E: Element> WorkerPool<E> {
    /// Runs a pass over every slice.
    fn each(&mut self, pass: impl Fn(&mut BatchSlice<E>, &mut Scratch<E>) + Sync) {
        let queue = Mutex::new(self.slices.iter_mut());
        let work = |scratch: &mut Scratch<E>| {
            while let Some(slice) = queue.lock().ok().and_then(|mut queue| queue.next()) {
                pass(slice, scratch);
            }
        };
        let work = &work;
        let Some((own, others)) = self.scratches.split_last_mut() else { return };
        thread::scope(|scope| {
            for scratch in others {
                // If a thread cannot be started, the others do its work.
                drop(thread::Builder::new().spawn_scoped(scope, move || work(scratch)));
            }
            work(own);
        });
    }
}

/// Column sums of a stage over all slices.
fn total<E: Element>(slices: &[BatchSlice<E>], stage: usize) -> (Vec<f64>, Vec<f64>) {
    let mut totals = (Vec::new(), Vec::new());
    for slice in slices {
        let (first, second) = slice.sums(stage);
        if totals.0.is_empty() {
            totals = (first.to_vec(), second.to_vec());
            continue;
        }
        totals.0.iter_mut().zip(first).for_each(|(total, sum)| *total += sum);
        totals.1.iter_mut().zip(second).for_each(|(total, sum)| *total += sum);
    }
    totals
}

/// Adds a slice's part to `target`; the first part overwrites it.
fn accumulate(target: &mut [f32], source: &[f32], first: bool) {
    for (target, source) in target.iter_mut().zip(source) {
        *target = if first { *source } else { *target + source };
    }
}

impl<E: Element> NativeTrainer<E> {
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
        let graph = TrainingGraph::new(network, &heads, settings.dropout > 0.0)?;
        let slices = (0..SLICES).map(|_| BatchSlice::default()).collect();
        let scratches = (0..threads.max(1)).map(|_| Scratch::default()).collect();
        let workers = WorkerPool { slices, scratches };
        let optimizer = Optimizer { settings, steps: 0 };
        Ok(Self { objectives: objectives.to_vec(), graph, optimizer, workers })
    }

    pub fn threads(&self) -> usize {
        self.workers.scratches.len()
    }

    pub fn restore(
        &mut self,
        network: &Network,
        optimizer: &OptimizerState,
    ) -> Result<(), TrainError> {
        self.graph.take(network)?;
        self.optimizer.restore(&mut self.graph.parameters, optimizer)
    }

    /// Checks that a batch has the inputs and, with `labelled`, the labels of these heads.
    fn check(&self, batch: &Examples, heads: &[usize], labelled: bool) -> Result<(), TrainError> {
        let boards = batch.squares.len();
        let bad =
            |what| Err(TrainError::Backend(format!("a batch of {boards} positions with {what}")));
        for &head in heads {
            let Objective { head: kind, loss, .. } = self.objectives[head];
            let requested = RequestedOutputs::of(batch, kind);
            if kind == HeadKind::Moves {
                if !requested.covers(boards) {
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
                Loss::Ordinal | Loss::Tanh { .. } if labels != boards * requested.each => {
                    return bad(format!("{labels} {} labels", kind.name()));
                }
                _ => {}
            }
        }
        if self.graph.whites_view && batch.turns.len() != boards {
            return bad(format!("{} movers", batch.turns.len()));
        }
        if let Some(class) =
            batch.squares.iter().flat_map(|squares| squares.0).find(|&class| class > 15)
        {
            return bad(format!("a square of class {class}"));
        }
        Ok(())
    }

    /// Divides `boards` boards from `from` on among the slices.
    fn assign(&mut self, from: usize, boards: usize, requested: &[RequestedOutputs<'_>]) {
        let count = self.workers.slices.len();
        for (index, slice) in self.workers.slices.iter_mut().enumerate() {
            let (first, end) = (from + index * boards / count, from + (index + 1) * boards / count);
            slice.assign(&self.graph, first, end - first, requested);
        }
    }

    fn requested<'a>(&self, batch: &'a Examples) -> Vec<RequestedOutputs<'a>> {
        self.objectives
            .iter()
            .map(|objective| RequestedOutputs::of(batch, objective.head))
            .collect()
    }

    /// The requested outputs of one head, with running statistics.
    pub fn logits(&mut self, kind: HeadKind, batch: &Examples) -> Result<Vec<f32>, TrainError> {
        let head = self.objectives.iter().position(|objective| objective.head == kind);
        let head = head.ok_or_else(|| {
            TrainError::Backend(format!("the {} head is not trained here", kind.name()))
        })?;
        self.check(batch, &[head], false)?;
        self.graph.use_running_statistics();
        self.graph.dropout = None;
        // The outputs of other heads are not computed.
        let requested: Vec<RequestedOutputs<'_>> = (0..self.objectives.len())
            .map(|other| {
                if other == head {
                    RequestedOutputs::of(batch, kind)
                } else {
                    RequestedOutputs::nothing()
                }
            })
            .collect();
        let mut logits = Vec::with_capacity(requested[head].before(batch.squares.len()));
        for first in (0..batch.squares.len()).step_by(LOGITS_BATCH) {
            let boards = LOGITS_BATCH.min(batch.squares.len() - first);
            self.assign(first, boards, &requested);
            let graph = &self.graph;
            self.workers.each(|slice, scratch| {
                for stage in 0..graph.stages.len() {
                    slice.forward(graph, stage, batch, scratch);
                }
                slice.logits(graph, head, &requested[head], batch, scratch);
            });
            for slice in &self.workers.slices {
                logits.extend_from_slice(&slice.heads[head].logits);
            }
        }
        Ok(logits)
    }

    /// The forward pass with batch statistics; returns the outputs of each head.
    fn forward(&mut self, batch: &Examples) -> Vec<Vec<f32>> {
        let boards = batch.squares.len();
        let requested = self.requested(batch);
        let OptimizerSettings { dropout: rate, dropout_seed: seed, .. } = self.optimizer.settings;
        self.graph.dropout =
            (rate > 0.0).then_some(Dropout { rate, seed, step: self.optimizer.steps });
        self.assign(0, boards, &requested);
        for stage in 0..self.graph.stages.len() {
            let graph = &self.graph;
            self.workers.each(|slice, scratch| slice.forward(graph, stage, batch, scratch));
            match self.graph.stages[stage].norm {
                Norm::Batch { .. } => {
                    let (sums, squares) = total(&self.workers.slices, stage);
                    let count = boards * self.graph.stages[stage].cells;
                    self.graph.use_batch_statistics(stage, &sums, &squares, count);
                }
                Norm::Bias(_) => self.graph.use_bias(stage),
                Norm::Nothing => {}
            }
        }
        let graph = &self.graph;
        self.workers.each(|slice, scratch| {
            for (head, requested) in requested.iter().enumerate() {
                slice.logits(graph, head, requested, batch, scratch);
            }
        });
        let logits = |head: usize| {
            let parts = self.workers.slices.iter().map(|slice| slice.heads[head].logits.as_slice());
            parts.collect::<Vec<_>>().concat()
        };
        (0..requested.len()).map(logits).collect()
    }

    /// The loss of one head, before its weight; stores the slopes of the weighted loss in the
    /// slices.
    fn loss(&mut self, head: usize, logits: &[f32], batch: &Examples) -> f32 {
        let Objective { head: kind, loss, weight } = self.objectives[head];
        let (requested, labels) = (RequestedOutputs::of(batch, kind), batch.labels(kind));
        let is_tanh = self.graph.output_layers[head].activation == Activation::Tanh;
        self.workers.each(|slice, _| {
            let (first, boards) = (slice.first, slice.boards);
            let HeadOutputs { first: from, slopes, loss_sum, .. } = &mut slice.heads[head];
            let range = *from..*from + slopes.len();
            *loss_sum = LossSum::default();
            match loss {
                Loss::Ordinal => add_ordinal_loss(logits, labels, *from, slopes, loss_sum),
                Loss::Tanh { scale } => {
                    add_tanh_loss(
                        &logits[range.clone()],
                        &labels[range],
                        scale,
                        is_tanh,
                        slopes,
                        loss_sum,
                    );
                }
                Loss::CrossEntropy => {
                    for board in first..first + boards {
                        let moves = requested.before(board)..requested.before(board + 1);
                        let slopes = &mut slopes[moves.start - *from..moves.end - *from];
                        let (played, weight) = match batch.targets.get(board) {
                            Some(&target) => (usize::from(target), 1.0),
                            None => (0, batch.weights[board]),
                        };
                        add_cross_entropy(&logits[moves], played, weight, slopes, loss_sum);
                    }
                }
            }
        });
        let mut mean = self.take_mean(weight, |slice| {
            let head = &mut slice.heads[head];
            (&mut head.slopes, &head.loss_sum)
        });
        if loss == Loss::Ordinal && requested.each > 1 {
            mean += self.sibling_loss(head, logits, batch);
        }
        mean
    }

    /// The ordinal loss between the moves of the same position, for positions with several moves:
    /// the mean over all such pairs. Adds its slopes to those of the batch.
    fn sibling_loss(&mut self, head: usize, logits: &[f32], batch: &Examples) -> f32 {
        let Objective { head: kind, weight, .. } = self.objectives[head];
        let (each, labels) = (RequestedOutputs::of(batch, kind).each, batch.labels(kind));
        for slice in &mut self.workers.slices {
            let HeadOutputs { first, slopes, sibling_slopes, sibling_sum, .. } =
                &mut slice.heads[head];
            *sibling_sum = LossSum::default();
            sibling_slopes.resize(slopes.len(), 0.0);
            let range = *first..*first + slopes.len();
            let boards = logits[range.clone()].chunks(each).zip(labels[range].chunks(each));
            for ((logits, labels), slopes) in boards.zip(sibling_slopes.chunks_mut(each)) {
                add_ordinal_loss(logits, labels, 0, slopes, sibling_sum);
            }
        }
        let mean = self.take_mean(weight, |slice| {
            let head = &mut slice.heads[head];
            (&mut head.sibling_slopes, &head.sibling_sum)
        });
        for slice in &mut self.workers.slices {
            let HeadOutputs { slopes, sibling_slopes, .. } = &mut slice.heads[head];
            accumulate(slopes, sibling_slopes, false);
        }
        mean
    }

    /// The mean loss over the terms of all slices. Turns the slopes of the sum into slopes of
    /// `weight` times the mean.
    fn take_mean(
        &mut self,
        weight: f32,
        of: impl for<'a> Fn(&'a mut BatchSlice<E>) -> (&'a mut Vec<f32>, &'a LossSum),
    ) -> f32 {
        let (mut count, mut sum) = (0.0, 0.0);
        for slice in &mut self.workers.slices {
            let (_, loss_sum) = of(slice);
            count += loss_sum.count;
            sum += loss_sum.sum;
        }
        let count = if count > 0.0 { count } else { 1.0 };
        for slice in &mut self.workers.slices {
            let (slopes, _) = of(slice);
            for slope in slopes {
                *slope = (f64::from(*slope) * f64::from(weight) / count) as f32;
            }
        }
        (sum / count) as f32
    }

    /// The backward pass: computes all gradients from the slopes in the slices.
    fn backward(&mut self, batch: &Examples) {
        let requested = self.requested(batch);
        let graph = &self.graph;
        self.workers.each(|slice, scratch| {
            for (head, requested) in requested.iter().enumerate().rev() {
                slice.backward_output_layer(graph, head, requested, scratch);
            }
        });
        for (head, layer) in self.graph.output_layers.iter().enumerate() {
            for (index, slice) in self.workers.slices.iter().enumerate() {
                let parameters = &mut self.graph.parameters;
                accumulate(
                    &mut parameters[layer.weight].gradient,
                    &slice.heads[head].weights,
                    index == 0,
                );
                accumulate(
                    &mut parameters[layer.bias].gradient,
                    &slice.heads[head].biases,
                    index == 0,
                );
            }
        }
        for stage in (0..self.graph.stages.len()).rev() {
            let (sums, products) = total(&self.workers.slices, stage);
            let count = batch.squares.len() * self.graph.stages[stage].cells;
            self.graph.norm_backward(stage, &sums, &products, count);
            let graph = &self.graph;
            self.workers.each(|slice, scratch| slice.backward(graph, stage, batch, scratch));
            let size = self.graph.stages[stage].gradient_size;
            if let Some((first, others)) = self.workers.slices.split_first_mut() {
                for other in others {
                    accumulate(&mut first.weights[..size], &other.weights[..size], false);
                }
                self.graph.set_gradient(stage, &first.weights[..size]);
            }
        }
    }

    /// Loss, outputs and gradients of a batch.
    pub fn gradients(&mut self, batch: &Examples) -> Result<StepResult, TrainError> {
        let heads: Vec<usize> = (0..self.objectives.len()).collect();
        self.check(batch, &heads, true)?;
        let logits = self.forward(batch);
        let losses: Vec<f32> =
            heads.iter().map(|&head| self.loss(head, &logits[head], batch)).collect();
        let weights = self.objectives.iter().map(|objective| objective.weight);
        let loss = losses.iter().zip(weights).map(|(loss, weight)| loss * weight).sum::<f32>();
        self.backward(batch);
        Ok(StepResult { loss, losses, logits })
    }

    /// Trains on one batch.
    pub fn step(&mut self, batch: &Examples, learning_rate: f32) -> Result<StepResult, TrainError> {
        if batch.squares.is_empty() {
            return Err(TrainError::Backend("an empty batch".to_owned()));
        }
        let step = self.gradients(batch)?;
        let keep = self.optimizer.settings.norm_keep(self.optimizer.steps + 1);
        self.graph.update_running_statistics(keep, batch.squares.len());
        self.optimizer.update(&mut self.graph.parameters, learning_rate);
        self.graph.pack();
        Ok(step)
    }
}
