#!/usr/bin/env python3
"""Is a PGN read as python-chess reads it?

    scripts/judge_games.py [--games 5000] [--seed 1]

Makes games of random moves with comments, nested variations, glyphs, null moves in variations, escaped lines, tags with
quotes, broken moves and odd spellings, in three encodings and with four line ends. python-chess reads the same games with
usual spellings, because it knows fewer of the odd ones and drops comments behind semicolons. Moves, evaluations, comments, glyphs, variations, tags, results and
the number of games that are broken off must be the same.
"""

import argparse
import io
import json
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import chess
import chess.pgn

EVAL = re.compile(r"\[%eval\s[^\]]*\]")
WORDS = "a plan the weak square worth it novelty Zürich é better than 12.Nf3 (sharp) why not ; semicolon $5 [odd".split()
FIGURINES = dict(zip("KQRBN", "♔♕♖♗♘"))
ENCODINGS = ["utf-8", "utf-8-sig", "latin-1"]
LINE_ENDS = ["\n", "\r\n", "\r", None]  # None: LF and CRLF in turn


class Writer:
    """A game as two texts: in odd spellings for us, in usual ones for python-chess."""

    def __init__(self, rng, encoding):
        self.rng, self.encoding = rng, encoding
        self.odd, self.plain = [], []

    def both(self, text):
        self.odd.append(text)
        self.plain.append(text)

    def comment(self):
        rng = self.rng
        words = [rng.choice(WORDS) for _ in range(rng.randrange(1, 9))]
        if rng.random() < 0.5:
            score = rng.choice([f"#{rng.choice([-3, 1, 7])}", f"{rng.randrange(-900, 900) / 100:.2f}"])
            words.insert(rng.randrange(len(words) + 1), f"[%eval {score}{rng.choice(['', ',18'])}]")
        if rng.random() < 0.2:
            words.insert(rng.randrange(len(words)), rng.choice(['\n[Event "none"]\n', "\n[Another idea, this]\n", "\n"]))
        text = " ".join(words)
        if rng.random() < 0.15 and "\n" not in text:
            self.odd.append(f"; {text}\n")
        else:
            self.odd.append("{ " + text + " }")
        self.plain.append("{ " + text + " }")

    def spelling(self, board, move):
        """A way to write a move that we read and that names it alone."""
        san, kind = board.san(move), self.rng.randrange(9)
        piece = board.piece_at(move.from_square)
        castles = board.is_castling(move)
        if castles:
            return san.replace("O", "0") if kind < 4 else san
        squares = chess.square_name(move.from_square), chess.square_name(move.to_square)
        promotion = chess.piece_symbol(move.promotion).upper() if move.promotion else ""
        letter = "" if piece.piece_type == chess.PAWN else piece.symbol().upper()
        if kind == 0:
            return f"{letter}{squares[0]}{'x' if board.is_capture(move) else '-'}{squares[1]}{promotion}"
        if kind == 1:
            return f"{squares[0]}{squares[1]}{promotion.lower()}"
        if kind == 2:
            return san.replace("=", "")
        if kind == 3 and board.is_en_passant(move):
            return san.rstrip("+#") + self.rng.choice(["e.p.", " e.p."])
        if kind == 4 and self.encoding != "latin-1" and letter:
            return FIGURINES[letter] + san[1:]
        if kind == 5 and letter and letter != "B":
            return letter.lower() + san[1:]
        if kind == 6 and promotion:
            return re.sub("=(.)", r"(\1)", san)
        if kind == 7:
            return san.replace("x", ":").rstrip("+#")
        return san

    def number(self, board, force):
        if board.turn == chess.WHITE or force:
            dots = "." if board.turn == chess.WHITE else "..."
            self.both(f"{board.fullmove_number}{dots}")

    def line(self, board, plies, depth):
        """A line of random moves, its variations after each move."""
        rng, force = self.rng, True
        for _ in range(plies):
            moves = list(board.legal_moves)
            if not moves:
                return
            move = rng.choice(moves)
            self.number(board, force or rng.random() < 0.1)
            if depth and rng.random() < 0.05 and not board.is_check():
                move = chess.Move.null()
                self.odd.append(rng.choice(["--", "Z0", "@@@@"]))
                self.plain.append("--")
            else:
                self.odd.append(self.spelling(board, move))
                self.plain.append(board.san(move))
            force = False
            if rng.random() < 0.1:
                glyph = rng.choice([("!", 1), ("?", 2), ("!!", 3), ("??", 4), ("!?", 5), ("?!", 6)])
                self.odd[-1] += glyph[0]
                self.plain.append(f"${glyph[1]}")
            if rng.random() < 0.05:
                self.both(f"${rng.randrange(7, 140)}")
            before = board.copy()
            board.push(move)
            for _ in range(2):
                if rng.random() < 0.12:
                    self.comment()
                    force = True
            while depth < 3 and rng.random() < 0.08:
                self.both("(")
                if rng.random() < 0.2:
                    self.comment()
                self.line(before.copy(), rng.randrange(1, 5), depth + 1)
                self.both(")")
                force = True
            if rng.random() < 0.01:
                self.both("\n% an escaped line\n")

    def illegal(self, board):
        while True:
            san = self.rng.choice("KQRBN") + self.rng.choice(["", "x"]) + self.rng.choice(chess.SQUARE_NAMES)
            try:
                board.parse_san(san)
            except chess.AmbiguousMoveError:
                return san
            except chess.IllegalMoveError:
                return san

    def game(self, number):
        rng = self.rng
        board, result = chess.Board(), rng.choice(["1-0", "0-1", "1/2-1/2", "*"])
        tags = [("Event", f"game {number}"), ("White", rng.choice(["Müller", 'Joe \\"Iron\\" Pawn', "C:\\\\games", "]", "x {y; z"]))]
        if rng.random() < 0.7:
            tags.append(("Result", rng.choice([result, "*", "1-0"])))
        if rng.random() < 0.15:
            board = chess.Board.from_chess960_pos(rng.randrange(960))
            tags += [("Variant", "Chess960"), ("SetUp", "1"), ("FEN", board.fen())]
        elif rng.random() < 0.15:
            for _ in range(rng.randrange(1, 30)):
                board.push(rng.choice(list(board.legal_moves) or [chess.Move.null()]))
            board = chess.Board(board.fen())
            if board.is_valid() and any(board.legal_moves):
                tags += [("SetUp", "1"), ("FEN", board.fen())]
            else:
                board = chess.Board()
        head = "".join(f'[{name} "{value}"]\n' for name, value in tags) + "\n"
        if rng.random() < 0.1:
            self.comment()
        self.line(board, rng.randrange(0, 50), 0)
        if rng.random() < 0.03 and any(board.legal_moves):
            self.both(self.illegal(board) + " Nf3 { [%eval 9.99] }")
        self.both(result)
        if rng.random() < 0.05:
            self.comment()
        # python-chess takes a value as it is written.
        plain_head = head.replace('\\"', '"').replace("\\\\", "\\")
        return head + self.joined(self.odd), plain_head + self.joined(self.plain)

    def joined(self, words):
        """Words of a game on lines of about 80 letters."""
        text, column = "", 0
        for word in words:
            # An empty line ends a game for python-chess.
            text += word.removeprefix("\n") if text.endswith("\n") else word
            column = 0 if word.endswith("\n") else column + len(word) + 1
            if not text.endswith("\n"):
                text += "\n" if column > 80 else " "
                column = 0 if column > 80 else column
        return text.rstrip() + "\n\n"


