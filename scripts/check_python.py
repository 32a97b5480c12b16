#!/usr/bin/env python3
"""The Python package against python-chess, against itself and against strange input.

    scripts/check_python.py PROGRAM LEELA_NETWORK.pb.gz

Needs the package batch_first and python-chess. Prints the speed of `evaluate` beside that of `bench eval`.
"""

import json
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import types
from pathlib import Path

import batch_first
import chess
import numpy
from batch_first import BatchFirstError, Board, Engine, Network

ROOT = Path(__file__).resolve().parent.parent
FENS = [" ".join(line.split()[:4]) + " 0 1" for line in (ROOT / "scripts/tactics.epd").read_text().splitlines()]
START = chess.STARTING_FEN


def refused(wanted, call):
    """The call must raise our exception, with these words in its sentence."""
    try:
        call()
    except BatchFirstError as error:
        assert wanted in str(error), f"`{error}` lacks `{wanted}`"
        return
    raise AssertionError(f"not refused: {wanted}")


def check_evaluate():
    network = Network.load("fast")
    evaluation = network.evaluate(FENS)
    boards = [chess.Board(fen) for fen in FENS]
    assert len(evaluation) == len(FENS) and evaluation.wdl.shape == (len(FENS), 3)
    assert numpy.allclose(evaluation.wdl.sum(axis=1), 1, atol=1e-5)
    for index, board in enumerate(boards):
        assert sorted(evaluation.moves(index)) == sorted(move.uci() for move in board.legal_moves), board.fen()
        part = evaluation.chances[evaluation.offsets[index] : evaluation.offsets[index + 1]]
        assert abs(part.sum() - 1) < 1e-4
    for others in (boards, [Board.from_chess(board) for board in boards], [board.mirror() for board in boards]):
        other = network.evaluate(others)
        assert numpy.array_equal(other.centipawns, evaluation.centipawns)
    # Better positions have better chances, a queen more is worth something.
    order = numpy.argsort(evaluation.centipawns)
    assert (numpy.diff(evaluation.wdl[order, 0]) >= 0).all()
    queen_up = network.evaluate([START.replace("rnbqkbnr", "rnb1kbnr")]).centipawns[0]
    assert queen_up > 300, queen_up
    # Several threads answer the same. What a number format costs is bounded by `net verify`: int8 differs by 12 to 18
    # centipawns in the median here, and by 104 at most.
    other = Network.load("fast", threads=2).evaluate(FENS * 8).centipawns
    assert numpy.array_equal(other.reshape(8, -1), numpy.tile(evaluation.centipawns, (8, 1)))
    differences = abs(Network.load("fast", precision="f32").evaluate(FENS).centipawns - evaluation.centipawns)
    assert numpy.median(differences) < 25 and differences.max() < 150, differences
    mated = network.evaluate(["rnb1kbnr/pppp1ppp/8/4p3/6Pq/5P2/PPPPP2P/RNBQKBNR w KQkq - 1 3"])
    assert mated.moves(0) == [] and mated.move_scores(-1) == {}
    assert len(network.evaluate([])) == 0
    assert network.evaluate(FENS[:2], values=False).centipawns is None
    selectors = Network.load(ROOT / "networks/convchess.safetensors").evaluate(FENS[:3])
    assert selectors.centipawns is None and abs(selectors.chances.sum() - 3) < 1e-4
    white = Network.load(ROOT / "networks/cockfish.safetensors").evaluate([START.replace("rnbqkbnr", "rnb1kbnr")] * 2)
    assert white.chances is None and white.centipawns[0] > 100


def check_history(leela):
    network = Network.load(leela)
    assert network.has_history and network.planes([START]).shape == (1, 112, 8, 8)
    board = chess.Board()
    for text in ("Nf3", "Nf6", "Ng1", "Ng8"):
        board.push_san(text)
    alone, with_history = network.evaluate([board.fen(), board]).chances.reshape(2, -1)
    assert abs(alone - with_history).max() > 1e-6, "the boards before are not seen"
    text = f"{START} moves g1f3 g8f6 f3g1 f6g8"
    ours = Board(moves=["g1f3", "g8f6", "f3g1", "f6g8"])
    for same in (text, ours, Board.from_chess(board)):
        assert numpy.array_equal(network.evaluate([same]).chances, with_history)
    assert ours.to_chess().move_stack == board.move_stack and ours.fen == board.fen()


