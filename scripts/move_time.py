#!/usr/bin/env python3
"""Time from `go` to `bestmove` of an engine without a search, over UCI.

    scripts/move_time.py target/release/batch-first uci --system convchess
"""

import subprocess
import sys
import time

MOVES = 600
# A game of its own moves, begun again after so many.
PLIES = 60


def main():
    engine = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def send(line):
        engine.stdin.write(line + "\n")
        engine.stdin.flush()

    def wait(word):
        for line in engine.stdout:
            if line.startswith(word):
                return line.split()
        raise SystemExit(f"the engine ended before it said {word}")

    send("isready")
    wait("readyok")
    times, moves = [], []
    for _ in range(MOVES):
        send("position startpos" + "".join([" moves", *(f" {move}" for move in moves)] if moves else []))
        started = time.perf_counter()
        send("go nodes 1")
        move = wait("bestmove")[1]
        times.append(1000 * (time.perf_counter() - started))
        moves = moves + [move] if len(moves) < PLIES and move not in ("(none)", "0000") else []
    send("quit")
    times.sort()
    at = lambda share: times[min(int(share * MOVES), MOVES - 1)]
    print(f"{MOVES} moves: median {at(0.5):.2f} ms, 99 % {at(0.99):.2f} ms, longest {times[-1]:.2f} ms")


if __name__ == "__main__":
    main()
