//! Training data as NumPy arrays: shards are read and written, games imported.

use std::path::PathBuf;

use board::parse_uci;
use data::{GameResult, ImportOptions, Record, ShardReader, Split};
use nets::{PolicyIndex, Squares, policy_index};
use numpy::{
    Element, IntoPyArray, PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2,
};
use pyo3::{prelude::*, types::PyDict};

use crate::{boards::Given, failure::failure};

/// The number of a result for the side to move; 2 if it is unknown.
fn result_number(result: GameResult) -> i8 {
    match result {
        GameResult::Loss => -1,
        GameResult::Draw => 0,
        GameResult::Win => 1,
        GameResult::Unknown => 2,
    }
}

/// The records of a shard, a column each.
#[pyfunction]
pub(crate) fn read_shard<'py>(py: Python<'py>, path: PathBuf) -> PyResult<Bound<'py, PyDict>> {
    let records = py.detach(|| {
        let mut reader = ShardReader::open(&path)?;
        let mut records = Vec::new();
        for block in 0..reader.blocks() {
            records.extend(reader.read_block(block)?);
        }
        Ok::<Vec<Record>, data::DataError>(records)
    });
    let records = records.map_err(failure)?;
    fn column<'py, T: Element>(
        py: Python<'py>,
        records: &[Record],
        of: impl Fn(&Record) -> T,
    ) -> Bound<'py, PyArray1<T>> {
        records.iter().map(of).collect::<Vec<T>>().into_pyarray(py)
    }
    let squares: Vec<u8> = records.iter().flat_map(|record| record.squares.0).collect();
    let columns = PyDict::new(py);
    columns.set_item("squares", squares.into_pyarray(py).reshape([records.len(), 64])?)?;
    columns.set_item("white_to_move", column(py, &records, |record| record.white_to_move))?;
    columns.set_item("value", column(py, &records, |record| record.value))?;
    columns.set_item("played", column(py, &records, |record| record.played))?;
    columns.set_item("played_value", column(py, &records, |record| record.played_value))?;
    columns.set_item("result", column(py, &records, |record| result_number(record.result)))?;
    columns.set_item("ply", column(py, &records, |record| record.ply))?;
    columns.set_item("halfmove_clock", column(py, &records, |record| record.halfmove_clock))?;
    columns.set_item("source", column(py, &records, |record| record.source))?;
    columns.set_item("game", column(py, &records, |record| record.game))?;
    Ok(columns)
}

/// Writes a folder that `train` reads, from columns as `read_shard` gives them.
#[pyfunction]
#[pyo3(signature = (folder, train, validation, *, source="python"))]
pub(crate) fn write_shards(
    py: Python<'_>,
    folder: PathBuf,
    train: &Bound<'_, PyDict>,
    validation: &Bound<'_, PyDict>,
    source: &str,
) -> PyResult<()> {
    let (train, validation) = (records(train)?, records(validation)?);
    py.detach(|| data::write_records(&folder, source, [&train, &validation])).map_err(failure)?;
    Ok(())
}

/// The records of columns.
fn records(columns: &Bound<'_, PyDict>) -> PyResult<Vec<Record>> {
    let squares = columns.get_item("squares")?.ok_or_else(|| missing("squares"))?;
    let squares: PyReadonlyArray2<'_, u8> =
        squares.extract().map_err(|_| wrong_array::<u8>(columns.py(), "squares", "[n, 64]"))?;
    let squares = squares.as_array();
    let count = squares.nrows();
    if squares.ncols() != 64 {
        return Err(failure(format!("`squares` has {} columns instead of 64", squares.ncols())));
    }
    let white_to_move = column::<bool>(columns, "white_to_move", count, None)?;
    let value = column(columns, "value", count, Some(data::NO_LABEL))?;
    let played = column(columns, "played", count, Some(PolicyIndex::MAX))?;
    let played_value = column(columns, "played_value", count, Some(data::NO_LABEL))?;
    let result = column(columns, "result", count, Some(2_i8))?;
    let ply = column(columns, "ply", count, Some(0_u16))?;
    let halfmove_clock = column(columns, "halfmove_clock", count, Some(0_u8))?;
    let game = column(columns, "game", count, Some(0_u32))?;
    let mut records = Vec::with_capacity(count);
    for index in 0..count {
        let row: [u8; 64] = std::array::from_fn(|square| squares[[index, square]]);
        if let Some(class) = row.iter().find(|&&class| usize::from(class) > nets::PLANES) {
            return Err(failure(format!("`squares` row {index} has {class}, above 15")));
        }
        let result = match result[index] {
            -1 => GameResult::Loss,
            0 => GameResult::Draw,
            1 => GameResult::Win,
            2 => GameResult::Unknown,
            other => {
                return Err(failure(format!("`result` row {index} is {other}, not -1, 0, 1 or 2")));
            }
        };
        records.push(Record {
            squares: Squares(row),
            white_to_move: white_to_move[index],
            value: value[index],
            played: played[index],
            played_value: played_value[index],
            result,
            ply: ply[index],
            halfmove_clock: halfmove_clock[index],
            source: 0,
            game: game[index],
        });
    }
    Ok(records)
}

