#!/usr/bin/env python3
"""Evaluations a second of processor time with a network of Leela's: ours beside Leela Chess Zero's own code.

    scripts/bench_leela.py NETWORK.pb.gz [--program target/release/batch-first] [--batch 1 --batch 32] [--rounds 5]

One thread each, in alternation; medians over the rounds, and the ratio to Leela's code. Leela's is the Python package
of scripts/judge_leela.py with the backend `eigen`, on positions of random games; ours is `bench eval --both` on every
path and format that `--path` names (default: those of this machine).
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import time

import chess

from judge_leela import bindings

POSITIONS = 256


def inputs(backends, backend):
    draw, found = random.Random(2), []
    while len(found) < POSITIONS:
        board = chess.Board()
        for _ in range(draw.randrange(4, 60)):
            if board.is_game_over():
                break
            board.push(draw.choice(list(board.legal_moves)))
        if not board.is_game_over():
            state = backends.GameState(moves=[move.uci() for move in board.move_stack])
            found.append(state.as_input(backend))
    return found


def leelas_speed(backend, planes, batch, seconds):
    began, count = time.process_time(), 0
    while time.process_time() - began < seconds:
        for first in range(0, POSITIONS, batch):
            backend.evaluate(*planes[first : first + batch])
            count += len(planes[first : first + batch])
    return count / (time.process_time() - began)


def our_speeds(arguments, batch):
    command = [arguments.program, "bench", "eval", "--net", arguments.network, "--both", "--json"]
    command += ["--batch", str(batch), "--seconds", str(arguments.seconds)]
    command += [word for path in arguments.path for word in ("--path", path)]
    command += ["--precision", arguments.precision] if arguments.precision else []
    run = subprocess.run(command, capture_output=True, text=True)
    rows = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
    speeds = {f"{row['path']} {row['precision']}": row["evaluations_per_cpu_second"] for row in rows if "path" in row}
    if not speeds:
        sys.exit(run.stderr or "no path of ours was measured")
    return speeds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network")
    parser.add_argument("--program", default="target/release/batch-first")
    parser.add_argument("--batch", type=int, action="append", default=[])
    parser.add_argument("--path", action="append", default=[])
    parser.add_argument("--precision")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5)
    arguments = parser.parse_args()
    backends = bindings()
    backend = backends.Backend(backends.Weights(arguments.network), backend="eigen")
    planes = inputs(backends, backend)
    for batch in arguments.batch or [1, 32, 256]:
        rounds = []
        for _ in range(arguments.rounds):
            speeds = {"Leela Chess Zero, eigen": leelas_speed(backend, planes, batch, arguments.seconds)}
            rounds.append(speeds | our_speeds(arguments, batch))
        peer = "Leela Chess Zero, eigen"
        for name in rounds[0]:
            speed = statistics.median(one[name] for one in rounds)
            ratio = statistics.median(one[name] / one[peer] for one in rounds)
            print(f"batch {batch:4}  {name:26} {speed:9.0f} a CPU second, {ratio:6.2f} times Leela's", flush=True)


main()
