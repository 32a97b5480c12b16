//! The losses as sums over parts of a batch, and their slopes with respect to the outputs.

use super::passes::vectorised;

/// Lanes of one vector of partial sums.
const LANES: usize = 16;

/// The sum of a loss over some terms.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LossSum {
    /// Sum of the losses of the terms (pairs or positions).
    pub sum: f64,
    /// Number of the terms, or their weight.
    pub count: f64,
}

/// `exp(x)` for `x <= 0`, relative error below 2e-7; 0 below -87.
#[inline(always)]
fn exp_negative(x: f32) -> f32 {
    let x = x.max(-87.0);
    // Adding and subtracting 1.5 * 2^23 rounds to an integer.
    const ROUND: f32 = 12_582_912.0;
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let whole = shifted - ROUND;
    let r = x - whole * 0.693_359_4 + whole * 2.121_944_4e-4;
    // Minimax polynomial of Cephes' expf.
    let mut p = 1.987_569_1e-4_f32;
    for coefficient in [1.398_2e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
        p = p * r + coefficient;
    }
    let p = p * r * r + r + 1.0;
    let power = f32::from_bits((shifted.to_bits() << 23).wrapping_add(127 << 23));
    p * power
}

/// `ln(1 + e)` for `e` in 0..=1, as `2 artanh(e / (2 + e))`.
#[inline(always)]
fn ln_1p(e: f32) -> f32 {
    let s = e / (2.0 + e);
    let q = s * s;
    let mut p = 1.0 / 15.0_f32;
    for coefficient in [1.0 / 13.0, 1.0 / 11.0, 1.0 / 9.0, 1.0 / 7.0, 0.2, 1.0 / 3.0, 1.0] {
        p = p * q + coefficient;
    }
    2.0 * s * p
}

vectorised! {
/// Adds `ln(1 + exp(logit[j] - logit[i]))`, the cross entropy of the order of two outputs, over the
/// pairs `label[i] > label[j]` with `i` in `first..first + gradient.len()`. Sets `gradient` to the
/// gradient of the sum over *all* pairs with respect to these logits.
pub(super) fn add_ordinal_loss(
    logits: &[f32], labels: &[i32], first: usize, gradient: &mut [f32], total: &mut LossSum
) {
    let n = logits.len().min(labels.len());
    for (offset, gradient) in gradient.iter_mut().enumerate() {
        let i = first + offset;
        let (logit, label) = (logits[i], labels[i]);
        let mut slopes = [0.0_f32; LANES];
        let mut losses = [0.0_f32; LANES];
        let mut counts = [0_i32; LANES];
        let mut j = 0;
        while j < n {
            let lanes = LANES.min(n - j);
            // Lanes beyond the end repeat this example's label, which makes no pair.
            let mut other = [logit; LANES];
            let mut other_label = [label; LANES];
            if lanes == LANES {
                other.copy_from_slice(&logits[j..j + LANES]);
                other_label.copy_from_slice(&labels[j..j + LANES]);
            } else {
                other[..lanes].copy_from_slice(&logits[j..n]);
                other_label[..lanes].copy_from_slice(&labels[j..n]);
            }
            for lane in 0..LANES {
                let difference = logit - other[lane];
                let e = exp_negative(-difference.abs());
                let (above, below) = (label > other_label[lane], label < other_label[lane]);
                // A positive margin means that the order is right.
                let margin = if above { difference } else { -difference };
                // The probability of the wrong order.
                let wrong = if margin > 0.0 { e } else { 1.0 } / (1.0 + e);
                slopes[lane] += if above { -wrong } else if below { wrong } else { 0.0 };
                let loss = ln_1p(e) + if margin > 0.0 { 0.0 } else { -margin };
                losses[lane] += if above { loss } else { 0.0 };
                counts[lane] += i32::from(above);
            }
            j += LANES;
        }
        *gradient = slopes.iter().sum();
        total.sum += losses.iter().map(|&loss| f64::from(loss)).sum::<f64>();
        total.count += f64::from(counts.iter().sum::<i32>());
    }
}
}

/// Adds the squared distance between `tanh(logit)` and `tanh(label / scale)`, and sets its slopes.
/// With `is_tanh` the logits are hyperbolic tangents already.
pub(super) fn add_tanh_loss(
    logits: &[f32],
    labels: &[i32],
    scale: f32,
    is_tanh: bool,
    slopes: &mut [f32],
    total: &mut LossSum,
) {
    for ((&logit, &label), slope) in logits.iter().zip(labels).zip(slopes) {
        let (output, tanh_slope) = if is_tanh {
            (logit, 1.0)
        } else {
            let output = logit.tanh();
            (output, 1.0 - output * output)
        };
        let distance = output - (label as f32 / scale).tanh();
        *slope = 2.0 * distance * tanh_slope;
        total.sum += f64::from(distance * distance);
        total.count += 1.0;
    }
}

