#!/usr/bin/env python3
"""Drives the engine as chess programs do: through python-chess, and with raw lines that no program should send.

Usage: scripts/check_uci.py [ENGINE]      (default: target/release/batch-first)
Prints one line a check; exit code 1 if any fails.
"""

import os
import queue
import subprocess
import sys
import threading
import time

import chess
import chess.engine

ENGINE = sys.argv[1] if len(sys.argv) > 1 else "target/release/batch-first"
failures = []


def check(name, ok, detail=""):
    print(f"{'ok  ' if ok else 'FAIL'} {name} {detail}".rstrip(), flush=True)
    if not ok:
        failures.append(name)


class Raw:
    """The engine with its pipes bare."""

    def __init__(self):
        self.process = subprocess.Popen([ENGINE], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line.decode().rstrip("\n"))
        self.lines.put(None)

    def send(self, line):
        data = line if isinstance(line, bytes) else line.encode()
        self.process.stdin.write(data + b"\n")
        self.process.stdin.flush()

    def until(self, start, seconds=10):
        """Lines up to the first that begins with `start`; None when it does not come in time."""
        seen, deadline = [], time.monotonic() + seconds
        while True:
            try:
                line = self.lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                return None
            if line is None:
                return None
            seen.append(line)
            if line.startswith(start):
                return seen

    def close(self, seconds=5):
        self.process.stdin.close()
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return None


def ready_within_a_second():
    best = 1e9
    for _ in range(5):
        started = time.monotonic()
        engine = Raw()
        engine.send("uci")
        engine.send("isready")
        answered = engine.until("readyok")
        best = min(best, time.monotonic() - started)
        engine.close()
        if answered is None:
            check("ready within a second of start", False, "no readyok")
            return
    check("ready within a second of start", best < 1.0, f"({best * 1000:.0f} ms)")


def evaluates_without_its_search():
    engine = Raw()
    shown = []
    for fen in (chess.STARTING_FEN, "4k3/8/8/8/8/8/4P3/4K3 b - - 0 1"):
        engine.send(f"position fen {fen}")
        answers = []
        for searched in (False, True):
            if searched:
                engine.send("go nodes 3000")
                engine.until("bestmove", 60)
            engine.send("eval")
            line = (engine.until("info string eval") or [""])[-1]
            answers.append(line)
        shown.append(answers)
    same = all(before == after and "eval cp" in before for before, after in shown)
    check("`eval` is the same before and after a search", same, str(shown))
    engine.close()


def through_python_chess():
    engine = chess.engine.SimpleEngine.popen_uci(ENGINE, timeout=20)
    try:
        check("names itself", engine.id.get("name", "").startswith("Batch First"), engine.id.get("name", ""))
        wanted = {"Hash", "Threads", "MultiPV", "Ponder", "Move Overhead", "Batch", "WeightsFile", "Precision", "UCI_AnalyseMode",
                  "UCI_ShowWDL", "UCI_Chess960", "Clear Hash"}
        check("declares its options", wanted <= set(engine.options), str(wanted - set(engine.options) or ""))
        engine.configure({"Hash": 64, "Threads": 1, "Move Overhead": 10})

        board = chess.Board()
        result = engine.play(board, chess.engine.Limit(nodes=200), info=chess.engine.INFO_ALL)
        check("keeps to its nodes", result.info.get("nodes", 0) <= 200, f"({result.info.get('nodes')} of 200)")

        infos = engine.analyse(board, chess.engine.Limit(nodes=600), multipv=4)
        moves = [info["pv"][0] for info in infos]
        scores = [info["score"].relative.score(mate_score=100000) for info in infos]
        check("shows several lines", len(set(moves)) == 4 and scores == sorted(scores, reverse=True), str(scores))

        root = [chess.Move.from_uci("a2a3"), chess.Move.from_uci("h2h4")]
        result = engine.play(board, chess.engine.Limit(nodes=200), root_moves=root)
        check("keeps to searchmoves", result.move in root, str(result.move))

        engine.configure({"UCI_ShowWDL": True})
        info = engine.analyse(board, chess.engine.Limit(nodes=200))
        check("shows win, draw, loss", "wdl" in info and sum(info["wdl"].relative) == 1000)

        mate = chess.Board("6k1/5ppp/8/8/8/8/8/R5K1 w - - 0 1")
        info = engine.analyse(mate, chess.engine.Limit(nodes=3000))
        check("scores a mate", info["score"].white() == chess.engine.Mate(1), str(info["score"]))
        for limit in ({"time": 0.1}, {"time": 0.5}, {"time": 1.0}):
            best = 1e9
            for _ in range(3):
                started = time.monotonic()
                engine.play(board, chess.engine.Limit(**limit))
                best = min(best, abs(time.monotonic() - started - limit["time"]))
            check(f"keeps to {limit['time']} s", best < 0.05, f"(off by {best * 1000:.0f} ms at best of 3)")

        with engine.analysis(board, chess.engine.Limit()) as analysis:
            time.sleep(0.5)
            analysis.stop()
            check("analyses until stopped", analysis.wait().move in board.legal_moves)

        result = engine.play(board, chess.engine.Limit(nodes=200), ponder=True)
        if result.ponder is not None:
            board.push(result.move)
            board.push(result.ponder)
            time.sleep(0.2)
            hit = engine.play(board, chess.engine.Limit(time=0.2), ponder=True)
            check("ponders", hit.move in board.legal_moves)
        else:
            check("ponders", False, "no move to ponder on")

        board = chess.Board()
        clock = {chess.WHITE: 3.0, chess.BLACK: 3.0}
        late = False
        while not board.is_game_over(claim_draw=True) and board.ply() < 60:
            side = board.turn
            limit = chess.engine.Limit(white_clock=clock[True], black_clock=clock[False], white_inc=0.05,
                                       black_inc=0.05)
            started = time.monotonic()
            board.push(engine.play(board, limit, game="clock").move)
            clock[side] -= time.monotonic() - started
            late |= clock[side] < 0
            clock[side] += 0.05
        check("plays on the clock", not late, f"({board.ply()} plies, {min(clock.values()):.2f} s left)")

        # One start position after the other: castling of both kinds is met in the lines.
        for number in (0, 518, 959):
            board = chess.Board.from_chess960_pos(number)
            while not board.is_game_over() and board.ply() < 24:
                board.push(engine.play(board, chess.engine.Limit(nodes=60), game=number).move)
            check(f"plays Chess960 start {number}", board.ply() > 0)
        castles = chess.Board("1r2k1r1/5pp1/8/8/8/8/5PP1/1R2K1R1 w GBgb - 0 1", chess960=True)
        move = chess.Move.from_uci("e1g1")
        result = engine.play(castles, chess.engine.Limit(nodes=50), root_moves=[move])
        check("castles onto its rook", result.move == move, str(result.move))
    finally:
        engine.quit()
    check("quits", engine.protocol.returncode.done())


