#!/usr/bin/env python3
"""How many evaluations an engine needs to finish a depth, on positions from games, and the ratio to the first engine's.

    scripts/depth_cost.py games.pgn.zst --depth 6 --engine "target/release/batch-first uci; Batch=1" \\
        --engine "target/release/batch-first uci; Batch=64" --engine "target/release/batch-first uci; Search=alphabeta"

An engine is a command; options follow as `; Name=Value`. The ratio is the geometric mean over the positions, with its
standard error. It does not depend on the machine or its load.
"""

import argparse
import math
import statistics

import chess
import chess.engine

from judge_moves import positions, start


def costs(command, fens, depth, most):
    engine = start(command)
    found = []
    for fen in fens:
        limit = chess.engine.Limit(depth=depth, nodes=most)
        info = engine.analyse(chess.Board(fen), limit, game=object())
        found.append(max(1, info.get("nodes", 1)))
    engine.quit()
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("games", help="PGN, may be compressed")
    parser.add_argument("--engine", action="append", required=True)
    parser.add_argument("--depth", type=int, default=6)
    parser.add_argument("--most", type=int, default=100_000, help="evaluations of one position")
    parser.add_argument("--count", type=int, default=48, help="positions")
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    fens = positions(options.games, options.count, options.seed)
    first = None
    for command in options.engine:
        found = costs(command, fens, options.depth, options.most)
        first = first or found
        logs = [math.log(one / other) for one, other in zip(found, first)]
        error = statistics.pstdev(logs) / len(logs) ** 0.5
        print(
            f"depth {options.depth}, {command}: {statistics.mean(found):.0f} evaluations, "
            f"{math.exp(statistics.mean(logs)):.3f} +- {error:.3f} times the first",
            flush=True,
        )


if __name__ == "__main__":
    main()
