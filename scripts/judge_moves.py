#!/usr/bin/env python3
"""How much an engine's moves lose, judged by Stockfish: far fewer games' worth of time than a match.

Takes positions from games, one a game, lets the engine move in each at a fixed number of nodes, and asks Stockfish what
its own best move and the engine's move are worth. A move loses the difference in winning chances, 1 / (1 + exp(-cp / 180)).
With --against a second engine moves in the same positions, and the mean difference is printed with its standard error,
which is much smaller than that of either loss.

    scripts/judge_moves.py games.pgn.zst --nodes 1000 --engine "target/release/batch-first uci" \\
        --against "other/batch-first uci"

An engine is a command; options follow as `; Name=Value`. Stockfish's answers are kept in --cache.
"""

import argparse
import bz2
import gzip
import io
import json
import math
import os
import random
import shutil
import statistics
import subprocess
import sys

import chess
import chess.engine
import chess.pgn

MATE, BLUNDER = 3000, 10


def open_text(path):
    """The file as text, unpacked by its extension."""
    if path.endswith(".zst"):
        process = subprocess.Popen(["zstd", "-dcq", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        return io.TextIOWrapper(process.stdout, encoding="utf-8", errors="replace")
    opener = {".gz": gzip.open, ".bz2": bz2.open}.get(os.path.splitext(path)[1], open)
    return opener(path, "rt", encoding="utf-8", errors="replace")


def positions(path, count, seed):
    """One position from each of `count` random games, after at least ten plies and with a choice of moves."""
    dice, found = random.Random(seed), []
    with open_text(path) as games:
        while (game := chess.pgn.read_game(games)) is not None:
            moves = list(game.mainline_moves())
            if len(moves) < 30:
                continue
            board = game.board()
            for move in moves[: dice.randrange(10, min(len(moves) - 2, 90))]:
                board.push(move)
            if board.legal_moves.count() >= 3:
                found.append(board.fen())
    dice.shuffle(found)
    return found[:count]


def start(command):
    """A running engine from `PROGRAM ARGUMENTS; Option=Value; ...`."""
    program, *options = [part.strip() for part in command.split(";")]
    try:
        engine = chess.engine.SimpleEngine.popen_uci(program.split())
    except FileNotFoundError:
        raise SystemExit(f"no program `{program.split()[0]}`: give its path, or install it where $PATH leads") from None
    engine.configure(dict(option.split("=", 1) for option in options))
    return engine


class Judge:
    """Stockfish with a memory on disk."""

    def __init__(self, program, nodes, cache):
        self.engine = chess.engine.SimpleEngine.popen_uci(program)
        self.nodes, self.cache = nodes, cache
        self.known = {}
        if os.path.exists(cache):
            with open(cache, encoding="utf-8") as file:
                self.known = json.load(file)

    def value(self, fen, move=None):
        """Centipawns for the mover, and the best move; of one move if it is given."""
        key = f"{self.nodes} {fen} {move or ''}"
        if key not in self.known:
            info = self.engine.analyse(
                chess.Board(fen),
                chess.engine.Limit(nodes=self.nodes),
                game=object(),
                root_moves=[chess.Move.from_uci(move)] if move else None,
            )
            score = info["score"].relative.score(mate_score=100_000)
            self.known[key] = [max(-MATE, min(MATE, score)), info["pv"][0].uci()]
        return self.known[key]

    def close(self):
        with open(self.cache + ".new", "w", encoding="utf-8") as file:
            json.dump(self.known, file)
        os.replace(self.cache + ".new", self.cache)
        self.engine.quit()


def chance(centipawns):
    return 1 / (1 + math.exp(-centipawns / 180))


def losses(command, fens, nodes, judge):
    """Lost winning chances in per cent, position by position, and how often the best move was found."""
    engine, lost, best_moves = start(command), [], 0
    for fen in fens:
        move = engine.play(chess.Board(fen), chess.engine.Limit(nodes=nodes), game=object()).move.uci()
        best, best_move = judge.value(fen)
        value = best if move == best_move else judge.value(fen, move)[0]
        lost.append(100 * max(0.0, chance(best) - chance(value)))
        best_moves += move == best_move
    engine.quit()
    return lost, best_moves


def mean_and_error(values):
    return statistics.mean(values), statistics.pstdev(values) / len(values) ** 0.5


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("games", help="PGN, may be compressed")
    parser.add_argument("--engine", required=True)
    parser.add_argument("--against")
    parser.add_argument("--nodes", type=int, nargs="+", default=[1000])
    parser.add_argument("--count", type=int, default=400, help="positions")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--stockfish", default=shutil.which("stockfish") or "/usr/games/stockfish")
    parser.add_argument("--judge-nodes", type=int, default=25_000)
    parser.add_argument("--cache", default="judged-moves.json")
    options = parser.parse_args()

    fens = positions(options.games, options.count, options.seed)
    if not fens:
        sys.exit(f"{options.games} has no game of 30 plies or more")
    judge = Judge(options.stockfish, options.judge_nodes, options.cache)
    for nodes in options.nodes:
        results = []
        for command in filter(None, [options.engine, options.against]):
            lost, best = losses(command, fens, nodes, judge)
            mean, error = mean_and_error(lost)
            in_blunders = sum(loss for loss in lost if loss >= BLUNDER) / len(lost)
            print(
                f"{nodes} nodes, {command}: loses {mean:.2f} +- {error:.2f} % a move, "
                f"{in_blunders:.2f} of these in moves that lose {BLUNDER} % or more, "
                f"best move {100 * best / len(fens):.1f} % of {len(fens)}",
                flush=True,
            )
            results.append(lost)
        if len(results) == 2:
            mean, error = mean_and_error([first - second for first, second in zip(*results)])
            print(f"{nodes} nodes, difference {mean:+.2f} +- {error:.2f} %", flush=True)
    judge.close()


if __name__ == "__main__":
    main()
