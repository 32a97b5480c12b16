//! Validates a network on held-out positions: rank correlations by source, with and without mates,
//! and by game phase.

use data::MATE_LABEL;
use nets::{HeadKind, MoveScores, PolicyIndex, Squares};

use crate::{
    Agreement, GamePhase, HeldOut, RankCorrelations, Scorer, TrainError, ValidationMetrics,
    pairs::ordinal_loss, played::legal_indices,
};

/// Computes the metrics of one source from its logits.
#[must_use]
pub fn measure(held_out: &HeldOut, head: HeadKind, logits: &[f32]) -> ValidationMetrics {
    let labels = held_out.examples.labels(head);
    let mut loss = 0.0;
    let chunks = labels.chunks(1024).zip(logits.chunks(1024));
    for (labels, logits) in chunks {
        loss += ordinal_loss(labels, logits) * labels.len() as f64;
    }
    let rank = |keep: &dyn Fn(usize) -> bool| {
        let kept: Vec<usize> =
            (0..labels.len()).filter(|&index| keep(index) && logits[index].is_finite()).collect();
        let labels: Vec<f64> = kept.iter().map(|&index| f64::from(labels[index])).collect();
        let logits: Vec<f64> = kept.iter().map(|&index| f64::from(logits[index])).collect();
        RankCorrelations::of(&labels, &logits)
    };
    let no_mate = |index: usize| labels[index].abs() < MATE_LABEL;
    ValidationMetrics {
        source: held_out.source.clone(),
        head: Some(head),
        loss: loss / labels.len().max(1) as f64,
        ranking: rank(&no_mate),
        with_mates: rank(&|_| true),
        phases: GamePhase::ALL
            .map(|phase| {
                rank(&|index| no_mate(index) && GamePhase::of(held_out.men[index]) == phase)
            })
            .to_vec(),
        agreement: None,
    }
}

/// Computes the metrics of every source. For a move head that scores in centipawns, `agreement`
/// positions of each source are used to rank all legal moves; a policy ranks them on all positions.
///
/// # Errors
/// The device failed.
pub fn validate(
    scorer: &mut dyn Scorer,
    head: HeadKind,
    scores: MoveScores,
    sources: &[HeldOut],
    agreement: usize,
) -> Result<Vec<ValidationMetrics>, TrainError> {
    let mut all = Vec::with_capacity(sources.len());
    for source in sources {
        if head.is_selector() || (head == HeadKind::Moves && scores == MoveScores::Policy) {
            let agreement = match head {
                HeadKind::Moves => move_agreement(scorer, source, scores)?,
                _ => selector_agreement(scorer, source, head)?,
            };
            let loss = agreement.cross_entropy.unwrap_or(f64::NAN);
            let (source, agreement) = (source.source.clone(), Some(agreement));
            all.push(ValidationMetrics {
                source,
                head: Some(head),
                loss,
                agreement,
                ..ValidationMetrics::default()
            });
            continue;
        }
        let logits = scorer.logits(&source.examples)?;
        let mut measures = measure(source, head, &logits);
        if head == HeadKind::Moves && agreement > 0 {
            measures.agreement = Some(move_agreement(scorer, &source.sample(agreement), scores)?);
        }
        all.push(measures);
    }
    Ok(all)
}

/// The legal moves of each position by output index; empty for a position that cannot be rebuilt.
#[must_use]
pub fn legal_moves(held_out: &HeldOut) -> Vec<Vec<PolicyIndex>> {
    held_out.examples.squares.iter().map(legal_indices).collect()
}

