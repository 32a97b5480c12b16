//! Decides whether a network may be evaluated in int8. Int8 is two to four times as fast as `f32`
//! on vector units; it costs some networks next to nothing and others too much. The cost is
//! measured once, on held-out positions, and stored in the network's file.

use eval::cpu;
use nets::{HeadKind, MoveScores, Network};

use crate::{EvaluatorScorer, HeldOut, TrainError, ValidationMetrics, validate};

/// Largest fall of tau-b at which int8 becomes the default.
pub const LARGEST_FALL: f64 = 0.002;

/// Largest rise of a policy's cross entropy at which int8 becomes the default.
pub const LARGEST_RISE: f64 = 0.01;

/// The cost of int8 for one head.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum QuantisationCost {
    /// tau-b falls by this.
    Ranking(HeadKind, f64),
    /// The cross entropy rises by this.
    Policy(HeadKind, f64),
}

impl QuantisationCost {
    /// True when the cost is at most [`LARGEST_FALL`] or [`LARGEST_RISE`]; false for NaN.
    #[must_use]
    pub fn is_small(self) -> bool {
        match self {
            Self::Ranking(_, fall) => fall <= LARGEST_FALL,
            Self::Policy(_, rise) => rise <= LARGEST_RISE,
        }
    }
}

impl std::fmt::Display for QuantisationCost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ranking(head, fall) => {
                write!(f, "tau-b of the {} head falls by {fall:.5}", head.name())
            }
            Self::Policy(head, rise) => {
                write!(f, "cross entropy of the {} head rises by {rise:.5}", head.name())
            }
        }
    }
}

/// Observes the ranges of the network's layers and measures the cost of int8 for each head on its
/// held-out positions, on the least exact code path. If every cost is small, the network gets its
/// ranges and a line of provenance; otherwise both are removed.
///
/// # Errors
/// The network cannot run in int8: a head was not measured, layers may have negative outputs, there
/// are selectors, or the CPU has no int8 path.
pub fn quantise(
    network: &mut Network,
    held_out: &[(HeadKind, Vec<HeldOut>)],
    threads: usize,
) -> Result<Vec<QuantisationCost>, TrainError> {
    network.int8_ranges = None;
    network.provenance.remove("int8");
    // The ranges apply to all heads, so every head must be measured.
    let is_measured = |kind| held_out.iter().any(|(head, _)| *head == kind);
    if let Some(head) = network.description.heads.iter().find(|head| !is_measured(head.kind)) {
        let reason = format!("what int8 costs the {} head was not measured", head.kind.name());
        return Err(TrainError::Config(reason));
    }
    if let Some((head, _)) = held_out.iter().find(|(head, _)| head.is_selector()) {
        let reason = format!(
            "the {} head chooses squares, and what int8 costs it is not measured",
            head.name()
        );
        return Err(TrainError::Config(reason));
    }
    let ranges =
        cpu::observe_ranges(network).map_err(|error| TrainError::Backend(error.to_string()))?;
    let ranged = Network { int8_ranges: Some(ranges), ..network.clone() };
    let scores = network.calibration.move_scores;
    let mut costs = Vec::with_capacity(held_out.len());
    let mut positions = 0;
    for (head, sources) in held_out {
        positions = positions.max(sources.iter().map(HeldOut::len).sum());
        let exact = &mut EvaluatorScorer::f32(network, *head, threads)?;
        let rounded = &mut EvaluatorScorer::int8(&ranged, *head, threads)?;
        let exact = validate(exact, *head, scores, sources, 0)?;
        let rounded = validate(rounded, *head, scores, sources, 0)?;
        // A policy is not comparable between positions, so it has no tau.
        costs.push(if *head == HeadKind::Moves && scores == MoveScores::Policy {
            let entropy = |all| mean(all, sources, |one| one.loss);
            QuantisationCost::Policy(*head, entropy(&rounded) - entropy(&exact))
        } else {
            let tau = |all| mean(all, sources, |one| one.with_mates.tau_b);
            QuantisationCost::Ranking(*head, tau(&exact) - tau(&rounded))
        });
    }
    if costs.iter().all(|cost| cost.is_small()) {
        let words: Vec<String> = costs.iter().map(ToString::to_string).collect();
        network
            .provenance
            .insert("int8".to_owned(), format!("{} ({positions} positions)", words.join("; ")));
        network.int8_ranges = ranged.int8_ranges;
    }
    Ok(costs)
}