/// Adds `weight` times the cross entropy of the softmax over one position's moves (or squares) with
/// the target `played`, and sets its slopes.
pub(super) fn add_cross_entropy(
    logits: &[f32],
    played: usize,
    weight: f32,
    slopes: &mut [f32],
    total: &mut LossSum,
) {
    let Some(&own) = logits.get(played).filter(|_| weight > 0.0) else {
        slopes.fill(0.0);
        return;
    };
    let highest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0;
    for (&logit, slope) in logits.iter().zip(&mut *slopes) {
        *slope = (logit - highest).exp();
        sum += *slope;
    }
    for slope in &mut *slopes {
        *slope *= weight / sum;
    }
    slopes[played] -= weight;
    total.sum += f64::from(weight) * (f64::from(sum).ln() + f64::from(highest - own));
    total.count += f64::from(weight);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cross_entropy_follows_the_definition() {
        let logits = [0.5_f32, -1.0, 88.0, 87.0];
        let mut slopes = [0.0; 4];
        let mut total = LossSum::default();
        add_cross_entropy(&logits, 0, 0.5, &mut slopes, &mut total);
        let exact: Vec<f64> = logits.iter().map(|&logit| f64::from(logit).exp()).collect();
        let sum: f64 = exact.iter().sum();
        assert!((total.sum + 0.5 * (exact[0] / sum).ln()).abs() < 1e-5 && total.count == 0.5);
        for (index, slope) in slopes.iter().enumerate() {
            let chance = exact[index] / sum - f64::from(u8::from(index == 0));
            assert!((f64::from(*slope) - 0.5 * chance).abs() < 1e-6);
        }
        // Without a legal move, or with weight 0, nothing is added.
        add_cross_entropy(&[], 0, 1.0, &mut [], &mut total);
        add_cross_entropy(&logits, 0, 0.0, &mut slopes, &mut total);
        assert!(total.count == 0.5 && slopes == [0.0; 4]);
    }

    #[test]
    fn fast_functions_are_close() {
        for step in 0..9000 {
            let x = -step as f32 / 100.0;
            let exact = f64::from(x).exp();
            if x > -87.0 {
                assert!((f64::from(exp_negative(x)) / exact - 1.0).abs() < 1e-6, "exp({x})");
            }
            let e = exact as f32;
            if e > 1e-30 {
                assert!(
                    (f64::from(ln_1p(e)) / f64::from(e).ln_1p() - 1.0).abs() < 1e-6,
                    "ln_1p({e})"
                );
            }
        }
    }

    #[test]
    fn loss_and_gradient_follow_the_definition() {
        for n in [1_usize, 2, 15, 16, 17, 45] {
            let logits: Vec<f32> = (0..n).map(|i| ((i * 37) % 29) as f32 / 7.0 - 2.0).collect();
            let labels: Vec<i32> = (0..n).map(|i| ((i * 53) % 11) as i32 - 5).collect();
            let mut gradient = vec![0.0; n];
            let mut total = LossSum::default();
            let (low, high) = gradient.split_at_mut(n / 2);
            add_ordinal_loss(&logits, &labels, 0, low, &mut total);
            add_ordinal_loss(&logits, &labels, n / 2, high, &mut total);
            let (mut sum, mut pairs, mut slopes) = (0.0_f64, 0, vec![0.0_f64; n]);
            for i in 0..n {
                for j in 0..i {
                    if labels[i] != labels[j] {
                        let difference = f64::from(logits[i] - logits[j]);
                        let target = f64::from(u8::from(labels[i] > labels[j]));
                        let probability = 1.0 / (1.0 + (-difference).exp());
                        sum -=
                            target * probability.ln() + (1.0 - target) * (1.0 - probability).ln();
                        slopes[i] += probability - target;
                        slopes[j] -= probability - target;
                        pairs += 1;
                    }
                }
            }
            assert_eq!(total.count, f64::from(pairs));
            assert!((total.sum - sum).abs() < 1e-5 * (1.0 + sum));
            for (fast, exact) in gradient.iter().zip(&slopes) {
                assert!(
                    (f64::from(*fast) - exact).abs() < 1e-5 * (1.0 + exact.abs()),
                    "{fast} {exact}"
                );
            }
        }
    }
}
