#!/usr/bin/env python3
"""Which of many settings of a search make it stronger? A factorial screening by games.

    cargo build --release --features tuning
    scripts/screen_rules.py --program target/release/batch-first --nodes 3000 --games 1200 --out runs/screen \\
        'kbest_history=120|0' 'kbest_static_plies=5|2' 'Opponent Errors=0|15'

Factors are UCI options; with the feature `tuning` the program has numbers of its searches among them. Each pair of games
is played between two random choices of levels, so that every game says something of every factor. The first level is the
usual one. The games lie in OUT/games.jsonl: the same command goes on after an interruption. The table gives each level's Elo against the first one with its standard error,
by linear regression; interactions are not seen, so a sequential test (scripts/sprt.sh) decides afterwards.
"""

import argparse
import json
import math
import os
import random
import subprocess
import sys
import threading
from pathlib import Path

import chess

from uci_options import set_options

OPENINGS = Path(__file__).parent.parent / "crates/arena/src/openings.epd"
WON, SURE_PLIES, EVEN, EVEN_PLIES, LONGEST = 600, 8, 10, 16, 400


class Engine:
    def __init__(self, program, search, levels):
        self.process = subprocess.Popen([program, "uci"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)
        set_options(self.process, {"WeightsFile": "fast", "Threads": 1, "Search": search} | levels)

    def send(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def new_game(self):
        self.send("ucinewgame")

    def move(self, fen, moves, nodes):
        """The move, and the score in centipawns for the side to move."""
        self.send(f"position fen {fen}" + (" moves " + " ".join(moves) if moves else ""))
        self.send(f"go nodes {nodes}")
        score = 0
        for line in self.process.stdout:
            words = line.split()
            if words[:1] == ["bestmove"]:
                return words[1], score
            if "score" in words:
                at = words.index("score")
                number = int(words[at + 2])
                score = number if words[at + 1] == "cp" else math.copysign(10000, number)
        raise SystemExit("an engine stopped")

    def quit(self):
        self.send("quit")
        self.process.wait()


def openings():
    """FENs of the openings that matches are played from."""
    lines = [line for line in OPENINGS.read_text().splitlines() if line.strip() and not line.startswith("#")]
    return [" ".join(line.split()[:4]) + " 0 1" for line in lines]


def in_idle_threads(work, jobs):
    """Does the work in so many threads, below everything else that runs."""
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    threads = [threading.Thread(target=work) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def play_pair(program, search, settings, fen, nodes):
    """The points of the first of two settings as White and as Black."""
    engines = [Engine(program, search, options) for options in settings]
    points = [play(*engines, fen, nodes), 1 - play(*engines[::-1], fen, nodes)]
    for engine in engines:
        engine.quit()
    return points


def play(white, black, fen, nodes):
    """White's points."""
    board, moves = chess.Board(fen), []
    sure, even = 0, 0
    for engine in (white, black):
        engine.new_game()
    while not board.is_game_over(claim_draw=True) and len(moves) < LONGEST:
        to_move = white if board.turn else black
        text, score = to_move.move(fen, moves, nodes)
        board.push_uci(text)
        moves.append(text)
        score = score if board.turn == chess.BLACK else -score  # White's.
        side = 1 if score >= WON else -1 if score <= -WON else 0
        sure = sure + side if side and side * sure >= 0 else side
        even = even + 1 if abs(score) <= EVEN and len(moves) > 60 else 0
        if abs(sure) >= SURE_PLIES:
            return 1.0 if sure > 0 else 0.0
        if even >= EVEN_PLIES:
            return 0.5
    result = board.result(claim_draw=True)
    return {"1-0": 1.0, "0-1": 0.0}.get(result, 0.5)


def solve(matrix, vector):
    """The solution of a linear system and the inverse of its matrix, by Gauss-Jordan elimination."""
    size = len(vector)
    rows = [list(row) + [float(i == j) for j in range(size)] for i, row in enumerate(matrix)]
    for at in range(size):
        pivot = max(range(at, size), key=lambda row: abs(rows[row][at]))
        rows[at], rows[pivot] = rows[pivot], rows[at]
        scale = rows[at][at]
        rows[at] = [cell / scale for cell in rows[at]]
        for row in range(size):
            if row != at:
                factor = rows[row][at]
                rows[row] = [cell - factor * other for cell, other in zip(rows[row], rows[at])]
    inverse = [row[size:] for row in rows]
    return [sum(cell * x for cell, x in zip(row, vector)) for row in inverse], inverse


def report(factors, games):
    columns = [(name, level) for name, levels in factors.items() for level in levels[1:]]
    rows = []
    for game in games:
        is_level = lambda levels, name, level: float(str(levels[name]) == level)
        if any(name not in game["one"] for name in factors):
            continue
        row = [is_level(game["one"], *column) - is_level(game["other"], *column) for column in columns]
        rows.append((row, sum(game["points"]) / len(game["points"]) - 0.5))
    size = len(columns)
    matrix = [[sum(row[i] * row[j] for row, _ in rows) + (1e-6 if i == j else 0) for j in range(size)] for i in range(size)]
    vector = [sum(row[i] * score for row, score in rows) for i in range(size)]
    found, inverse = solve(matrix, vector)
    rest = sum((score - sum(a * b for a, b in zip(row, found))) ** 2 for row, score in rows)
    variance = rest / max(1, len(rows) - size)
    print(f"{sum(len(game['points']) for game in games)} games")
    elo = 400 / math.log(10) * 4  # Elo for each point at an even score.
    for (name, level), effect, at in zip(columns, found, range(size)):
        print(f"{name}={level}: {elo * effect:+.0f} ± {elo * math.sqrt(variance * inverse[at][at]):.0f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="target/release/batch-first")
    parser.add_argument("--search", default="kbest")
    parser.add_argument("--nodes", type=int, default=3000)
    parser.add_argument("--games", type=int, default=1200)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--report", action="store_true", help="play nothing")
    parser.add_argument("factors", nargs="+")
    arguments = parser.parse_args()
    factors = {}
    for text in arguments.factors:
        name, _, levels = text.partition("=")
        factors[name] = levels.split("|")
    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / "games.jsonl"
    games = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    starts, lock = openings(), threading.Lock()

    def work():
        while True:
            with lock:
                if 2 * len(games) >= arguments.games:
                    return
            one, other = ({name: random.choice(levels) for name, levels in factors.items()} for _ in range(2))
            fen = random.choice(starts)
            points = play_pair(arguments.program, arguments.search, (one, other), fen, arguments.nodes)
            with lock, path.open("a") as file:
                games.append({"one": one, "other": other, "points": points, "fen": fen, "nodes": arguments.nodes})
                file.write(json.dumps(games[-1]) + "\n")
                print(f"{2 * len(games)} of {arguments.games} games", file=sys.stderr)

    if not arguments.report:
        in_idle_threads(work, arguments.jobs)
    report(factors, games)


if __name__ == "__main__":
    main()
