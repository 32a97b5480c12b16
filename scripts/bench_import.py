#!/usr/bin/env python3
"""How much faster `batch-first data import` is than a python-chess script on the same games.

Both read the first games of a PGN with [%eval] comments. The script walks the moves and reads the evaluations; the
import does the same and also removes duplicates, shuffles and writes shards. They take turns; medians are compared,
by wall time and by process CPU time.

    scripts/bench_import.py games.pgn.zst --games 2000
"""

import argparse
import bz2
import gzip
import io
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import chess.pgn


def open_text(path):
    """The file as text, unpacked by its extension."""
    if path.endswith(".zst"):
        process = subprocess.Popen(["zstd", "-dcq", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        return io.TextIOWrapper(process.stdout, encoding="utf-8", errors="replace")
    opener = {".gz": gzip.open, ".bz2": bz2.open}.get(os.path.splitext(path)[1], open)
    return opener(path, "rt", encoding="utf-8", errors="replace")


def first_games(path, count, out):
    """Copies the first `count` games as plain PGN."""
    games, in_tags = 0, False
    with open_text(path) as source, open(out, "w", encoding="utf-8") as target:
        for line in source:
            tag = line.startswith("[") and line[1:2].isalpha()
            if tag and not in_tags:
                games += 1
                if games > count:
                    break
            if line.strip():
                in_tags = tag
            target.write(line)


def with_python_chess(path):
    """Walks every game; returns (positions, evaluated positions)."""
    positions = evaluated = 0
    with open(path, encoding="utf-8") as source:
        while (game := chess.pgn.read_game(source)) is not None:
            node, board = game, game.board()
            while True:
                positions += 1
                if node.eval() is not None:
                    evaluated += 1
                if (node := node.next()) is None:
                    break
                board.push(node.move)
    return positions, evaluated


def with_batch_first(binary, path, threads):
    """Imports the file into a temporary folder; returns (positions, records)."""
    with tempfile.TemporaryDirectory() as out:
        command = [binary, "data", "import", path, "--out", out, "--json", "--threads", str(threads)]
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode != 0:
            sys.exit(f"{' '.join(command)} failed: {result.stderr.strip()}")
        manifest = json.loads(result.stdout)
    source = manifest["sources"][0]
    return source["positions"], source["train"]["records"] + source["validation"]["records"]


def timed(call):
    """(result, wall seconds, CPU seconds of this process and its children)."""
    def cpu():
        usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        return sum(usage.ru_utime + usage.ru_stime for usage in usages)

    wall, before = time.perf_counter(), cpu()
    result = call()
    return result, time.perf_counter() - wall, cpu() - before


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pgn")
    parser.add_argument("--games", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=0, help="parsing threads of the import; 0: one a processor")
    parser.add_argument("--binary", default="target/release/batch-first")
    parser.add_argument("--at-least", type=float, help="fail below this wall-time ratio")
    options = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        games = os.path.join(folder, "games.pgn")
        first_games(options.pgn, options.games, games)
        theirs, ours = [], []
        for number in range(options.rounds):
            for name, times, call in (
                ("python-chess", theirs, lambda: with_python_chess(games)),
                ("batch-first", ours, lambda: with_batch_first(options.binary, games, options.threads)),
            ):
                (positions, kept), wall, cpu = timed(call)
                times.append((positions / wall, positions / cpu))
                print(f"round {number + 1} {name:<12} {positions} positions, {kept} kept: {positions / wall:,.0f} a second, "
                      f"{positions / cpu:,.0f} a CPU second", flush=True)
    ratios = []
    for at, unit in enumerate(("second", "CPU second")):
        their, our = (statistics.median(time[at] for time in times) for times in (theirs, ours))
        ratios.append(our / their)
        print(f"median: python-chess {their:,.0f}, batch-first {our:,.0f} positions a {unit}: {our / their:.1f} times")
    if options.at_least is not None and ratios[0] < options.at_least:
        sys.exit(f"the import is {ratios[0]:.1f} times as fast, expected at least {options.at_least}")


if __name__ == "__main__":
    main()
