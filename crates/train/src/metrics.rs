//! Computes rank correlations between a network's outputs and the labels: Kendall's tau-a and tau-b
//! (Knight's O(n log n) algorithm), weighted tau (Vigna 2015, as `scipy.stats.weightedtau`),
//! Spearman's rho with averaged ties.
//!
//! All return NaN when they are undefined (fewer than two values, or one side constant). Inputs
//! must be finite.

use std::cmp::Ordering;

/// The counts of pairs from which tau-a and tau-b follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PairCounts {
    total: u64,
    tied_x: u64,
    tied_y: u64,
    tied_both: u64,
    discordant: u64,
}

fn order(a: f64, b: f64) -> Ordering {
    a.total_cmp(&b)
}

/// The indices sorted by `x`, ties by `y`.
fn lexicographic(x: &[f64], y: &[f64]) -> Vec<u32> {
    let mut indices: Vec<u32> = (0..x.len() as u32).collect();
    indices.sort_by(|&a, &b| {
        let (a, b) = (a as usize, b as usize);
        order(x[a], x[b]).then(order(y[a], y[b]))
    });
    indices
}

/// Number of pairs inside runs of equal neighbours.
fn tied_pairs(count: usize, equal: impl Fn(usize, usize) -> bool) -> u64 {
    let (mut pairs, mut run) = (0, 0_u64);
    for index in 1..count {
        run = if equal(index - 1, index) { run + 1 } else { 0 };
        pairs += run;
    }
    pairs
}

/// Sorts `values` and counts the exchanges of neighbours that a bubble sort would need.
fn exchanges(values: &mut [f64], spare: &mut [f64]) -> u64 {
    let count = values.len();
    if count < 2 {
        return 0;
    }
    let middle = count / 2;
    let mut swaps = exchanges(&mut values[..middle], &mut spare[..middle])
        + exchanges(&mut values[middle..], &mut spare[middle..]);
    let (mut left, mut right) = (0, middle);
    for slot in spare.iter_mut() {
        let take_right = right < count && (left == middle || values[right] < values[left]);
        if take_right {
            swaps += (middle - left) as u64;
            *slot = values[right];
            right += 1;
        } else {
            *slot = values[left];
            left += 1;
        }
    }
    values.copy_from_slice(spare);
    swaps
}

fn pairs(x: &[f64], y: &[f64]) -> PairCounts {
    let count = x.len();
    let indices = lexicographic(x, y);
    let mut sorted: Vec<f64> = indices.iter().map(|&index| y[index as usize]).collect();
    let at = |index: usize| indices[index] as usize;
    let tied_x = tied_pairs(count, |a, b| x[at(a)] == x[at(b)]);
    let tied_both = tied_pairs(count, |a, b| x[at(a)] == x[at(b)] && y[at(a)] == y[at(b)]);
    let discordant = exchanges(&mut sorted, &mut vec![0.0; count]);
    let tied_y = tied_pairs(count, |a, b| sorted[a] == sorted[b]);
    let total = (count as u64) * (count as u64).saturating_sub(1) / 2;
    PairCounts { total, tied_x, tied_y, tied_both, discordant }
}

impl PairCounts {
    /// Concordant minus discordant.
    fn difference(&self) -> f64 {
        (self.total + self.tied_both) as f64
            - (self.tied_x + self.tied_y) as f64
            - 2.0 * self.discordant as f64
    }
}

/// Kendall's tau-a: (concordant − discordant) over all pairs.
#[must_use]
pub fn tau_a(x: &[f64], y: &[f64]) -> f64 {
    if x.len() < 2 || x.len() != y.len() {
        return f64::NAN;
    }
    let pairs = pairs(x, y);
    pairs.difference() / pairs.total as f64
}

/// Kendall's tau-b: tau-a corrected for ties on both sides.
#[must_use]
pub fn tau_b(x: &[f64], y: &[f64]) -> f64 {
    if x.len() < 2 || x.len() != y.len() {
        return f64::NAN;
    }
    let pairs = pairs(x, y);
    let (free_x, free_y) = (pairs.total - pairs.tied_x, pairs.total - pairs.tied_y);
    if free_x == 0 || free_y == 0 {
        return f64::NAN;
    }
    (pairs.difference() / (free_x as f64).sqrt() / (free_y as f64).sqrt()).clamp(-1.0, 1.0)
}

/// Ranks from 1, ties averaged.
fn average_ranks(values: &[f64]) -> Vec<f64> {
    let mut indices: Vec<usize> = (0..values.len()).collect();
    indices.sort_by(|&a, &b| order(values[a], values[b]));
    let mut ranks = vec![0.0; values.len()];
    let mut first = 0;
    while first < indices.len() {
        let mut last = first;
        while last + 1 < indices.len() && values[indices[last + 1]] == values[indices[first]] {
            last += 1;
        }
        for &index in &indices[first..=last] {
            ranks[index] = (first + last) as f64 / 2.0 + 1.0;
        }
        first = last + 1;
    }
    ranks
}

/// Spearman's rho: Pearson's correlation of tie-averaged ranks.
#[must_use]
pub fn spearman(x: &[f64], y: &[f64]) -> f64 {
    if x.len() < 2 || x.len() != y.len() {
        return f64::NAN;
    }
    let (x, y) = (average_ranks(x), average_ranks(y));
    let mean = (x.len() as f64 + 1.0) / 2.0;
    let (mut xy, mut xx, mut yy) = (0.0, 0.0, 0.0);
    for (x, y) in x.iter().zip(&y) {
        let (x, y) = (x - mean, y - mean);
        xy += x * y;
        xx += x * x;
        yy += y * y;
    }
    if xx == 0.0 || yy == 0.0 { f64::NAN } else { (xy / (xx * yy).sqrt()).clamp(-1.0, 1.0) }
}