/// The mean over the sources, weighted by their positions; NaN without positions.
fn mean(
    all: &[ValidationMetrics],
    sources: &[HeldOut],
    figure: impl Fn(&ValidationMetrics) -> f64,
) -> f64 {
    let count: usize = sources.iter().map(HeldOut::len).sum();
    let sum: f64 =
        all.iter().zip(sources).map(|(one, source)| figure(one) * source.len() as f64).sum();
    sum / count as f64
}

#[cfg(test)]
mod tests {
    use board::Position;
    use eval::cpu::CpuPath;
    use nets::{Description, Squares};

    use super::*;
    use crate::{Examples, Scorer};

    /// Positions of one long game, labelled with the scorer's own values.
    fn labelled(network: &Network, scorer: &mut EvaluatorScorer) -> Vec<(HeadKind, Vec<HeldOut>)> {
        let mut examples = Examples::default();
        let mut position = Position::default();
        while examples.squares.len() < 200 {
            let moves = position.legal_moves();
            if moves.is_empty() {
                position = Position::default();
                continue;
            }
            position.play(moves[7 * examples.squares.len() % moves.len()]);
            examples.squares.push(Squares::of(&position));
            examples.turns.push(position.turn());
        }
        let logits = scorer.logits(&examples).unwrap();
        let largest = logits.iter().fold(0.0_f32, |most, logit| most.max(logit.abs()));
        examples.values = logits.iter().map(|logit| (20_000.0 * logit / largest) as i32).collect();
        let men = vec![32; examples.squares.len()];
        assert_eq!(network.description.heads.len(), 1);
        vec![(HeadKind::Value, vec![HeldOut { examples, men, ..HeldOut::default() }])]
    }

    #[test]
    fn integers_are_allowed_where_they_rank_as_well_and_refused_where_they_do_not() {
        if CpuPath::least_exact_in_int8().is_none() {
            board::testing::skip("quantise", "no code path computes in int8 here");
            return;
        }
        let mut network = Network::random(Description::batch_first(&[HeadKind::Value]), 5).unwrap();
        // Labels from int8 itself, which `f32` ranks worse.
        let held_out =
            labelled(&network, &mut EvaluatorScorer::int8(&network, HeadKind::Value, 1).unwrap());
        let costs = quantise(&mut network, &held_out, 1).unwrap();
        assert!(
            matches!(costs[..], [QuantisationCost::Ranking(HeadKind::Value, fall)] if fall < 0.0),
            "{costs:?}"
        );
        assert!(
            network.int8_ranges.is_some() && network.provenance["int8"].contains("200 positions"),
            "{:?}",
            network.provenance
        );

        // A channel a thousand times as large, which the next layer ignores, leaves no precision
        // for the others; then the earlier ranges are removed.
        let weights = network.tensors.get_mut("value.0.branches.0.weight").unwrap();
        let channel = weights.data.len() / weights.shape[0];
        weights.data[..channel].iter_mut().for_each(|weight| *weight *= 1000.0);
        let next = network.tensors.get_mut("value.1.weight").unwrap();
        let inputs = next.shape[1];
        next.data.iter_mut().step_by(inputs).for_each(|weight| *weight = 0.0);
        let held_out =
            labelled(&network, &mut EvaluatorScorer::f32(&network, HeadKind::Value, 1).unwrap());
        let costs = quantise(&mut network, &held_out, 1).unwrap();
        assert!(
            costs.iter().any(|cost| !cost.is_small()) && network.int8_ranges.is_none(),
            "{costs:?}"
        );
        assert!(!network.provenance.contains_key("int8"));

        // A head that was not measured is not allowed int8.
        let heads = [HeadKind::Value, HeadKind::Moves];
        let mut two = Network::random(Description::batch_first(&heads), 5).unwrap();
        let error = quantise(&mut two, &held_out, 1).unwrap_err().to_string();
        assert!(error.contains("moves") && two.int8_ranges.is_none(), "{error}");
    }

    #[test]
    fn nan_is_not_a_small_cost() {
        assert!(!QuantisationCost::Ranking(HeadKind::Value, f64::NAN).is_small());
        assert!(!QuantisationCost::Policy(HeadKind::Moves, f64::NAN).is_small());
        assert!(
            QuantisationCost::Ranking(HeadKind::Value, -0.1).is_small()
                && !QuantisationCost::Policy(HeadKind::Moves, 0.02).is_small()
        );
    }
}