START = "position startpos"
NO_MOVES = "position fen 7k/5KQ1/8/8/8/8/8/8 b - - 0 1"

# A position command, then a go command: each must be answered by exactly one bestmove, soon.
LIMITS = [
    "go depth 0", "go depth -1", "go depth 1", "go depth 99999999999999999999 nodes 50",
    "go nodes 0", "go nodes 1", "go nodes -7", "go nodes 1 depth 50",
    "go movetime 0", "go movetime -100", "go movetime 1", "go movetime x", "go movetime", "go movetime 10.5",
    "go wtime 0 btime 0", "go wtime -1000 btime -1000", "go wtime 1 btime 1", "go wtime 1 btime 1 winc 0 binc 0",
    "go wtime 100 btime 100 movestogo 0", "go wtime 100 btime 100 movestogo -1",
    "go wtime 100 btime 100 movestogo 1", "go wtime 100 btime 100 movestogo 99999999999999999999",
    "go wtime 100", "go btime 100", "go winc 100 binc 100", "go wtime 0 btime 0 winc 1000 binc 1000",
    "go wtime 10 btime 10 winc -5 binc -5", "go wtime x btime y",
    "go mate 0 nodes 50", "go mate -1 nodes 50", "go mate 1 nodes 50",
    "go searchmoves e2e4 nodes 50", "go searchmoves nodes 50", "go searchmoves e2e5 nodes 50",
    "go searchmoves e7e5 a1a8 xyz nodes 50", "go nodes 50 searchmoves e2e4 e2e4", "go turbo nodes 50",
    "go depth 1 depth 2", "go nodes", "go depth depth 1",
    "\tgo   nodes\t50  ", "go nodes 50\r", "go \0nodes 50",
]

