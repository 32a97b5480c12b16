"""A network of one's own in a minute: positions of random games, labelled by the network `fast`, train a smaller one.

    python own_network.py [FOLDER]

Each line of the journal arrives in a callback. For TensorBoard three lines are enough there:

    writer = torch.utils.tensorboard.SummaryWriter(folder)
    if event["kind"] == "train":
        writer.add_scalar("loss", event["loss"], event["step"])
"""

import json
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

import chess
import numpy
from batch_first import Network, Records, squares, train, write_shards

POSITIONS = 20_000
HELD_OUT = 2_000
CONV = {"layer": "conv", "padding": "same", "norm": True, "activation": "relu"}
DESCRIPTION = {
    "encoding": "batch-first-15",
    "trunk": [],
    "heads": [{"kind": "value", "layers": [
        {"layer": "branches", "norm": True, "activation": "relu", "branches": [
            {"kernel": [3, 3], "dilation": [step, step], "channels": 16} for step in (1, 2, 3)]},
        {**CONV, "kernel": 1, "channels": 32},
        {**CONV, "kernel": 8, "channels": 32, "padding": "valid"},
        {**CONV, "kernel": 1, "channels": 1, "norm": False, "activation": "identity"},
    ]}],
}


def random_fens(count: int, draw: random.Random) -> list[str]:
    """Different positions of random games, not over yet."""
    fens: dict[str, None] = {}
    while len(fens) < count:
        board = chess.Board()
        for _ in range(draw.randint(8, 80)):
            board.push(draw.choice(list(board.legal_moves)))
            if board.is_game_over():
                break
            fens[board.fen()] = None
    # Neighbours in a game are alike.
    shuffled = list(fens)[:count]
    draw.shuffle(shuffled)
    return shuffled


def records(fens: list[str], teacher: Network) -> Records:
    values = teacher.evaluate(fens, moves=False).centipawns
    assert values is not None
    boards, white_to_move, _ = squares(fens)
    return {"squares": boards, "white_to_move": white_to_move, "value": values.round().astype(numpy.int32)}


def show(event: dict[str, Any]) -> None:
    if event["kind"] == "train":
        print(f"step {event['step']:4}  loss {event['loss']:.4f}")
    elif event["kind"] == "validation":
        print(f"step {event['step']:4}  tau {event['sources'][0]['ranking']['tau_b']:.3f} on held-out positions")


def main(folder: Path) -> None:
    teacher = Network.load("fast")
    fens = random_fens(POSITIONS, random.Random(1))
    write_shards(folder / "shards", records(fens[HELD_OUT:], teacher), records(fens[:HELD_OUT], teacher))
    (folder / "network.json").write_text(json.dumps(DESCRIPTION))
    run = train({
        "run": {"name": "own", "directory": str(folder / "runs")},
        "data": {"directory": str(folder / "shards")},
        "model": {"start": str(folder / "network.json"), "head": "value"},
        "training": {"seed": 1, "batch": 512, "learning_rate": 4e-3, "samples": 300_000, "log_every": 100,
                     "schedule": {"kind": "cosine", "warm_up": 50, "floor": 0.01}},
        "validation": {"every": 200, "positions": HELD_OUT},
    }, on_event=show)
    assert run["network"] is not None
    own = Network.load(run["network"])
    ours, theirs = (network.evaluate(fens[:HELD_OUT], moves=False).centipawns for network in (own, teacher))
    assert ours is not None and theirs is not None
    agreement = float(numpy.corrcoef(ours, theirs)[0, 1])
    print(f"{run['network']}: correlation with the teacher {agreement:.2f} on {HELD_OUT} held-out positions")
    if agreement < 0.5:
        sys.exit("it has learned too little")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))
