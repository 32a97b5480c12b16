//! Fits the calibration of a network on held-out positions: logits to centipawns, win/draw/loss
//! chances and priority bins.

use data::GameResult;
use nets::{Calibration, HeadKind, MonotoneMap, MoveScores, WdlModel};

use crate::{HeldOut, Scorer, TrainError, legal_moves, validate::cross_entropy};

/// Labels are clamped to this absolute value, in centipawns, so that a few mates do not dominate a
/// mean.
pub const LABEL_LIMIT: f32 = 3_000.0;

/// Bound on a static score in centipawns: above every clamped label and below the mate scores of a
/// search.
pub const SCORE_LIMIT: f32 = 5_000.0;

/// Number of segments of a map before neighbours that do not rise are pooled.
const SEGMENTS: usize = 32;

/// Number of priority bins.
pub const BINS: usize = 16;

/// Fits centipawns to logits: means of label and logit over [`SEGMENTS`] groups of neighbouring
/// logits (smaller toward both ends), made increasing by pooling adjacent violators, then shifted
/// so that the mean logit of the positions labelled 0 maps to 0. `None` when the logits do not rank
/// the labels.
#[must_use]
pub fn fit_map(logits: &[f32], labels: &[i32]) -> Option<MonotoneMap> {
    let mut pairs: Vec<(f32, f32)> = logits
        .iter()
        .zip(labels)
        .filter(|(logit, _)| logit.is_finite())
        .map(|(&logit, &label)| (logit, (label as f32).clamp(-LABEL_LIMIT, LABEL_LIMIT)))
        .collect();
    pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut blocks: Vec<(f64, f64, f64)> = Vec::new();
    for range in segments(pairs.len()) {
        let count = range.len() as f64;
        let part = &pairs[range];
        let logit = part.iter().map(|pair| f64::from(pair.0)).sum::<f64>() / count;
        let label = part.iter().map(|pair| f64::from(pair.1)).sum::<f64>() / count;
        blocks.push((count, logit, label));
        while let [.., low, high] = blocks.as_slice() {
            if low.2 < high.2 && (low.1 as f32) < high.1 as f32 && (low.2 as f32) < high.2 as f32 {
                break;
            }
            let count = low.0 + high.0;
            let mean = |a: f64, b: f64| (low.0 * a + high.0 * b) / count;
            let pooled = (count, mean(low.1, high.1), mean(low.2, high.2));
            blocks.truncate(blocks.len() - 2);
            blocks.push(pooled);
        }
    }
    let mut map = MonotoneMap {
        inputs: blocks.iter().map(|block| block.1 as f32).collect(),
        outputs: blocks.iter().map(|block| block.2 as f32).collect(),
        limit: SCORE_LIMIT,
    };
    if !map.is_valid() {
        return None;
    }
    shift_zero(&mut map, logits, labels);
    map.is_valid().then_some(map)
}

/// Shifts the outputs of the map so that the mean logit of the positions labelled 0 maps to exactly
/// 0.
fn shift_zero(map: &mut MonotoneMap, logits: &[f32], labels: &[i32]) {
    let (mut sum, mut count) = (0.0_f64, 0_u32);
    for (logit, _) in
        logits.iter().zip(labels).filter(|(logit, label)| **label == 0 && logit.is_finite())
    {
        sum += f64::from(*logit);
        count += 1;
    }
    if count == 0 {
        return;
    }
    let zero = (sum / f64::from(count)) as f32;
    let shift = map.apply(zero);
    let mut shifted = map.clone();
    for output in &mut shifted.outputs {
        *output -= shift;
    }
    let place = shifted.inputs.partition_point(|&knot| knot < zero);
    shifted.inputs.insert(place, zero);
    shifted.outputs.insert(place, 0.0);
    if shifted.is_valid() {
        *map = shifted;
        return;
    }
    // A knot close to it exists already and becomes the zero.
    shifted.inputs.remove(place);
    shifted.outputs.remove(place);
    *map = shifted;
}

