#!/usr/bin/env python3
"""Whole files of games: `analyze GAMES --out` beside the same engine over UCI, one position after another.

    scripts/bench_game_files.py target/release/batch-first GAMES.pgn --nodes 200 --rounds 2 [--system cockfish]

UCI is driven by `label --jobs 1`, which does nothing but send positions and write PGN, so the driver costs next to
nothing. Both evaluate every position of every game at the same number of evaluations. Each round runs UCI (with one
thread and with as many as there are processors) and the analysis with several numbers of games at once, in alternation;
printed are medians of positions a second of wall time and of processor time.
"""

import argparse
import os
import re
import resource
import statistics
import subprocess
import tempfile
import time


def timed(command):
    """Positions, seconds of wall time and of processor time."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    wall = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return int(re.search(r"(\d+) (?:evaluated )?positions", done.stdout)[1]), wall, cpu


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("games")
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--system")
    parser.add_argument("--jobs", type=int, nargs="*", default=[1, 2, 4, 8, 16, 32])
    given = parser.parse_args()
    # Over UCI another network might play than for files.
    system = ["--system", given.system] if given.system else ["--net", "fast"]
    nodes = ["--nodes", str(given.nodes)]
    uci = " ".join([given.program, "uci", *system])
    cores = os.cpu_count()

    def by_uci(options):
        return lambda out: [given.program, "label", given.games, "--out", out, *nodes, "--jobs", "1", "--engine", uci + options]

    def by_file(jobs):
        return lambda out: [given.program, "analyze", given.games, "--out", out, *nodes, *system, "--jobs", str(jobs)]

    ways = {"UCI, one thread": by_uci("; Threads=1"), f"UCI, {cores} threads": by_uci(f"; Threads={cores}")}
    ways |= {f"analyze, {jobs} game{'s' if jobs > 1 else ''} at once": by_file(jobs) for jobs in given.jobs}
    found = {name: [] for name in ways}
    for _ in range(given.rounds):
        for name, command in ways.items():
            with tempfile.TemporaryDirectory() as folder:
                found[name].append(timed(command(os.path.join(folder, "out.pgn"))))
    base = None
    print("| way | positions | a second | a CPU second | wall, / UCI with one thread | CPU, / UCI with one thread |")
    print("|---|---:|---:|---:|---:|---:|")
    for name, runs in found.items():
        rates = [statistics.median(count / one[at] for count, *one in runs) for at in (0, 1)]
        base = base or rates
        print(f"| {name} | {runs[0][0]} | {rates[0]:.0f} | {rates[1]:.0f} | {rates[0] / base[0]:.2f} | {rates[1] / base[1]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