/// Weighted tau with additive hyperbolic weights: exchanges among the highest values count most.
/// The mean of the rankings by (x, y) and by (y, x), both from the highest down, as scipy does by
/// default.
#[must_use]
pub fn weighted_tau(x: &[f64], y: &[f64]) -> f64 {
    if x.len() < 2 || x.len() != y.len() {
        return f64::NAN;
    }
    (weighted_tau_one_way(x, y) + weighted_tau_one_way(y, x)) / 2.0
}

/// Σ over runs of equal neighbours of (run − 1) · Σ weights: the weight of tied pairs.
fn tied_weight(weights: &[f64], equal: impl Fn(usize, usize) -> bool) -> f64 {
    let (mut total, mut sum, mut run) = (0.0, 0.0, 0_usize);
    for (index, weight) in weights.iter().enumerate() {
        if index > 0 && !equal(index - 1, index) {
            total += sum * run.saturating_sub(1) as f64;
            (sum, run) = (0.0, 0);
        }
        sum += weight;
        run += 1;
    }
    total + sum * run.saturating_sub(1) as f64
}

fn weighted_tau_one_way(x: &[f64], y: &[f64]) -> f64 {
    let count = x.len();
    let indices = lexicographic(x, y);
    // The highest value has weight 1, the next 1/2, and so on.
    let weights: Vec<f64> = (0..count).map(|index| 1.0 / (count - index) as f64).collect();
    let at = |index: usize| indices[index] as usize;
    let joint = tied_weight(&weights, |a, b| x[at(a)] == x[at(b)] && y[at(a)] == y[at(b)]);
    let tied_x = tied_weight(&weights, |a, b| x[at(a)] == x[at(b)]);
    let mut items: Vec<(f64, f64)> =
        indices.iter().zip(&weights).map(|(&index, &weight)| (y[index as usize], weight)).collect();
    let exchanged = weighted_exchanges(&mut items, &mut vec![(0.0, 0.0); count]).1;
    let by_y: Vec<f64> = items.iter().map(|item| item.1).collect();
    let tied_y = tied_weight(&by_y, |a, b| items[a].0 == items[b].0);
    let total = weights.iter().sum::<f64>() * (count - 1) as f64;
    let (free_x, free_y) = (total - tied_x, total - tied_y);
    // A constant side leaves only rounding errors.
    if free_x <= total * 1e-12 || free_y <= total * 1e-12 {
        return f64::NAN;
    }
    let difference = total - (tied_x + tied_y - joint) - 2.0 * exchanged;
    (difference / free_x.sqrt() / free_y.sqrt()).clamp(-1.0, 1.0)
}

/// Sorts by value; returns the weight of all items and the weight of the exchanges. Each exchanged
/// pair counts both weights.
fn weighted_exchanges(items: &mut [(f64, f64)], spare: &mut [(f64, f64)]) -> (f64, f64) {
    let count = items.len();
    if count < 2 {
        return (items.iter().map(|item| item.1).sum(), 0.0);
    }
    let middle = count / 2;
    let (mut residual, left_exchanged) =
        weighted_exchanges(&mut items[..middle], &mut spare[..middle]);
    let (right_weight, right_exchanged) =
        weighted_exchanges(&mut items[middle..], &mut spare[middle..]);
    let weight = residual + right_weight;
    let mut exchanged = left_exchanged + right_exchanged;
    let (mut left, mut right) = (0, middle);
    for slot in spare.iter_mut() {
        let take_right = right < count && (left == middle || items[right].0 < items[left].0);
        if take_right {
            exchanged += items[right].1 * (middle - left) as f64;
            if left < middle {
                exchanged += residual;
            }
            *slot = items[right];
            right += 1;
        } else {
            residual -= items[left].1;
            *slot = items[left];
            left += 1;
        }
    }
    items.copy_from_slice(spare);
    (weight, exchanged)
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    struct Case {
        name: String,
        x: Vec<f64>,
        y: Vec<f64>,
        tau_a: f64,
        tau_b: f64,
        weighted_tau: f64,
        spearman: f64,
    }

    #[test]
    fn equal_to_scipy() {
        let cases: Vec<Case> =
            serde_json::from_str(include_str!("../tests/rank_metrics.json")).unwrap();
        assert!(cases.len() >= 5);
        for case in cases {
            let close = |ours: f64, theirs: f64, what: &str| {
                assert!(
                    (ours - theirs).abs() < 1e-9,
                    "{} {what}: {ours} instead of {theirs}",
                    case.name
                );
            };
            close(tau_a(&case.x, &case.y), case.tau_a, "tau-a");
            close(tau_b(&case.x, &case.y), case.tau_b, "tau-b");
            close(weighted_tau(&case.x, &case.y), case.weighted_tau, "weighted tau");
            close(spearman(&case.x, &case.y), case.spearman, "rho");
        }
    }

    #[test]
    fn undefined_is_nan() {
        for metric in [tau_a, tau_b, weighted_tau, spearman] {
            assert!(metric(&[], &[]).is_nan());
            assert!(metric(&[1.0], &[1.0]).is_nan());
        }
        for metric in [tau_b, weighted_tau, spearman] {
            assert!(metric(&[1.0, 1.0, 1.0], &[1.0, 2.0, 3.0]).is_nan());
            assert!(metric(&[1.0, 2.0, 3.0], &[2.0, 2.0, 2.0]).is_nan());
        }
    }
}
