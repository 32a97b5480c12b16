#!/usr/bin/env python3
"""Tunes numbers of a search together by games: simultaneous perturbation (SPSA, Spall 1992).

    cargo build --release --features tuning
    scripts/spsa.py --program target/release/batch-first --nodes 10000 --pairs 3000 --out runs/spsa \\
        kbest_static_margin kbest_razor_margin=70:20:200 kbest_history

Each pair of games is played between two settings: every number a step above or below its present value, chosen by chance,
against the opposite. The numbers then move towards the winner. A number is a UCI option, with start, smallest and largest
value after `=`; without them they are the option's own. A step is a twentieth of the range at the end and larger before,
as in Fishtest and OpenBench. Fractions are rounded up or down by chance, so that they count.

The pairs lie in OUT/pairs.jsonl: the same command goes on after an interruption. What comes out is a candidate; a
sequential test (scripts/sprt.sh) decides whether it is better.
"""

import argparse
import json
import math
import random
import subprocess
import sys
import threading
from pathlib import Path

from screen_rules import in_idle_threads, openings, play_pair

# Exponents and stability as usual; the ratio of learning rate to squared step at the end is for thousands of pairs (in
# trials on simulated games 0.002, which is for tens of thousands, learned nothing from so few, and 0.05 was noise).
ALPHA, GAMMA, STABILITY, LAST_RATE = 0.602, 0.101, 0.1, 0.01


class Number:
    """One number: its present value, its range, and its steps."""

    def __init__(self, name, start, least, most):
        if not least <= start <= most or least == most:
            raise SystemExit(f"{name}: {start} does not lie in a range from {least} to {most}")
        self.name, self.value, self.least, self.most = name, float(start), least, most
        self.last_step = max((most - least) / 20, 0.5)

    def step(self, pair, pairs):
        return self.last_step * (pairs / (pair + 1)) ** GAMMA

    def rate(self, pair, pairs):
        """What a won pair moves the number by, in steps."""
        stability = STABILITY * pairs
        return LAST_RATE * self.last_step / self.step(pair, pairs) * ((stability + pairs) / (stability + pair + 1)) ** ALPHA

    def within(self, value):
        return min(max(value, self.least), self.most)


def options_of(program):
    """The spin options of a program: (default, least, most) by name."""
    lines = subprocess.run([program, "uci"], input="uci\nquit\n", capture_output=True, text=True, check=True).stdout
    found = {}
    for line in lines.splitlines():
        if line.startswith("option name ") and " type spin " in line:
            name, rest = line.removeprefix("option name ").split(" type spin ")
            words = rest.split()
            found[name] = tuple(int(words[words.index(key) + 1]) for key in ("default", "min", "max"))
    return found


def numbers_of(program, texts):
    known, numbers = options_of(program), []
    for text in texts:
        name, _, values = text.partition("=")
        if name not in known:
            raise SystemExit(f"{program} has no number {name}; numbers of the search need a build with `--features tuning`")
        try:
            start, least, most = map(int, values.split(":")) if values else known[name]
        except ValueError:
            raise SystemExit(f"{text}: expected NAME or NAME=START:LEAST:MOST") from None
        if least < known[name][1] or most > known[name][2]:
            raise SystemExit(f"{text}: the range of the option is from {known[name][1]} to {known[name][2]}")
        numbers.append(Number(name, start, least, most))
    return numbers


def rounded(value):
    return math.floor(value + random.random())


def settings(numbers, signs, pair, pairs):
    """Two settings on opposite sides of the present values."""
    sides = ({}, {})
    for number, sign in zip(numbers, signs):
        for side, direction in zip(sides, (sign, -sign)):
            value = number.within(number.value + direction * number.step(pair, pairs))
            side[number.name] = int(number.within(rounded(value)))
    return sides


def learn(numbers, row, pairs):
    """Moves the numbers by a pair of games; the result is won less lost games of the first setting."""
    for number, sign in zip(numbers, row["signs"]):
        step, rate = number.step(row["pair"], pairs), number.rate(row["pair"], pairs)
        number.value = number.within(number.value + rate * step * row["result"] * sign)


def report(numbers, pairs):
    print(f"{pairs} pairs")
    for number in numbers:
        print(f"{number.name}={number.value:.1f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="target/release/batch-first")
    parser.add_argument("--search", default="kbest")
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--pairs", type=int, default=3000, help="of the whole run: the steps depend on it")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--report", action="store_true", help="play nothing")
    parser.add_argument("numbers", nargs="+", metavar="NAME[=START:LEAST:MOST]")
    arguments = parser.parse_args()
    numbers = numbers_of(arguments.program, arguments.numbers)
    run = {"names": [number.name for number in numbers], "pairs": arguments.pairs, "nodes": arguments.nodes}
    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / "pairs.jsonl"
    played = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    for row in played:
        if any(row[key] != value for key, value in run.items()):
            raise SystemExit(f"{path} belongs to a run of {row['pairs']} pairs at {row['nodes']} evaluations of "
                             + " ".join(row["names"]))
        learn(numbers, row, arguments.pairs)
    starts, lock, started = openings(), threading.Lock(), len(played)

    def work():
        nonlocal started
        while True:
            with lock:
                if started >= arguments.pairs:
                    return
                pair, started = started, started + 1
                signs = [random.choice((-1, 1)) for _ in numbers]
                sides = settings(numbers, signs, pair, arguments.pairs)
            fen = random.choice(starts)
            points = play_pair(arguments.program, arguments.search, sides, fen, arguments.nodes)
            row = {"pair": pair, "signs": signs, "result": 2 * (sum(points) - 1), "fen": fen} | run
            with lock, path.open("a") as file:
                learn(numbers, row, arguments.pairs)
                played.append(row)
                file.write(json.dumps(row) + "\n")
                values = " ".join(f"{number.name}={number.value:.1f}" for number in numbers)
                print(f"{len(played)} of {arguments.pairs} pairs  {values}", file=sys.stderr)

    if not arguments.report:
        in_idle_threads(work, arguments.jobs)
    report(numbers, len(played))


if __name__ == "__main__":
    main()
