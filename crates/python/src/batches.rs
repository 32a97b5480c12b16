//! Many boards in batches, so that the evaluator never waits: of a long list one thread reads the
//! boards, the caller's evaluates them, and one makes chances of the scores.

use std::{collections::VecDeque, sync::mpsc, thread};

use board::{MoveList, Position};
use eval::{Batch, Evaluator, Scores};
use nets::{HeadKind, HeadOutput, MoveScores, Network, WdlModel};

use crate::{
    boards::Given,
    evaluation::{MoveLists, Numbers},
};

/// Boards of the first batch of a long list: few, so that the evaluator begins at once. Each batch
/// after it has twice as many as the one before, because handing one over wakes a thread.
const FIRST_BATCH: usize = 64;

/// Boards of a batch of a list that is not long, and the fewest that batches grow to.
const BATCH: usize = 256;

/// The most boards that batches on a processor grow to.
const LARGE_BATCH: usize = 1024;

/// Batches grow only so far that a list makes at least this many, so that several threads have work.
const LARGE_BATCHES: usize = 16;

/// Batches that are read ahead of the evaluator. Each time that a full list lets the reader sleep
/// costs the evaluator a system call.
const READ_AHEAD: usize = 32;

/// What is asked about each board, as far as the network has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub values: bool,
    pub moves: bool,
}

/// Values and moves of boards, several batches in flight where there are several threads.
///
/// # Errors
/// A board cannot be read, or the evaluator failed.
pub(crate) fn evaluate_all(
    network: &Network,
    evaluator: &mut dyn Evaluator,
    given: &[Given],
    asked: Asked,
) -> Result<(Numbers, MoveLists), String> {
    let has = |kind| network.description.head(kind).is_some();
    let asked = Asked {
        values: asked.values && has(HeadKind::Value),
        moves: asked.moves && has(HeadKind::Moves),
    };
    let count = given.len();
    let fitting =
        |size: usize| size.max(evaluator.preferred_stream().batch).min(evaluator.largest_batch());
    let is_long = count > fitting(BATCH);
    let mut reader = Reader {
        given: given.iter().enumerate(),
        size: fitting(if is_long { FIRST_BATCH } else { BATCH }),
        most: fitting((count / LARGE_BATCHES).clamp(BATCH, LARGE_BATCH)),
        asked,
        with_history: network.description.encoding.has_history(),
    };
    let mut answers = Answers::new(network, asked, count);
    if is_long {
        thread::scope(|scope| {
            let (sender, batches) = mpsc::sync_channel(READ_AHEAD);
            // A send fails when an error has ended the evaluation.
            scope.spawn(move || reader.all(|read| sender.send(read).is_ok()));
            let (done, parts) = mpsc::channel();
            let answers = &mut answers;
            scope.spawn(move || {
                parts.into_iter().for_each(|(scores, lists)| answers.add(scores, lists))
            });
            // The sender lives as long as this call; so does the receiver, until it has everything.
            submit_all(evaluator, batches.into_iter(), |scores, lists| {
                let _ = done.send((scores, lists));
            })
        })?;
    } else {
        submit_all(evaluator, reader, |scores, lists| answers.add(scores, lists))?;
    }
    Ok(answers.finish())
}

/// Evaluates batches in order and hands on the scores of each with its moves.
fn submit_all(
    evaluator: &mut dyn Evaluator,
    batches: impl Iterator<Item = Result<(Batch, MoveLists), String>>,
    mut add: impl FnMut(Scores, MoveLists),
) -> Result<(), String> {
    let in_flight = evaluator.preferred_stream().in_flight.max(1);
    let mut waiting = VecDeque::new();
    let mut receive = |evaluator: &mut dyn Evaluator, waiting: &mut VecDeque<MoveLists>| {
        // A batch that fails is no longer in flight, so its moves go too.
        let lists = waiting.pop_front().unwrap_or_default();
        let scores = evaluator.wait().map_err(|error| error.to_string())?.scores;
        add(scores, lists);
        Ok::<(), String>(())
    };
    let mut submit = |read: Result<(Batch, MoveLists), String>| {
        let (batch, lists) = read?;
        while evaluator.in_flight() >= in_flight {
            receive(evaluator, &mut waiting)?;
        }
        evaluator.submit(batch).map_err(|error| error.to_string())?;
        waiting.push_back(lists);
        Ok(())
    };
    let mut done = batches.into_iter().try_for_each(&mut submit);
    // Nothing may stay in flight, whatever failed: the next call would get its answers.
    while evaluator.in_flight() > 0 {
        done = done.and(receive(evaluator, &mut waiting));
    }
    done
}

