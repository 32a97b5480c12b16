#!/usr/bin/env python3
"""Recomputes a match from its PGN alone, with python-chess and formulas of its own, and compares the result with the
report of `batch-first match --out FOLDER`:

    scripts/judge_match.py FOLDER        # reads FOLDER/games.pgn and FOLDER/report.json

Every move is replayed; results of games that ended on the board are checked against the rules; then games, pairs, Elo,
interval and likelihood of superiority of every two players are compared. Exit code 1 where something differs.
"""

import collections
import json
import math
import pathlib
import statistics
import sys

import chess.pgn


def elo(score):
    if score <= 0:
        return -math.inf
    if score >= 1:
        return math.inf
    return 400 * math.log10(score / (1 - score))


def near(ours, theirs, tolerance=1e-6):
    # JSON has no infinities: they are null.
    if ours is None:
        return not math.isfinite(theirs)
    return ours == theirs or abs(ours - theirs) <= tolerance


def main():
    folder = pathlib.Path(sys.argv[1])
    report = json.loads((folder / "report.json").read_text())
    names = [player["name"] for player in report["players"]]
    pairs = collections.defaultdict(lambda: collections.defaultdict(list))
    tallies = collections.defaultdict(collections.Counter)
    games = 0
    wrong = []
    with open(folder / "games.pgn") as file:
        while (game := chess.pgn.read_game(file)) is not None:
            games += 1
            where = f"game {game.headers['Round']}"
            if game.errors:
                wrong.append(f"{where}: {game.errors[0]}")
            board = game.end().board()
            result = game.headers["Result"]
            if (over := board.outcome(claim_draw=False)) and over.result() != result:
                wrong.append(f"{where}: {result} written, {over.result()} on the board")
            points = {"1-0": 1.0, "0-1": 0.0, "1/2-1/2": 0.5}[result]
            white, black = (names.index(game.headers[side]) for side in ("White", "Black"))
            first, second = min(white, black), max(white, black)
            if first == black:
                points = 1 - points
            tallies[first, second][points] += 1
            pairs[first, second][game.headers["Round"].split(".")[0]].append(points)
    if games != len(report["games"]):
        wrong.append(f"{games} games in the PGN, {len(report['games'])} in the report")
    print(f"{games} games replayed")
    for duel in report["duels"]:
        key = duel["first"], duel["second"]
        tally, units = tallies[key], list(pairs[key].values())
        counted = [tally[1.0], tally[0.5], tally[0.0]]
        written = [duel["tally"][kind] for kind in ("wins", "draws", "losses")]
        whole = [sum(unit) for unit in units if len(unit) == 2]
        pentanomial = [sum(1 for unit in whole if unit == half / 2) for half in range(5)]
        if counted != written or pentanomial != duel["pairs"]:
            wrong.append(f"{key}: {counted} {pentanomial} counted, {written} {duel['pairs']} written")
        label = f"{names[key[0]]} - {names[key[1]]}: {counted} pairs {pentanomial}"
        if len(whole) != len(units) or len(units) < 10:
            print(f"{label}; too few or incomplete pairs to compare the interval")
            continue
        means = [unit / 2 for unit in whole]
        score = statistics.fmean(means)
        error = statistics.pstdev(means) / math.sqrt(len(means))
        if error == 0:
            print(f"{label}; all pairs alike")
            continue
        reach = statistics.NormalDist().inv_cdf(0.975) * error
        ours = [elo(score), elo(score - reach), elo(score + reach), statistics.NormalDist().cdf((score - 0.5) / error)]
        theirs = [duel["estimate"][name] for name in ("elo", "low", "high", "superiority")]
        print(f"{label}; Elo {ours[0]:+.1f} [{ours[1]:+.1f}, {ours[2]:+.1f}], LOS {100 * ours[3]:.1f} %")
        if not all(near(b, a) for a, b in zip(ours, theirs)):
            wrong.append(f"{key}: {ours} computed, {theirs} written")
    for line in wrong:
        print("differs:", line)
    print("everything agrees" if not wrong else f"{len(wrong)} differences")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
