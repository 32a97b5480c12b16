//! Computes raw outputs of a network for validation and calibration, with a training backend or
//! with the evaluator that plays.

use std::sync::Arc;

use board::Color;
use eval::{
    Batch, Evaluator, Precision, Query, Scores,
    cpu::{CpuEvaluator, CpuLogits, CpuOptions, CpuPath},
};
use nets::{Calibration, HeadKind, Network, PolicyIndex, Squares};

use crate::{Backend, Examples, TrainError};

/// Computes raw outputs of one head for validation and calibration.
pub trait Scorer {
    /// The outputs of `examples`: one for each position, for a move head that of the position's
    /// single move; for a selector 64.
    ///
    /// # Errors
    /// The device failed.
    fn logits(&mut self, examples: &Examples) -> Result<Vec<f32>, TrainError>;

    /// For a move head: the outputs of each position's moves.
    ///
    /// # Errors
    /// The device failed.
    fn move_logits(
        &mut self,
        squares: &[Squares],
        moves: &[Vec<PolicyIndex>],
    ) -> Result<Vec<Vec<f32>>, TrainError> {
        let mut flat = Examples::default();
        for (squares, moves) in squares.iter().zip(moves) {
            flat.squares.extend(std::iter::repeat_n(*squares, moves.len()));
            flat.moves.extend(moves);
        }
        let logits = self.logits(&flat)?;
        let mut rest = logits.as_slice();
        let mut answer = Vec::with_capacity(moves.len());
        for moves in moves {
            let (these, others) = rest
                .split_at_checked(moves.len())
                .ok_or_else(|| TrainError::Backend("too few outputs came back".to_owned()))?;
            answer.push(these.to_vec());
            rest = others;
        }
        Ok(answer)
    }
}

/// A scorer that uses a training backend, in batches of `batch` positions.
pub struct BackendScorer {
    pub backend: Box<dyn Backend>,
    pub head: HeadKind,
    pub batch: usize,
}

impl std::fmt::Debug for BackendScorer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "BackendScorer({}, {})", self.backend.describe(), self.batch)
    }
}

impl Scorer for BackendScorer {
    fn logits(&mut self, examples: &Examples) -> Result<Vec<f32>, TrainError> {
        let mut logits = Vec::with_capacity(examples.squares.len());
        let batch = self.batch.max(1);
        for first in (0..examples.squares.len()).step_by(batch) {
            let range = first..(first + batch).min(examples.squares.len());
            let part = Examples {
                squares: examples.squares[range.clone()].to_vec(),
                turns: examples.turns.get(range.clone()).map(<[_]>::to_vec).unwrap_or_default(),
                moves: examples.moves.get(range).map(<[_]>::to_vec).unwrap_or_default(),
                ..Examples::default()
            };
            logits.extend(self.backend.logits(self.head, &part)?);
        }
        Ok(logits)
    }
}

/// A scorer that uses the evaluator that plays, with an identity calibration so that it returns
/// logits. It has the arithmetic of play and is much faster than a training backend.
pub struct EvaluatorScorer {
    evaluator: Box<dyn Evaluator>,
}

impl std::fmt::Debug for EvaluatorScorer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "EvaluatorScorer({})", self.evaluator.describe())
    }
}

fn device(error: impl std::fmt::Display) -> TrainError {
    TrainError::Backend(error.to_string())
}

impl EvaluatorScorer {
    /// A scorer for this head of `network` on the CPU, in the CPU's default format other than int8.
    ///
    /// # Errors
    /// The network has no such head, or the evaluator cannot run it.
    pub fn new(network: &Network, head: HeadKind, threads: usize) -> Result<Self, TrainError> {
        let exact = Network { int8_ranges: None, ..network.clone() };
        Self::with(exact, head, CpuOptions { threads: threads.max(1), ..CpuOptions::default() })
    }

    /// A scorer in single precision.
    ///
    /// # Errors
    /// As [`EvaluatorScorer::new`].
    pub(crate) fn f32(
        network: &Network,
        head: HeadKind,
        threads: usize,
    ) -> Result<Self, TrainError> {
        let (path, precision) = (None, Some(Precision::F32));
        Self::with(network.clone(), head, CpuOptions { threads: threads.max(1), path, precision })
    }

    /// A scorer in int8 on the machine's least exact code path: AVX2, where weights have fewer than
    /// eight bits, or else NEON.
    ///
    /// # Errors
    /// As [`EvaluatorScorer::new`].
    pub(crate) fn int8(
        network: &Network,
        head: HeadKind,
        threads: usize,
    ) -> Result<Self, TrainError> {
        let (path, precision) = (CpuPath::least_exact_in_int8(), Some(Precision::Int8));
        Self::with(network.clone(), head, CpuOptions { threads: threads.max(1), path, precision })
    }

    fn with(network: Network, head: HeadKind, options: CpuOptions) -> Result<Self, TrainError> {
        if network.description.head(head).is_none() {
            let reason = format!("the network `{}` has no {} head", network.name, head.name());
            return Err(TrainError::Config(reason));
        }
        // The default calibration is the identity over a range that contains every logit.
        let bare = Network { calibration: Calibration::default(), ..network };
        let evaluator = CpuEvaluator::new(Arc::new(bare), options).map_err(device)?;
        Ok(Self { evaluator: Box::new(evaluator) })
    }

