//! Networks, evaluated in batches without the interpreter's lock.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread,
};

use board::{Game, MoveList, Position};
use engine::{EngineBuilder, EngineOptions, NamedOptions};
use eval::{Batch, Evaluator, Scores};
use nets::{HeadKind, HeadOutput, MoveScores, System, WdlModel, input_planes};
use numpy::{IntoPyArray, PyArray4, PyArrayMethods};
use pyo3::prelude::*;
use search::Search;

use crate::{
    boards::Given,
    evaluation::{Evaluation, MoveLists, Numbers},
    failure::failure,
};

/// Boards a batch: as many as make batches no slower on a processor, and few enough to leave one
/// for each thread of a small call.
const BATCH: usize = 256;

/// Batches that are read ahead of the evaluator.
const READ_AHEAD: usize = 4;

/// A network of ours or of Leela's, and its evaluator.
#[pyclass(frozen, module = "batch_first")]
pub(crate) struct Network {
    network: Arc<nets::Network>,
    answers: Mutex<Answers>,
}

/// Who answers: an evaluator, or for ConvChess's selectors the chooser of moves.
enum Answers {
    Evaluator(Box<dyn Evaluator>),
    Chooser(Box<dyn Search>),
}

#[pymethods]
impl Network {
    #[staticmethod]
    #[pyo3(signature = (path, *, threads=1, device="cpu", precision=None, cpu=None))]
    fn load(
        py: Python<'_>,
        path: PathBuf,
        threads: u64,
        device: &str,
        precision: Option<&str>,
        cpu: Option<&str>,
    ) -> PyResult<Self> {
        let mut named = NamedOptions::default();
        let mut set = |name, value: &str| named.set(name, Some(value)).map_err(failure);
        set("Threads", &threads.to_string())?;
        set("Device", device)?;
        set("Precision", precision.unwrap_or("auto"))?;
        set("CPU", cpu.unwrap_or("auto"))?;
        py.detach(|| Self::over(&path, named.engine)).map_err(failure)
    }

    /// The name in the file.
    #[getter]
    fn name(&self) -> &str {
        &self.network.name
    }

    #[getter]
    fn fingerprint(&self) -> String {
        self.network.fingerprint()
    }

    #[getter]
    fn encoding(&self) -> &'static str {
        self.network.description.encoding.name()
    }

    #[getter]
    fn heads(&self) -> Vec<&'static str> {
        self.network.description.heads.iter().map(|head| head.kind.name()).collect()
    }

    #[getter]
    fn has_history(&self) -> bool {
        self.network.description.encoding.has_history()
    }

    /// Evaluates boards.
    #[pyo3(signature = (boards, *, values=true, moves=true))]
    fn evaluate(
        &self,
        py: Python<'_>,
        boards: &Bound<'_, PyAny>,
        values: bool,
        moves: bool,
    ) -> PyResult<Evaluation> {
        let given = self.given(boards)?;
        let evaluated = py.detach(|| {
            let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
            match &mut *answers {
                Answers::Evaluator(evaluator) => {
                    self.evaluate_all(evaluator.as_mut(), given, values, moves)
                }
                Answers::Chooser(chooser) => choose_all(chooser.as_mut(), given),
            }
        });
        let (numbers, lists) = evaluated.map_err(failure)?;
        Evaluation::new(py, numbers, lists)
    }

    /// The input planes of boards, for an ONNX file of this network.
    fn planes<'py>(
        &self,
        py: Python<'py>,
        boards: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArray4<f32>>> {
        let given = self.given(boards)?;
        let (count, encoding) = (given.len(), self.network.description.encoding);
        let numbers = py.detach(|| {
            let mut batch = Batch::default();
            for (index, given) in given.into_iter().enumerate() {
                batch.push(&position(index, given, self.has_history())?, true, &[]);
            }
            let planes = (0..count).flat_map(|index| input_planes(encoding, &batch.seen(index)));
            Ok::<Vec<f32>, String>(planes.collect())
        });
        let shape = [count, encoding.planes(), 8, 8];
        numbers.map_err(failure)?.into_pyarray(py).reshape(shape)
    }

    /// Writes the network as an ONNX file.
    fn export_onnx(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        py.detach(|| {
            let bytes = nets::onnx_file(&self.network)?;
            let written = board::write_whole(&path, &bytes);
            written.map_err(|error| format!("cannot write `{}`: {error}", path.display()))
        })
        .map_err(failure)
    }

    fn __repr__(&self) -> String {
        format!("Network('{}', heads {})", self.name(), self.heads().join(", "))
    }
}