def check_chess960():
    for number in (0, 500, 959):
        board = chess.Board.from_chess960_pos(number)
        for text in ("a2a4", "a7a5"):
            board.push_uci(text)
        round_trip = Board.from_chess(board).to_chess()
        assert round_trip.fen() == board.fen() and round_trip.chess960
        legal = Network.load("fast").evaluate([board]).moves(0)
        assert sorted(legal) == sorted(move.uci() for move in board.legal_moves)
    null = chess.Board()
    null.push(chess.Move.null())
    assert not Board.from_chess(null).white_to_move


def check_engine():
    engine = Engine("fast", hash=16, options={"MultiPV": 2})
    search = engine.search("6k1/5ppp/8/8/8/8/5PPP/R5K1 w - - 0 1", nodes=300)
    infos = list(search)
    assert infos and search.best_move == "a1a8" and search.lines[0].mate == 1, search.lines
    assert {info.multipv for info in infos} == {1, 2} and search.nodes <= 300
    first, second = (engine.search(chess.Board(), depth=3) for engine in (engine, Engine("fast", hash=16)))
    assert first.best_move and second.best_move
    running = engine.search(chess.Board(), infinite=True)
    refused("searches already", lambda: engine.search(START, nodes=1))
    assert next(running).depth >= 1
    running.stop()
    assert running.best_move
    started = time.monotonic()
    assert engine.search(START, movetime=100).best_move and time.monotonic() - started < 5
    # A search that was stopped or left gives the engine back; the next call waits for that.
    for _ in range(5):
        for info in engine.search(START, infinite=True):
            if info.depth >= 1:
                break
        running = engine.search(START, infinite=True)
        running.stop()
        engine.clear()
        assert running.best_move and engine.search(START, nodes=10).best_move
    refused("a search needs", lambda: engine.search(START))
    refused("option Hash", lambda: Engine("fast", hash=0))
    refused("no option", lambda: Engine("fast", options={"Nonsense": 1}))
    options = types.MappingProxyType({"MultiPV": 2})
    assert len(Engine("fast", hash=16, options=options).search(START, depth=1).lines) == 2


def check_lock():
    """Another thread runs while a network evaluates."""
    network, done, count = Network.load("large"), threading.Event(), 0

    def evaluate():
        network.evaluate(FENS * 20)
        done.set()

    thread = threading.Thread(target=evaluate)
    thread.start()
    while not done.is_set():
        count += 1
        time.sleep(0.001)
    thread.join()
    assert count > 20, f"the interpreter stood still: {count}"


def check_shards():
    boards, white, played = batch_first.squares(FENS[:50], [next(iter(chess.Board(fen).legal_moves)).uci() for fen in FENS[:50]])
    records = {"squares": boards, "white_to_move": white, "played": played,
               "value": numpy.arange(50, dtype=numpy.int32), "result": numpy.ones(50, numpy.int8)}
    with tempfile.TemporaryDirectory() as folder:
        batch_first.write_shards(folder, records, records)
        back = batch_first.read_shard(next(Path(folder).glob("train*.bfs")))
        for name, column in records.items():
            assert numpy.array_equal(back[name], column), name
        refused("already holds shards", lambda: batch_first.write_shards(folder, records, records))
        file = next(Path(folder).glob("validation*.bfs"))
        file.write_bytes(file.read_bytes()[:-5])
        refused("not a usable shard", lambda: batch_first.read_shard(file))
        refused("rows", lambda: batch_first.write_shards(f"{folder}/b", records | {"value": records["value"][:9]}, records))
        refused("squares", lambda: batch_first.write_shards(f"{folder}/c", {}, records))
        for name, kind in (("value", "int32"), ("squares", "uint8"), ("white_to_move", "bool")):
            wrong = records | {name: records[name].astype(numpy.int64)}
            refused(f'not an array of {kind} [n', lambda wrong=wrong: batch_first.write_shards(f"{folder}/e", wrong, records))
            refused(f'.astype("{kind}")', lambda wrong=wrong: batch_first.write_shards(f"{folder}/e", wrong, records))
        refused("above 15", lambda: batch_first.write_shards(f"{folder}/d", records | {"squares": boards + 90}, records))


