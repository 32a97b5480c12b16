#!/usr/bin/env python3
"""Times our CPU evaluation against ONNX Runtime and OpenVINO: one network, one set of positions, one run.

    pip install onnx onnxruntime openvino numpy
    cargo build --release
    scripts/bench_peers.py [--network networks/batch-first.safetensors] [--head value] [--batch 1 --batch 256]

The network is exported to ONNX (`net export --onnx`). Each round times every engine once, one after the other, each in
a process of its own, so that a machine whose speed drifts drifts for all; the table shows medians over the rounds, in
evaluations per second of processor time (one thread each), and the median of the ratios ours / theirs within a round.
Before timing, the values that each of our paths and each peer gives are compared with those of the first peer (ONNX
Runtime in fp32 unless told otherwise).
"""

import argparse
import json
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


# --- export --------------------------------------------------------------------------------------------------------


def read_network(path):
    """Header (description and calibration) and tensors of a weight file."""
    import numpy

    data = Path(path).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    entries = json.loads(data[8 : 8 + length])
    header = json.loads(entries.pop("__metadata__")["batch-first"])
    tensors = {}
    for name, entry in entries.items():
        start, end = (8 + length + offset for offset in entry["data_offsets"])
        tensors[name] = numpy.frombuffer(data[start:end], numpy.float32).reshape(entry["shape"])
    return header, tensors


def export(program, network, head, out):
    """Writes one head (with the trunk) as ONNX: input `planes` [batch, planes, 8, 8], output of the head's name."""
    import onnx.utils

    whole = f"{out}.whole"
    subprocess.run([program, "net", "export", "--onnx", network, "--out", whole], check=True, capture_output=True)
    onnx.utils.extract_model(whole, out, ["planes"], [head])


def plane_table(encoding):
    """The planes that a square in each state sets, [states, planes]: its piece, and the cheapest attacker of either side; for
    Cockfish White's pieces, Black's, and who moves."""
    import numpy

    sizes = {"batch-first-15": (16, 15), "attacks-21": (256, 21), "attacks-21-king-right": (256, 21), "cockfish-13": (32, 13)}
    if encoding not in sizes:
        raise SystemExit(f"the peers do not know the input {encoding}")
    table = numpy.zeros(sizes[encoding], numpy.float32)
    for state, planes in enumerate(table):
        if encoding == "cockfish-13":
            # The mover's pawn to king, and a rook that may castle; the opponent's seven classes later. Class 1 marks a square.
            piece, white_moves = state & 15, state >> 4
            if piece > 1:
                role, is_own = [0, 1, 2, 3, 4, 5, 3][(piece - 2) % 7], piece < 9
                planes[role if is_own == white_moves else role + 6] = 1
            planes[12] = white_moves
            continue
        piece, own, other = state & 15, state >> 4 & 3, state >> 6
        planes[[first + number - 1 for first, number in ((0, piece), (15, own), (18, other)) if number]] = 1
    return table


def planes_of(states, encoding):
    """Planes [n, planes, 8, 8] of boards given as 64 bytes each, the states of their squares."""
    import numpy

    boards = numpy.frombuffer(Path(states).read_bytes(), numpy.uint8).reshape(-1, 8, 8)
    return numpy.ascontiguousarray(plane_table(encoding)[boards].transpose(0, 3, 1, 2))


# --- the peers, each in a process of its own -----------------------------------------------------------------------


