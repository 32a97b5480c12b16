"""The chances that a Maia, or another policy, gives to the moves of a game.

    python maia_moves.py maia-1500.pb.gz

Maias are at https://github.com/CSSLab/maia-chess/releases. Networks of Leela's see the boards before the current one, so
they get boards with their moves.
"""

import sys

import chess
from batch_first import BatchFirstError, Network

GAME = "e4 e5 Nf3 Nc6 Bc4 Nf6 Ng5 d5 exd5 Nxd5 Nxf7 Kxf7 Qf3+ Ke6 Nc3"


def boards_of(game: str) -> tuple[list[chess.Board], list[chess.Move]]:
    """The board before each move of a game, with its history, and the moves."""
    board, boards, moves = chess.Board(), [], []
    for text in game.split():
        boards.append(board.copy())
        moves.append(board.push_san(text))
    return boards, moves


def main(path: str) -> None:
    network = Network.load(path)
    boards, moves = boards_of(GAME)
    evaluation = network.evaluate(boards)
    print(network)
    for index, (board, move) in enumerate(zip(boards, moves)):
        chances = evaluation.move_scores(index)
        likeliest = [f"{board.san(chess.Move.from_uci(text))} {chances[text]:.1%}" for text in list(chances)[:3]]
        print(f"{board.san(move):7} {chances[move.uci()]:6.1%}   likeliest: {', '.join(likeliest)}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    try:
        main(sys.argv[1])
    except BatchFirstError as error:
        sys.exit(f"error: {error}")
