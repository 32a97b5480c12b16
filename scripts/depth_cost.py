#!/usr/bin/env python3
"""How many evaluations an engine needs to finish a depth, on positions from games, and the ratio to the first engine's.

    scripts/depth_cost.py games.pgn.zst --depth 6 --engine "target/release/batch-first uci; Batch=1" \\
        --engine "target/release/batch-first uci; Batch=64" --engine "target/release/batch-first uci; Search=alphabeta"

An engine is a command; options follow as `; Name=Value`. The ratio is the geometric mean over the positions, with its
standard error. With `--to` the program also says what a ply costs between the two depths: by what factor evaluations
grow. Nothing here depends on the machine or its load.
"""

import argparse
import math
import statistics

import chess
import chess.engine

from judge_moves import positions, start


def cost(engine, board, depth, halves, most):
    """Evaluations until the depth is finished, or the most that were allowed.

    The search is not told the depth: one that knows its last does not work ahead beyond it.
    """
    reports, last = 0, None
    with engine.analysis(board, chess.engine.Limit(nodes=most), game=object()) as analysis:
        for info in analysis:
            if "nodes" not in info or "pv" not in info or info.get("lowerbound") or info.get("upperbound"):
                continue
            last = info
            reports += info["depth"] == depth
            if reports == halves or info["depth"] > depth:
                break
        else:
            if not (last and last["score"].is_mate()):  # A mate may end a search by itself.
                return most
    return max(1, last["nodes"])


def costs(command, fens, depth, halves, most):
    engine = start(command)
    found = []
    for fen in fens:
        found.append(cost(engine, chess.Board(fen), depth, halves, most))
    engine.quit()
    return found


def mean_of_ratios(found, first):
    """The geometric mean of found / first, and the standard error of its logarithm."""
    logs = [math.log(one / other) for one, other in zip(found, first)]
    return math.exp(statistics.mean(logs)), statistics.pstdev(logs) / len(logs) ** 0.5


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("games", help="PGN, may be compressed")
    parser.add_argument("--engine", action="append", required=True)
    parser.add_argument("--depth", type=int, default=6)
    parser.add_argument("--to", type=int, help="a larger depth: what a ply costs from --depth on")
    parser.add_argument("--halves", type=int, default=1, choices=(1, 2), help="2: where depths come in halves, the second one too")
    parser.add_argument("--most", type=int, default=100_000, help="evaluations of one position")
    parser.add_argument("--count", type=int, default=48, help="positions")
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    if options.to is not None and options.to <= options.depth:
        parser.error("--to must be larger than --depth")
    fens = positions(options.games, options.count, options.seed)
    first = None
    for command in options.engine:
        found = costs(command, fens, options.depth, options.halves, options.most)
        first = first or found
        ratio, error = mean_of_ratios(found, first)
        print(
            f"depth {options.depth}, {command}: {statistics.mean(found):.0f} evaluations, "
            f"{ratio:.3f} +- {error:.3f} times the first",
            flush=True,
        )
        if options.to:
            deeper = costs(command, fens, options.to, options.halves, options.most)
            ratio, error = mean_of_ratios(deeper, found)
            plies = options.to - options.depth
            ply = ratio ** (1 / plies)
            print(
                f"depth {options.to}, {command}: {statistics.mean(deeper):.0f} evaluations; a ply costs {ply:.2f} +- "
                f"{ply * error / plies:.2f} times the one before, {sum(one == options.most for one in deeper)} "
                f"positions of {len(deeper)} not finished",
                flush=True,
            )


if __name__ == "__main__":
    main()
