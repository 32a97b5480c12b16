#!/usr/bin/env python3
"""Annotated games as python-chess reads them.

    scripts/check_annotated.py GAMES.pgn ANNOTATED.pgn

Every game of GAMES must be in ANNOTATED, in order, with the same main line and without a complaint of the parser; every
position of the main line that has a legal move must have an evaluation that python-chess understands; every variation
must be legal, and every mark of ours what the evaluations around it say.
"""

import math
import sys

import chess.pgn


NAMES = {
    chess.pgn.NAG_DUBIOUS_MOVE: "Inaccuracy",
    chess.pgn.NAG_MISTAKE: "Mistake",
    chess.pgn.NAG_BLUNDER: "Blunder",
}


def games(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        while (game := chess.pgn.read_game(file)) is not None:
            yield game


def win_percent(score):
    """White's winning chances as Lichess computes them from centipawns; a mate is ten pawns."""
    centipawns = score.white().score(mate_score=1000000)
    centipawns = max(-1000, min(1000, centipawns))
    return 50 + 50 * (2 / (1 + math.exp(-0.00368208 * centipawns)) - 1)


def variations(node):
    for child in node.variations[1:]:
        line, board = [child], node.board()
        while line[-1].variations:
            line.append(line[-1].variations[0])
        for step in line:
            assert board.is_legal(step.move), (board.fen(), step.move)
            board.push(step.move)
        yield line


def main():
    source, annotated = sys.argv[1:]
    counts = dict(games=0, positions=0, variations=0, marks=0)
    marked = {chess.pgn.NAG_DUBIOUS_MOVE: 5, chess.pgn.NAG_MISTAKE: 10, chess.pgn.NAG_BLUNDER: 15}
    theirs = games(annotated)
    for game in games(source):
        if not game.headers and not game.variations:
            continue
        ours = next(theirs)
        assert not ours.errors, ours.errors
        assert [str(m) for m in ours.mainline_moves()] == [str(m) for m in game.mainline_moves()], game
        counts["games"] += 1
        node, before = ours, None
        while node is not None:
            score = node.eval()
            if any(node.board().legal_moves):
                assert score is not None, (ours, node.ply())
                counts["positions"] += 1
            counts["variations"] += sum(1 for _ in variations(node))
            for glyph in node.nags:
                # Other glyphs are a person's.
                if glyph not in marked or f") {NAMES[glyph]}." not in node.comment:
                    continue
                counts["marks"] += 1
                lost = win_percent(before) - win_percent(score) if score else None
                if lost is not None:
                    lost = lost if node.parent.turn() else -lost
                    assert lost > marked[glyph] - 0.1, (ours, node.ply(), glyph, lost)
            before, node = score, node.next()
    assert next(theirs, None) is None, "more games than there were"
    assert all(counts.values()), counts
    print(", ".join(f"{count} {name}" for name, count in counts.items()) + ": as python-chess reads them")


if __name__ == "__main__":
    main()
