//! FENs, boards of python-chess and our own become positions.

use board::{CastlingMode, Color, Game, Position, ReadFen, Setup, Square, parse_uci, to_uci};
use pyo3::{
    intern,
    prelude::*,
    pybacked::PyBackedStr,
    types::{PyDict, PyString},
};

use crate::failure::failure;

/// A position with the moves before it.
#[pyclass(frozen, module = "batch_first")]
#[derive(Clone, Debug)]
pub(crate) struct Board {
    pub game: Game,
}

#[pymethods]
impl Board {
    #[new]
    #[pyo3(signature = (fen=None, moves=Vec::new()))]
    fn new(fen: Option<&str>, moves: Vec<String>) -> PyResult<Self> {
        let start = fen.map_or(Ok(Position::default()), |fen| read_fen(fen, None));
        let game = play(Game::new(start.map_err(failure)?.remembering()), &moves);
        Ok(Self { game: game.map_err(failure)? })
    }

    #[staticmethod]
    fn from_chess(py: Python<'_>, board: &Bound<'_, PyAny>) -> PyResult<Self> {
        let given = Given::of(board, true)?;
        Ok(Self { game: py.detach(|| given.game()).map_err(failure)? })
    }

    /// The same as a board of python-chess, with its move stack.
    fn to_chess<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let start = self.game.start();
        let chess960 = !start.castling_mode().is_standard();
        let named = PyDict::new(py);
        named.set_item(intern!(py, "chess960"), chess960)?;
        let class = py.import(intern!(py, "chess"))?.getattr(intern!(py, "Board"))?;
        let board = class.call((start.fen(),), Some(&named))?;
        for text in self.moves() {
            board.call_method1(intern!(py, "push_uci"), (text,))?;
        }
        Ok(board)
    }

    /// The board after more moves in UCI; this one stays as it is.
    fn after(&self, moves: Vec<String>) -> PyResult<Self> {
        Ok(Self { game: play(self.game.clone(), &moves).map_err(failure)? })
    }

    #[getter]
    fn fen(&self) -> String {
        self.game.position().fen()
    }

    #[getter]
    fn start_fen(&self) -> String {
        self.game.start().fen()
    }

    /// The moves played, in UCI.
    #[getter]
    fn moves(&self) -> Vec<String> {
        let mut at = self.game.start().clone();
        let text = |&mv: &board::Move| {
            let text = to_uci(&at, mv);
            at.play(mv);
            text
        };
        self.game.moves().iter().map(text).collect()
    }

    #[getter]
    fn legal_moves(&self) -> Vec<String> {
        let position = self.game.position();
        position.legal_moves().iter().map(|&mv| to_uci(position, mv)).collect()
    }

    #[getter]
    fn white_to_move(&self) -> bool {
        self.game.position().turn().is_white()
    }

    fn __repr__(&self) -> String {
        let (fen, count) = (self.start_fen(), self.game.moves().len());
        if count == 0 {
            format!("Board('{fen}')")
        } else {
            format!("Board('{fen}', {count} moves)")
        }
    }
}

/// A board as Python gave it, read with the interpreter's lock; the rest needs none.
pub(crate) enum Given {
    /// A FEN, then perhaps ` moves ` and moves in UCI: Python's own characters, not copied.
    Text(PyBackedStr),
    Chess(Box<ChessBoard>),
    Ours(Box<Game>),
}

/// A board of python-chess: its first position and the moves.
pub(crate) struct ChessBoard {
    start: Setup,
    mode: CastlingMode,
    moves: Vec<String>,
}

impl Given {
    /// Reads a FEN, a board of python-chess (with its move stack if `with_moves`) or one of ours.
    pub fn of(given: &Bound<'_, PyAny>, with_moves: bool) -> PyResult<Self> {
        if let Ok(text) = given.cast::<PyString>() {
            return Ok(Self::Text(text.clone().try_into()?));
        }
        if let Ok(board) = given.cast::<Board>() {
            return Ok(Self::Ours(Box::new(board.get().game.clone())));
        }
        let py = given.py();
        if !given.hasattr(intern!(py, "occupied_co"))? {
            return Err(failure(format!(
                "a board is a FEN, a chess.Board or a batch_first.Board, not `{}`",
                given.get_type().name()?
            )));
        }
        let variant: String = given.getattr(intern!(py, "uci_variant"))?.extract()?;
        if variant != "chess" {
            return Err(failure(format!(
                "a board of {variant}: only chess and Chess960 are played"
            )));
        }
        let chess960: bool = given.getattr(intern!(py, "chess960"))?.extract()?;
        let mode = CastlingMode::from_chess960(chess960);
        let stack = given.getattr(intern!(py, "move_stack"))?;
        if !with_moves || stack.len()? == 0 {
            let board = ChessBoard { start: setup(given)?, mode, moves: Vec::new() };
            return Ok(Self::Chess(Box::new(board)));
        }
        let start = setup(&given.call_method0(intern!(py, "root"))?)?;
        let moves = stack
            .try_iter()?
            .map(|mv| mv?.call_method0(intern!(py, "uci"))?.extract())
            .collect::<PyResult<_>>()?;
        Ok(Self::Chess(Box::new(ChessBoard { start, mode, moves })))
    }