impl std::fmt::Debug for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Network").field("name", &self.network.name).finish_non_exhaustive()
    }
}

impl Network {
    fn over(path: &std::path::Path, options: EngineOptions) -> Result<Self, String> {
        let text = |error: engine::EngineError| error.to_string();
        let network = Arc::new(engine::load(path).map_err(text)?);
        let has = |kind| network.description.head(kind).is_some();
        let answers = if has(HeadKind::Value) || has(HeadKind::Moves) {
            Answers::Evaluator(engine::evaluator(&network, &options).map_err(text)?)
        } else {
            let builder = EngineBuilder::over(Arc::clone(&network), System::ConvChess, options);
            Answers::Chooser(builder.build().map_err(text)?.search)
        };
        Ok(Self { network, answers: Mutex::new(answers) })
    }

    fn given(&self, boards: &Bound<'_, PyAny>) -> PyResult<Vec<Given>> {
        let with_moves = self.has_history();
        boards.try_iter()?.map(|board| Given::of(&board?, with_moves)).collect()
    }

    /// Values and moves of boards, in batches, several in flight where there are several threads.
    fn evaluate_all(
        &self,
        evaluator: &mut dyn Evaluator,
        given: Vec<Given>,
        values: bool,
        moves: bool,
    ) -> Result<(Numbers, MoveLists), String> {
        let has = |kind| self.network.description.head(kind).is_some();
        let (values, moves) = (values && has(HeadKind::Value), moves && has(HeadKind::Moves));
        let mut answers = Scores::default();
        let lists = self.submit_all(evaluator, given, (values, moves), &mut answers);
        // Nothing may stay in flight, whatever failed: the next call would get its answers.
        while evaluator.in_flight() > 0 {
            receive(evaluator, &mut answers)?;
        }
        let lists = lists?;
        let Scores { values: centipawns, moves: scores } = answers;
        let mut numbers = Numbers::default();
        if values {
            numbers.wdl = chances_of(&self.network.calibration.wdl, &centipawns);
            numbers.centipawns = Some(centipawns);
        }
        if moves && self.network.calibration.move_scores == MoveScores::Policy {
            numbers.chances = Some(self.chances(scores, &lists.offsets));
        } else if moves {
            numbers.move_centipawns = Some(scores);
        }
        Ok((numbers, lists))
    }

    /// Submits all boards. Those of a long list are read in a thread of their own, while others are
    /// evaluated.
    fn submit_all(
        &self,
        evaluator: &mut dyn Evaluator,
        given: Vec<Given>,
        asked: (bool, bool),
        answers: &mut Scores,
    ) -> Result<MoveLists, String> {
        let stream = evaluator.preferred_stream();
        let size = BATCH.max(stream.batch).min(evaluator.largest_batch());
        let (is_long, with_history) = (given.len() > size, self.has_history());
        let mut reader = Reader { given: given.into_iter().enumerate(), size, asked, with_history };
        let mut lists = MoveLists { offsets: vec![0], ..MoveLists::default() };
        let mut submit = |read: Result<(Batch, MoveLists), String>| {
            let (batch, read) = read?;
            lists.append(read);
            while evaluator.in_flight() >= stream.in_flight.max(1) {
                receive(evaluator, answers)?;
            }
            evaluator.submit(batch).map_err(|error| error.to_string())
        };
        if is_long {
            thread::scope(|scope| {
                let (sender, receiver) = mpsc::sync_channel(READ_AHEAD);
                // A send fails when an error has ended the loop below.
                scope.spawn(move || reader.all(|read| sender.send(read).is_ok()));
                receiver.into_iter().try_for_each(&mut submit)
            })?;
        } else {
            reader.try_for_each(&mut submit)?;
        }
        Ok(lists)
    }

