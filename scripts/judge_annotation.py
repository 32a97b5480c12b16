#!/usr/bin/env python3
"""How far the evaluations of annotated games are from Stockfish's, in percent of the chance to win.

    scripts/judge_annotation.py [--nodes 60000] ONE.pgn [OTHER.pgn]

The files hold the same games, annotated by two versions or with two efforts (`analyze`). Stockfish searches every
position that both have evaluated. Prints the mean error of each with its standard error, and that of the difference;
then how many moves that lose ten percent are marked ? or ??, how many others are, and how many are not.
Needs python-chess and Stockfish.
"""

import argparse
import math
import shutil
import statistics

import chess.engine
import chess.pgn
from check_annotated import games, win_percent


def with_error(values):
    return f"{statistics.mean(values):.2f} ± {statistics.stdev(values) / math.sqrt(len(values)):.2f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="PGN")
    parser.add_argument("--nodes", type=int, default=60_000)
    arguments = parser.parse_args()
    versions = [games(path) for path in arguments.files]
    errors = [[] for _ in versions]
    marks = [{"marked": 0, "marked wrongly": 0, "missed": 0} for _ in versions]
    with chess.engine.SimpleEngine.popen_uci(shutil.which("stockfish") or "/usr/games/stockfish") as judge:
        for same in zip(*versions, strict=True):
            before = win_percent(judge.analyse(same[0].board(), chess.engine.Limit(nodes=arguments.nodes), game=object())["score"])
            for nodes in zip(*(game.mainline() for game in same), strict=True):
                board = nodes[0].board()
                if board.is_game_over():
                    break
                after = win_percent(judge.analyse(board, chess.engine.Limit(nodes=arguments.nodes), game=same)["score"])
                is_bad = (before - after if not board.turn else after - before) >= 10
                known = all(node.eval() for node in nodes)
                for node, found, counts in zip(nodes, errors, marks):
                    is_marked = bool(node.nags & {chess.pgn.NAG_MISTAKE, chess.pgn.NAG_BLUNDER})
                    if is_bad or is_marked:
                        counts["missed" if not is_marked else "marked" if is_bad else "marked wrongly"] += 1
                    if known:
                        found.append(abs(win_percent(node.eval()) - after))
                before = after
    for path, found, counts in zip(arguments.files, errors, marks):
        print(f"{path}: {len(found)} positions, error {with_error(found)} %; moves that lose ten percent: {counts}")
    for path, found in zip(arguments.files[1:], errors[1:]):
        print(f"{path} is nearer by {with_error([one - other for one, other in zip(errors[0], found)])} %")


if __name__ == "__main__":
    main()