    /// The game. Its positions remember those before them.
    pub fn game(&self) -> Result<Game, String> {
        match self {
            Self::Text(text) => {
                let (fen, moves) = text.split_once(" moves ").unwrap_or((text, ""));
                let moves: Vec<&str> = moves.split_whitespace().collect();
                play(Game::new(read_fen(fen, None)?.remembering()), &moves)
            }
            Self::Chess(board) => {
                let start = position(&board.start, board.mode)?.remembering();
                play(Game::new(start), &board.moves)
            }
            Self::Ours(game) => Ok(Game::clone(game)),
        }
    }

    /// The position alone, unless the boards before it are wanted.
    pub fn position(&self, with_history: bool) -> Result<Position, String> {
        match self {
            Self::Text(text) if !text.contains(" moves ") && !with_history => read_fen(text, None),
            Self::Chess(board) if board.moves.is_empty() && !with_history => {
                position(&board.start, board.mode)
            }
            Self::Ours(game) => Ok(game.position().clone()),
            other => Ok(other.game()?.position().clone()),
        }
    }
}

fn read_fen(fen: &str, mode: Option<CastlingMode>) -> Result<Position, String> {
    let ReadFen { position, warning } =
        Position::read_fen(fen, mode).map_err(|error| error.to_string())?;
    // A text that a person wrote and means something else is no input for a table of numbers.
    match warning {
        Some(warning) => Err(format!("`{fen}`: {warning}")),
        None => Ok(position),
    }
}

/// A position of python-chess, whose castling rights may be those that the pieces have no more.
fn position(setup: &Setup, mode: CastlingMode) -> Result<Position, String> {
    Position::from_setup(setup.clone(), mode)
        .map_err(|reason| format!("no position of chess: {reason}"))
}

/// The game after moves in UCI. A null move begins another one, since nothing is repeated across it.
fn play(mut game: Game, moves: &[impl AsRef<str>]) -> Result<Game, String> {
    for (index, text) in moves.iter().map(AsRef::as_ref).enumerate() {
        if text == "0000" {
            let after = game.position().after_null_move();
            let after = after.ok_or_else(|| format!("move {}: a null move in check", index + 1))?;
            game = Game::new(after);
            continue;
        }
        let mv = parse_uci(game.position(), text);
        game.play(mv.map_err(|error| format!("move {}: {error}", index + 1))?);
    }
    Ok(game)
}

/// The parts of a board of python-chess.
fn setup(board: &Bound<'_, PyAny>) -> PyResult<Setup> {
    let py = board.py();
    let both = board.getattr(intern!(py, "occupied_co"))?;
    let colors: [u64; 2] = [
        number("occupied_co[True]", &both.get_item(true)?)?,
        number("occupied_co[False]", &both.get_item(false)?)?,
    ];
    let bits = |name: &Bound<'_, PyString>| number::<u64>(name.to_str()?, &board.getattr(name)?);
    let roles = [
        bits(intern!(py, "pawns"))?,
        bits(intern!(py, "knights"))?,
        bits(intern!(py, "bishops"))?,
        bits(intern!(py, "rooks"))?,
        bits(intern!(py, "queens"))?,
        bits(intern!(py, "kings"))?,
    ];
    let mut setup = Setup::empty();
    for (color, own) in [Color::White, Color::Black].into_iter().zip(colors) {
        for (role, pieces) in board::Role::ALL.into_iter().zip(roles) {
            for square in board::Bitboard(own & pieces) {
                setup.board.set_piece_at(square, role.of(color));
            }
        }
    }
    setup.turn = Color::from_white(board.getattr(intern!(py, "turn"))?.extract()?);
    let rights = board.call_method0(intern!(py, "clean_castling_rights"))?;
    setup.castling_rights = board::Bitboard(number("clean_castling_rights", &rights)?);
    let square: Option<Bound<'_, PyAny>> = board.getattr(intern!(py, "ep_square"))?.extract()?;
    setup.ep_square = square.map(|square| number::<Square>("ep_square", &square)).transpose()?;
    setup.halfmoves = number("halfmove_clock", &board.getattr(intern!(py, "halfmove_clock"))?)?;
    let count: u32 = number("fullmove_number", &board.getattr(intern!(py, "fullmove_number"))?)?;
    setup.fullmoves = std::num::NonZeroU32::new(count).unwrap_or(std::num::NonZeroU32::MIN);
    Ok(setup)
}

/// What a board of python-chess has under a name, if it is within the bounds of its type.
fn number<T: TryFrom<u64>>(name: &str, value: &Bound<'_, PyAny>) -> PyResult<T> {
    let found = value.extract::<u64>().ok().and_then(|number| T::try_from(number).ok());
    found.ok_or_else(|| failure(format!("`{name}` of the board cannot be {value}")))
}