# Lines that need no answer of their own; the engine must be alive after each.
LINES = [
    "", " ", "hello", "\0\0\0", b"\xff\xfe\x80", "uci extra", "isready twice", "x" * 100_000, "position",
    "position startpos moves", "position startpos moves e2e5", "position startpos moves e2e4 e2e4",
    "position startpos moves " + "g1f3 g8f6 f3g1 f6g8 " * 500, "position startpos garbage", "position fen",
    "position fen 8/8/8/8/8/8/8/8 w - - 0 1", "position fen kkkkkkkk/8/8/8/8/8/8/KKKKKKKK w - - 0 1",
    "position fen 4k3/8/8/8/8/8/8/4K3 w KQkq - 0 1", "position fen 4k3/8/8/8/8/8/8/4K3 w - e9 0 1",
    "position fen 4k3/8/8/8/8/8/8/4K3 w - - -1 0", "position fen 4k3/8/8/8/8/8/8/4K3 w - - 99999999999 99999999999",
    "position fen 4k2R/8/8/8/8/8/8/4K3 w - - 0 1", "position fen " + "1" * 5000, "position fen 9/8/8/8/8/8/8/8 w - -",
    "position fen PPPPkPPP/8/8/8/8/8/8/4K3 w - - 0 1",
    "position fen QQQQQQQQ/QQQQQQQQ/QQQQQQQQ/8/8/8/8/K6k w - - 0 1", "position fen 4k3/8/8/8/8/8/8/4K3",
    "setoption", "setoption name", "setoption name Hash", "setoption name Hash value 0",
    "setoption name Hash value -1", "setoption name Hash value 99999999999999999999", "setoption name Hash value abc",
    "setoption name Threads value 0", "setoption name MultiPV value 0", "setoption name MultiPV value 1000",
    "setoption name Nonsense value 1", "setoption name WeightsFile value /nonexistent", "setoption name Ponder",
    "setoption name Clear Hash", "setoption value 1 name Hash", "setoption name Batch value -1",
    "ponderhit", "stop", "stop stop stop", "debug", "debug on", "debug off", "register later", "ucinewgame",
    "go perft 0", "go perft -1", "go perft 2", "d",
]


def strange_input():
    engine = Raw()
    engine.send("isready")
    engine.until("readyok")
    bad = []
    for position in (START, NO_MOVES):
        for limit in LIMITS:
            engine.send(position)
            engine.send(limit)
            started = time.monotonic()
            answer = engine.until("bestmove", 5)
            if answer is None:
                bad.append(f"{limit!r}: no bestmove")
                engine.process.kill()
                engine = Raw()
                continue
            move = answer[-1].split()[1]
            legal = {move.uci() for move in chess.Board().legal_moves} if position == START else {"0000"}
            if move not in legal:
                bad.append(f"{limit!r}: {move}")
            if time.monotonic() - started > 2:
                bad.append(f"{limit!r}: slow")
    check(f"{2 * len(LIMITS)} strange limits", not bad, "; ".join(bad))
    bad = []
    for line in LINES:
        engine.send(line)
        engine.send("isready")
        if engine.until("readyok", 5) is None:
            bad.append(repr(line)[:60])
            engine.process.kill()
            engine = Raw()
    engine.send("ucinewgame")
    engine.send(START)
    engine.send("go nodes 50")
    alive = engine.until("bestmove", 5) is not None
    check(f"{len(LINES)} strange lines", not bad and alive, "; ".join(bad))
    check("no second bestmove", engine.until("bestmove", 0.3) is None)
    check("ends with its input", engine.close() == 0)


def answers_while_searching():
    engine = Raw()
    engine.send("go infinite")
    time.sleep(0.3)
    started = time.monotonic()
    engine.send("isready")
    answered = engine.until("readyok", 5)
    took = time.monotonic() - started
    check("answers isready while searching", answered is not None and took < 0.5, f"({took * 1000:.0f} ms)")
    engine.send("setoption name Hash value 32")
    engine.send("position startpos moves e2e4")
    check("gives no move before stop", engine.until("bestmove", 0.5) is None)
    started = time.monotonic()
    engine.send("stop")
    answered = engine.until("bestmove", 5)
    took = time.monotonic() - started
    check("stops at once", answered is not None and took < 0.3, f"({took * 1000:.0f} ms)")
    engine.send("go ponder wtime 100 btime 100")
    check("gives no move before ponderhit", engine.until("bestmove", 0.5) is None)
    engine.send("ponderhit")
    check("moves after ponderhit", engine.until("bestmove", 2) is not None)
    engine.send("go infinite")
    started = time.monotonic()
    code = engine.close()
    check("ends with its input while searching", code == 0 and time.monotonic() - started < 2)


def memory_is_capped():
    if not os.path.exists("/proc/self/status"):
        return
    engine = Raw()
    engine.send("setoption name Hash value 16")
    engine.send("isready")
    engine.until("readyok")
    resident = lambda: int(open(f"/proc/{engine.process.pid}/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    before = resident()
    engine.send("go movetime 3000")
    most = 0
    while engine.until("bestmove", 0.2) is None and engine.process.poll() is None:
        most = max(most, resident())
    grown = (most - before) / 2**20
    check("keeps to 16 MiB of hash", grown < 40, f"(grew by {grown:.0f} MiB)")
    engine.close()


ready_within_a_second()
through_python_chess()
evaluates_without_its_search()
strange_input()
answers_while_searching()
memory_is_capped()
print(f"{len(failures)} failures" if failures else "all checks passed")
sys.exit(1 if failures else 0)
