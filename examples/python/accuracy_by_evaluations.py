"""How many tactical positions a search solves, by its evaluations a move.

    python accuracy_by_evaluations.py [POSITIONS.epd [NETWORK]]

Positions are lines of EPD with the best move (`bm`).
"""

import sys
from pathlib import Path

import chess
from batch_first import Engine

POSITIONS = Path(__file__).resolve().parents[2] / "scripts/tactics.epd"
EVALUATIONS = (1, 30, 300, 3000)
COUNT = 40


def main(path: Path, net: str) -> None:
    engine = Engine(net, hash=64)
    print(engine.description)
    boards: list[tuple[chess.Board, list[chess.Move]]] = []
    for line in path.read_text().splitlines()[:COUNT]:
        board = chess.Board()
        best = board.set_epd(line)["bm"]
        assert isinstance(best, list)
        boards.append((board, best))
    for evaluations in EVALUATIONS:
        solved = 0
        for board, best in boards:
            engine.clear()
            found = engine.search(board, nodes=evaluations).best_move
            solved += found in [move.uci() for move in best]
        print(f"{evaluations:6} evaluations: {solved} of {len(boards)} ({solved / len(boards):.0%})")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else POSITIONS, sys.argv[2] if len(sys.argv) > 2 else "fast")
