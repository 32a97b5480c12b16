#!/usr/bin/env python3
"""Evaluations a second of processor time with networks of Leela's: ours, Leela Chess Zero, ONNX Runtime, OpenVINO.

    pip install onnx onnxruntime openvino numpy chess
    cargo build --release
    scripts/bench_leela.py NETWORK.pb.gz [--batch 1 --batch 32] [--rounds 3] [--path amx:bf16] [--peer NAME]

One thread each. Every round times every engine once, one after the other; the tables show medians over the rounds, and
ratios within a round. Peers stay loaded in processes of their own, each compiled for the batch size that is timed.
They get the planes of positions of random games, the same for all; ours is `bench eval --both`, which encodes
positions of its own within its time. Leela's code is the Python package of scripts/judge_leela.py (backend `eigen`).
The others get the network in the form that is fastest in each (scripts/leela_onnx.py), int8 calibrated on the same
positions. Before timing, values and logits of each peer are compared with those of Leela's code; in fp32 they must
agree to 0.01.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
POSITIONS = 256
MOVES = 1858
LEELA = "Leela Chess Zero, Eigen"


@dataclass
class Peer:
    runtime: str
    weights: str = "fp32"
    precision: str = "f32"
    environment: dict = field(default_factory=dict)


def without_tiles(limit):
    return {"ONEDNN_MAX_CPU_ISA": limit}


PEERS = {
    LEELA: Peer("leela"),
    "ONNX Runtime fp32": Peer("onnxruntime"),
    "ONNX Runtime int8": Peer("onnxruntime", "int8"),
    "OpenVINO f32": Peer("openvino"),
    "OpenVINO bf16": Peer("openvino", precision="bf16"),
    "OpenVINO int8": Peer("openvino", "int8", "bf16"),
    "OpenVINO bf16, no tiles": Peer("openvino", "fp32", "bf16", without_tiles("AVX512_CORE_BF16")),
    "OpenVINO int8, no tiles": Peer("openvino", "int8", "f32", without_tiles("AVX512_CORE_VNNI")),
}


# --- positions and outputs -----------------------------------------------------------------------------------------


def random_games():
    """Moves from the starting position, of random games that are not over."""
    import chess

    draw, found = random.Random(2), []
    while len(found) < POSITIONS:
        board = chess.Board()
        for _ in range(draw.randrange(4, 60)):
            if board.is_game_over():
                break
            board.push(draw.choice(list(board.legal_moves)))
        if not board.is_game_over():
            found.append([move.uci() for move in board.move_stack])
    return found


def planes_of(inputs):
    """Planes [112, 8, 8] of an input of Leela's code."""
    import numpy

    masks = numpy.array([inputs.mask(plane) for plane in range(112)], numpy.uint64)
    bits = masks[:, None] >> numpy.arange(64, dtype=numpy.uint64) & numpy.uint64(1)
    values = numpy.array([inputs.val(plane) for plane in range(112)], numpy.float32)
    return (bits * values[:, None]).astype(numpy.float32).reshape(112, 8, 8)