/// Index ranges whose ends are logistically spaced quantiles.
fn segments(count: usize) -> Vec<std::ops::Range<usize>> {
    let least = (count / 100).clamp(1, 25);
    let mut ranges = Vec::new();
    let mut first = 0;
    for index in 1..SEGMENTS {
        let part = 1.0 / (1.0 + (6.0 - 12.0 * index as f64 / SEGMENTS as f64).exp());
        let end = (part * count as f64).round() as usize;
        if end >= first + least && end + least <= count {
            ranges.push(first..end);
            first = end;
        }
    }
    if first < count {
        ranges.push(first..count);
    }
    ranges
}

/// Fits win and loss chances to game results by maximum likelihood; `None` with fewer than 100
/// known results.
#[must_use]
pub fn fit_wdl(centipawns: &[f32], results: &[GameResult]) -> Option<WdlModel> {
    const WIDTH: f32 = 10.0;
    const HALF: i32 = 500;
    let mut counts = vec![[0_u32; 3]; 2 * HALF as usize + 1];
    let mut known = 0;
    for (score, result) in centipawns.iter().zip(results) {
        let outcome = match result {
            GameResult::Win => 0,
            GameResult::Draw => 1,
            GameResult::Loss => 2,
            GameResult::Unknown => continue,
        };
        let cell = (score / WIDTH).round().clamp(-HALF as f32, HALF as f32) as i32 + HALF;
        counts[cell as usize][outcome] += 1;
        known += 1;
    }
    if known < 100 {
        return None;
    }
    let likelihood = |offset: f64, scale: f64| {
        let mut total = 0.0;
        for (cell, counts) in counts.iter().enumerate() {
            if *counts == [0; 3] {
                continue;
            }
            let score = f64::from((cell as i32 - HALF) as f32 * WIDTH);
            let win = 1.0 / (1.0 + ((offset - score) / scale).exp());
            let loss = 1.0 / (1.0 + ((offset + score) / scale).exp());
            let chances = [win, 1.0 - win - loss, loss];
            for (count, chance) in counts.iter().zip(chances) {
                total += f64::from(*count) * chance.max(1e-5).ln();
            }
        }
        total
    };
    // Searches a logarithmic grid and narrows it around the best point.
    let (mut centre, mut reach) = ([5.0_f64.ln() + 2.65, 5.0_f64.ln() + 2.65], 2.65);
    for _ in 0..9 {
        let mut best = (f64::NEG_INFINITY, centre);
        for row in -8..=8 {
            for column in -8..=8 {
                let point = [
                    centre[0] + reach * f64::from(row) / 8.0,
                    centre[1] + reach * f64::from(column) / 8.0,
                ];
                let value = likelihood(point[0].exp(), point[1].exp());
                if value > best.0 {
                    best = (value, point);
                }
            }
        }
        centre = best.1;
        reach *= 0.4;
    }
    Some(WdlModel { offset: centre[0].exp() as f32, scale: centre[1].exp() as f32 })
}

/// Boundaries of the priority bins: percentiles of |score − mean of the position's scores|, one
/// fewer than [`BINS`]. Empty when no position has two moves.
#[must_use]
pub fn bin_boundaries(scores: &[Vec<f32>]) -> Vec<f32> {
    let mut distances: Vec<f32> = Vec::new();
    for scores in scores.iter().filter(|scores| scores.len() > 1) {
        let mean = scores.iter().sum::<f32>() / scores.len() as f32;
        distances.extend(scores.iter().map(|score| (score - mean).abs()));
    }
    if distances.is_empty() {
        return Vec::new();
    }
    distances.sort_by(f32::total_cmp);
    (1..BINS).map(|bin| distances[bin * (distances.len() - 1) / BINS]).collect()
}

/// Positions whose legal moves are all scored for the bins.
const BIN_POSITIONS: usize = 2_000;

/// Positions whose legal moves are all scored for the temperature of a policy.
const TEMPERATURE_POSITIONS: usize = 10_000;

/// The factor on a policy's logits that maximises the likelihood of the played moves: one over the
/// temperature of the softmax. Each position holds the logits of its legal moves and the index of
/// the played one. Golden-section search suffices because the likelihood has one peak.
#[must_use]
pub fn fit_policy_scale(positions: &[(Vec<f32>, usize)]) -> f32 {
    let loss = |log_scale: f64| -> f64 {
        positions
            .iter()
            .map(|(logits, played)| cross_entropy(logits, *played, log_scale.exp()))
            .sum()
    };
    let part = 0.5 * (5.0_f64.sqrt() - 1.0);
    let (mut low, mut high) = (-2.0, 2.0);
    for _ in 0..20 {
        let (left, right) = (high - part * (high - low), low + part * (high - low));
        if loss(left) < loss(right) { high = right } else { low = left }
    }
    (0.5 * (low + high)).exp() as f32
}

