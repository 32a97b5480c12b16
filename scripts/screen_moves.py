#!/usr/bin/env python3
"""Which of many settings of a search make it choose better moves? A factorial screening by judged moves.

    cargo build --release --features tuning
    scripts/screen_moves.py --program target/release/batch-first --positions games.pgn --seconds 4000 --out moves.jsonl \\
        'nodes=10000|6000' 'kbest_static_plies=5|2' 'kbest_late_pruning=300|360:kbest_late_pruning_each=90'

In positions of the games the search plays eight times, each time with random levels of every factor; Stockfish says
what its move loses, in percent of the chance to win (25,000 nodes a move, the logistic curve of centipawns / 180).
With --open only positions count in which Stockfish itself changes its mind between 200 nodes, 2,000 and all: each
play then says more. A filter by moves of the search would favour every level but the usual one, because it leaves out
what the usual one gets right. `nodes` is a factor too, which gives the scale; the others are UCI options, among which
a program with the feature `tuning` has numbers of its searches. A level may set further options after a colon. The
first level is the usual one. The plays lie in OUT: the same command adds more. The table gives what each level loses
beyond the first one, with its standard error, by linear regression within positions; interactions are not seen. It
chooses what to test: a sequential test (scripts/sprt.sh) decides.
"""

import argparse
import json
import math
import random
import subprocess
import threading
import time

import chess.pgn
import numpy as np

from uci_options import set_options

MATE, DECIDED, CHUNK, PLAYS = 3000, 600, 24, 8


class Engine:
    """A UCI engine that forgets everything between two positions."""

    def __init__(self, command, options):
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        set_options(self.process, options)

    def send(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def go(self, fen, nodes, move=None):
        """The best move and its score in centipawns, for the side to move."""
        self.send("ucinewgame")
        self.send(f"position fen {fen}")
        self.send(f"go nodes {nodes}" + (f" searchmoves {move}" if move else ""))
        score = 0
        for line in self.process.stdout:
            words = line.split()
            if words[:1] == ["bestmove"]:
                return words[1], score
            if "score" in words and not {"upperbound", "lowerbound"} & set(words):
                at = words.index("score")
                value = int(words[at + 2])
                score = max(-MATE, min(MATE, value)) if words[at + 1] == "cp" else math.copysign(MATE, value)
        raise SystemExit(f"{self.process.args[0]} stopped in {fen}")

    def quit(self):
        self.send("quit")
        self.process.wait(10)


def chance(centipawns):
    return 100 / (1 + math.exp(-centipawns / 180))


def positions_of(path):
    """Positions of games from the seventh ply on, with three legal moves or more."""
    found = []
    with open(path) as file:
        while (game := chess.pgn.read_game(file)) is not None:
            board = game.board()
            for ply, move in enumerate(game.mainline_moves()):
                board.push(move)
                if ply >= 6 and board.legal_moves.count() >= 3:
                    found.append(board.fen())
    return found


def player(program, levels):
    """The search with these levels, and its evaluations a move."""
    options = {"WeightsFile": "fast", "Threads": 1, "Search": "kbest", "Hash": 32}
    for name, level in levels.items():
        if name != "nodes":
            options |= dict(part.split("=") for part in f"{name}={level}".split(":"))
    return Engine([program, "uci"], options), int(levels.get("nodes", 10_000))


def is_open(judge, fen, best_move):
    """Does the judge find another move with less effort?"""
    return any(judge.go(fen, nodes)[0] != best_move for nodes in (200, 2000))


def play(arguments, judge, fens, factors):
    """What moves lose in these positions, with random levels; decided positions are left out."""
    best = {fen: judge.go(fen, arguments.judge_nodes) for fen in fens}
    best = {fen: found for fen, found in best.items() if abs(found[1]) <= DECIDED}
    if arguments.open:
        best = {fen: found for fen, found in best.items() if is_open(judge, fen, found[0])}
    plays, scores = {fen: [] for fen in best}, dict()
    for _ in range(PLAYS):
        levels = {name: random.choice(all_levels) for name, all_levels in factors.items()}
        engine, nodes = player(arguments.program, levels)
        for fen, (best_move, best_score) in best.items():
            move, _ = engine.go(fen, nodes)
            if (fen, move) not in scores:
                scores[fen, move] = best_score if move == best_move else judge.go(fen, arguments.judge_nodes, move)[1]
            lost = max(0, chance(best_score) - chance(scores[fen, move]))
            plays[fen].append({"levels": levels, "move": move, "lost": lost})
        engine.quit()
    return [{"fen": fen, "plays": plays[fen]} for fen in best]


def screen(arguments, factors):
    fens = positions_of(arguments.positions)
    random.Random(5).shuffle(fens)
    starts = list(range(0, len(fens), CHUNK))
    random.shuffle(starts)
    end, lock = time.time() + arguments.seconds, threading.Lock()

    def work():
        judge = Engine([arguments.judge], {"Hash": 16})
        while time.time() < end:
            with lock:
                if not starts:
                    break
                start = starts.pop()
            rows = play(arguments, judge, fens[start : start + CHUNK], factors)
            with lock, open(arguments.out, "a") as file:
                file.writelines(json.dumps(row) + "\n" for row in rows)
        judge.quit()

    threads = [threading.Thread(target=work) for _ in range(arguments.jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def report(path, factors):
    columns = [(name, level) for name, levels in factors.items() for level in levels[1:]]
    losses, settings, all_lost = [], [], []
    for row in map(json.loads, open(path)):
        if len(row["plays"]) < 2:
            continue
        lost = np.array([play["lost"] for play in row["plays"]])
        chosen = [[float(play["levels"].get(n, factors[n][0]) == level) for n, level in columns] for play in row["plays"]]
        all_lost.append(lost.mean())
        losses.append(lost - lost.mean())
        settings.append(np.array(chosen) - np.mean(chosen, axis=0))
    count = len(losses)
    if count == 0:
        raise SystemExit(f"{path}: no position was played twice")
    losses, settings = np.concatenate(losses), np.concatenate(settings)
    inverse = np.linalg.pinv(settings.T @ settings)
    effects = inverse @ settings.T @ losses
    rest = losses - settings @ effects
    variance = rest @ rest / max(1, len(losses) - count - len(columns))
    print(f"{count} positions, {len(losses)} plays, mean loss {np.mean(all_lost):.3f} %")
    for at, (name, level) in enumerate(columns):
        print(f"{name}={level}: {effects[at]:+.3f} ± {math.sqrt(variance * inverse[at, at]):.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--positions", required=True, help="a PGN file")
    parser.add_argument("--judge", default="stockfish")
    parser.add_argument("--judge-nodes", type=int, default=25_000)
    parser.add_argument("--open", action="store_true", help="only positions in which the judge changes its mind")
    parser.add_argument("--out", required=True)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=600, help="0: only the table")
    parser.add_argument("factor", nargs="+", help="NAME=LEVEL|LEVEL…, the usual level first")
    arguments = parser.parse_args()
    for factor in arguments.factor:
        if "=" not in factor or "|" not in factor:
            parser.error(f"factor '{factor}' has no two levels: write NAME=LEVEL|LEVEL")
    factors = {name: levels.split("|") for name, levels in (text.split("=", 1) for text in arguments.factor)}
    if arguments.seconds > 0:
        screen(arguments, factors)
    report(arguments.out, factors)


main()
