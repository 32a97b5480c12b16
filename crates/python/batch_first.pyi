"""Chess networks and searches of Batch First.

A *board* is a FEN (perhaps followed by ` moves ` and moves in UCI), a `chess.Board` of python-chess, or a `Board` of
this module. Networks of Leela's see the boards before the current one: give them boards with their moves.

Scores are in centipawns, chances between 0 and 1; both are those of the side to move. Moves are in UCI. What cannot be
used raises `BatchFirstError`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Optional, TypedDict, Union, final

import numpy
from numpy.typing import NDArray

__version__: str

class BatchFirstError(Exception):
    """A file, board, option or setting cannot be used; the text is a sentence that names it."""

@final
class Board:
    """A position with the moves before it. It does not change."""

    def __init__(self, fen: Optional[str] = None, moves: list[str] = []) -> None:
        """The board after `moves` from a FEN, or from the starting position."""
    @staticmethod
    def from_chess(board: Any) -> Board:
        """The same as a `chess.Board`, with its move stack."""
    def to_chess(self) -> Any:
        """The same as a `chess.Board` with its move stack; needs python-chess."""
    def after(self, moves: list[str]) -> Board:
        """The board after more moves."""
    @property
    def fen(self) -> str: ...
    @property
    def start_fen(self) -> str:
        """Where the moves begin."""
    @property
    def moves(self) -> list[str]:
        """The moves played."""
    @property
    def legal_moves(self) -> list[str]: ...
    @property
    def white_to_move(self) -> bool: ...

_Board = Union[str, Board, Any]

@final
class Evaluation:
    """What a network answers about n boards with m legal moves in all."""

    @property
    def centipawns(self) -> Optional[NDArray[numpy.float32]]:
        """[n]; None without a value head, or if values were not asked for."""
    @property
    def wdl(self) -> Optional[NDArray[numpy.float32]]:
        """[n, 3]: chances to win, draw and lose, by the network's model from centipawns to chances."""
    @property
    def chances(self) -> Optional[NDArray[numpy.float32]]:
        """[m]: the chance of each legal move, adding up to 1 for each board; None without a policy."""
    @property
    def move_centipawns(self) -> Optional[NDArray[numpy.float32]]:
        """[m]: the value after each legal move, for networks whose move head gives values."""
    @property
    def offsets(self) -> NDArray[numpy.int64]:
        """[n + 1]: the moves of board i are those from offsets[i] to before offsets[i + 1]."""
    def __len__(self) -> int: ...
    def moves(self, index: int) -> list[str]:
        """The legal moves of a board, in the order of the arrays."""
    def move_scores(self, index: int) -> dict[str, float]:
        """The legal moves of a board with their chances (or centipawns), the best first."""

@final
class Network:
    """A network and its evaluator. Several threads may call it; one is answered at a time."""

    @staticmethod
    def load(
        path: Union[str, PathLike[str]],
        *,
        threads: int = 1,
        device: str = "cpu",
        precision: Optional[Literal["f16", "bf16", "f32", "int8"]] = None,
        cpu: Optional[Literal["amx", "avx512", "avx2", "portable"]] = None,
    ) -> Network:
        """Loads a file of ours (.safetensors) or of Leela's (.pb.gz), or "large" or "fast".

        `threads` evaluate; number format and code path are the fastest here unless given. GPUs (`device`) need a
        package that was built with them.
        """
    @property
    def name(self) -> str: ...
    @property
    def fingerprint(self) -> str:
        """12 hexadecimal digits, the same for equal layers and weights."""
    @property
    def encoding(self) -> str:
        """The name of the input planes."""
    @property
    def heads(self) -> list[str]: ...
    @property
    def has_history(self) -> bool:
        """Does it see the boards before the current one?"""
    def evaluate(self, boards: Iterable[_Board], *, values: bool = True, moves: bool = True) -> Evaluation:
        """Evaluates boards in batches, without the interpreter's lock.

        Positions without legal moves have no chances; their values mean nothing.
        """
    def planes(self, boards: Iterable[_Board]) -> NDArray[numpy.float32]:
        """[n, planes, 8, 8]: the input of boards, as files of `export_onnx` take it: seen from the side to move, for
        Cockfish's networks from White's side. With the encoding `attacks-21-king-right` it is the mirror image, outputs of
        moves too, if the mover's king stands on the files a to d and nobody may castle."""
    def export_onnx(self, path: Union[str, PathLike[str]]) -> None:
        """Writes an ONNX file: input `planes`, one output for each head, before calibration."""

@final
class Info:
    """A line that a search found; score and chances are those of the side to move at the root."""

    @property
    def depth(self) -> int: ...
    @property
    def seldepth(self) -> int: ...
    @property
    def multipv(self) -> int:
        """Rank of the line, from 1."""
    @property
    def centipawns(self) -> Optional[int]:
        """None for a mate."""
    @property
    def mate(self) -> Optional[int]:
        """Moves to the mate, negative if the side to move is mated; None without one."""
    @property
    def bound(self) -> Literal["exact", "lower", "upper"]: ...
    @property
    def wdl(self) -> tuple[float, float, float]: ...
    @property
    def moves_left(self) -> Optional[int]: ...
    @property
    def nodes(self) -> int:
        """Positions evaluated so far."""
    @property
    def time_ms(self) -> int: ...
    @property
    def pv(self) -> list[str]: ...

