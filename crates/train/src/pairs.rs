//! The pairwise ordinal loss in plain Rust: validation reports it, and tests compare both backends
//! with it.

/// Mean binary cross entropy over all pairs with different labels, with logit `outputs[i] -
/// outputs[j]` against `labels[i] > labels[j]`; 0 where there is no such pair.
#[must_use]
pub fn ordinal_loss(labels: &[i32], outputs: &[f32]) -> f64 {
    let (mut total, mut pairs) = (0.0_f64, 0_u64);
    for (index, (label, output)) in labels.iter().zip(outputs).enumerate() {
        let mut row = 0.0_f32;
        for (other_label, other) in labels[..index].iter().zip(outputs) {
            if label == other_label {
                continue;
            }
            let margin = if label > other_label { output - other } else { other - output };
            row += softplus(-margin);
            pairs += 1;
        }
        total += f64::from(row);
    }
    if pairs == 0 { 0.0 } else { total / pairs as f64 }
}

/// The loss and its gradient with respect to each output.
#[must_use]
pub fn ordinal_gradient(labels: &[i32], outputs: &[f32]) -> (f64, Vec<f32>) {
    let mut gradient = vec![0.0_f32; outputs.len()];
    let mut pairs = 0_u64;
    for (index, (label, output)) in labels.iter().zip(outputs).enumerate() {
        for (other, (other_label, other_output)) in labels[..index].iter().zip(outputs).enumerate()
        {
            if label == other_label {
                continue;
            }
            let sign = if label > other_label { 1.0 } else { -1.0 };
            // d softplus(-m)/dm = -sigmoid(-m)
            let slope = -sign / (1.0 + (sign * (output - other_output)).exp());
            gradient[index] += slope;
            gradient[other] -= slope;
            pairs += 1;
        }
    }
    for value in &mut gradient {
        *value /= pairs.max(1) as f32;
    }
    (ordinal_loss(labels, outputs), gradient)
}

fn softplus(value: f32) -> f32 {
    value.max(0.0) + (-value.abs()).exp().ln_1p()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        // One ordered pair, margin 0: ln 2. Equal labels do not count.
        assert!((ordinal_loss(&[1, 0], &[0.0, 0.0]) - std::f64::consts::LN_2).abs() < 1e-6);
        assert!(
            (ordinal_loss(&[1, 1, 0], &[5.0, -5.0, -5.0])
                - (4.54e-5 + std::f64::consts::LN_2) / 2.0)
                .abs()
                < 1e-6
        );
        assert!(ordinal_loss(&[3, 3], &[1.0, 2.0]) == 0.0);
        assert!(ordinal_loss(&[], &[]) == 0.0);
    }

    #[test]
    fn gradient_matches_differences() {
        let labels = [5, -3, 5, 100, 0];
        let outputs = [0.3_f32, -0.2, 1.1, 0.4, 0.0];
        let (_, gradient) = ordinal_gradient(&labels, &outputs);
        for index in 0..outputs.len() {
            let (mut up, mut down) = (outputs, outputs);
            up[index] += 1e-2;
            down[index] -= 1e-2;
            let slope = (ordinal_loss(&labels, &up) - ordinal_loss(&labels, &down)) / 2e-2;
            assert!(
                (slope - f64::from(gradient[index])).abs() < 1e-4,
                "{slope} {}",
                gradient[index]
            );
        }
    }
}
