#!/usr/bin/env python3
"""How well the engine that labelled a file of games agrees with its own labels: what a network can hope for.

Takes evaluated positions from the last games of a file, and asks Stockfish for its static evaluation (its network without any
search) and for searches of growing length, each from an empty memory. Prints Kendall's tau-b with the labels, from the side to
move, mates left out, over the same positions in every line. A position in check has no static evaluation and is left out too.

    scripts/label_ceiling.py selfplay.pgn.zst --positions 10000 --nodes 100 800 8000
"""

import argparse
import random
import re
import subprocess

import chess
import chess.pgn
from judge_moves import open_text


def labelled(path, games_from, count, seed):
    """(FEN, label in centipawns for the side to move) of random evaluated positions after game number `games_from`."""
    found = []
    with open_text(path) as games:
        for _ in range(games_from):
            if not chess.pgn.skip_game(games):
                raise SystemExit(f"{path} has fewer than {games_from} games")
        while (game := chess.pgn.read_game(games)) is not None:
            for node in game.mainline():
                score, board = node.eval(), node.board()
                if score is not None and not score.is_mate() and not board.is_check() and not board.is_game_over():
                    found.append((board.fen(), score.pov(board.turn).score()))
    random.Random(seed).shuffle(found)
    return found[:count]


def inversions(order):
    """The order sorted, and the pairs in it that were the wrong way round."""
    if len(order) < 2:
        return order, 0
    half = len(order) // 2
    (left, a), (right, b) = inversions(order[:half]), inversions(order[half:])
    merged, count, i = [], a + b, 0
    for value in right:
        while i < half and left[i] <= value:
            merged.append(left[i])
            i += 1
        count += half - i
        merged.append(value)
    return merged + left[i:], count


def pairs_alike(values):
    counts = {}
    for value in values:
        counts[value] = counts.get(value, 0) + 1
    return sum(count * (count - 1) // 2 for count in counts.values())


def tau_b(xs, ys):
    total = len(xs) * (len(xs) - 1) // 2
    ties_x, ties_y, ties_both = pairs_alike(xs), pairs_alike(ys), pairs_alike(zip(xs, ys))
    discordant = inversions([y for _, y in sorted(zip(xs, ys))])[1]
    concordant = total - ties_x - ties_y + ties_both - discordant
    return (concordant - discordant) / ((total - ties_x) * (total - ties_y)) ** 0.5


class Engine:
    """Stockfish over UCI: python-chess does not know `eval`."""

    def __init__(self, command):
        self.process = subprocess.Popen([command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ask("uci", "uciok")

    def ask(self, command, last):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        lines = []
        while True:
            lines.append(self.process.stdout.readline())
            if not lines[-1]:
                raise SystemExit("the engine is gone")
            if lines[-1].startswith(last):
                return lines

    def static(self, fen):
        """Centipawns for White."""
        text = self.ask(f"position fen {fen}\neval", "Final evaluation")[-1]
        return round(100 * float(re.search(r"[-+]?\d+\.\d+", text).group()))

    def searched(self, fen, nodes):
        """Centipawns for the side to move; a mate counts as 100,000 less its moves."""
        self.ask("ucinewgame\nisready", "readyok")
        lines = self.ask(f"position fen {fen}\ngo nodes {nodes}", "bestmove")
        kind, value = re.findall(r"score (cp|mate) (-?\d+)", "".join(lines))[-1]
        value = int(value)
        return value if kind == "cp" else (100_000 - value if value > 0 else -100_000 - value)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("games")
    parser.add_argument("--from-game", type=int, default=0, help="skip this many games")
    parser.add_argument("--positions", type=int, default=10_000)
    parser.add_argument("--nodes", type=int, nargs="*", default=[100, 800, 8000])
    parser.add_argument("--engine", default="stockfish")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()

    positions = labelled(args.games, args.from_game, args.positions, args.seed)
    labels = [label for _, label in positions]
    engine = Engine(args.engine)
    whites = [fen.split()[1] == "w" for fen, _ in positions]
    static = [engine.static(fen) * (1 if white else -1) for (fen, _), white in zip(positions, whites)]
    print(f"{len(positions)} positions without mates and checks")
    print(f"static evaluation: tau-b {tau_b(static, labels):.4f}", flush=True)
    for nodes in args.nodes:
        found = [engine.searched(fen, nodes) for fen, _ in positions]
        print(f"{nodes} nodes: tau-b {tau_b(found, labels):.4f}", flush=True)


if __name__ == "__main__":
    main()