    /// A softmax over the moves of each board.
    fn chances(&self, mut scores: Vec<f32>, offsets: &[i64]) -> Vec<f32> {
        let head = self.network.description.head(HeadKind::Moves);
        let is_plain = head.is_none_or(|head| head.output == HeadOutput::Plain);
        // The chances of Leela's policies are those of its logits; the calibration softens them for
        // searches.
        let map = &self.network.calibration.moves;
        let factor = match (map.inputs.as_slice(), map.outputs.as_slice()) {
            (&[x0, .., x1], &[y0, .., y1]) if !is_plain => (x1 - x0) / (y1 - y0),
            _ => 1.0,
        };
        for bounds in offsets.windows(2) {
            let own = &mut scores[bounds[0] as usize..bounds[1] as usize];
            let most = own.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let mut sum = 0.0;
            for score in own.iter_mut() {
                *score = (factor * (*score - most)).exp();
                sum += *score;
            }
            own.iter_mut().for_each(|score| *score /= sum);
        }
        scores
    }
}

/// Reads boards into batches, with the moves of each.
struct Reader {
    given: std::iter::Enumerate<std::vec::IntoIter<Given>>,
    size: usize,
    /// Are values asked for, and moves?
    asked: (bool, bool),
    with_history: bool,
}

impl Iterator for Reader {
    type Item = Result<(Batch, MoveLists), String>;

    fn next(&mut self) -> Option<Self::Item> {
        let (values, moves) = self.asked;
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
        (!batch.is_empty()).then_some(Ok((batch, lists)))
    }
}

/// Takes the oldest batch.
fn receive(evaluator: &mut dyn Evaluator, answers: &mut Scores) -> Result<(), String> {
    let scores = evaluator.wait().map_err(|error| error.to_string())?.scores;
    answers.values.extend(scores.values);
    answers.moves.extend(scores.moves);
    Ok(())
}

/// The chances of moves by selectors, one board after the other.
fn choose_all(chooser: &mut dyn Search, given: Vec<Given>) -> Result<(Numbers, MoveLists), String> {
    let mut lists = MoveLists { offsets: vec![0], ..MoveLists::default() };
    let mut chances = Vec::new();
    for (index, given) in given.into_iter().enumerate() {
        let position = position(index, given, false)?;
        let mode = position.castling_mode();
        let found = chooser.chances(&Game::new(position));
        let found = found.unwrap_or_else(|| Ok(Vec::new())).map_err(|error| error.to_string())?;
        let (moves, own): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        lists.push(&moves, mode);
        chances.extend(own);
    }
    Ok((Numbers { chances: Some(chances), ..Numbers::default() }, lists))
}

/// The position of a board of a list.
fn position(index: usize, given: Given, with_history: bool) -> Result<Position, String> {
    given.position(with_history).map_err(|reason| format!("board {index}: {reason}"))
}

/// Win, draw and loss of each value in centipawns.
fn chances_of(model: &WdlModel, centipawns: &[f32]) -> Vec<f32> {
    let win = |score: f32| 1.0 / (1.0 + ((model.offset - score) / model.scale).exp());
    let all = centipawns.iter().flat_map(|&score| {
        let (win, loss) = (win(score), win(-score));
        [win, (1.0 - win - loss).max(0.0), loss]
    });
    all.collect()
}