    /// Evaluates positions in batches, each with its moves (none: its value), and passes the scores
    /// of each to `receive` in order.
    fn evaluate<'a>(
        &mut self,
        positions: impl Iterator<Item = (&'a Squares, Color, &'a [PolicyIndex])>,
        mut receive: impl FnMut(&Query, &Scores),
    ) -> Result<(), TrainError> {
        let most = self.evaluator.preferred_batch().max(1024).min(self.evaluator.largest_batch());
        let mut positions = positions.peekable();
        while positions.peek().is_some() {
            let mut batch = Batch::default();
            for (key, (squares, turn, moves)) in positions.by_ref().take(most).enumerate() {
                let query = Query::of_board(key as u64, *squares, turn, moves.is_empty());
                batch.push_query(&query, moves, &[]);
            }
            let answered = self.evaluator.evaluate(batch).map_err(device)?;
            for (index, query) in answered.batch.queries.iter().enumerate() {
                let values = answered.scores.values.get(index).copied().into_iter().collect();
                let moves =
                    answered.scores.moves.get(query.move_range()).unwrap_or_default().to_vec();
                receive(query, &Scores { values, moves });
            }
        }
        Ok(())
    }
}

impl Scorer for EvaluatorScorer {
    fn logits(&mut self, examples: &Examples) -> Result<Vec<f32>, TrainError> {
        let mut logits = Vec::with_capacity(examples.squares.len());
        let moves = examples.moves.chunks(1).chain(std::iter::repeat(&[][..]));
        let positions = examples.squares.iter().enumerate().zip(moves);
        let positions =
            positions.map(|((index, squares), moves)| (squares, examples.turn(index), moves));
        self.evaluate(positions, |query, scores| {
            let scores = if query.value { &scores.values } else { &scores.moves };
            logits.extend(scores.first());
        })?;
        Ok(logits)
    }

    fn move_logits(
        &mut self,
        squares: &[Squares],
        moves: &[Vec<PolicyIndex>],
    ) -> Result<Vec<Vec<f32>>, TrainError> {
        let mut logits = Vec::with_capacity(squares.len());
        let positions = squares.iter().zip(moves).filter(|(_, moves)| !moves.is_empty());
        // Move heads use encodings from the mover's side, so the mover can be White.
        let positions = positions.map(|(squares, moves)| (squares, Color::White, moves.as_slice()));
        self.evaluate(positions, |_, scores| {
            logits.push(scores.moves.clone());
        })?;
        let mut logits = logits.into_iter();
        Ok(moves
            .iter()
            .map(
                |moves| {
                    if moves.is_empty() { Vec::new() } else { logits.next().unwrap_or_default() }
                },
            )
            .collect())
    }
}

/// A scorer for a selector head on the evaluator that plays.
#[derive(Debug)]
pub struct SelectorScorer {
    logits: CpuLogits,
    head: HeadKind,
}

impl SelectorScorer {
    /// A scorer for this head of `network` on the CPU.
    ///
    /// # Errors
    /// The evaluator cannot run the network.
    pub fn new(network: &Network, head: HeadKind) -> Result<Self, TrainError> {
        let logits =
            CpuLogits::new(Arc::new(network.clone()), CpuOptions::default()).map_err(device)?;
        Ok(Self { logits, head })
    }
}

impl Scorer for SelectorScorer {
    fn logits(&mut self, examples: &Examples) -> Result<Vec<f32>, TrainError> {
        let mut logits = Vec::with_capacity(examples.squares.len() * self.head.outputs());
        let boards = examples.squares.iter().enumerate();
        let boards: Vec<_> =
            boards.map(|(index, squares)| (*squares, examples.turn(index))).collect();
        for boards in boards.chunks(1024) {
            logits.extend(self.logits.logits(boards, self.head).map_err(device)?);
        }
        Ok(logits)
    }
}

#[cfg(test)]
mod tests {
    use nets::Description;

    use super::*;

    #[test]
    fn the_evaluator_answers_with_the_logits_of_the_reference() {
        let start = "r1bqkbnr/pppp1ppp/2n5/4p3/4P3/5N2/PPPP1PPP/RNBQKB1R w KQkq - 2 3";
        let position = board::Position::from_fen(start, board::CastlingMode::Standard).unwrap();
        let network =
            Network::random(Description::batch_first(&[HeadKind::Value, HeadKind::Moves]), 4)
                .unwrap();
        let squares = Squares::of(&position);
        let truth = eval::reference::run(&network, &squares, Color::White).unwrap();
        let near = |ours: f32, theirs: f32| {
            assert!((ours - theirs).abs() < 0.05 * theirs.abs().max(1.0), "{ours} {theirs}");
        };

        let mut scorer = EvaluatorScorer::new(&network, HeadKind::Value, 1).unwrap();
        let examples = Examples { squares: vec![squares; 3], ..Examples::default() };
        let values = scorer.logits(&examples).unwrap();
        assert_eq!(values.len(), 3);
        near(values[2], truth[&HeadKind::Value][0]);

        let mut scorer = EvaluatorScorer::new(&network, HeadKind::Moves, 1).unwrap();
        let legal: Vec<PolicyIndex> = position
            .legal_moves()
            .into_iter()
            .map(|mv| nets::policy_index(mv, position.turn()))
            .collect();
        let all = &truth[&HeadKind::Moves];
        let lists = [legal.clone(), Vec::new(), legal[..2].to_vec()];
        let answers = scorer.move_logits(&[squares; 3], &lists).unwrap();
        assert_eq!(answers.iter().map(Vec::len).collect::<Vec<_>>(), [legal.len(), 0, 2]);
        for (answer, index) in answers[0].iter().zip(&legal) {
            near(*answer, all[usize::from(*index)]);
        }
        let examples = Examples {
            squares: vec![squares; 2],
            moves: legal[3..5].to_vec(),
            ..Examples::default()
        };
        let played = scorer.logits(&examples).unwrap();
        assert!(played == answers[0][3..5]);
        assert!(
            EvaluatorScorer::new(
                &Network::random(Description::batch_first(&[HeadKind::Value]), 1).unwrap(),
                HeadKind::Moves,
                1
            )
            .is_err()
        );
    }
}