def check_errors():
    network = Network.load("fast")
    for wrong in ("nonsense", "", "8/8/8/8/8/8/8/8 w - - 0 1", START + " moves e2e5", "\0", "k" * 10_000):
        refused("board 1", lambda wrong=wrong: network.evaluate([START, wrong]))
    assert len(network.evaluate([START])) == 1, "an error leaves the network usable"
    refused("a board is", lambda: network.evaluate([3]))
    import chess.variant

    refused("atomic", lambda: network.evaluate([chess.variant.AtomicBoard()]))
    for name, value in (("ep_square", 64), ("ep_square", -1), ("ep_square", "e3"), ("pawns", -1), ("kings", 1 << 64),
                        ("halfmove_clock", -1), ("fullmove_number", 1 << 32)):
        board = chess.Board()
        setattr(board, name, value)
        refused(f"`{name}` of the board", lambda board=board: network.evaluate([board]))
    refused("/nowhere", lambda: Network.load("/nowhere/file"))
    refused("Threads", lambda: Network.load("fast", threads=0))
    for kind in (dict, types.MappingProxyType):
        refused("unknown field", lambda kind=kind: batch_first.train(kind({"run": kind({"name": "x", "nonsense": 1})})))
    refused("no.toml", lambda: batch_first.train("no.toml"))


def bench(program, *flags):
    """The fastest row of `bench eval`, which reads its positions before it begins."""
    command = [program, "bench", "eval", "--json", "--net", "fast", "--batch", "256", "--seconds", "0.3", *flags]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return max(map(json.loads, done.stdout.splitlines()), key=lambda row: row["evaluations_per_cpu_second"])


def games_of_chance(count):
    """Positions of games of random moves from the tactics, none of them over."""
    chance, boards = random.Random(1), []
    while len(boards) < count:
        board = chess.Board(chance.choice(FENS))
        while len(boards) < count and len(board.move_stack) < 30 and (moves := list(board.legal_moves)):
            boards.append(board.copy(stack=False))
            board.push(chance.choice(moves))
    return boards


def calls(network, given, moves, seconds):
    """Boards a second and a processor second, medians of calls for some seconds."""
    end, rates = time.perf_counter() + seconds, []
    while time.perf_counter() < end:
        started = time.perf_counter(), time.process_time()
        network.evaluate(given, moves=moves)
        ended = time.perf_counter(), time.process_time()
        rates.append([len(given) / (after - before) for before, after in zip(started, ended)])
    return [statistics.median(column) for column in zip(*rates)]


def speed(program, folder):
    """Evaluations of 10,000 FENs or boards of python-chess, in turns with `bench eval` of the same."""
    network = Network.load("fast")
    boards = games_of_chance(10_000)
    fens = [board.fen() for board in boards]
    file = folder / "positions.epd"
    file.write_text("\n".join(fens))
    same = ["--positions", file]
    fastest = bench(program, "--both", *same)
    path = [*same, "--path", fastest["path"], "--precision", fastest["precision"]]
    for name, given in (("FENs", fens), ("chess.Board", boards)):
        for moves in (False, True):
            shares, rates = [], []
            for _ in range(5):
                row = bench(program, *path, *(["--both"] if moves else ["--head", "value"]))
                peer = row["evaluations_per_second"], row["evaluations_per_cpu_second"]
                # As there: it warms up, then takes the median of some parts.
                calls(network, given, moves, seconds=0.05)
                rates.append(calls(network, given, moves, seconds=0.3))
                shares.append([rate / other for rate, other in zip(rates[-1], peer)])
            what = "values and moves" if moves else "values"
            (wall, of_wall), (processor, of_processor) = (
                (statistics.median(column), statistics.median(share)) for column, share in zip(zip(*rates), zip(*shares)))
            print(f"{what} of 10,000 {name}: {wall:,.0f} a second, {of_wall:.0%} of `bench eval`; "
                  f"{processor:,.0f} a processor second, {of_processor:.0%}", flush=True)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    check_evaluate()
    check_history(sys.argv[2])
    check_chess960()
    check_engine()
    check_lock()
    check_shards()
    check_errors()
    with tempfile.TemporaryDirectory() as folder:
        speed(sys.argv[1], Path(folder))
    print("the package is right")


if __name__ == "__main__":
    main()