def places():
    """Where each of 1858 moves is among 64 x 64 pairs and 192 promotions, and among 80 planes of 64 squares."""
    steps = [(file, rank) for file, rank in ((0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1), (-1, 0), (-1, 1))]
    planes = [(file * distance, rank * distance) for file, rank in steps for distance in range(1, 8)]
    planes += [(1, 2), (2, 1), (2, -1), (1, -2), (-1, -2), (-2, -1), (-2, 1), (-1, 2)]
    in_pairs, in_planes = [], []
    for start in range(64):
        for end in range(64):
            step = (end % 8 - start % 8, end // 8 - start // 8)
            if step in planes:
                in_pairs.append(64 * start + end)
                in_planes.append(64 * planes.index(step) + start)
    for start in range(8):
        for end in range(max(start - 1, 0), min(start + 2, 8)):
            # Queen, rook and bishop; the planes are of rook, bishop and queen.
            for piece, plane in enumerate((66, 64, 65)):
                in_pairs.append(64 * 64 + 24 * start + 3 * end + piece)
                in_planes.append(64 * (plane + 3 * (end - start + 1)) + 48 + start)
    return in_pairs, in_planes


def answers_of(policy, value):
    """Wins minus losses, and the logits of 1858 moves."""
    wins = value[:, 0] - value[:, 2] if value.shape[1] == 3 else value[:, 0]
    policy = policy.reshape(len(policy), -1)
    if policy.shape[1] == MOVES:
        return wins, policy
    in_pairs, in_planes = places()
    return wins, policy[:, in_planes if policy.shape[1] == 80 * 64 else in_pairs]


# --- a peer, in a process of its own -------------------------------------------------------------------------------


class Leela:
    """Leela Chess Zero's own code."""

    def __init__(self, network, folder):
        from judge_leela import bindings

        backends = bindings()
        self.backend = backends.Backend(backends.Weights(network), backend="eigen")
        games = json.loads(Path(folder, "games.json").read_text())
        self.states = [backends.GameState(moves=moves) for moves in games]
        self.inputs = [state.as_input(self.backend) for state in self.states]

    def prepared(self, _batch):
        return lambda inputs: self.backend.evaluate(*inputs)

    def answers(self):
        import numpy

        outputs = [self.backend.evaluate(one)[0] for one in self.inputs]
        legal = numpy.zeros((POSITIONS, MOVES), bool)
        for row, state in zip(legal, self.states):
            row[list(state.policy_indices())] = True
        return {
            "value": numpy.array([output.q() for output in outputs], numpy.float32),
            "policy": numpy.array([output.p_raw(*range(MOVES)) for output in outputs], numpy.float32),
            "legal": legal,
            "planes": numpy.stack([planes_of(one) for one in self.inputs]),
        }


class Runtime:
    """A runtime of ONNX models."""

    def __init__(self, peer, folder):
        import numpy

        self.peer, self.model = peer, f"{folder}/{peer.runtime}-{peer.weights}.onnx"
        self.inputs = numpy.load(f"{folder}/{LEELA}.npz")["planes"]

    def prepared(self, batch):
        import bench_peers

        if self.peer.runtime == "onnxruntime":
            return bench_peers.onnx_runtime(self.model, batch)
        return bench_peers.openvino(self.model, self.peer.precision, batch)

    def answers(self):
        import numpy

        run = self.prepared(64)
        parts = [run(self.inputs[first : first + 64]) for first in range(0, POSITIONS, 64)]
        value, policy = answers_of(*map(numpy.concatenate, zip(*parts)))
        return {"value": value, "policy": policy}


def speed(run, inputs, batch, seconds):
    """Evaluations a second of processor time; at least one batch."""
    batches = [inputs[first : first + batch] for first in range(0, POSITIONS, batch)]
    turn, count, began = 0, 0, time.process_time()
    while turn == 0 or time.process_time() - began < seconds:
        positions = batches[turn % len(batches)]
        run(positions)
        turn, count = turn + 1, count + len(positions)
    return count / (time.process_time() - began)


def work(name, network, folder):
    """Answers tasks, one JSON object a line, until the end of input."""
    import numpy

    peer = PEERS[name]
    engine = Leela(network, folder) if peer.runtime == "leela" else Runtime(peer, folder)
    run = size = None
    for line in sys.stdin:
        batch, seconds = json.loads(line)
        if batch == 0:
            # Not a timing, but the outputs.
            numpy.savez(f"{folder}/{name}.npz", **engine.answers())
            print("[0]", flush=True)
            continue
        if batch != size:
            run, size = engine.prepared(batch), batch
            speed(run, engine.inputs, 1 if peer.runtime == "leela" else batch, seconds / 4)
        print(json.dumps([speed(run, engine.inputs, batch, seconds)]), flush=True)


class Worker:
    """A peer's process, seen from here."""

    def __init__(self, name, network, folder):
        command = [sys.executable, __file__, "--work", name, network, folder]
        environment = dict(os.environ, OMP_NUM_THREADS="1", **PEERS[name].environment)
        self.errors = open(f"{folder}/{name}.log", "w+")
        streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self.errors}
        self.process = subprocess.Popen(command, text=True, env=environment, **streams)

    def ask(self, batch, seconds):
        self.process.stdin.write(json.dumps([batch, seconds]) + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith("["):
                return json.loads(line)[0]
        self.errors.seek(0)
        raise RuntimeError((self.errors.read().strip() or "it ended").splitlines()[-1])

    def close(self):
        self.process.stdin.close()
        self.process.wait()


# --- ours, and the tables ------------------------------------------------------------------------------------------


def our_speed(arguments, path, batch):
    path, _, precision = path.partition(":")
    command = [arguments.program, "bench", "eval", "--net", arguments.network, "--both", "--json", "--path", path]
    command += ["--precision", precision, "--batch", str(batch), "--seconds", str(arguments.seconds)]
    done = subprocess.run(command, capture_output=True, text=True)
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if not rows:
        raise RuntimeError(done.stderr.strip() or "nothing was measured")
    return rows[0]["evaluations_per_cpu_second"]


def write_model(network, peer, planes, folder):
    """The network in the form that a peer reads, unless it is there."""
    import bench_peers
    from leela_onnx import export

    single, wanted = (f"{folder}/{peer.runtime}-{weights}.onnx" for weights in ("fp32", peer.weights))
    if not os.path.exists(single):
        export(network, single, peer.runtime)
    if os.path.exists(wanted):
        return
    if not is_attention(single):
        return bench_peers.quantise(single, wanted, planes)
    # Products with weights only: all else is faster in single precision.
    options = {"op_types_to_quantize": ["MatMul"], "extra_options": {"MatMulConstBOnly": True}}
    form = "QOperator" if peer.runtime == "onnxruntime" else "QDQ"
    bench_peers.quantise(single, wanted, planes, form, **options)


def is_attention(model):
    import onnx

    return any(node.op_type == "LayerNormalization" for node in onnx.load(model).graph.node)


def compare(name, folder):
    """Prints how far a peer is from Leela's code; fails if a peer in fp32 is too far."""
    import numpy

    expected, found = (numpy.load(f"{folder}/{one}.npz") for one in (LEELA, name))
    legal = expected["legal"]
    values = abs(found["value"] - expected["value"]).max()
    logits = abs(found["policy"] - expected["policy"])[legal].max()
    first = [numpy.where(legal, one["policy"], -numpy.inf).argmax(1) for one in (expected, found)]
    same = (first[0] == first[1]).mean()
    differences = f"values differ by at most {values:.5f}, logits by {logits:.5f}"
    print(f"{name}: {differences}; {same:.1%} of first choices are equal", flush=True)
    if PEERS[name].weights == "fp32" and PEERS[name].precision == "f32" and max(values, logits) > 0.01:
        sys.exit(f"{name} does not compute this network")


def start(arguments, folder):
    """The peers that work here, compared with Leela's code."""
    import numpy

    Path(folder, "games.json").write_text(json.dumps(random_games()))
    workers = {LEELA: Worker(LEELA, arguments.network, folder)}
    workers[LEELA].ask(0, 0)
    planes = numpy.load(f"{folder}/{LEELA}.npz")["planes"]
    for name in arguments.peer or PEERS:
        if name == LEELA:
            continue
        write_model(arguments.network, PEERS[name], planes, folder)
        worker = Worker(name, arguments.network, folder)
        try:
            worker.ask(0, 0)
        except RuntimeError as error:
            print(f"{name} does not run here: {error}")
            continue
        compare(name, folder)
        workers[name] = worker
    return workers


def measure(arguments, workers, batch):
    """Speeds of every engine in every round."""
    speeds = {}
    for _ in range(arguments.rounds):
        for path in arguments.path:
            speeds.setdefault(f"ours, {path}", []).append(our_speed(arguments, path, batch))
        for name, worker in workers.items():
            speeds.setdefault(name, []).append(worker.ask(batch, arguments.seconds))
    return speeds


def show(batch, speeds):
    """Prints the table of one batch size: medians, and ratios to Leela's code and to the fastest peer."""
    peers = [name for name in speeds if name in PEERS]
    best = max(peers, key=lambda name: statistics.median(speeds[name]))

    def ratio(name, peer):
        return statistics.median(one / other for one, other in zip(speeds[name], speeds[peer]))

    print(f"\n| batch {batch} | evaluations a CPU second | / {LEELA} | / {best} |\n|---|---:|---:|---:|")
    for name, found in speeds.items():
        cells = [name, f"{statistics.median(found):,.0f}", f"{ratio(name, LEELA):.2f}", f"{ratio(name, best):.2f}"]
        print(f"| {' | '.join(cells)} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network")
    parser.add_argument("--program", default=str(ROOT / "target/release/batch-first"))
    parser.add_argument("--batch", type=int, action="append")
    parser.add_argument("--path", action="append", help="ours, as amx:bf16; default: that, avx512:f32 and avx2:f32")
    parser.add_argument("--peer", action="append", choices=list(PEERS), help="besides Leela's code; default: all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.5, help="processor seconds of each timing")
    arguments = parser.parse_args()
    arguments.path = arguments.path or ["amx:bf16", "avx512:f32", "avx2:f32"]
    with tempfile.TemporaryDirectory() as folder:
        workers = start(arguments, folder)
        for batch in arguments.batch or [1, 8, 32, 256]:
            show(batch, measure(arguments, workers, batch))
        for worker in workers.values():
            worker.close()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        work(*sys.argv[2:])
    else:
        main()
