//! Integer scores inside a search: centipawns, wins by endgame tables above them and mates above
//! those, always for the side to move.

use board::Color;
use nets::{Calibration, Wdl};

use board::Score;

/// Internal score: centipawns within ±[`LARGEST_VALUE`], wins by tables near ±[`TABLE_WIN`], mates
/// near ±[`MATE`].
pub(crate) type Value = i32;

/// Larger than every score.
pub(crate) const INFINITY: Value = 32_000;

/// A side that is mated on the board has value `-MATE`; each ply of distance takes one off.
pub(crate) const MATE: Value = 31_000;

/// Scores beyond ±this are mates.
pub(crate) const MATE_BOUND: Value = 30_000;

/// Value of a win by the endgame tables; each ply of distance takes one off, as for mates.
pub(crate) const TABLE_WIN: Value = 25_000;

/// Evaluations are clamped to ±this; values beyond are certain.
pub(crate) const LARGEST_VALUE: Value = 20_000;

/// A child's value for its parent: negated, with mates and wins by tables one ply further away.
pub(crate) fn from_child(child: Value) -> Value {
    let value = -child;
    if value > LARGEST_VALUE {
        value - 1
    } else if value < -LARGEST_VALUE {
        value + 1
    } else {
        value
    }
}

/// The child's bound: the parent's value through this child is `>= bound` exactly when the
/// child's value is *not* `>=` the result. (Inverse of [`from_child`] on thresholds.)
pub(crate) fn child_bound(bound: Value) -> Value {
    let smallest = if bound > LARGEST_VALUE {
        bound + 1
    } else if bound <= -LARGEST_VALUE {
        bound - 1
    } else {
        bound
    };
    1 - smallest
}

/// As [`from_child`], for a move with a penalty in centipawns
/// ([`ReplyPenalty`](crate::kbest::opponent::ReplyPenalty)); certain values count in full.
pub(crate) fn from_child_with_penalty(child: Value, penalty: Value) -> Value {
    let value = from_child(child);
    if value.abs() > LARGEST_VALUE { value } else { (value - penalty).max(-LARGEST_VALUE) }
}

/// As [`child_bound`], the inverse of [`from_child_with_penalty`].
pub(crate) fn child_bound_with_penalty(bound: Value, penalty: Value) -> Value {
    let is_certain = bound > LARGEST_VALUE || bound <= -LARGEST_VALUE;
    child_bound(if is_certain { bound } else { (bound + penalty).min(LARGEST_VALUE + 1) })
}

/// The value for the side to move of a position with this winner, as the endgame tables have it.
pub(crate) fn from_winner(winner: Option<Color>, turn: Color) -> Value {
    match winner {
        Some(winner) if winner == turn => TABLE_WIN,
        Some(_) => -TABLE_WIN,
        None => 0,
    }
}

/// Rounds an evaluator's answer into the range of evaluations.
pub(crate) fn from_evaluation(centipawns: f32) -> Value {
    // To the nearest, without a call of the mathematical library; `as` saturates and turns NaN into
    // 0.
    ((centipawns + 0.5_f32.copysign(centipawns)) as Value).clamp(-LARGEST_VALUE, LARGEST_VALUE)
}

/// No position has more legal moves.
pub(crate) const MOST_MOVES: usize = 256;

/// Hundredths of the natural logarithm of each move's chance, written to the front of `into`.
pub(crate) fn log_chances<'a>(logits: &[f32], into: &'a mut [i16; MOST_MOVES]) -> &'a [i16] {
    // Eight side by side, the last ones too: one alone would have to be compared, or added up, one
    // by one.
    let logits = &logits[..logits.len().min(MOST_MOVES)];
    let (chunks, rest) = logits.as_chunks::<8>();
    let mut last = [f32::NEG_INFINITY; 8];
    last[..rest.len()].copy_from_slice(rest);
    let all = || chunks.iter().chain([&last]);
    let larger = |most: f32, logit: f32| if logit > most { logit } else { most };
    let mut most = [f32::NEG_INFINITY; 8];
    for chunk in all() {
        for (most, &logit) in most.iter_mut().zip(chunk) {
            *most = larger(*most, logit);
        }
    }
    let most = most.into_iter().fold(f32::NEG_INFINITY, larger);
    let chances_of = |chunk: &[f32; 8]| chunk.map(|logit| exp_of_negative(logit - most));
    let mut sums = [0.0_f32; 8];
    for chunk in chunks {
        for (sum, chance) in sums.iter_mut().zip(chances_of(chunk)) {
            *sum += chance;
        }
    }
    let of_rest: f32 = chances_of(&last)[..rest.len()].iter().sum();
    let shift = most + (sums.iter().sum::<f32>() + of_rest).ln();
    let least = -LARGEST_VALUE as f32;
    for (chunk, scores) in all().zip(into.as_chunks_mut::<8>().0) {
        *scores = chunk.map(|logit| {
            let hundredths = 100.0 * (logit - shift);
            // NaN counts as log-chance 0, like +inf.
            let hundredths = if hundredths < 0.0 { hundredths } else { 0.0 };
            let hundredths = if hundredths > least { hundredths } else { least };
            (hundredths + NEAREST).to_bits() as i16
        });
    }
    &into[..logits.len()]
}

/// Added to a small number, leaves the nearest integer in the low bits.
const NEAREST: f32 = 12_582_912.0;