def bare(comment):
    return " ".join(EVAL.sub(" ", comment, count=1).split())


def items(board, node):
    """A variation as our reader prints it, from the node of its first move."""
    found = []
    if node.starting_comment:
        found.append({"Comment": " ".join(node.starting_comment.split())})
    while node is not None:
        found.append({"Move": board.san(node.move) if node.move else "--"})
        found += [{"Nag": nag} for nag in sorted(node.nags)]
        if node.comment:
            found.append({"Comment": " ".join(node.comment.split())})
        parent, after = node.parent, board.copy()
        after.push(node.move)
        if parent.variations[0] is node:
            found += [{"Variation": {"items": items(board, other)}} for other in parent.variations[1:]]
        board, node = after, node.next()
    return found


def lines(found):
    """Our variation as python-chess has it: one comment and a set of glyphs a move, and what stands beside the first
    move of a variation is one more variation of the same move."""
    result, beside, moves = [], [], 0
    index = 0
    while index < len(found):
        result.append(found[index])
        index += 1
        if "Move" not in result[-1]:
            continue
        nags, comments, nested = set(), [], []
        moves += 1
        while index < len(found) and "Move" not in found[index]:
            item = found[index]
            if "Nag" in item:
                nags.add(item["Nag"])
            elif "Comment" in item:
                comments.append(item["Comment"])
            else:
                nested += lines(item["Variation"]["items"])
            index += 1
        result += [{"Nag": nag} for nag in sorted(nags)]
        if comments:
            result.append({"Comment": " ".join(comments)})
        if moves == 1:
            beside += nested
        else:
            result += [{"Variation": {"items": line}} for line in nested]
    return [result, *beside]


