#!/usr/bin/env python3
"""Replays our random games with python-chess and compares the rules at every ply.

Builds and runs the `judge` example of the board crate. Compared at every position of every game: the FEN, the legal
moves, check, the claims of a draw (third occurrence, fifty moves, insufficient material), what ends the game, and for
every move played its SAN. The Chess960 starting arrays are compared by number. Exit code 1 on any difference.
"""

import argparse
import collections
import json
import multiprocessing
import pathlib
import subprocess
import sys

try:
    import chess
except ImportError:
    sys.exit("judge_rules.py needs python-chess: pip install chess")

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Differences printed and kept; the rest are only counted.
SHOWN = 20


def expected(board):
    """Flags and end of the game as python-chess sees them, in the words of the judge."""
    moves = sorted(board.uci(move) for move in board.legal_moves)
    check = board.is_check()
    repeated = board.is_repetition(3)
    # is_fifty_moves also asks for a legal move; it is spelled out here to list the moves once only.
    fifty = board.halfmove_clock >= 100 and bool(moves)
    insufficient = board.is_insufficient_material()
    flags = "".join(
        flag
        for flag, holds in (("c", check), ("r", repeated), ("f", fifty), ("i", insufficient))
        if holds
    )
    if not moves:
        end = ("black-mates" if board.turn else "white-mates") if check else "stalemate"
    elif insufficient:
        end = "insufficient"
    elif repeated:
        end = "repetition"
    elif fifty:
        end = "fifty"
    else:
        end = "-"
    return board.fen(en_passant="legal"), flags or "-", end, " ".join(moves)


FLAGS = {"c": "checks", "r": "repetitions", "f": "fifty-move claims", "i": "insufficient"}
FIELDS = ("FEN", "flags", "end", "legal moves")


def judge(task):
    """Plays through one range of games; returns the counts and the first differences."""
    binary, first, count = task
    counts = collections.Counter()
    differences = []

    def differ(game, board, what, ours, theirs):
        counts["differences"] += 1
        if len(differences) < SHOWN:
            differences.append(f"game {game}, {board.fen()}: {what}: ours {ours!r}, python-chess {theirs!r}")

    process = subprocess.Popen([binary, str(first), str(count)], stdout=subprocess.PIPE, text=True)
    board, game, lost = chess.Board(), None, True
    for line in process.stdout:
        line = line.rstrip("\n")
        if line.startswith("game "):
            _, game, mode, fen = line.split(" ", 3)
            chess960 = mode.startswith("chess960")
            board, lost = chess.Board(fen, chess960=chess960), False
            counts["games"] += 1
            counts["Chess960 games"] += chess960
            if ":" in mode:
                start = chess.Board.from_chess960_pos(int(mode.split(":")[1]))
                if start.fen() != board.fen():
                    differ(game, board, "starting array", fen, start.fen())
            continue
        if lost:
            continue
        *ours, san, played = line.split("|")
        theirs = expected(board)
        for what, our, their in zip(FIELDS, ours, theirs, strict=True):
            if our != their:
                differ(game, board, what, our, their)
        counts["positions"] += 1
        counts["legal moves"] += theirs[3].count(" ") + bool(theirs[3])
        for flag in theirs[1].strip("-"):
            counts[FLAGS[flag]] += 1
        if theirs[2] in ("white-mates", "black-mates", "stalemate"):
            counts["stalemates" if theirs[2] == "stalemate" else "mates"] += 1
        if played == "-":
            continue
        try:
            move = board.parse_uci(played)
            counts["en-passant captures"] += board.is_en_passant(move)
            their_san = board.san_and_push(move)
        except ValueError as error:
            differ(game, board, "move", played, str(error))
            lost = True
            continue
        if san != their_san:
            differ(game, board, "SAN", san, their_san)
        counts["castling moves"] += san.startswith("O-O")
        counts["promotions"] += move.promotion is not None
    if process.wait() != 0:
        counts["differences"] += 1
        differences.append(f"the judge failed on games {first} to {first + count - 1}")
    return counts, differences


def build():
    """Builds the example and returns where it lies."""
    command = ["cargo", "build", "--release", "--quiet", "-p", "batch-first-board", "--example", "judge"]
    subprocess.run(command, cwd=ROOT, check=True)
    metadata = subprocess.run(
        ["cargo", "metadata", "--format-version", "1", "--no-deps"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return str(pathlib.Path(json.loads(metadata.stdout)["target_directory"]) / "release" / "examples" / "judge")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", type=int, default=2000, help="number of games (default 2000)")
    parser.add_argument("--first", type=int, default=0, help="number (seed) of the first game (default 0)")
    parser.add_argument("--jobs", type=int, default=multiprocessing.cpu_count(), help="processes (default: all cores)")
    parser.add_argument("--judge", help="an already built judge to run")
    arguments = parser.parse_args()
    binary = arguments.judge or build()
    step = 25
    last = arguments.first + arguments.games
    tasks = [(binary, first, min(step, last - first)) for first in range(arguments.first, last, step)]
    total, shown = collections.Counter(), []
    with multiprocessing.Pool(arguments.jobs) as pool:
        for counts, differences in pool.imap(judge, tasks):
            total += counts
            for difference in differences[: SHOWN - len(shown)]:
                shown.append(difference)
                print(difference, file=sys.stderr)
    differences = total.pop("differences", 0)
    print(f"python-chess {chess.__version__}: " + ", ".join(f"{count:,} {what}" for what, count in total.items()))
    # A judge that saw no game, or none of what it is there to judge, has shown nothing.
    rare = (*FLAGS.values(), "mates", "stalemates", "castling moves", "en-passant captures", "promotions")
    unseen = [what for what in rare if not total[what]] if arguments.games >= 1000 else []
    if total["games"] != arguments.games or unseen:
        sys.exit(f"not judged: {total['games']} of {arguments.games} games, never seen: {', '.join(unseen) or 'nothing'}")
    if differences:
        sys.exit(f"{differences:,} differences")
    print("no differences")


if __name__ == "__main__":
    main()