/// Reads boards into batches, with the moves of each.
struct Reader<'a> {
    given: std::iter::Enumerate<std::slice::Iter<'a, Given>>,
    /// Boards of the next batch, and of the largest.
    size: usize,
    most: usize,
    asked: Asked,
    with_history: bool,
}

impl Iterator for Reader<'_> {
    type Item = Result<(Batch, MoveLists), String>;

    fn next(&mut self) -> Option<Self::Item> {
        let Asked { values, moves } = self.asked;
        let (mut batch, mut lists) = (Batch::default(), MoveLists::default());
        for (index, given) in self.given.by_ref().take(self.size) {
            let position = match position(index, given, self.with_history) {
                Ok(position) => position,
                Err(reason) => return Some(Err(reason)),
            };
            let legal = if moves { position.legal_moves() } else { MoveList::new() };
            batch.push(&position, values, &legal);
            lists.push(&legal, position.castling_mode());
        }
        self.size = (2 * self.size).min(self.most);
        (!batch.is_empty()).then_some(Ok((batch, lists)))
    }
}

/// The position of a board of a list.
///
/// # Errors
/// It is not a position; the sentence has its place in the list.
pub(crate) fn position(
    index: usize,
    given: &Given,
    with_history: bool,
) -> Result<Position, String> {
    given.position(with_history).map_err(|reason| format!("board {index}: {reason}"))
}

/// The numbers of all boards, part by part.
struct Answers<'a> {
    asked: Asked,
    wdl_model: &'a WdlModel,
    /// The factor of scores whose softmax are the chances; `None`: scores are centipawns.
    factor: Option<f32>,
    centipawns: Vec<f32>,
    wdl: Vec<f32>,
    /// Chances or centipawns of the moves.
    moves: Vec<f32>,
    lists: MoveLists,
}

impl<'a> Answers<'a> {
    fn new(network: &'a Network, asked: Asked, count: usize) -> Self {
        let calibration = &network.calibration;
        let of_values = if asked.values { count } else { 0 };
        Self {
            asked,
            wdl_model: &calibration.wdl,
            factor: (calibration.move_scores == MoveScores::Policy).then(|| factor_of(network)),
            centipawns: Vec::with_capacity(of_values),
            wdl: Vec::with_capacity(3 * of_values),
            moves: Vec::new(),
            lists: MoveLists { offsets: vec![0], ..MoveLists::default() },
        }
    }

    /// Adds the next boards.
    fn add(&mut self, mut scores: Scores, lists: MoveLists) {
        if self.asked.values {
            self.wdl
                .extend(scores.values.iter().flat_map(|&score| chances_of(self.wdl_model, score)));
            self.centipawns.append(&mut scores.values);
        }
        if let Some(factor) = self.factor {
            let mut rest = scores.moves.as_mut_slice();
            let mut first = 0;
            for &end in &lists.offsets {
                let (own, others) = rest.split_at_mut((end - first) as usize);
                softmax(own, factor);
                (rest, first) = (others, end);
            }
        }
        self.moves.append(&mut scores.moves);
        self.lists.append(lists);
    }

    fn finish(self) -> (Numbers, MoveLists) {
        let mut numbers = Numbers::default();
        if self.asked.values {
            numbers.centipawns = Some(self.centipawns);
            numbers.wdl = self.wdl;
        }
        if self.asked.moves {
            match self.factor {
                Some(_) => numbers.chances = Some(self.moves),
                None => numbers.move_centipawns = Some(self.moves),
            }
        }
        (numbers, self.lists)
    }
}

/// The factor of a network's move scores. The chances of Leela's policies are those of its logits;
/// the calibration softens them for searches.
fn factor_of(network: &Network) -> f32 {
    let head = network.description.head(HeadKind::Moves);
    let is_plain = head.is_none_or(|head| head.output == HeadOutput::Plain);
    let map = &network.calibration.moves;
    match (map.inputs.as_slice(), map.outputs.as_slice()) {
        (&[x0, .., x1], &[y0, .., y1]) if !is_plain => (x1 - x0) / (y1 - y0),
        _ => 1.0,
    }
}

/// The softmax of the scores of a board's moves, times `factor`.
fn softmax(scores: &mut [f32], factor: f32) {
    let most = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0;
    for score in scores.iter_mut() {
        *score = (factor * (*score - most)).exp();
        sum += *score;
    }
    scores.iter_mut().for_each(|score| *score /= sum);
}

/// Win, draw and loss of a value in centipawns.
fn chances_of(model: &WdlModel, centipawns: f32) -> [f32; 3] {
    let win = |score: f32| 1.0 / (1.0 + ((model.offset - score) / model.scale).exp());
    let (win, loss) = (win(centipawns), win(-centipawns));
    [win, (1.0 - win - loss).max(0.0), loss]
}
