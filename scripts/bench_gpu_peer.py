#!/usr/bin/env python3
"""Evaluations a second on a GPU: ours against PyTorch with the same weights, alternating, batch after batch.

    scripts/bench_gpu_peer.py networks/batch-first.safetensors --program target/release/batch-first --device cuda:0

PyTorch runs in bf16, channels last, compiled (`torch.compile`) and captured in a CUDA graph; both sides get boards of one
byte a square (ours: packed; PyTorch's hold who attacks, ours finds it out) from the host, compute all heads, and bring
values and a few move scores a board back. A last column says how far PyTorch's values are from single precision, so that
speed is not bought with nonsense.
"""

import argparse
import json
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import torch
from bench_peers import plane_table, read_network
from torch import nn

EPSILON = 1e-5
# Move scores that come back for each board: about as many as a position has legal moves.
MOVES = 32


def read_weights(path):
    """Description and tensors of a weight file."""
    header, tensors = read_network(path)
    return header["description"], {name: torch.from_numpy(tensor.copy()) for name, tensor in tensors.items()}


class Layer(nn.Module):
    """A layer of the description, batch norm folded."""

    def __init__(self, prefix, spec, tensors):
        super().__init__()
        self.spec = spec
        self.kind = spec["layer"]
        self.inner = nn.ModuleList(
            Layer(f"{prefix}.layers.{index}", part, tensors) for index, part in enumerate(spec.get("layers", []))
        )
        if self.kind == "branches":
            channels = sum(branch["channels"] for branch in spec["branches"])
            factor, bias = self.fold(prefix, spec.get("norm", True), channels, tensors)
            self.bias = nn.Parameter(bias)
            self.weights, first = nn.ParameterList(), 0
            for index, branch in enumerate(spec["branches"]):
                span = slice(first, first + branch["channels"])
                first += branch["channels"]
                weight = tensors[f"{prefix}.branches.{index}.weight"]
                self.weights.append(nn.Parameter(weight * factor[span, None, None, None]))
        elif self.kind == "dense" and not spec["norm"]:
            self.weight, self.bias = (nn.Parameter(tensors[f"{prefix}.{part}"]) for part in ("weight", "bias"))
        elif self.kind == "conv":
            factor, bias = self.fold(prefix, spec["norm"], spec["channels"], tensors)
            self.weight = nn.Parameter(tensors[prefix + ".weight"] * factor[:, None, None, None])
            self.bias = nn.Parameter(bias)
        elif self.kind not in ("residual", "append-mean"):
            raise SystemExit(f"PyTorch's side does not know the layer {self.kind}")

    @staticmethod
    def fold(prefix, norm, channels, tensors):
        if not norm:
            return torch.ones(channels), tensors[prefix + ".bias"]
        part = {name: tensors[f"{prefix}.norm.{name}"] for name in ("scale", "shift", "mean", "variance")}
        factor = part["scale"] / torch.sqrt(part["variance"] + EPSILON)
        return factor, part["shift"] - part["mean"] * factor

    def forward(self, boards):
        if self.kind == "append-mean":
            return torch.cat([boards, boards.mean((2, 3), keepdim=True).expand_as(boards)], 1)
        if self.kind == "residual":
            result = boards
            for layer in self.inner:
                result = layer(result)
            result = result + boards
        elif self.kind == "branches":
            parts = []
            for branch, weight in zip(self.spec["branches"], self.weights):
                reach = [step * (size - 1) for size, step in zip(branch["kernel"], branch["dilation"])]
                before = [total // 2 for total in reach]
                after = [total - start for total, start in zip(reach, before)]
                padded = nn.functional.pad(boards, (before[1], after[1], before[0], after[0]))
                parts.append(nn.functional.conv2d(padded, weight, dilation=branch["dilation"]))
            result = torch.cat(parts, 1) + self.bias[None, :, None, None]
        elif self.kind == "dense":
            result = nn.functional.linear(boards.flatten(1), self.weight, self.bias)
        else:
            edge = self.spec["kernel"] // 2 if self.spec["padding"] == "same" else 0
            result = nn.functional.conv2d(boards, self.weight, self.bias, padding=edge)
        activations = {"relu": torch.relu, "tanh": torch.tanh, "identity": lambda values: values}
        activations["squared-relu"] = lambda values: torch.relu(values).square()
        return activations[self.spec["activation"]](result)


class Net(nn.Module):
    """States of squares (one byte each) and places of moves to values and move scores."""

    def __init__(self, description, tensors):
        super().__init__()
        self.table = nn.Parameter(torch.from_numpy(plane_table(description["encoding"])))
        build = lambda name, layers: nn.Sequential(
            *(Layer(f"{name}.{index}", spec, tensors) for index, spec in enumerate(layers))
        )
        self.trunk = build("trunk", description["trunk"])
        self.heads = nn.ModuleDict({head["kind"]: build(head["kind"], head["layers"]) for head in description["heads"]})

    def forward(self, states, places):
        planes = nn.functional.embedding(states.int(), self.table)
        planes = planes.reshape(-1, 8, 8, self.table.shape[1]).permute(0, 3, 1, 2)
        trunk = self.trunk(planes.contiguous(memory_format=torch.channels_last))
        parts = []
        if "value" in self.heads:
            parts.append(self.heads["value"](trunk).flatten())
        if "moves" in self.heads:
            scores = self.heads["moves"](trunk).permute(0, 2, 3, 1).reshape(-1)
            parts.append(scores.gather(0, places.long()))
        return torch.cat(parts).float()


def theirs(path, states, batch, seconds, device):
    # All networks are of one class: without this the compiler would give up after a few of them, silently.
    torch._dynamo.reset()
    description, tensors = read_weights(path)
    exact = Net(description, tensors).to(device)
    network = Net(description, tensors).to(device, torch.bfloat16, memory_format=torch.channels_last)
    compiled = torch.compile(network, mode="default", dynamic=False)
    boards = states[torch.arange(batch) % len(states)].pin_memory()
    places = torch.arange(batch)[:, None] * 4672 + torch.randint(0, 4672, (batch, MOVES))
    places = places.flatten().int().pin_memory()
    on_device, at_device = boards.to(device), places.to(device)
    with torch.inference_mode():
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(3):
                compiled(on_device, at_device)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            output = compiled(on_device, at_device)
        host = torch.empty(output.shape, pin_memory=True)

        def run():
            on_device.copy_(boards, non_blocking=True)
            at_device.copy_(places, non_blocking=True)
            graph.replay()
            host.copy_(output, non_blocking=True)

        run()
        torch.cuda.synchronize()
        if "value" in exact.heads:
            expected = exact(boards.to(device), places.to(device))[:batch].cpu()
            off = ((host[:batch] - expected).norm() / expected.norm()).item()
        else:
            off = float("nan")
        rates = []
        for _ in range(5):
            start, done = time.perf_counter(), 0
            while time.perf_counter() - start < seconds / 5:
                run()
                run()
                torch.cuda.synchronize()
                done += 2 * batch
            rates.append(done / (time.perf_counter() - start))
    return statistics.median(rates), off


def ours(program, path, batch, seconds, device):
    command = [program, "bench", "eval", "--net", path, "--device", device, "--json", "--both"]
    command += ["--batch", str(batch), "--seconds", str(seconds)]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return json.loads(lines[-1])["evaluations_per_second"]


def states_of(program, path):
    """The bench positions as the network sees them, [positions, 64]."""
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder) / "states"
        command = [program, "bench", "eval", "--net", path, "--batch", "1", "--seconds", "0.01", "--path", "portable"]
        subprocess.run([*command, "--states-out", str(where)], check=True, capture_output=True)
        return torch.frombuffer(bytearray(where.read_bytes()), dtype=torch.uint8).reshape(-1, 64)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", nargs="+")
    parser.add_argument("--program", default="target/release/batch-first")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--batch", type=int, action="append")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds after which no line is begun")
    args = parser.parse_args()
    started = time.monotonic()
    theirs_on = args.device if args.device.startswith("cuda") else "cuda:0"
    if "," in theirs_on:
        raise SystemExit("PyTorch's side wants one device")
    torch.cuda.set_device(theirs_on)
    print(f"PyTorch {torch.__version__}, {torch.cuda.get_device_name(theirs_on)}")
    print(f"{'network':<36} {'batch':>6} {'ours/s':>12} {'PyTorch/s':>12} {'ratio':>6} {'bf16 off by':>12}", flush=True)
    states = {path: states_of(args.program, path) for path in args.network}
    failed = 0
    # What matters most comes first, should time run out: each line is compiled anew.
    for batch in args.batch or [2048, 512, 8192, 64, 1024, 4096, 256, 128]:
        for path in args.network:
            if time.monotonic() - started > args.limit:
                print(f"the time is over, before {Path(path).stem} in batches of {batch}")
                raise SystemExit(failed > 0)
            try:
                own = ours(args.program, path, batch, args.seconds, args.device)
                other, off = theirs(path, states[path], batch, args.seconds, theirs_on)
            except (subprocess.CalledProcessError, RuntimeError) as error:
                failed += 1
                lines = str(getattr(error, "stderr", "") or error).strip().splitlines()
                print(f"{Path(path).stem:<36} {batch:>6} failed: {lines[-1] if lines else error!r}", flush=True)
                continue
            print(f"{Path(path).stem:<36} {batch:>6} {own:>12.0f} {other:>12.0f} {own / other:>6.2f} {off:>12.4f}", flush=True)
    raise SystemExit(failed > 0)


if __name__ == "__main__":
    main()
