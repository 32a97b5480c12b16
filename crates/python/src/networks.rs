//! Networks, evaluated in batches without the interpreter's lock.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use board::Game;
use engine::{EngineBuilder, EngineOptions, NamedOptions};
use eval::{Batch, Evaluator};
use nets::{HeadKind, System, input_planes};
use numpy::{IntoPyArray, PyArray4, PyArrayMethods};
use pyo3::prelude::*;
use search::Search;

use crate::{
    batches::{Asked, evaluate_all, position},
    boards::Given,
    evaluation::{Evaluation, MoveLists, Numbers},
    failure::failure,
};

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
                    evaluate_all(&self.network, evaluator.as_mut(), &given, Asked { values, moves })
                }
                Answers::Chooser(chooser) => choose_all(chooser.as_mut(), &given),
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
            for (index, given) in given.iter().enumerate() {
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
        let mut list = Vec::with_capacity(boards.len().unwrap_or(0));
        for board in boards.try_iter()? {
            list.push(Given::of(&board?, with_moves)?);
        }
        Ok(list)
    }
}

/// The chances of moves by selectors, one board after the other.
fn choose_all(chooser: &mut dyn Search, given: &[Given]) -> Result<(Numbers, MoveLists), String> {
    let mut lists = MoveLists { offsets: vec![0], ..MoveLists::default() };
    let mut chances = Vec::new();
    for (index, given) in given.iter().enumerate() {
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