def onnx_runtime(model, batch=None):
    """A function from planes to all outputs, for one batch size or any."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    if batch:
        options.add_free_dimension_override_by_name("batch", batch)
    # Sum and norm in one operator are slower there than in two.
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"],
                                           disabled_optimizers=["SkipLayerNormFusion"])
    return lambda planes: session.run(None, {"planes": planes})


def openvino(model, precision, batch=None):
    """As `onnx_runtime`."""
    import openvino as ov

    core = ov.Core()
    network = core.read_model(model)
    if batch:
        network.reshape([batch, *network.inputs[0].partial_shape[1:]])
    settings = {
        "INFERENCE_NUM_THREADS": 1,
        "NUM_STREAMS": 1,
        "INFERENCE_PRECISION_HINT": precision,
        "PERFORMANCE_HINT": "LATENCY",
    }
    request = core.compile_model(network, "CPU", settings).create_infer_request()
    return lambda planes: list(request.infer({"planes": planes}).values())


ENGINES = {
    "onnxruntime fp32": ("fp32", lambda model: onnx_runtime(model)),
    "onnxruntime int8": ("int8", lambda model: onnx_runtime(model)),
    # Linux lets a program be held to AVX2 where the processor can trap CPUID: hold_to_avx2.c.
    "onnxruntime fp32 avx2": ("fp32", lambda model: onnx_runtime(model)),
    "openvino fp32": ("fp32", lambda model: openvino(model, "f32")),
    "openvino bf16": ("fp32", lambda model: openvino(model, "bf16")),
    "openvino int8": ("int8", lambda model: openvino(model, "bf16")),
}


def quantise(model, out, planes, form="QDQ", **options):
    """ONNX Runtime's static int8 quantisation, calibrated on the bench positions."""
    import logging

    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    logging.disable(logging.WARNING)

    class Reader(CalibrationDataReader):
        def __init__(self):
            self.batches = iter([planes[start : start + 64] for start in range(0, min(len(planes), 512), 64)])

        def get_next(self):
            batch = next(self.batches, None)
            return None if batch is None else {"planes": batch}

    quantize_static(model, out, Reader(), quant_format=QuantFormat[form], per_channel=True,
                    weight_type=QuantType.QInt8, activation_type=QuantType.QUInt8, **options)


def time_peer(name, model, states, encoding, batch, seconds):
    """Evaluations per second of processor time, in this process."""
    run = ENGINES[name][1](model)
    planes = planes_of(states, encoding)
    batches = [planes[start : start + batch].copy() for start in range(0, len(planes) - batch + 1, batch)]
    for index in range(3):
        run(batches[index % len(batches)])
    done, start = 0, time.process_time()
    while time.process_time() - start < seconds:
        run(batches[done % len(batches)])
        done += 1
    return done * batch / (time.process_time() - start)


def outputs(name, model, states, encoding):
    run = ENGINES[name][1](model)
    planes = planes_of(states, encoding)
    return [float(run(planes[index : index + 1])[0].reshape(-1)[0]) for index in range(64)]


def hold_to_avx2(folder):
    """The library that holds a process to AVX2, compiled."""
    library = f"{folder}/hold_to_avx2.so"
    if not os.path.exists(library):
        source = Path(__file__).with_name("hold_to_avx2.c")
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, source], check=True, capture_output=True)
    return library


def child(task, name, *arguments, pin, folder):
    """This script in a process of its own; its one line of JSON."""
    command = [sys.executable, __file__, "--child", task, name, *map(str, arguments)]
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    if name.endswith(" avx2"):
        environment["LD_PRELOAD"] = hold_to_avx2(folder)
    done = subprocess.run(pin + command, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "failed")
    return json.loads(done.stdout.strip().splitlines()[-1])


# --- our side and the table ----------------------------------------------------------------------------------------


def time_ours(program, network, head, path, precision, batch, seconds, pin, states=None):
    command = [program, "bench", "eval", "--json", "--net", network, "--head", head, "--path", path,
               "--precision", precision, "--batch", str(batch), "--seconds", str(seconds)]
    if states:
        command += ["--states-out", states]
    done = subprocess.run(pin + command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.strip().splitlines()[-1])["evaluations_per_cpu_second"]


def our_values(program, network, path, precision, out):
    """Values of the bench positions in centipawns, from one of our paths."""
    import numpy

    subprocess.run([program, "bench", "eval", "--json", "--net", network, "--head", "value", "--path", path,
                    "--precision", precision, "--batch", "1", "--seconds", "0.01", "--values-out", out],
                   capture_output=True, check=True)
    return numpy.fromfile(out, "<f4")


def calibrated(network, logits):
    """Centipawns of value logits, by the network's own map."""
    import numpy

    value = read_network(network)[0]["calibration"]["value"]
    x, y = value["inputs"], value["outputs"]
    right = numpy.clip(numpy.searchsorted(x, logits, side="right"), 1, len(x) - 1)
    x, y = numpy.array(x), numpy.array(y)
    slope = (y[right] - y[right - 1]) / (x[right] - x[right - 1])
    return numpy.clip(y[right - 1] + (numpy.array(logits) - x[right - 1]) * slope, -value["limit"], value["limit"])


