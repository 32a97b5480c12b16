//! What a network answers about many boards, as NumPy arrays.

use board::{CastlingMode, Move};
use numpy::{IntoPyArray, PyArray1, PyArray2, PyArrayMethods};
use pyo3::{exceptions::PyIndexError, prelude::*, types::PyDict};

/// The moves of boards, one after the other.
#[derive(Debug, Default)]
pub(crate) struct MoveLists {
    pub moves: Vec<Move>,
    pub modes: Vec<CastlingMode>,
    /// Where the moves of each board begin, and where those of the last one end. A part of a list has
    /// only the ends.
    pub offsets: Vec<i64>,
}

impl MoveLists {
    /// Appends a board.
    pub fn push(&mut self, moves: &[Move], mode: CastlingMode) {
        self.moves.extend_from_slice(moves);
        self.modes.push(mode);
        self.offsets.push(self.moves.len() as i64);
    }

    /// Appends other boards, whose offsets lack the first 0.
    pub fn append(&mut self, more: Self) {
        let first = self.moves.len() as i64;
        self.moves.extend(more.moves);
        self.modes.extend(more.modes);
        self.offsets.extend(more.offsets.into_iter().map(|offset| first + offset));
    }
}

/// Numbers of every board and move, before they are arrays.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    /// Per board; `None` if they were not asked for or the network has none.
    pub centipawns: Option<Vec<f32>>,
    /// Win, draw, loss of each board.
    pub wdl: Vec<f32>,
    /// Per move.
    pub chances: Option<Vec<f32>>,
    pub move_centipawns: Option<Vec<f32>>,
}

/// What [`Network.evaluate`](crate::networks::Network) answers.
#[pyclass(frozen, module = "batch_first")]
#[derive(Debug)]
pub(crate) struct Evaluation {
    #[pyo3(get)]
    centipawns: Option<Py<PyArray1<f32>>>,
    #[pyo3(get)]
    wdl: Option<Py<PyArray2<f32>>>,
    #[pyo3(get)]
    chances: Option<Py<PyArray1<f32>>>,
    #[pyo3(get)]
    move_centipawns: Option<Py<PyArray1<f32>>>,
    #[pyo3(get)]
    offsets: Py<PyArray1<i64>>,
    lists: MoveLists,
}

impl Evaluation {
    pub fn new(py: Python<'_>, numbers: Numbers, lists: MoveLists) -> PyResult<Self> {
        let array =
            |numbers: Option<Vec<f32>>| numbers.map(|numbers| numbers.into_pyarray(py).unbind());
        let wdl = match &numbers.centipawns {
            Some(values) => {
                let shape = [values.len(), 3];
                Some(numbers.wdl.into_pyarray(py).reshape(shape)?.unbind())
            }
            None => None,
        };
        Ok(Self {
            centipawns: array(numbers.centipawns),
            wdl,
            chances: array(numbers.chances),
            move_centipawns: array(numbers.move_centipawns),
            offsets: lists.offsets.clone().into_pyarray(py).unbind(),
            lists,
        })
    }

    fn range(&self, index: isize) -> PyResult<(usize, std::ops::Range<usize>)> {
        let count = self.lists.modes.len();
        let at = if index < 0 { index + count as isize } else { index };
        let at = usize::try_from(at).ok().filter(|&at| at < count).ok_or_else(|| {
            PyIndexError::new_err(format!("board {index} of an evaluation of {count}"))
        })?;
        Ok((at, self.lists.offsets[at] as usize..self.lists.offsets[at + 1] as usize))
    }
}

#[pymethods]
impl Evaluation {
    fn __len__(&self) -> usize {
        self.lists.modes.len()
    }

    /// The legal moves of a board in UCI, in the order of the arrays.
    fn moves(&self, index: isize) -> PyResult<Vec<String>> {
        let (at, range) = self.range(index)?;
        let mode = self.lists.modes[at];
        Ok(self.lists.moves[range].iter().map(|mv| mv.to_uci(mode).to_string()).collect())
    }

    /// The legal moves of a board with their chances, or their centipawns where the network has
    /// these, the best first.
    fn move_scores<'py>(&self, py: Python<'py>, index: isize) -> PyResult<Bound<'py, PyDict>> {
        let (_, range) = self.range(index)?;
        let result = PyDict::new(py);
        let Some(numbers) = self.chances.as_ref().or(self.move_centipawns.as_ref()) else {
            return Ok(result);
        };
        let numbers = numbers.bind(py).readonly();
        let numbers = numbers.as_slice()?;
        let mut pairs: Vec<(String, f32)> =
            self.moves(index)?.into_iter().zip(numbers[range].iter().copied()).collect();
        pairs.sort_by(|one, other| other.1.total_cmp(&one.1));
        for (text, number) in pairs {
            result.set_item(text, number)?;
        }
        Ok(result)
    }

    fn __repr__(&self) -> String {
        format!("Evaluation({} boards, {} moves)", self.lists.modes.len(), self.lists.moves.len())
    }
}