/// The map of a policy: its logits divided by the temperature.
fn policy_map(scorer: &mut dyn Scorer, held_out: &[HeldOut]) -> Result<MonotoneMap, TrainError> {
    let mut positions = Vec::new();
    for source in held_out {
        let sample = source.sample((TEMPERATURE_POSITIONS / held_out.len()).max(1));
        let moves = legal_moves(&sample);
        let logits = scorer.move_logits(&sample.examples.squares, &moves)?;
        let played = sample.examples.moves.iter().zip(&sample.examples.weights);
        for ((moves, logits), (played, &weight)) in moves.iter().zip(logits).zip(played) {
            if let (Some(place), true) = (moves.iter().position(|mv| mv == played), weight > 0.0) {
                positions.push((logits, place));
            }
        }
    }
    if positions.is_empty() {
        return Err(TrainError::Config(
            "the policy cannot be calibrated: no held-out position has a move".to_owned(),
        ));
    }
    let scale = fit_policy_scale(&positions);
    Ok(MonotoneMap { inputs: vec![-1.0, 1.0], outputs: vec![-scale, scale], limit: POLICY_LIMIT })
}

/// Bound on a policy's score, a natural logarithm; smaller probabilities need not be distinguished.
const POLICY_LIMIT: f32 = 100.0;

/// Fits the calibration of one head: the value head's map and chances, or the move head's map and
/// bins. `calibration.move_scores` must be set already.
///
/// # Errors
/// The device failed, there are no held-out positions, or the outputs do not rank them.
pub fn calibrate_head(
    calibration: &mut Calibration,
    scorer: &mut dyn Scorer,
    head: HeadKind,
    held_out: &[HeldOut],
) -> Result<(), TrainError> {
    if head == HeadKind::Moves {
        let map = match calibration.move_scores {
            MoveScores::Centipawns => centipawn_map(scorer, head, held_out)?.0,
            MoveScores::Policy => policy_map(scorer, held_out)?,
        };
        let mut scores = Vec::new();
        for source in held_out {
            let sample = source.sample((BIN_POSITIONS / held_out.len()).max(1));
            let moves = legal_moves(&sample);
            let logits = scorer.move_logits(&sample.examples.squares, &moves)?;
            let mapped =
                |logits: Vec<f32>| logits.into_iter().map(|logit| map.apply(logit)).collect();
            scores.extend(logits.into_iter().map(mapped));
        }
        calibration.bins = bin_boundaries(&scores);
        calibration.moves = map;
        return Ok(());
    }
    let (map, logits) = centipawn_map(scorer, head, held_out)?;
    let centipawns: Vec<f32> = logits.iter().map(|&logit| map.apply(logit)).collect();
    let results: Vec<GameResult> =
        held_out.iter().flat_map(|source| source.results.iter().copied()).collect();
    if let Some(model) = fit_wdl(&centipawns, &results) {
        calibration.wdl = model;
    }
    calibration.value = map;
    Ok(())
}

