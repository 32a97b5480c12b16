#!/usr/bin/env python3
"""What a larger batch costs a search: how much its moves lose, by K, the positions evaluated together.

Every engine moves in the same positions at the same number of evaluations, for each K; Stockfish says what its moves lose, as
in judge_moves.py. Printed is what K costs beyond the first one, as the mean over the positions with its standard error.

    scripts/batch_cost.py games.pgn.zst --nodes 1000 --count 1000 --batch 1 2 5 10 20 50 --svg k.svg \\
        --engine "K-best-first: batch-first uci" --engine "PUCT: batch-first uci; Search=puct"

An engine is a name and a command; options follow as `; Name=Value`, where `{K}` stands for the batch: with `; Fill={K}` ours
fills every batch, as on a device that wants whole ones. What is known of the same program (by its content) is kept in
--results and not played again.
"""

import argparse
import hashlib
import html
import itertools
import json
import math
import os
import shutil
import sys

from judge_moves import Judge, losses, mean_and_error, positions

WIDTH, HEIGHT = 640, 360
LEFT, RIGHT, TOP, BOTTOM = 60, 20, 20, 50
COLOURS = ["#2266aa", "#cc6622", "#228844", "#884488"]


def picture(curves, batches, nodes):
    """Lines over the logarithm of K, with bars of one standard error, as SVG."""
    highest = max(mean + error for points in curves.values() for mean, error in points)
    lowest = min(0.0, min(mean - error for points in curves.values() for mean, error in points))
    highest = max(highest, lowest + 0.1)
    span = math.log(batches[-1] / batches[0]) or 1.0

    def x(batch):
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log(batch / batches[0]) / span

    def y(loss):
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (loss - lowest) / (highest - lowest)

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" role="img"'
        ' font-family="sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    step = next(step for step in (0.1, 0.2, 0.5, 1.0, 2.0, 5.0) if (highest - lowest) / step <= 8)
    for tick in range(math.ceil(lowest / step), math.floor(highest / step) + 1):
        at = y(tick * step)
        out.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}" stroke="#ddd"/>')
        out.append(f'<text x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{tick * step:+.1f} %</text>')
    for batch in batches:
        out.append(f'<text x="{x(batch):.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{batch}</text>')
    title = f"positions evaluated together (K), of {nodes:,} a move"
    out.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2:.1f}" y="{HEIGHT - 8}" text-anchor="middle">{title}</text>')
    for place, ((name, points), colour) in enumerate(zip(curves.items(), itertools.cycle(COLOURS))):
        line = " ".join(f"{x(batch):.1f},{y(mean):.1f}" for batch, (mean, _) in zip(batches, points))
        out.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for batch, (mean, error) in zip(batches, points):
            at, low, high = x(batch), y(mean - error), y(mean + error)
            out.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{low:.1f}" y2="{high:.1f}" stroke="{colour}"/>')
            out.append(f'<circle cx="{at:.1f}" cy="{y(mean):.1f}" r="3.5" fill="{colour}"/>')
        row = TOP + 18 * (place + 1)
        out.append(f'<text x="{LEFT + 12}" y="{row}" fill="{colour}">{html.escape(name)}: lost a move beyond K = {batches[0]}</text>')
    out.append("</svg>")
    return "\n".join(out) + "\n"


def digest(command):
    """The content of an engine's program."""
    program = command.split(";")[0].split()[0]
    with open(shutil.which(program) or program, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()[:12]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("games", help="PGN, may be compressed")
    parser.add_argument("--engine", action="append", required=True, metavar="NAME: COMMAND")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 2, 5, 10, 20, 50])
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--count", type=int, default=1000, help="positions")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--stockfish", default=shutil.which("stockfish") or "/usr/games/stockfish")
    parser.add_argument("--judge-nodes", type=int, default=25_000)
    parser.add_argument("--cache", default="judged-moves.json")
    parser.add_argument("--results", default="batch-cost.json")
    parser.add_argument("--svg", help="also draw the curves into this file")
    options = parser.parse_args()

    fens = positions(options.games, options.count, options.seed)
    if not fens:
        sys.exit(f"{options.games} has no game of 30 plies or more")
    known = {}
    if os.path.exists(options.results):
        with open(options.results, encoding="utf-8") as file:
            known = json.load(file)
    batches = sorted(set(options.batch))
    curves, firsts = {}, {}
    for batch in batches:
        for engine in options.engine:
            name, command = (part.strip() for part in engine.split(":", 1))
            command = command.replace("{K}", str(batch))
            asked = (options.games, options.count, options.seed, options.nodes, options.judge_nodes)
            key = " ".join(map(str, [*asked, digest(command), command, batch]))
            if key not in known:
                judge = Judge(options.stockfish, options.judge_nodes, options.cache)
                known[key] = losses(f"{command}; Batch={batch}", fens, options.nodes, judge)[0]
                judge.close()
                with open(options.results + ".new", "w", encoding="utf-8") as file:
                    json.dump(known, file)
                os.replace(options.results + ".new", options.results)
            first = firsts.setdefault(name, known[key])
            mean, error = mean_and_error([loss - base for loss, base in zip(known[key], first)])
            whole, _ = mean_and_error(known[key])
            print(f"{name}, K = {batch}: {whole:.2f} % a move, {mean:+.2f} +- {error:.2f} beyond K = {batches[0]}", flush=True)
            curves.setdefault(name, []).append((mean, error))
    if options.svg:
        with open(options.svg + ".new", "w", encoding="utf-8") as file:
            file.write(picture(curves, batches, options.nodes))
        os.replace(options.svg + ".new", options.svg)


if __name__ == "__main__":
    main()
