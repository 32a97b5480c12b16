#!/usr/bin/env python3
"""Compares labels by Stockfish's network with Stockfish's own evaluation, on positions without a capture.

Usage: scripts/check_stockfish_network.py [PROGRAM]      (default: target/release/batch-first)
Needs Stockfish 15.1, in PATH or /usr/games. Exit code 1 if a label is off by more than a centipawn.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

PROGRAM = sys.argv[1] if len(sys.argv) > 1 else "target/release/batch-first"
STOCKFISH = shutil.which("stockfish", path=os.environ["PATH"] + ":/usr/games")
# Neither side is in check, and the mover has no capture and no promotion: a label is the evaluation itself.
POSITIONS = """
1n1qkbn1/r1pppp1r/7p/pp6/4Pp2/N2Q4/PPPP2PP/1RB1KBNR b - - 0 30
2b4r/rp3p2/4kq2/p1n4p/P2pP2N/1PN3P1/3KPP1P/R1B2B1R w - - 7 30
rnbqkbnr/2p1pppp/1p1p4/p7/P7/6PN/1PPPPP1P/RNBQKB1R w KQkq - 7 30
r1bqkbnr/1ppnpp1p/6p1/p2p4/6P1/BP2PN2/P1PP1P1P/RN1QKB1R b KQkq - 0 30
2n5/2q1b1r1/3k3p/PP3PpP/8/1P1KPPN1/6B1/3R1R2 w - - 0 30
rnbqkbnr/p2pp3/2p2p2/1pP4p/3P1p2/5N2/PP1KP1PP/RNBQ1B1R w kq - 30 30
rnbqkbnr/pp1p1pp1/2p1p3/7p/8/2N1PN2/PPPPKPPP/R1BQ1B1R b kq - 0 30
rnbq1bn1/ppppk1pr/8/4pp1p/PPP5/6PP/3PPP2/RNBQKBNR b KQ - 0 30
r5r1/1p6/p2p4/3R3P/k1N1Pp2/8/1RP2P2/2K5 b - - 0 30
rnb1k1nr/p1pp1p1p/1p1bpqp1/8/2P2P1P/1P6/P2PP1P1/RNBQKBNR w KQkq - 0 30
rnbqkbnr/p1pppppp/8/3P4/P7/1Pp5/2P1PPPP/R1BQKBNR w KQkq - 7 30
rnbqkb1r/pp1npppp/3p4/1Pp5/2P1PP2/5N2/P2P2PP/RNBQKB1R w KQkq - 7 30
6b1/2kn2R1/2p2p1B/4p3/2p1P2P/b1R3KP/8/8 b - - 30 30
rnbqkbr1/pppnpp1p/3p4/8/P1P3pP/NP6/3PPPP1/RQB1KBNR b KQq - 0 30
r1bqkbnr/ppp1pppp/8/3p4/8/3P1N1P/PP2PPP1/RNBQKB1R w KQkq - 7 30
1nbqkbnr/rp1ppppp/8/p1p5/2P5/P4P2/1P1PP1PP/RNBQKBNR w KQk - 7 30
rnbqkbnr/pppppp1p/8/6p1/1P6/NQP5/P2PPPPP/R1B1KBNR b KQkq - 0 30
r2k2n1/p1nb2p1/1p2pbP1/5q1P/3P4/PP2pP2/R2N2K1/2B3RQ w - - 30 30
rnbqkbr1/1ppppppp/7n/p7/P7/2P3PB/1P1PPP1P/RNBQK1NR b KQq - 0 30
rnbqkbnr/pp2pp2/3p2p1/2p4p/8/BPN5/P1PPPPPP/R2QKBNR b KQkq - 0 30
1nbqkbnr/rppp1ppp/p3p3/8/2P3P1/3P4/PP1BPP1P/RN1QKBNR b KQk - 7 30
2b5/7n/rn1Np3/p1k1K3/5BP1/PP5R/5P2/8 b - - 7 30
rnb1qbnr/p2pkpp1/p3p3/4P2p/2p5/2P2PPN/PP1PQ2P/RNB2K1R b - - 0 30
r1b2bnr/pp1kq1p1/n1p5/3ppp1p/8/N2PPP2/PPP1NKPP/R1BQ1B1R w - - 0 30
""".strip().splitlines()


def evaluations(network):
    """Writes Stockfish's network, and gives its evaluations of the positions in centipawns, from White's side."""
    lines = [f"export_net {network}"]
    for fen in POSITIONS:
        lines += [f"position fen {fen}", "eval"]
    if STOCKFISH is None:
        sys.exit("stockfish is not installed")
    text = subprocess.run([STOCKFISH], input="\n".join([*lines, "quit"]), capture_output=True, text=True, check=True).stdout
    if not text.startswith("Stockfish 15.1"):
        print(f"nothing compared: this is not Stockfish 15.1 but {text.splitlines()[0]}")
        sys.exit(0)
    return [round(100 * float(value)) for value in re.findall(r"^Final evaluation +([-+0-9.]+)", text, re.MULTILINE)]


with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    expected = evaluations(folder / "stockfish.nnue")
    (folder / "positions.fen").write_text("\n".join(POSITIONS) + "\n")
    command = [PROGRAM, "label", folder / "positions.fen", "--network", folder / "stockfish.nnue", "--out", folder / "labelled.pgn"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    labels = re.findall(r"\[%eval ([-0-9.]+)\]", (folder / "labelled.pgn").read_text())

labels = [round(100 * float(label)) for label in labels]
if len(labels) != len(POSITIONS) or len(expected) != len(POSITIONS):
    sys.exit(f"{len(labels)} labels and {len(expected)} evaluations of {len(POSITIONS)} positions")
wrong = [line for line in zip(POSITIONS, labels, expected) if abs(line[1] - line[2]) > 1]
for fen, label, value in wrong:
    print(f"{fen}: label {label}, Stockfish {value}")
print(f"{len(POSITIONS) - len(wrong)} of {len(POSITIONS)} labels are within a centipawn of Stockfish's evaluation, from {min(expected)} to {max(expected)} centipawns")
sys.exit(1 if wrong else 0)
