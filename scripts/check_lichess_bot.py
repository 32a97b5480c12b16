#!/usr/bin/env python3
"""lichess-bot drives us: games by our configurations, against the server that its own tests imitate.

    scripts/check_lichess_bot.py LICHESS_BOT PROGRAM MAIA.pb.gz [LOG]

LICHESS_BOT is a checkout of lichess-bot whose requirements are installed. Black is the bot, by examples/lichess-bot:
standard chess and Chess960 with a clock of 15+0.2 and pondering, then a Maia at one node. White is PROGRAM at few
evaluations. Fails on an illegal move, a lost clock, a crash, or if the bot never pondered right.
"""

import contextlib
import io
import json
import logging
import os
import re
import sys
import tempfile
import time
from pathlib import Path

import chess
import chess.engine
import yaml

EXAMPLES = Path(__file__).resolve().parent.parent / "examples/lichess-bot"
LONGEST, CLOCK, INCREMENT = 160, 15_000, 200  # plies, milliseconds


class Game:
    """A game as Lichess streams it; the bot's moves arrive in `played`."""

    def __init__(self, program, fen, report):
        self.program, self.fen, self.report, self.played = program, fen, report, []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def state(self, board, clocks, **more):
        white, black = (max(1, int(clock)) for clock in clocks)
        moves = " ".join(board.uci(move) for move in board.move_stack)
        return {"type": "gameState", "moves": moves, "wtime": white, "btime": black, "winc": INCREMENT,
                "binc": INCREMENT, "status": "started", **more}

    def iter_lines(self):
        board = chess.Board(self.fen or chess.STARTING_FEN, chess960=self.fen is not None)
        clocks = [CLOCK, CLOCK]
        name = "Chess960" if self.fen else "Standard"
        player = {"title": "BOT", "rating": 2000}
        yield self.line({"id": "zzzzzzzz", "type": "gameFull", "variant": {"key": name.lower(), "name": name},
                         "clock": {"initial": CLOCK, "increment": INCREMENT}, "speed": "bullet",
                         "perf": {"name": "Bullet"}, "rated": False, "createdAt": 1600000000000,
                         "white": {"id": "w", "name": "w", **player}, "black": {"id": "b", "name": "b", **player},
                         "initialFen": self.fen or "startpos", "state": self.state(board, clocks)})
        slowest, end = 0, None
        with chess.engine.SimpleEngine.popen_uci(self.program) as white:
            white.configure({"WeightsFile": "fast"})
            while end is None:
                board.push(white.play(board, chess.engine.Limit(nodes=1000)).move)
                if not board.is_game_over() and len(board.move_stack) < LONGEST:
                    count, started = len(self.played), time.monotonic()
                    yield self.line(self.state(board, clocks))
                    spent = 1000 * (time.monotonic() - started)
                    if len(self.played) == count or not board.is_legal(self.played[-1]):
                        end = f"no legal move in {board.fen()}: {self.played[count:]}"
                        break
                    board.push(self.played[-1])
                    if len(board.move_stack) > 2:  # The clock does not run before.
                        slowest = max(slowest, spent)
                        clocks[1] -= spent
                    if clocks[1] <= 0:
                        end = "the clock ran out"
                    clocks[1] += INCREMENT
                if board.is_game_over() or len(board.move_stack) >= LONGEST:
                    end = end or f"played ({board.result()})"
        Path(self.report).write_text(json.dumps({
            "end": end, "plies": len(board.move_stack), "slowest": slowest, "left": clocks[1],
            "castled": sum(1 for ply, move in enumerate(board.move_stack) if ply % 2 and castles(board, ply)),
        }))
        yield self.line(self.state(board, clocks, status="draw"))

    @staticmethod
    def line(event):
        return json.dumps(event).encode()


def castles(board, ply):
    """Did this ply castle?"""
    earlier = board.root()
    for move in board.move_stack[:ply]:
        earlier.push(move)
    return earlier.is_castling(board.move_stack[ply])


def server(program, fen, report):
    """What lichess-bot takes for Lichess; one game."""
    import test_bot.lichess

    class Server(test_bot.lichess.Lichess):
        def __init__(self):
            self.baseUrl, self.sent_game = "testing", False

        def get_game_stream(self, _):
            self.game = Game(program, fen, report)
            return self.game

        def make_move(self, _, move):
            self.game.played.append(move.move)

    # A class within a function cannot be sent to the process that plays.
    Server.__qualname__ = Server.__name__
    globals()["Server"] = Server
    return Server()


def run(name, configuration, changes, program, fen, log):
    from lib import config, lichess_bot

    with tempfile.TemporaryDirectory() as folder:
        settings = yaml.safe_load((EXAMPLES / configuration).read_text())
        settings["engine"].update(dir=str(Path(program).parent), name=Path(program).name)
        settings["engine"]["uci_options"].update(changes)
        settings["pgn_directory"] = folder
        file, report = Path(folder, "config.yml"), Path(folder, "report.json")
        file.write_text(yaml.dump(settings))
        before = Path(log).stat().st_size if Path(log).exists() else 0
        with contextlib.redirect_stdout(io.StringIO()):  # Everything is in the log too.
            lichess_bot.logging_configurer(logging.DEBUG, log, True)
            lichess_bot.disable_restart()
            li, settings = server(program, fen, report), config.load_config(str(file))
            lichess_bot.start(li, li.get_profile(), settings, logging.DEBUG, log, True, one_game=True)
        lines = Path(log).read_bytes()[before:].decode(errors="replace")
        if not report.exists():
            sys.exit(f"{name}: no game was played; see {log}")
        result = json.loads(report.read_text())
    hits, ponders = len(re.findall("<< ponderhit", lines)), len(re.findall("<< go ponder", lines))
    print(f"{name}: {result['end']}, {result['plies']} plies, slowest move {result['slowest']:.0f} ms, "
          f"{result['left'] / 1000:.1f} s left, castled {result['castled']}, {ponders} ponders, {hits} hits", flush=True)
    complaints = [line for line in lines.splitlines() if "ERROR" in line or "Traceback" in line]
    # The program says its network, and a Maia its chances; everything else is about what it was sent.
    notes = re.findall("info string (.*)", lines)
    complaints += [note for note in notes if not note.startswith("network ") and not note.endswith("%")]
    for complaint in complaints[:20]:
        print(f"    {complaint}")
    return result["end"].startswith("played") and not complaints, ponders, hits


def main():
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    bot, program, maia = (str(Path(path).resolve()) for path in sys.argv[1:4])
    log = str(Path(sys.argv[4]).resolve()) if len(sys.argv) == 5 else str(Path(tempfile.mkdtemp()) / "lichess-bot.log")
    os.chdir(bot)
    sys.path.insert(0, bot)
    start = chess.Board.from_chess960_pos(693).fen()
    few = {"Threads": 1, "Hash": 64}
    results = [run("standard", "config.yml", few, program, None, log), run("Chess960", "config.yml", few, program, start, log),
               run("Maia", "maia.yml", {"WeightsFile": maia}, program, None, log)]
    if not all(is_fine for is_fine, _, _ in results):
        sys.exit(f"something is wrong; see {log}")
    if not (results[0][2] and results[1][2]):
        sys.exit(f"the bot never pondered the move that was played; see {log}")
    if results[2][1]:
        sys.exit("the Maia pondered")
    print("lichess-bot and the program understand each other")


if __name__ == "__main__":
    main()