def known(tags):
    """Tags without those that say nothing: python-chess adds them."""
    return {name: value for name, value in tags.items() if value.strip("?.") not in ("", "*")}


def theirs(game):
    """A game of python-chess in the form of `crates/games/examples/read_games.rs`."""
    board = game.board()
    read = dict(fen=board.fen(en_passant="legal"), moves=[], evaluations=[], comments=[], nags=[], variations=[])
    read["tags"] = known({name: value for name, value in game.headers.items() if name not in ("FEN", "SetUp", "Variant")})
    read["unread"] = bool(game.errors)
    node = game
    while node is not None:
        ply = len(read["moves"])
        evaluation = node.eval()
        if evaluation is not None:
            white = evaluation.white()
            read["evaluations"].append([ply, white.score(), white.mate()])
        if bare(node.comment):
            read["comments"].append([ply, bare(node.comment)])
        read["nags"] += [[ply, nag] for nag in sorted(node.nags)]
        if node.parent is not None:
            before = node.parent.board()
            for other in node.parent.variations[1:]:
                read["variations"].append([ply, {"items": items(before, other)}])
        node = node.next()
        if node is not None:
            read["moves"].append(node.parent.board().uci(node.move))
    return read


def ours(read):
    """Our game with joined comments: python-chess keeps one a move, and reads the first evaluation in it."""
    joined = {}
    for ply, text in read["comments"]:
        joined.setdefault(ply, []).append(text)
    first = {}
    for ply, *score in read["evaluations"]:
        first.setdefault(ply, score)
    return dict(
        fen=read["fen"],
        moves=read["moves"],
        evaluations=[[ply, *score] for ply, score in first.items()],
        comments=[[ply, bare_again(" ".join(texts))] for ply, texts in joined.items() if bare_again(" ".join(texts))],
        nags=sorted([ply, nag] for ply, nag in {tuple(pair) for pair in read["nags"]}),
        variations=[[ply, {"items": line}] for ply, read_line in read["variations"] for line in lines(read_line["items"])],
        tags=known(dict(map(tuple, read["tags"]))),
        unread=read["unread"] is not None,
    )


def bare_again(text):
    return " ".join(EVAL.sub(" ", text).split())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chess.pgn.LOGGER.setLevel("CRITICAL")
    rng, counts = random.Random(options.seed), dict(games=0, broken=0, evaluations=0, comments=0, variations=0)
    kinds = [(encoding, end) for encoding in ENCODINGS for end in LINE_ENDS]
    reader = ["cargo", "run", "--quiet", "--release", "-p", "batch-first-games", "--example", "read_games", "--"]
    with tempfile.TemporaryDirectory() as folder:
        for kind, (encoding, end) in enumerate(kinds):
            pairs = [Writer(rng, encoding).game(number) for number in range(kind, options.games, len(kinds))]
            odd, plain = ("".join(texts) for texts in zip(*pairs))
            lines = odd.split("\n")
            ends = [end or ("\r\n" if index % 3 else "\n") for index in range(len(lines) - 1)] + [""]
            path = Path(folder) / f"{kind}.pgn"
            path.write_bytes("".join(map("".join, zip(lines, ends))).encode(encoding))
            output = subprocess.run([*reader, path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout
            found = [json.loads(line) for line in output.splitlines()]
            text, number = io.StringIO(plain), 0
            while (game := chess.pgn.read_game(text)) is not None:
                if number >= len(found) or "left_out" in found[number]:
                    sys.exit(f"{path.name}: game {number} is missing: {found[number:number + 1]}\n{pairs[number][0]}")
                mine, other = ours(found[number]), theirs(game)
                for field, value in other.items():
                    if field == "comments":
                        value = [[ply, bare_again(text)] for ply, text in value if bare_again(text)]
                    if mine[field] != value:
                        sys.exit(f"{encoding} {end!r}, game {number}: {field}\nours   {mine[field]}\ntheirs {value}\n{pairs[number][0]}")
                counts["games"] += 1
                counts["broken"] += other["unread"]
                for field in ("evaluations", "comments", "variations"):
                    counts[field] += len(other[field])
                number += 1
            if number != len(found):
                sys.exit(f"{encoding} {end!r}: python-chess reads {number} games, we read {len(found)}")
    assert counts["games"] == options.games and all(counts.values()), counts
    print(", ".join(f"{count} {name}" for name, count in counts.items()) + ": as python-chess reads them")


if __name__ == "__main__":
    main()