fn missing(name: &str) -> PyErr {
    failure(format!("the records have no `{name}`"))
}

/// An array of another type or shape, with the way to the right type in NumPy's words.
fn wrong_array<T: Element>(py: Python<'_>, name: &str, shape: &str) -> PyErr {
    let wanted = T::get_dtype(py);
    failure(format!(
        "`{name}` is not an array of {wanted} {shape}; `.astype(\"{wanted}\")` converts the numbers"
    ))
}

/// A column of so many numbers, or `absent` where there is none.
fn column<T: Element + Copy>(
    columns: &Bound<'_, PyDict>,
    name: &str,
    count: usize,
    absent: Option<T>,
) -> PyResult<Vec<T>> {
    let Some(given) = columns.get_item(name)? else {
        return absent.map(|absent| vec![absent; count]).ok_or_else(|| missing(name));
    };
    let array: PyReadonlyArray1<'_, T> =
        given.extract().map_err(|_| wrong_array::<T>(columns.py(), name, "[n]"))?;
    let numbers: Vec<T> = array.as_array().iter().copied().collect();
    if numbers.len() != count {
        return Err(failure(format!("`{name}` has {} rows, and `squares` {count}", numbers.len())));
    }
    Ok(numbers)
}

/// What `squares` answers: squares, who moves, and the index of each board's move.
type BoardColumns<'py> =
    (Bound<'py, PyArray2<u8>>, Bound<'py, PyArray1<bool>>, Bound<'py, PyArray1<PolicyIndex>>);

/// The columns of boards, and of a move in each.
#[pyfunction]
#[pyo3(signature = (boards, moves=None))]
pub(crate) fn squares<'py>(
    py: Python<'py>,
    boards: &Bound<'py, PyAny>,
    moves: Option<Vec<String>>,
) -> PyResult<BoardColumns<'py>> {
    let given = boards.try_iter()?.map(|board| Given::of(&board?, false));
    let given = given.collect::<PyResult<Vec<_>>>()?;
    let count = given.len();
    if moves.as_ref().is_some_and(|moves| moves.len() != count) {
        return Err(failure("there must be one move for each board"));
    }
    let mut squares = Vec::with_capacity(64 * count);
    let (mut white, mut played) = (Vec::with_capacity(count), Vec::with_capacity(count));
    for (index, given) in given.into_iter().enumerate() {
        let place = |reason: String| failure(format!("board {index}: {reason}"));
        let position = given.position(false).map_err(place)?;
        squares.extend(Squares::of(&position).0);
        white.push(position.turn().is_white());
        played.push(match &moves {
            Some(moves) => {
                let mv = parse_uci(&position, &moves[index]);
                policy_index(mv.map_err(|error| place(error.to_string()))?, position.turn())
            }
            None => PolicyIndex::MAX,
        });
    }
    let squares = squares.into_pyarray(py).reshape([count, 64])?;
    Ok((squares, white.into_pyarray(py), played.into_pyarray(py)))
}

/// Imports files of games or evaluations as a folder of shards; the numbers of records.
#[pyfunction]
#[pyo3(signature = (files, folder, *, validation=0.02, seed=1, threads=0, overwrite=false))]
pub(crate) fn import_games<'py>(
    py: Python<'py>,
    files: Vec<PathBuf>,
    folder: PathBuf,
    validation: f64,
    seed: u64,
    threads: usize,
    overwrite: bool,
) -> PyResult<Bound<'py, PyDict>> {
    let options =
        ImportOptions { validation, seed, threads, overwrite, ..ImportOptions::default() };
    let manifest = py.detach(|| data::import(&files, &folder, &options, &mut ()));
    let manifest = manifest.map_err(failure)?;
    let counts = PyDict::new(py);
    for split in Split::ALL {
        counts.set_item(split.name(), manifest.statistics(split).records)?;
    }
    Ok(counts)
}
