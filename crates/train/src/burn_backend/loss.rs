//! The losses computed with Burn's tensors.

use burn::tensor::{Device, Int, Tensor as Array, TensorData, activation};
use nets::{Activation, HeadKind, Layer};

use super::forward::Graph;
use crate::{Examples, Loss, Objective};

impl Graph<'_> {
    /// The loss of one head, before its weight; `None` when the batch has no term for it.
    pub fn loss(
        &self,
        objective: &Objective,
        output: Array<1>,
        batch: &Examples,
    ) -> Option<Array<1>> {
        let device = self.device;
        let labels = batch.labels(objective.head);
        match objective.loss {
            Loss::Ordinal => {
                let each = if objective.head == HeadKind::Value { 1 } else { batch.moves_each() };
                ordinal_loss(output, labels, each, device)
            }
            Loss::Tanh { scale } => {
                let targets: Vec<f32> =
                    labels.iter().map(|&label| (label as f32 / scale).tanh()).collect();
                let count = targets.len();
                let targets =
                    Array::<1>::from_data(TensorData::new(targets, [count]), device).autodiff();
                let head = self.network.description.head(objective.head);
                let is_tanh = matches!(
                    head.and_then(|head| head.layers.last()),
                    Some(
                        Layer::Conv { activation: Activation::Tanh, .. }
                            | Layer::Dense { activation: Activation::Tanh, .. }
                    )
                );
                let distance = if is_tanh { output } else { output.tanh() } - targets;
                Some((distance.clone() * distance).mean())
            }
            Loss::CrossEntropy if objective.head.is_selector() => {
                Some(selector_loss(output, &batch.targets, device))
            }
            Loss::CrossEntropy => cross_entropy(output, &batch.ends, &batch.weights, device),
        }
    }
}

/// Mean binary cross entropy over all pairs with different labels, each pair once, plus the mean
/// over the pairs among the `each` outputs of one position; `None` when all labels are equal.
fn ordinal_loss(
    logits: Array<1>,
    labels: &[i32],
    each: usize,
    device: &Device,
) -> Option<Array<1>> {
    let count = labels.len();
    let pairs = different_pairs(labels);
    if pairs == 0 {
        return None;
    }
    let siblings: u64 = if each > 1 { labels.chunks(each).map(different_pairs).sum() } else { 0 };
    let values: Vec<f32> = labels.iter().map(|&label| label as f32).collect();
    let values = Array::<1>::from_data(TensorData::new(values, [count]), device);
    // For each pair: +1 if the row should be above the column, -1 if below; 0 for ties, and above
    // the diagonal, where pairs would repeat.
    let signs = (values.clone().reshape([count, 1]) - values.reshape([1, count])).sign().tril(-1);
    let mut weights = signs.clone().abs() * (1.0 / pairs as f32);
    if siblings > 0 {
        let groups: Vec<i32> = (0..count).map(|index| (index / each) as i32).collect();
        let groups = Array::<1, Int>::from_data(TensorData::new(groups, [count]), device);
        let same = groups.clone().reshape([count, 1]).expand([count, count]);
        let same = same.equal(groups.reshape([1, count]).expand([count, count])).float();
        weights = weights + signs.clone().abs() * same * (1.0 / siblings as f32);
    }
    let margins = logits.clone().reshape([count, 1]) - logits.reshape([1, count]);
    let losses = activation::log_sigmoid(margins * signs.autodiff()) * weights.autodiff();
    Some(losses.sum() * -1.0)
}

/// Number of pairs of different labels.
fn different_pairs(labels: &[i32]) -> u64 {
    let pairs = |count: usize| (count as u64) * (count as u64).saturating_sub(1) / 2;
    let mut sorted = labels.to_vec();
    sorted.sort_unstable();
    pairs(labels.len())
        - sorted.chunk_by(|a, b| a == b).map(|equal| pairs(equal.len())).sum::<u64>()
}

/// Weighted mean cross entropy of the softmax over each position's outputs, with the first output
/// as the target; `None` when all weights are 0.
fn cross_entropy(
    logits: Array<1>,
    ends: &[usize],
    weights: &[f32],
    device: &Device,
) -> Option<Array<1>> {
    let counted: f32 = weights.iter().sum();
    let longest =
        ends.iter().scan(0, |from, &end| Some(end - std::mem::replace(from, end))).max()?;
    if counted <= 0.0 || longest == 0 {
        return None;
    }
    // Each position is a row; short rows are padded with an output that the mask removes from the
    // softmax.
    let boards = ends.len();
    let mut places = vec![0_i64; boards * longest];
    let mut mask = vec![-1e9_f32; boards * longest];
    let mut first = 0;
    for (row, &end) in ends.iter().enumerate() {
        for (column, index) in (first..end).enumerate() {
            places[row * longest + column] = index as i64;
            mask[row * longest + column] = 0.0;
        }
        first = end;
    }
    let size = boards * longest;
    let places = Array::<1, Int>::from_data(TensorData::new(places, [size]), device).autodiff();
    let mask = Array::<2>::from_data(TensorData::new(mask, [boards, longest]), device).autodiff();
    let weights: Vec<f32> = weights.iter().map(|weight| weight / counted).collect();
    let weights = Array::<2>::from_data(TensorData::new(weights, [boards, 1]), device).autodiff();
    let rows = logits.gather(0, places).reshape([boards, longest]) + mask;
    let chances = activation::log_softmax(rows, 1);
    Some((chances.slice([0..boards, 0..1]) * weights).sum() * -1.0)
}

/// Mean cross entropy of the softmax over each position's squares.
fn selector_loss(logits: Array<1>, targets: &[u8], device: &Device) -> Array<1> {
    let boards = targets.len();
    let chances = activation::log_softmax(logits.reshape([boards, 64]), 1);
    let targets: Vec<i64> = targets.iter().map(|&target| i64::from(target)).collect();
    let targets =
        Array::<2, Int>::from_data(TensorData::new(targets, [boards, 1]), device).autodiff();
    chances.gather(1, targets).mean() * -1.0
}