/// The map to centipawns, and the logits it was fitted to.
fn centipawn_map(
    scorer: &mut dyn Scorer,
    head: HeadKind,
    held_out: &[HeldOut],
) -> Result<(MonotoneMap, Vec<f32>), TrainError> {
    let (mut logits, mut labels) = (Vec::new(), Vec::new());
    for source in held_out {
        logits.extend(scorer.logits(&source.examples)?);
        labels.extend_from_slice(source.examples.labels(head));
    }
    let map = fit_map(&logits, &labels).ok_or_else(|| {
        TrainError::Config(format!(
            "the {} head cannot be calibrated: its outputs do not rank the {} held-out positions",
            head.name(),
            labels.len()
        ))
    })?;
    Ok((map, logits))
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    #[test]
    fn a_map_is_monotone_zeroed_and_near_the_truth() {
        let mut random = ChaCha8Rng::seed_from_u64(3);
        let (mut logits, mut labels) = (Vec::new(), Vec::new());
        for _ in 0..20_000 {
            let logit: f32 = random.random_range(-8.0..8.0);
            // A cubic truth, off zero by one logit, with noise, rounding and mates at the ends.
            let truth = 100.0 * (logit - 1.0) + 3.0 * (logit - 1.0).powi(3);
            let label = truth + random.random_range(-50.0..50.0);
            logits.push(logit);
            labels.push(if label > 2500.0 { 109_990 } else { (label / 10.0).round() as i32 * 10 });
        }
        let map = fit_map(&logits, &labels).unwrap();
        assert!(map.is_valid() && map.inputs.len() > 15, "{} knots", map.inputs.len());
        let zeros: Vec<f32> = logits
            .iter()
            .zip(&labels)
            .filter(|(_, label)| **label == 0)
            .map(|(logit, _)| *logit)
            .collect();
        let zero = zeros.iter().sum::<f32>() / zeros.len() as f32;
        assert!(map.apply(zero).abs() < 0.01);
        for logit in [-6.0_f32, -3.0, 0.0, 2.0, 5.0] {
            let truth = 100.0 * (logit - 1.0) + 3.0 * (logit - 1.0).powi(3);
            assert!(
                (map.apply(logit) - truth).abs() < 60.0,
                "{} instead of {truth}",
                map.apply(logit)
            );
        }
        assert!(map.apply(100.0) <= SCORE_LIMIT && map.apply(-100.0) >= -SCORE_LIMIT);
    }

    #[test]
    fn outputs_that_rank_nothing_have_no_map() {
        let labels: Vec<i32> = (0..1000).collect();
        let reversed: Vec<f32> = labels.iter().map(|&label| -label as f32).collect();
        assert!(fit_map(&reversed, &labels).is_none());
        assert!(fit_map(&vec![1.0; 1000], &labels).is_none());
        assert!(fit_map(&[], &[]).is_none());
    }

    #[test]
    fn chances_are_found_again() {
        let mut random = ChaCha8Rng::seed_from_u64(5);
        let truth = WdlModel { offset: 180.0, scale: 95.0 };
        let (mut scores, mut results) = (Vec::new(), Vec::new());
        for _ in 0..60_000 {
            let score: f32 = random.random_range(-700.0..700.0);
            let chances = truth.at(score);
            let draw: u16 = random.random_range(0..1000);
            scores.push(score);
            results.push(if draw < chances.win {
                GameResult::Win
            } else if draw < chances.win + chances.draw {
                GameResult::Draw
            } else {
                GameResult::Loss
            });
        }
        let model = fit_wdl(&scores, &results).unwrap();
        assert!(
            (model.offset - truth.offset).abs() < 5.0 && (model.scale - truth.scale).abs() < 5.0,
            "{model:?}"
        );
        assert!(fit_wdl(&scores[..50], &results[..50]).is_none());
    }

    #[test]
    fn a_temperature_is_found_again() {
        let mut random = ChaCha8Rng::seed_from_u64(7);
        let mut positions = Vec::new();
        for _ in 0..20_000 {
            let logits: Vec<f32> = (0..6).map(|_| random.random_range(-3.0..3.0)).collect();
            // Played as by a softmax of half the logits.
            let weights: Vec<f32> = logits.iter().map(|logit| (0.5 * logit).exp()).collect();
            let mut draw = random.random_range(0.0..weights.iter().sum::<f32>());
            let place = weights.iter().position(|weight| {
                draw -= weight;
                draw < 0.0
            });
            positions.push((logits, place.unwrap_or(0)));
        }
        let scale = fit_policy_scale(&positions);
        assert!((scale - 0.5).abs() < 0.02, "{scale}");
    }

    #[test]
    fn bins_are_percentiles() {
        let scores: Vec<Vec<f32>> =
            vec![(-800..=800).map(|score| score as f32).collect(), vec![5.0]];
        let bins = bin_boundaries(&scores);
        assert_eq!(bins.len(), BINS - 1);
        for (index, bin) in bins.iter().enumerate() {
            assert!((bin - 50.0 * (index as f32 + 1.0)).abs() <= 1.0, "{bin}");
        }
    }
}
