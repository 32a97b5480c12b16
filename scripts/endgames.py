#!/usr/bin/env python3
"""How often an engine mates a lone king, or wins another endgame, against Stockfish's defence.

    scripts/endgames.py --nodes 1000 --count 20 --engine "target/release/batch-first uci --threads 1" KR-K KBB-K KBN-K

Of each kind so many random positions with the strong side (White) to move that Stockfish thinks won; a game is played
until mate, a draw by the rules or 120 moves.
"""

import argparse
import random
import shlex

import chess
import chess.engine

# What Stockfish has to think of a position, and looks at before it thinks so and as the defender.
WON_CENTIPAWNS = 400
JUDGE_NODES = 100_000
DEFENCE_NODES = 20_000
MOST_PLIES = 240


def position(kind, dice, judge):
    strong, weak = kind.split("-")
    while True:
        board = chess.Board(None)
        men = [*strong, *weak.lower()]
        for man, square in zip(men, dice.sample(range(64), len(men))):
            board.set_piece_at(square, chess.Piece.from_symbol(man))
        # Two bishops of one colour mate nobody.
        colours = {chess.square_rank(at) + chess.square_file(at) & 1 for at in board.pieces(chess.BISHOP, chess.WHITE)}
        if not board.is_valid() or board.is_check() or len(colours) < min(strong.count("B"), 2):
            continue
        score = judge.analyse(board, chess.engine.Limit(nodes=JUDGE_NODES))["score"].white()
        if score.score(mate_score=10_000) >= WON_CENTIPAWNS:
            return board


def play(board, engine, defender, nodes):
    """Moves until mate; otherwise how the game ended."""
    game = object()
    while board.ply() < MOST_PLIES and not board.is_game_over() and not board.is_repetition(3) and not board.is_fifty_moves():
        limit = chess.engine.Limit(nodes=nodes if board.turn else DEFENCE_NODES)
        board.push((engine if board.turn else defender).play(board, limit, game=game).move)
    outcome = board.outcome(claim_draw=True)
    if outcome and outcome.winner:
        return (board.ply() + 1) // 2
    return outcome.termination.name.lower().replace("_", " ") if outcome else "too long"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="+", metavar="KIND", help="strong side's men, a hyphen, weak side's: KBN-K")
    parser.add_argument("--engine", required=True)
    parser.add_argument("--stockfish", default="/usr/games/stockfish")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=5)
    arguments = parser.parse_args()
    with chess.engine.SimpleEngine.popen_uci(shlex.split(arguments.engine), timeout=60) as engine, \
            chess.engine.SimpleEngine.popen_uci(arguments.stockfish) as stockfish:
        for kind in arguments.kinds:
            dice = random.Random(arguments.seed)
            boards = [position(kind, dice, stockfish) for _ in range(arguments.count)]
            ends = [play(board, engine, stockfish, arguments.nodes) for board in boards]
            moves = [end for end in ends if isinstance(end, int)]
            drawn = ", ".join(sorted(f"{ends.count(end)} {end}" for end in {*ends} if not isinstance(end, int)))
            mean = f", {sum(moves) / len(moves):.1f} moves" if moves else ""
            print(f"{kind}: {len(moves)} of {len(ends)} mated{mean}{'; ' + drawn if drawn else ''}", flush=True)


if __name__ == "__main__":
    main()