/// Ranks all legal moves of each position and counts how often the played one is first or in the
/// first three. Positions with fewer than two legal moves are skipped.
fn move_agreement(
    scorer: &mut dyn Scorer,
    held_out: &HeldOut,
    scores: MoveScores,
) -> Result<Agreement, TrainError> {
    let moves = legal_moves(held_out);
    let logits = scorer.move_logits(&held_out.examples.squares, &moves)?;
    let (mut positions, mut first, mut third) = (0_usize, 0_usize, 0_usize);
    let (mut sum, mut weights) = (0.0, 0.0);
    let mut choices = HeadKind::SELECTORS.map(|head| (head, 0_usize, 0_usize));
    for (position, ((moves, logits), played)) in
        moves.iter().zip(&logits).zip(&held_out.examples.moves).enumerate()
    {
        let Some(index) = moves.iter().position(|mv| mv == played) else { continue };
        if moves.len() < 2 {
            continue;
        }
        if scores == MoveScores::Policy {
            for (head, count, right) in &mut choices {
                let squares = &held_out.examples.squares[position];
                if let Some(is_first) = ranks_target_first(*head, squares, moves, logits, *played) {
                    *count += 1;
                    *right += usize::from(is_first);
                }
            }
        }
        let better = logits.iter().filter(|&&logit| logit > logits[index]).count();
        positions += 1;
        first += usize::from(better < 1);
        third += usize::from(better < 3);
        let weight = f64::from(held_out.examples.weights.get(position).copied().unwrap_or(1.0));
        sum += weight * cross_entropy(logits, index, 1.0);
        weights += weight;
    }
    let share = |count: usize| count as f64 / positions.max(1) as f64;
    let cross_entropy = (scores == MoveScores::Policy && weights > 0.0).then(|| sum / weights);
    let (top_1, top_3) = (share(first), share(third));
    let choices = choices.into_iter().filter(|(_, count, _)| *count > 0);
    let choices =
        choices.map(|(head, count, right)| (head, count, right as f64 / count as f64)).collect();
    Ok(Agreement { positions, top_1, top_3, cross_entropy, choices, ..Agreement::default() })
}

/// True when a policy's summed probabilities are highest for the target square of this selector;
/// `None` when the played move has no target for it.
fn ranks_target_first(
    head: HeadKind,
    squares: &Squares,
    moves: &[PolicyIndex],
    logits: &[f32],
    played: PolicyIndex,
) -> Option<bool> {
    let target = usize::from(head.target(squares, played)?);
    let highest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut chances = [0.0_f32; 64];
    for (&mv, logit) in moves.iter().zip(logits) {
        if let Some(square) = head.target(squares, mv) {
            chances[usize::from(square)] += (logit - highest).exp();
        }
    }
    Some(chances.iter().all(|&chance| chance <= chances[target]))
}

/// Counts how often the target square is first among all 64 squares, and among the squares of legal
/// moves.
fn selector_agreement(
    scorer: &mut dyn Scorer,
    held_out: &HeldOut,
    head: HeadKind,
) -> Result<Agreement, TrainError> {
    let (positions, examples) = (held_out.len(), &held_out.examples);
    let logits = scorer.logits(examples)?;
    if logits.len() != 64 * positions || examples.targets.len() != positions {
        return Err(TrainError::Backend(
            "a selector needs 64 outputs and a square a position".to_owned(),
        ));
    }
    let (mut first, mut third, mut legal, mut unseen, mut unseen_first) = (0, 0, 0, 0, 0);
    let mut sum = 0.0;
    for (index, logits) in logits.chunks_exact(64).enumerate() {
        let squares = &examples.squares[index];
        let target = usize::from(examples.targets[index]);
        let better = logits.iter().filter(|&&logit| logit > logits[target]).count();
        let mut is_legal = [false; 64];
        for mv in legal_indices(squares) {
            if let Some(square) = head.target(squares, mv) {
                is_legal[usize::from(square)] = true;
            }
        }
        let better_legal =
            (0..64).any(|square| is_legal[square] && logits[square] > logits[target]);
        first += usize::from(better < 1);
        third += usize::from(better < 3);
        legal += usize::from(!better_legal);
        if !held_out.seen.get(index).copied().unwrap_or(false) {
            unseen += 1;
            unseen_first += usize::from(better < 1);
        }
        sum += cross_entropy(logits, target, 1.0);
    }
    let share = |count: usize, of: usize| count as f64 / of.max(1) as f64;
    Ok(Agreement {
        positions,
        top_1: share(first, positions),
        top_3: share(third, positions),
        cross_entropy: (positions > 0).then(|| sum / positions as f64),
        legal: Some(share(legal, positions)),
        unseen: Some((unseen, share(unseen_first, unseen))),
        choices: Vec::new(),
    })
}