/// e^x for x up to 0, with an error of up to four millionths; 1 above 0 and for NaN. The compiler
/// vectorises it, because every legal move of every position needs one.
pub(crate) fn exp_of_negative(x: f32) -> f32 {
    let x = if x < 0.0 { x } else { 0.0 };
    let x = if x > -80.0 { x } else { -80.0 };
    let power = x * std::f32::consts::LOG2_E;
    let shifted = power + NEAREST;
    let rest = (power - (shifted - NEAREST)) * std::f32::consts::LN_2;
    let series = 1.0 / 120.0 + rest * (1.0 / 720.0);
    let series = 1.0
        + rest * (1.0 + rest * (0.5 + rest * (1.0 / 6.0 + rest * (1.0 / 24.0 + rest * series))));
    f32::from_bits(series.to_bits().wrapping_add(shifted.to_bits() << 23))
}

/// Win, draw and loss chances of the side to move.
pub(crate) fn wdl(calibration: &Calibration, value: Value) -> Wdl {
    certain_wdl(value).unwrap_or_else(|| calibration.wdl.at(value as f32))
}

/// Win, draw and loss chances of a value beyond all evaluations.
pub(crate) fn certain_wdl(value: Value) -> Option<Wdl> {
    if value > LARGEST_VALUE {
        Some(Wdl { win: 1000, draw: 0, loss: 0 })
    } else if value < -LARGEST_VALUE {
        Some(Wdl { win: 0, draw: 0, loss: 1000 })
    } else {
        None
    }
}

/// The public form of a value.
pub(crate) fn to_score(value: Value) -> Score {
    if value > MATE_BOUND {
        Score::Mate((MATE - value + 1) / 2)
    } else if value < -MATE_BOUND {
        Score::Mate(-(MATE + value) / 2)
    } else {
        Score::Centipawns(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn child_bounds_match_child_values() {
        let edges =
            [500, LARGEST_VALUE, LARGEST_VALUE + 2, TABLE_WIN, MATE_BOUND + 2, MATE - 1, MATE];
        let edges: Vec<Value> =
            edges.into_iter().flat_map(|edge| [-edge, edge]).chain([-1, 0, 1]).collect();
        for child in edges.iter().flat_map(|edge| edge - 3..=edge + 3) {
            for bound in edges.iter().flat_map(|edge| edge - 3..=edge + 3) {
                assert_eq!(
                    from_child(child) >= bound,
                    child < child_bound(bound),
                    "child {child}, bound {bound}"
                );
                for penalty in [0, 1, 60] {
                    assert_eq!(
                        from_child_with_penalty(child, penalty) >= bound,
                        child < child_bound_with_penalty(bound, penalty),
                        "child {child}, bound {bound}, penalty {penalty}"
                    );
                }
            }
        }
    }

    #[test]
    fn mates_are_counted_in_moves() {
        assert_eq!(to_score(-MATE), Score::Mate(0));
        assert_eq!(to_score(from_child(-MATE)), Score::Mate(1));
        assert_eq!(to_score(from_child(from_child(-MATE))), Score::Mate(-1));
        assert_eq!(to_score(from_child(from_child(from_child(-MATE)))), Score::Mate(2));
    }

    #[test]
    fn nearer_wins_by_tables_are_better_and_all_lie_between_evaluations_and_mates() {
        let plies_away =
            |plies: usize| (0..plies).fold(TABLE_WIN, |value, _| -from_child(value)).abs();
        assert!(plies_away(1) < TABLE_WIN && plies_away(3) < plies_away(1));
        assert!(plies_away(1000) > LARGEST_VALUE && plies_away(0) < MATE_BOUND);
    }

    #[test]
    fn exponentials_are_close() {
        for step in 0..80_000 {
            let x = -0.001 * step as f32;
            let (found, exact) = (f64::from(exp_of_negative(x)), f64::from(x).exp());
            assert!((found - exact).abs() <= 4e-6 * exact, "{x}: {found} {exact}");
        }
        assert!(exp_of_negative(f32::NEG_INFINITY) < 1e-30 && exp_of_negative(-1e9) < 1e-30);
        assert!([0.0, 3.0, f32::INFINITY, f32::NAN].map(exp_of_negative) == [1.0; 4]);
    }

    fn chances_of(logits: &[f32]) -> Vec<Value> {
        let mut scores = [0; MOST_MOVES];
        log_chances(logits, &mut scores).iter().map(|&score| score.into()).collect()
    }

    #[test]
    fn logarithms_of_chances() {
        // Chances 1/2, 1/4, 1/4, whatever all logits are shifted by.
        for shift in [-50.0, 0.0, 800.0] {
            let logits = [2_f32.ln(), 0.0, 0.0].map(|logit| logit + shift);
            assert_eq!(chances_of(&logits), [-69, -139, -139]);
        }
        assert_eq!(chances_of(&[]), [0; 0]);
        let least = -LARGEST_VALUE;
        assert_eq!(chances_of(&[f32::INFINITY, 0.0]), [0, least]);
        assert_eq!(chances_of(&[0.0, f32::NEG_INFINITY]), [0, least]);
        // The largest first, in the middle, last: of enough that several are looked at side by
        // side.
        for largest in [0, 11, 19] {
            let mut logits = [-2.0; 20];
            logits[largest] = 2.0;
            let shift = (4_f64.exp() + 19.0).ln();
            let exact =
                [-100.0 * shift, 100.0 * (4.0 - shift)].map(|chance| chance.round() as Value);
            let chances = chances_of(&logits);
            assert!(
                (0..20).all(|place| chances[place] == exact[usize::from(place == largest)]),
                "{chances:?}"
            );
        }
    }
}