def our_paths(program, network):
    """Paths that run here, from a very short bench."""
    done = subprocess.run([program, "bench", "eval", "--json", "--net", network, "--batch", "1", "--seconds", "0.01"],
                          capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return list(dict.fromkeys((line["path"], line["precision"]) for line in lines))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default=str(ROOT / "target/release/batch-first"))
    parser.add_argument("--network", default=str(ROOT / "networks/batch-first.safetensors"))
    parser.add_argument("--head", default="value", choices=["value", "moves"])
    parser.add_argument("--batch", type=int, action="append")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="processor seconds of each timing")
    parser.add_argument("--peer", action="append", choices=list(ENGINES), help="default: all that work here")
    parser.add_argument("--path", action="append", help="ours, as amx:bf16; default: all that run here")
    arguments = parser.parse_args()
    # Everything on one core, where that can be asked for.
    pin = ["taskset", "-c", "0"] if subprocess.run(["which", "taskset"], capture_output=True).returncode == 0 else []
    ours = [tuple(path.split(":")) for path in arguments.path or []] or our_paths(arguments.program, arguments.network)
    with tempfile.TemporaryDirectory() as folder:
        states, models = f"{folder}/states", {"fp32": f"{folder}/fp32.onnx", "int8": f"{folder}/int8.onnx"}
        time_ours(arguments.program, arguments.network, arguments.head, *ours[0], 1, 0.01, pin, states)
        encoding = read_network(arguments.network)[0]["description"]["encoding"]
        export(arguments.program, arguments.network, arguments.head, models["fp32"])
        peers, expected = [], None

        def compare(name, found):
            nonlocal expected
            if expected is None:
                expected = (name, found)
                return
            worst = max(abs(a - b) for a, b in zip(expected[1], found))
            print(f"{name}: values differ by at most {worst:.3f} centipawns from those of {expected[0]}")

        for name in arguments.peer or ENGINES:
            try:
                if ENGINES[name][0] == "int8" and not os.path.exists(models["int8"]):
                    quantise(models["fp32"], models["int8"], planes_of(states, encoding))
                found = child("outputs", name, models[ENGINES[name][0]], states, encoding, pin=pin, folder=folder)
            except Exception as error:
                print(f"{name} does not run here: {error}")
                continue
            peers.append(name)
            if arguments.head == "value":
                compare(name, calibrated(arguments.network, found))
        if arguments.head == "value":
            for path, precision in ours:
                values = our_values(arguments.program, arguments.network, path, precision, f"{folder}/values")
                compare(f"ours {path} {precision}", values)
        print(f"\nevaluations per second of processor time, one thread, medians of {arguments.rounds} rounds")
        for batch in arguments.batch or [1, 32, 256]:
            rates = {}
            for _ in range(arguments.rounds):
                for path, precision in ours:
                    rate = time_ours(arguments.program, arguments.network, arguments.head, path, precision, batch,
                                     arguments.seconds, pin)
                    rates.setdefault(f"ours {path} {precision}", []).append(rate)
                for name in peers:
                    rate = child("time", name, models[ENGINES[name][0]], states, encoding, batch,
                                 arguments.seconds, pin=pin, folder=folder)
                    rates.setdefault(name, []).append(rate)
            print(f"\nbatch {batch}")
            width = max(map(len, rates))
            print(" " * width + "     eval/cpu-s" + "".join(f"  / {name}" for name in peers))
            for name, values in rates.items():
                ratios = ""
                if name.startswith("ours"):
                    for peer in peers:
                        ratio = statistics.median(a / b for a, b in zip(values, rates[peer]))
                        ratios += f"{ratio:>{len(peer) + 3}.2f}x"
                print(f"{name:<{width}} {statistics.median(values):>14.0f}{ratios}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        task, engine, path, board_file, seen_as, *rest = sys.argv[2:]
        if task == "outputs":
            print(json.dumps(outputs(engine, path, board_file, seen_as)))
        else:
            print(json.dumps(time_peer(engine, path, board_file, seen_as, int(rest[0]), float(rest[1]))))
    else:
        main()