/// Negative logarithm of the chance that a softmax over `logits` times `scale` gives to number
/// `index`.
pub(crate) fn cross_entropy(logits: &[f32], index: usize, scale: f64) -> f64 {
    let own = f64::from(logits[index]);
    logits.iter().map(|&logit| (scale * (f64::from(logit) - own)).exp()).sum::<f64>().ln()
}

#[cfg(test)]
mod tests {
    use data::GameResult;

    use super::*;
    use crate::Examples;

    #[test]
    fn measures_leave_mates_out_and_split_phases() {
        let count = 30;
        let mut held_out = HeldOut { source: "test".to_owned(), ..HeldOut::default() };
        let mut logits = Vec::new();
        for index in 0..count {
            held_out.examples.squares.push(Squares::default());
            held_out.examples.values.push(if index == 0 { -109_999 } else { index * 10 });
            // The mate is the only misplaced position.
            logits.push(if index == 0 { 1e3 } else { index as f32 });
            held_out.men.push(if index < 10 { 32 } else { 10 });
            held_out.results.push(GameResult::Unknown);
            held_out.white_to_move.push(true);
        }
        let measures = measure(&held_out, HeadKind::Value, &logits);
        assert_eq!(measures.ranking.positions, 29);
        assert!((measures.ranking.tau_b - 1.0).abs() < 1e-12);
        assert!(measures.with_mates.tau_b < 0.9 && measures.with_mates.positions == 30);
        let sizes: Vec<usize> = measures.phases.iter().map(|phase| phase.positions).collect();
        assert_eq!(sizes, [9, 0, 20]);
        assert!(measures.phases[1].tau_b.is_nan());
        let text = serde_json::to_string(&measures).unwrap();
        let back: ValidationMetrics = serde_json::from_str(&text).unwrap();
        assert!(back.phases[1].tau_b.is_nan() && back.ranking == measures.ranking);
        assert_eq!(held_out.sample(7).len(), 7);
    }

    /// Scores moves by their index.
    struct ByIndex;
    impl Scorer for ByIndex {
        fn logits(&mut self, examples: &Examples) -> Result<Vec<f32>, TrainError> {
            Ok(examples.moves.iter().map(|&mv| f32::from(mv)).collect())
        }
    }

    #[test]
    fn agreement_counts_legal_moves_only() {
        let start = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR b KQkq - 0 1";
        let position = board::Position::from_fen(start, board::CastlingMode::Standard).unwrap();
        let mut indices: Vec<PolicyIndex> = position
            .legal_moves()
            .into_iter()
            .map(|mv| nets::policy_index(mv, position.turn()))
            .collect();
        indices.sort_unstable();
        let mut held_out = HeldOut::default();
        for played in [indices[19], indices[18], indices[0], u16::MAX] {
            held_out.examples.squares.push(Squares::of(&position));
            held_out.examples.move_values.push(0);
            held_out.examples.moves.push(played);
            held_out.men.push(32);
            held_out.results.push(GameResult::Draw);
            held_out.white_to_move.push(false);
        }
        let agreement = move_agreement(&mut ByIndex, &held_out, MoveScores::Policy).unwrap();
        assert_eq!(agreement.positions, 3);
        assert!(
            (agreement.top_1 - 1.0 / 3.0).abs() < 1e-12
                && (agreement.top_3 - 2.0 / 3.0).abs() < 1e-12
        );
    }
}
