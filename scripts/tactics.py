#!/usr/bin/env python3
"""Tactics from games: positions with one winning move, found and verified by Stockfish, and how many of them an engine solves.

    scripts/tactics.py make games.pgn.zst --count 240 --out scripts/tactics.epd
    scripts/tactics.py solve scripts/tactics.epd --nodes 1000 10000 --engine "target/release/batch-first uci" \\
        --engine "target/release/batch-first uci; Search=puct"

A position qualifies where the best move is worth at least +3 (or mates) and every other less than +1, at --verify nodes for
each of both, where it does not just take back what was taken on the same square, and where Stockfish does not find it in --blink
nodes. At most one position a game; where games carry evaluations, after moves that those call blunders. Positions are written as
they are found. An engine is a command; options follow as `; Name=Value`.
"""

import argparse
import random
import shutil
import sys

import chess
import chess.engine
import chess.pgn

from judge_moves import open_text, start

WINNING, OTHERS = 300, 100
FIRST_LOOK = 4_000


def best_two(engine, board, nodes):
    """The best move, and centipawns of it and of the second best for the mover; nothing if there is no choice."""
    lines = engine.analyse(board, chess.engine.Limit(nodes=nodes), multipv=2, game=object())
    if len(lines) < 2:
        return None
    scores = [line["score"].relative.score(mate_score=100_000) for line in lines]
    return lines[0]["pv"][0], *scores


def has_one_winner(found, margin=0):
    return found is not None and found[1] >= WINNING - margin and found[2] < OTHERS + margin


def suitable(board, engine, verify, blink):
    """The winning move of the position, if it qualifies, and what it is worth."""
    # The first look is coarse, so it is generous.
    found = best_two(engine, board, FIRST_LOOK)
    if not has_one_winner(found, 100):
        return None
    if board.move_stack and board.is_capture(found[0]) and found[0].to_square == board.peek().to_square:
        return None
    if engine.play(board, chess.engine.Limit(nodes=blink), game=object()).move == found[0]:
        return None
    found = best_two(engine, board, verify)
    if not has_one_winner(found):
        return None
    # Once more with more nodes: the answer must not depend on the depth.
    again = best_two(engine, board, verify * 5 // 2)
    return (found[0], again[1]) if has_one_winner(again) and again[0] == found[0] else None


def candidates(game, dice, each):
    """Positions of a game to look at: after moves that its evaluations call blunders, or some at random where it has none."""
    nodes = [node for node in game.mainline() if 16 <= node.ply() and node.parent is not None]
    judged = [node for node in nodes if node.eval() is not None and node.parent.eval() is not None]
    if judged:
        turned = []
        for node in judged:
            mover = node.turn()
            before, after = (at.eval().pov(mover).score(mate_score=100_000) for at in (node.parent, node))
            if before < OTHERS and after >= WINNING:
                turned.append(node)
        nodes = turned
    for node in sorted(dice.sample(nodes, min(each, len(nodes))), key=lambda node: node.ply()):
        yield node.board()


def make(options):
    engine = chess.engine.SimpleEngine.popen_uci(options.stockfish)
    engine.configure({"Threads": 1, "Hash": 64})
    dice, kept, looked, number = random.Random(options.seed), 0, 0, 0
    with open_text(options.games) as games, open(options.out, "w", encoding="utf-8") as file:
        while kept < options.count and (game := chess.pgn.read_game(games)) is not None:
            number += 1
            for board in candidates(game, dice, options.each):
                looked += 1
                if (found := suitable(board, engine, options.verify, options.blink)) is not None:
                    best, score = found
                    kept += 1
                    file.write(board.epd(bm=[best], ce=score, id=f"game {number}, ply {board.ply()}") + "\n")
                    file.flush()
                    print(f"{kept} of {options.count}, {looked} positions", file=sys.stderr, flush=True)
                    break
    engine.quit()
    print(f"{options.out}: {kept} positions of {looked}")


def solve(options):
    tasks = []
    with open(options.suite, encoding="utf-8") as file:
        for line in filter(str.strip, file):
            board, operations = chess.Board.from_epd(line)
            tasks.append((board, operations["bm"]))
    for nodes in options.nodes:
        for command in options.engine:
            engine = start(command)
            solved = 0
            for board, best in tasks:
                move = engine.play(board, chess.engine.Limit(nodes=nodes), game=object()).move
                solved += move in best
            engine.quit()
            share = 100 * solved / len(tasks)
            print(f"{nodes} nodes, {command}: {solved} of {len(tasks)} ({share:.1f} %)", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    maker = commands.add_parser("make")
    maker.add_argument("games", help="PGN, may be compressed")
    maker.add_argument("--count", type=int, default=240)
    maker.add_argument("--each", type=int, default=12, help="positions of a game that are looked at")
    maker.add_argument("--verify", type=int, default=100_000, help="nodes")
    maker.add_argument("--blink", type=int, default=100, help="nodes in which Stockfish must not find the move")
    maker.add_argument("--seed", type=int, default=1)
    maker.add_argument("--out", required=True)
    maker.add_argument("--stockfish", default=shutil.which("stockfish") or "/usr/games/stockfish")
    maker.set_defaults(run=make)
    solver = commands.add_parser("solve")
    solver.add_argument("suite")
    solver.add_argument("--engine", action="append", required=True)
    solver.add_argument("--nodes", type=int, nargs="+", default=[1000])
    solver.set_defaults(run=solve)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
