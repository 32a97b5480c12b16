#!/usr/bin/env python3
"""Draws what `batch-first analyze` shows as an SVG: the picture of the README.

    cargo build --release && scripts/analysis_picture.py target/release/batch-first docs/pictures/analysis.svg -- --nodes 60000
"""

import html
import shlex
import subprocess
import sys

CELL, LINE, LEFT, TOP = 8.4, 19, 18, 30


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__.strip())
    program, target, options = sys.argv[1], sys.argv[2], [o for o in sys.argv[3:] if o != "--"]
    command = [program, "analyze", *options]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout.rstrip().split("\n")
    lines = ["$ batch-first " + shlex.join(command[1:]), *shown]
    width = round(2 * LEFT + CELL * max(len(line) for line in lines))
    height = TOP + LINE * len(lines) + 10
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img"'
        ' aria-label="An analysis on the terminal">',
        f'<rect width="{width}" height="{height}" rx="8" fill="#1b1f27"/>',
        '<g font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="14" fill="#d8dee9">',
    ]
    for number, line in enumerate(lines):
        y = TOP + LINE * number
        # Every character in its own column: chess pieces are wider than letters in most fonts.
        columns = " ".join(f"{LEFT + CELL * column:.1f}" for column in range(len(line)))
        colour = ' fill="#8fbcbb"' if number == 0 else ""
        out.append(f'<text x="{columns}" y="{y}"{colour} xml:space="preserve">{html.escape(line)}</text>')
    out += ["</g>", "</svg>"]
    with open(target, "w", encoding="utf-8") as file:
        file.write("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
