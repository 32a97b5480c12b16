#!/usr/bin/env python3
"""Interrupts searches with several threads in every way that a chess program can, for as long as is asked.

Usage: scripts/stress_uci.py [--engine FILE] [--minutes N] [--seed N]

Random positions of random games; searches by time, by clock, infinite and pondering, that run out or end by `stop` or `ponderhit`
after a random time; between them `ucinewgame`, other `Hash` and other `Threads`. Every search must answer with one legal move, not
before it may and at most some seconds late. Prints counts each minute; exit code 1 at the first fault, with the lines that led to
it. Needs python-chess.
"""

import argparse
import collections
import queue
import random
import subprocess
import sys
import threading
import time

import chess

# A search answers at most so many seconds late, on a busy machine too; anything else has longer.
LATE, PATIENCE = 3.0, 60.0


class Engine:
    def __init__(self, command):
        self.process = subprocess.Popen([command, "uci"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.lines = queue.Queue()
        self.log = collections.deque(maxlen=60)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line.strip())
        self.lines.put(None)

    def send(self, line):
        self.log.append(f"> {line}")
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            self.fail(f"the engine ended with code {self.process.wait()}")

    def until(self, start, seconds=PATIENCE):
        """The first line that begins with `start`."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                line = self.lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                self.fail(f"no `{start}` within {seconds:g} s")
            if line is None:
                self.fail(f"the engine ended with code {self.process.wait()}")
            self.log.append(f"< {line[:160]}")
            if line.startswith(start):
                return line
            if line.startswith("bestmove"):
                self.fail(f"`{line}` came unasked")

    def expect_silence(self):
        """Nothing but lines of analysis so far."""
        while not self.lines.empty():
            line = self.lines.get()
            self.log.append(f"< {str(line)[:160]}")
            if line is None or line.startswith("bestmove"):
                self.fail(f"`{line}` before `stop` or `ponderhit`")

    def fail(self, why):
        print("\n".join(self.log), file=sys.stderr)
        print(f"FAULT: {why}", file=sys.stderr)
        self.process.kill()
        sys.exit(1)


def random_board(rng):
    board = chess.Board()
    for _ in range(rng.randrange(90)):
        moves = list(board.legal_moves)
        if not moves:
            return chess.Board()
        board.push(rng.choice(moves))
    return chess.Board() if board.is_game_over(claim_draw=False) else board


def search(engine, board, rng):
    """One search and its end; returns the kind."""
    moves = " ".join(move.uci() for move in board.move_stack)
    engine.send("position startpos" + (f" moves {moves}" if moves else ""))
    kind = rng.choice(["movetime", "clock", "infinite", "ponder", "ponderhit", "depth", "nodes"])
    wait = rng.choice([0.0, rng.uniform(0, 0.02), rng.uniform(0, 0.3)])
    clock, allowed = rng.randrange(100, 4000), PATIENCE
    if kind == "movetime":
        movetime = rng.randrange(1, 250)
        allowed = movetime / 1000
        engine.send(f"go movetime {movetime}")
    elif kind == "clock":
        allowed = clock / 1000
        engine.send(f"go wtime {clock} btime {clock} winc 20 binc 20")
    elif kind == "depth":
        engine.send(f"go depth {rng.randrange(1, 7)}")
    elif kind == "nodes":
        engine.send(f"go nodes {rng.randrange(1, 4000)}")
    elif kind == "infinite":
        engine.send("go infinite")
        time.sleep(wait)
        engine.expect_silence()
        engine.send("stop")
        allowed = 0
    else:
        engine.send(f"go ponder wtime {clock} btime {clock}")
        time.sleep(wait)
        engine.expect_silence()
        engine.send("stop" if kind == "ponder" else "ponderhit")
        allowed = 0 if kind == "ponder" else clock / 1000
    if kind in ("movetime", "depth", "nodes") and rng.random() < 0.3:
        time.sleep(wait)
        engine.send("stop")
        allowed = 0
    answer = engine.until("bestmove", allowed + LATE).split()[1]
    if chess.Move.from_uci(answer) not in board.legal_moves:
        engine.fail(f"{answer} is illegal in {board.fen()}")
    return kind


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", default="target/release/batch-first")
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    rng, counts = random.Random(args.seed), collections.Counter()
    engine = Engine(args.engine)
    engine.send("uci")
    engine.until("uciok")
    engine.send("setoption name WeightsFile value fast")
    engine.send("setoption name Threads value 2")
    ends, shown = time.monotonic() + 60 * args.minutes, time.monotonic()
    while time.monotonic() < ends:
        if rng.random() < 0.1:
            engine.send("ucinewgame")
            counts["ucinewgame"] += 1
        if rng.random() < 0.05:
            engine.send(f"setoption name Hash value {rng.choice([1, 2, 16, 64, 200])}")
            counts["Hash"] += 1
        if rng.random() < 0.05:
            engine.send(f"setoption name Threads value {rng.choice([1, 2, 2, 3, 4, 8])}")
            counts["Threads"] += 1
        engine.send("isready")
        engine.until("readyok")
        counts[search(engine, random_board(rng), rng)] += 1
        if time.monotonic() - shown > 60:
            shown = time.monotonic()
            print(dict(sorted(counts.items())), flush=True)
    engine.send("quit")
    try:
        code = engine.process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        engine.fail("`quit` did not end it")
    if code != 0:
        engine.fail(f"`quit` ended with code {code}")
    print("no fault:", dict(sorted(counts.items())))


if __name__ == "__main__":
    main()