@final
class Search(Iterator[Info]):
    """A running search: an iterator over its lines. The other properties wait for its end; if nothing refers to it any
    more it stops."""

    def __iter__(self) -> Search: ...
    def __next__(self) -> Info: ...
    def stop(self) -> None:
        """Ends the search with its best move so far."""
    @property
    def best_move(self) -> Optional[str]:
        """None only without a legal move."""
    @property
    def ponder(self) -> Optional[str]:
        """The expected reply."""
    @property
    def nodes(self) -> int:
        """Positions evaluated in all."""
    @property
    def lines(self) -> list[Info]:
        """The last complete set of lines, best first."""

@final
class Engine:
    """A search over a network, as `batch-first uci` has it."""

    def __init__(
        self,
        net: Optional[Union[str, PathLike[str]]] = None,
        *,
        search: Optional[Literal["kbest", "kbest-classic", "alphabeta", "puct", "minimax"]] = None,
        threads: int = 1,
        hash: int = 256,
        device: str = "cpu",
        options: Optional[Mapping[str, Union[str, int, bool]]] = None,
    ) -> None:
        """`net`: a file, "large" or "fast"; without one the one that suits the machine. `hash`: MiB for the tree.
        `options`: those of docs/uci.md by their names, such as {"MultiPV": 3}."""
    @property
    def description(self) -> str:
        """Network, code path, threads."""
    def search(
        self,
        board: _Board,
        *,
        nodes: Optional[int] = None,
        movetime: Optional[float] = None,
        depth: Optional[int] = None,
        mate: Optional[int] = None,
        moves: list[str] = [],
        infinite: bool = False,
    ) -> Search:
        """Begins a search; the first limit that is reached ends it.

        `nodes`: evaluated positions. `movetime`: milliseconds. `depth`: plies. `mate`: stop at a mate in so many moves.
        `moves`: only these at the root. `infinite`: until `stop()`. The memory of earlier searches is used.
        Waits until a search that was stopped or left has ended; another that still runs is an error.
        """
    def clear(self) -> None:
        """Forgets earlier searches."""

class Records(TypedDict, total=False):
    """Training examples, a row each. `squares` and `white_to_move` must be there; the rest may be left out."""

    squares: NDArray[numpy.uint8]
    """[n, 64]: class of each square from the side to move (a1 first; ranks mirrored for Black). 0 empty, 1 en-passant
    target, 2 to 7 own pawn, knight, bishop, rook, queen, king, 8 own rook that may castle, 9 to 15 the opponent's."""
    white_to_move: NDArray[numpy.bool_]
    value: NDArray[numpy.int32]
    """Centipawns of the side to move; 110000 - n: mates in n; -2147483648: none."""
    played: NDArray[numpy.uint16]
    """Index of the played move (`squares` gives it); 65535: none."""
    played_value: NDArray[numpy.int32]
    """Centipawns after the played move, of the side that played it; as `value`."""
    result: NDArray[numpy.int8]
    """1 the side to move won, 0 a draw, -1 lost, 2 unknown."""
    ply: NDArray[numpy.uint16]
    halfmove_clock: NDArray[numpy.uint8]
    source: NDArray[numpy.uint8]
    """Number of the imported file; 0 in written shards."""
    game: NDArray[numpy.uint32]

def read_shard(path: Union[str, PathLike[str]]) -> Records:
    """All records of a shard (.bfs)."""

def write_shards(
    folder: Union[str, PathLike[str]], train: Records, validation: Records, *, source: str = "python"
) -> None:
    """Writes a folder that `train` reads. Shuffle the records; no game should be in both."""

def squares(
    boards: Iterable[_Board], moves: Optional[list[str]] = None
) -> tuple[NDArray[numpy.uint8], NDArray[numpy.bool_], NDArray[numpy.uint16]]:
    """`squares`, `white_to_move` and, for one move a board, `played` of `Records`."""

def import_games(
    files: list[Union[str, PathLike[str]]],
    folder: Union[str, PathLike[str]],
    *,
    validation: float = 0.02,
    seed: int = 1,
    threads: int = 0,
    overwrite: bool = False,
) -> dict[str, int]:
    """Imports annotated games or Lichess's evaluations as shards, as `batch-first data import` does; the numbers of
    records of `train` and `validation`."""

class Run(TypedDict):
    """The result of a training run."""

    finished: bool
    """False if it was interrupted."""
    step: int
    folder: Path
    network: Optional[Path]
    """None if it was interrupted."""
    measures: list[dict[str, Any]]
    """The last validation, a dictionary for each source and head."""

def train(
    config: Union[str, PathLike[str], Mapping[str, Any]],
    *,
    settings: list[str] = [],
    resume: bool = False,
    on_event: Optional[Callable[[dict[str, Any]], object]] = None,
) -> Run:
    """Trains as `batch-first train` does: `config` is its file, or the sections as a dictionary; `settings` change
    them, as "training.batch=512".

    `on_event` gets each line of the run's journal when it is written: its `kind` is `start`, `train`, `validation` or
    `end`. An exception there, Ctrl-C too, ends the run with a checkpoint.
    """
