#!/usr/bin/env python3
"""What ONNX Runtime computes from files of `net export --onnx`, compared with the reference in f64.

    scripts/judge_onnx.py PROGRAM [NETWORK...]

Besides the given networks: all in networks/, and one with every layer. Positions are those of scripts/tactics.epd and of random games, with the positions
before them, which Leela's networks see. The error of a head is its largest difference, divided by its largest output if
that is above 1; it must be at most 1e-4. Needs python-chess; installs onnx and onnxruntime if they are missing.
"""

import json
import pathlib
import random
import subprocess
import sys
import tempfile

import chess

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIMIT = 1e-4
POSITIONS = 24


def packages():
    try:
        import numpy
        import onnx
        import onnxruntime
    except ImportError:
        wanted = ["numpy", "onnx", "onnxruntime"]
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--break-system-packages", *wanted], check=True)
        import numpy
        import onnx
        import onnxruntime
    return numpy, onnx, onnxruntime


def every_layer():
    """A description with the activations and layers that no network of ours or of Leela's has together."""
    def conv(activation, kernel=3, **more):
        return {"layer": "conv", "kernel": kernel, "channels": 8, "padding": "same", "norm": True, "activation": activation,
                **more}

    branches = [{"kernel": [3, 2], "dilation": [1, 2], "channels": 5}, {"kernel": [4, 1], "dilation": [2, 1], "channels": 3}]
    trunk = [
        {"layer": "branches", "norm": False, "activation": "gelu", "branches": branches},
        conv("leaky-relu", 5), conv("silu"), conv("selu", 7), conv("tanh", norm=False), conv("squared-relu", 1),
        {"layer": "residual", "activation": "mish", "layers": [
            conv("gelu"), {"layer": "squeeze-excite", "channels": 3, "activation": "silu"}, {"layer": "layer-norm", "millionths": 100},
        ]},
        {"layer": "attention", "heads": 2, "width": 8},
        {"layer": "gate", "activation": "selu"},
    ]
    dense = {"layer": "dense", "channels": 6, "norm": True, "activation": "relu"}
    value = [
        {"layer": "pool", "pooling": "average", "size": 2}, {"layer": "append-mean"}, {"layer": "pool", "pooling": "max", "size": 2},
        conv("gelu", 2, padding="valid"), {"layer": "layer-norm", "millionths": 10}, conv("mish", 1), dense,
        {**dense, "channels": 1, "norm": False, "activation": "tanh"},
    ]
    moves = [{"layer": "gate", "activation": "identity"}, conv("identity", 1, channels=73, norm=False)]
    heads = [{"kind": "value", "layers": value}, {"kind": "moves", "layers": moves}]
    return {"encoding": "attacks-21", "trunk": trunk, "heads": heads}


def positions():
    """Lines of a FEN and moves from it."""
    tactics = (ROOT / "scripts/tactics.epd").read_text().splitlines()[: POSITIONS // 2]
    yield from (" ".join(line.split()[:4]) + " 0 1" for line in tactics)
    draw = random.Random(1)
    for number in range(POSITIONS // 2):
        board = chess.Board()
        # The later ones walk knights and rooks about, so that positions are repeated.
        while board.ply() < 6 + 7 * number and not board.is_game_over():
            moves = list(board.legal_moves)
            back = [move for move in moves if board.ply() > 1 and move.from_square == board.peek().from_square]
            board.push(draw.choice(back or moves))
        yield chess.STARTING_FEN + " moves " + " ".join(move.uci() for move in board.move_stack)


def judge(program, network, folder, lines):
    """The largest error of each head."""
    numpy, onnx, onnxruntime = packages()
    file, out = f"{folder}/network.onnx", f"{folder}/reference"
    subprocess.run([program, "net", "export", "--onnx", network, "--out", file], check=True, capture_output=True)
    example = ["cargo", "run", "--quiet", "--release", "-p", "batch-first-eval", "--example", "reference_outputs", "--"]
    subprocess.run([*example, network, f"{folder}/positions", out], check=True, cwd=ROOT)
    model = onnx.load(file)
    onnx.checker.check_model(model, full_check=True)
    def read(text):
        """JSON with numbers of 32 bits, however many digits they have."""
        return json.loads(text, parse_float=lambda digits: float(numpy.float32(digits)))

    told = read(subprocess.run([program, "net", "info", "--json", network], check=True, capture_output=True).stdout)
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    for key in ("description", "calibration"):
        assert read(metadata[key]) == told[key], f"the metadata holds another {key}"
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    assert names == [head["kind"] for head in told["description"]["heads"]], names
    planes = numpy.fromfile(f"{out}.planes", "<f4").reshape(lines, -1, 8, 8)
    found = session.run(None, {"planes": planes})
    alone = session.run(None, {"planes": planes[:1]})
    errors = {}
    for name, outputs, first in zip(names, found, alone):
        exact = numpy.fromfile(f"{out}.{name}", "<f4").reshape(lines, -1)
        assert outputs.shape == exact.shape, (name, outputs.shape, exact.shape)
        scale = max(1.0, float(abs(exact).max()))
        worst = max(abs(outputs - exact).max(), abs(first - exact[:1]).max())
        errors[name] = float(worst) / scale
        # Outputs that do not depend on the position would hide a mistake.
        assert exact.std(axis=0).max() > 1e-3, f"{name} is the same for all positions"
    return errors


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    program = str(pathlib.Path(sys.argv[1]).resolve())
    networks = sys.argv[2:] + sorted(map(str, (ROOT / "networks").glob("*.safetensors")))
    fails = 0
    with tempfile.TemporaryDirectory() as folder:
        lines = list(positions())
        pathlib.Path(folder, "positions").write_text("\n".join(lines) + "\n")
        pathlib.Path(folder, "every-layer.json").write_text(json.dumps(every_layer()))
        networks.append(f"{folder}/every-layer.safetensors")
        example = ["cargo", "run", "--quiet", "--release", "-p", "batch-first-nets", "--example", "random_network", "--"]
        subprocess.run([*example, f"{folder}/every-layer.json", networks[-1]], check=True, cwd=ROOT)
        for network in networks:
            errors = judge(program, network, folder, len(lines))
            shown = ", ".join(f"{name} {error:.1e}" for name, error in errors.items())
            good = all(error <= LIMIT for error in errors.values())
            fails += not good
            print(f"{pathlib.Path(network).name}: {shown}{'' if good else ' ABOVE THE LIMIT'}", flush=True)
    sys.exit(f"{fails} of {len(networks)} networks differ by more than {LIMIT}" if fails else 0)


if __name__ == "__main__":
    main()
