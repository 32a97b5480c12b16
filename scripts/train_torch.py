#!/usr/bin/env python3
"""Trains networks on one NVIDIA GPU with PyTorch: the objective of `batch-first train`, for descriptions (`.json`) of any shape.

    batch-first data import GAMES.pgn.zst … --out data/shards
    cargo run --release -p batch-first-train --example arrays -- data/shards arrays 1
    scripts/train_torch.py arrays plan.json out
    batch-first net calibrate out/fast.safetensors --data data/shards --out fast.safetensors
    batch-first net quantise fast.safetensors --data data/shards --out fast.safetensors

A plan is a list of runs, one after the other:

    [{"name": "teacher", "description": "teacher.json", "seconds": 120, "teaches": true},
     {"name": "fast", "description": "configs/batch-first-fast.json", "seconds": 100, "children": 0.3, "policy": 0.5}]

A run takes `seconds` ("rest": what is left of --seconds), its learning rate falls from `rate` (0.003) to nothing as a cosine over that time, batches hold `batch`
(4,096) positions; the averaged weights (`average`, 0.999) are kept, with norms computed anew. After a run that `teaches`, later
runs may see positions after random moves, valued by the teacher (`children`, their share of a batch), and learn the moves as the
teacher weighs them (`policy`, the weight of its chances beside the move that was played). `start` is a network file whose layers
of equal name and shape are the first weights.
"""

import argparse
import json
import math
import struct
import sys
import time
from pathlib import Path

import numpy
import torch
from bench_peers import plane_table, read_network
from torch import nn
from torch.nn import functional

PLANES = 24  # 21 and padding, so that rows are whole vectors
EMPTY = 256  # the state of a square outside the board
POLICY = 64 * 73
MIRRORED = [square ^ 7 for square in range(64)]


def padded_planes():
    """The planes that a square in each state sets, [states + 1, PLANES]; the last state is outside the board."""
    table = torch.zeros(EMPTY + 1, PLANES)
    planes = torch.from_numpy(plane_table("attacks-21"))
    table[:EMPTY, : planes.shape[1]] = planes
    return table


def mirrored_moves():
    """The output index of each move's mirror image, left to right."""
    places = numpy.arange(POLICY)
    start, plane = places // 73, places % 73
    under = plane - 64
    mirrored = numpy.where(
        plane < 56,
        (8 - plane // 7) % 8 * 7 + plane % 7,
        numpy.where(plane < 64, 56 + 7 - (plane - 56), 64 + under // 3 * 3 + 2 - under % 3),
    )
    return torch.from_numpy((start ^ 7) * 73 + mirrored)


class Input(nn.Module):
    """The input layer as one product: every square with the squares that some branch reaches from it."""

    def __init__(self, spec):
        super().__init__()
        cells = {}
        self.branches = nn.ParameterList()
        columns_of = []
        for branch in spec["branches"]:
            rows, columns = branch["kernel"]
            first = [-(step * (size - 1) // 2) for size, step in zip(branch["kernel"], branch["dilation"])]
            steps = [
                (first[0] + row * branch["dilation"][0], first[1] + column * branch["dilation"][1])
                for row in range(rows)
                for column in range(columns)
            ]
            columns_of.append([cells.setdefault(step, len(cells)) for step in steps])
            weight = torch.randn(branch["channels"], 21, rows, columns)
            # Few planes are set, so that the usual fan would be far too large.
            self.branches.append(nn.Parameter(weight * math.sqrt(2 / (rows * columns * 0.8))))
        self.cells = len(cells)
        self.channels = sum(branch["channels"] for branch in spec["branches"])
        reads = torch.full((64, self.cells), 64)
        for square in range(64):
            for (rank, file), cell in cells.items():
                rank, file = square // 8 + rank, square % 8 + file
                if 0 <= rank < 8 and 0 <= file < 8:
                    reads[square, cell] = rank * 8 + file
        self.register_buffer("reads", reads.flatten(), persistent=False)
        for index, columns in enumerate(columns_of):
            self.register_buffer(f"columns_{index}", torch.tensor(columns), persistent=False)
        self.register_buffer("table", padded_planes(), persistent=False)

    def forward(self, states):
        number = torch.bfloat16 if states.is_cuda else torch.float32
        planes = functional.embedding(states, self.table.to(number))
        near = planes.index_select(1, self.reads).view(-1, self.cells * PLANES)
        parts = []
        for index, weight in enumerate(self.branches):
            own = functional.pad(weight.flatten(2).transpose(1, 2), (0, PLANES - 21))
            empty = own.new_zeros(weight.shape[0], self.cells, PLANES)
            parts.append(empty.index_copy(1, getattr(self, f"columns_{index}"), own).flatten(1))
        sums = functional.linear(near, torch.cat(parts).to(number))
        return sums.view(-1, 8, 8, self.channels).permute(0, 3, 1, 2)


class Layer(nn.Module):
    """A layer of a description, on boards [positions, channels, ranks, files], channels last."""

    def __init__(self, spec, inputs, side):
        super().__init__()
        self.spec, self.kind = spec, spec["layer"]
        self.side = side
        if self.kind == "append-mean":
            self.channels = 2 * inputs
            return
        if self.kind == "residual":
            self.inner = nn.ModuleList()
            channels = inputs
            for part in spec["layers"]:
                self.inner.append(Layer(part, channels, side))
                channels = self.inner[-1].channels
            self.channels = channels
            return
        if self.kind == "branches":
            self.input = Input(spec)
            self.channels = self.input.channels
        elif self.kind == "conv":
            self.channels, kernel = spec["channels"], spec["kernel"]
            self.whole = spec["padding"] == "valid" and kernel == side and side > 1
            if self.whole:
                self.side = 1
            fan = inputs * kernel * kernel
            self.weight = nn.Parameter(torch.randn(self.channels, inputs, kernel, kernel) * math.sqrt(2 / fan))
        else:
            raise SystemExit(f"the layer {self.kind} is not known here")
        if spec.get("norm", True):
            self.norm = nn.BatchNorm2d(self.channels, eps=1e-5, momentum=0.01)
        else:
            self.norm = None
            self.bias = nn.Parameter(torch.zeros(self.channels))

    def forward(self, boards):
        if self.kind == "append-mean":
            return torch.cat([boards, boards.mean((2, 3), keepdim=True).expand_as(boards)], 1)
        if self.kind == "residual":
            result = boards
            for layer in self.inner:
                result = layer(result)
            result = result + boards
            return self.activate(result)
        if self.kind == "branches":
            result = self.input(boards)
        elif self.whole:
            flat = boards.permute(0, 2, 3, 1).flatten(1)
            result = functional.linear(flat, self.weight.permute(0, 2, 3, 1).flatten(1))[:, :, None, None]
        else:
            weight = self.weight.contiguous(memory_format=torch.channels_last)
            result = functional.conv2d(boards, weight, padding=self.spec["kernel"] // 2)
        result = self.norm(result) if self.norm is not None else result + self.bias[None, :, None, None]
        return self.activate(result)

    def activate(self, boards):
        return {"relu": torch.relu, "identity": lambda boards: boards}[self.spec["activation"]](boards)

    def tensors(self, name):
        """Names in the network file, and the tensors."""
        if self.kind == "residual":
            for index, layer in enumerate(self.inner):
                yield from layer.tensors(f"{name}.layers.{index}")
        elif self.kind != "append-mean":
            if self.kind == "branches":
                for index, weight in enumerate(self.input.branches):
                    yield f"{name}.branches.{index}.weight", weight
            else:
                yield f"{name}.weight", self.weight
            if self.norm is None:
                yield f"{name}.bias", self.bias
            else:
                yield f"{name}.norm.scale", self.norm.weight
                yield f"{name}.norm.shift", self.norm.bias
                yield f"{name}.norm.mean", self.norm.running_mean
                yield f"{name}.norm.variance", self.norm.running_var


class Net(nn.Module):
    """States of squares to values [positions] and outputs of moves [positions, 4672]."""

    def __init__(self, description):
        super().__init__()
        self.description = description
        if description["encoding"] != "attacks-21":
            raise SystemExit("only networks on attacks-21 are trained here")
        self.trunk, channels, side = self.build(description["trunk"], 21, 8)
        self.heads = nn.ModuleDict(
            {head["kind"]: self.build(head["layers"], channels, side)[0] for head in description["heads"]}
        )

    @staticmethod
    def build(layers, channels, side):
        stack = nn.ModuleList()
        for spec in layers:
            stack.append(Layer(spec, channels, side))
            channels, side = stack[-1].channels, stack[-1].side
        return stack, channels, side

    def forward(self, states):
        boards = states
        for layer in self.trunk:
            boards = layer(boards)
        value, moves = boards, boards
        for layer in self.heads["value"]:
            value = layer(value)
        for layer in self.heads["moves"]:
            moves = layer(moves)
        return value.flatten().float(), moves.permute(0, 2, 3, 1).flatten(1)

    def tensors(self):
        parts = [("trunk", self.trunk), *self.heads.items()]
        return {
            key: tensor
            for part, layers in parts
            for index, layer in enumerate(layers)
            for key, tensor in layer.tensors(f"{part}.{index}")
        }


class Ordinal(torch.autograd.Function):
    """Mean cross entropy of the order of all pairs with different labels."""

    @staticmethod
    def forward(ctx, logits, labels):
        difference = logits[:, None] - logits[None, :]
        above = labels[:, None] > labels[None, :]
        count = above.sum().clamp(min=1)
        wrong = torch.sigmoid(-difference) * above
        ctx.save_for_backward((wrong.sum(0) - wrong.sum(1)) / count)
        return (functional.softplus(-difference) * above).sum() / count

    @staticmethod
    def backward(ctx, slope):
        (gradient,) = ctx.saved_tensors
        return slope * gradient, None


class Positions:
    """The positions of one kind, on the device."""

    def __init__(self, folder, kind, device):
        read = lambda name, dtype: torch.from_numpy(numpy.fromfile(folder / f"{kind}.{name}", dtype))
        self.states = read("states", numpy.uint8).view(-1, 64).to(device)
        self.size = len(self.states)
        self.counts = read("counts", numpy.uint8).to(device)
        counts = self.counts.long()
        ends = counts.cumsum(0)
        self.most = int(counts.max())
        moves = read("moves", numpy.uint16).to(torch.int32).to(torch.int16).to(device)
        self.moves = torch.empty(self.size, self.most, dtype=torch.int16, device=device)
        column = torch.arange(self.most, device=device)
        for first in range(0, self.size, 1 << 20):
            part = slice(first, first + (1 << 20))
            places = (ends[part] - counts[part])[:, None] + column
            self.moves[part] = moves[places.clamp(max=len(moves) - 1)]
        if kind != "children":
            self.values = read("values", numpy.int32).float().to(device)
            self.weights = read("weights", numpy.uint8).float().to(device)
            self.sources = read("sources", numpy.uint8).to(device)
        else:
            self.values = torch.zeros(self.size, device=device)
            self.weights = torch.zeros(self.size, device=device)
        self.chances = None

    def append(self, other):
        """One list of both."""
        width = max(self.most, other.most)
        pad = lambda moves: functional.pad(moves, (0, width - moves.shape[1]))
        for name in ("states", "counts", "values", "weights"):
            setattr(self, name, torch.cat([getattr(self, name), getattr(other, name)]))
        for name in ("moves", "chances"):
            if getattr(self, name) is not None:
                setattr(self, name, torch.cat([pad(getattr(self, name)), pad(getattr(other, name))]))
        self.most, self.size = width, self.size + other.size


class Batches:
    """Batches of positions, half of them mirrored where castling does not forbid it."""

    def __init__(self, positions, batch, device):
        self.positions = positions
        self.index = torch.zeros(batch, dtype=torch.long, device=device)
        self.flip = torch.zeros(batch, dtype=torch.bool, device=device)
        self.mirrored_squares = torch.tensor(MIRRORED, device=device)
        self.mirrored_moves = mirrored_moves().to(device)
        self.column = torch.arange(positions.most, device=device)

    def draw(self, real, share):
        """Chooses positions: the first `real` ones, and others for `share` of the batch."""
        batch = len(self.index)
        children = int(batch * share)
        self.index[: batch - children].random_(0, real)
        if children:
            self.index[batch - children :].random_(real, self.positions.size)
        self.flip.random_(0, 2)

    def read(self):
        positions, index = self.positions, self.index
        states = positions.states[index].long()
        piece = states & 15
        flip = (self.flip & ~((piece == 8) | (piece == 15)).any(1))[:, None]
        states = torch.where(flip, states[:, self.mirrored_squares], states)
        states = functional.pad(states, (0, 1), value=EMPTY)
        legal = self.column < positions.counts[index].long()[:, None]
        moves = positions.moves[index].long().clamp(0, POLICY - 1)
        moves = torch.where(flip, self.mirrored_moves[moves], moves)
        chances = positions.chances[index].float() if positions.chances is not None else None
        return states, moves, legal, positions.values[index], positions.weights[index], chances


def log_chances(outputs, moves, legal):
    scores = outputs.gather(1, moves).float().masked_fill(~legal, -1e4)
    return functional.log_softmax(scores, 1)


def losses(net, batch, run):
    states, moves, legal, values, weights, chances = batch
    value, outputs = net(states)
    ordinal = Ordinal.apply(value, values)
    logs = log_chances(outputs, moves, legal)
    played = -(logs[:, 0] * weights)
    if chances is None:
        policy = played.sum() / weights.sum().clamp(min=1)
    else:
        soft = -(chances * logs.masked_fill(~legal, 0)).sum(1)
        share = run.get("policy", 0.5)
        # Where no move is worth learning the teacher is all there is.
        policy = (share * soft + (1 - share) * torch.where(weights > 0, played, soft)).mean()
    return ordinal, policy


@torch.no_grad()
def judge(net, positions, names):
    """Rank correlation (tau-a, mates left out) and moves found, by source."""
    net.eval()
    lines = []
    for source in positions.sources.unique().tolist():
        chosen = (positions.sources == source).nonzero().flatten()[:12288]
        value, hits, known = [], 0.0, 0.0
        for part in chosen.split(2048):
            states = functional.pad(positions.states[part].long(), (0, 1), value=EMPTY)
            with autocast(states.device):
                own, outputs = net(states)
            value.append(own)
            legal = torch.arange(positions.most, device=part.device) < positions.counts[part].long()[:, None]
            first = log_chances(outputs, positions.moves[part].long().clamp(0, POLICY - 1), legal).argmax(1)
            hits += ((first == 0) * positions.weights[part]).sum().item()
            known += positions.weights[part].sum().item()
        value, label = torch.cat(value), positions.values[chosen]
        value, label = value[label.abs() < 100_000], label[label.abs() < 100_000]
        sign = (label[:, None] - label[None, :]).sign()
        agreement = (sign * (value[:, None] - value[None, :]).sign()).sum() / sign.abs().sum().clamp(min=1)
        lines.append(f"{names.get(source, source)}: tau {agreement.item():.4f}, played {100 * hits / max(known, 1):.2f} %")
    net.train()
    return "; ".join(lines)


def autocast(device):
    on_gpu = torch.device(device).type == "cuda"
    return torch.autocast("cuda", dtype=torch.bfloat16, cache_enabled=False, enabled=on_gpu)


def save(net, path, name, template, provenance):
    """Writes a network file; `template` lends the calibration."""
    header = dict(template, name=name, description=net.description, provenance=provenance, checksum="")
    header.pop("int8_ranges", None)
    tensors = {key: tensor.detach().float().cpu().numpy() for key, tensor in sorted(net.tensors().items())}
    entries, offset = {"__metadata__": {"batch-first": json.dumps(header)}}, 0
    for key, tensor in tensors.items():
        entries[key] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [offset, offset + tensor.nbytes]}
        offset += tensor.nbytes
    text = json.dumps(entries).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(tensor.tobytes() for tensor in tensors.values()))


def train(run, positions, real, validation, names, template, device, out):
    torch.manual_seed(run.get("seed", 1))
    description = json.loads(Path(run["description"]).read_text())
    net = Net(description).to(device)
    if "start" in run:
        _, tensors = read_network(run["start"])
        own = net.tensors()
        taken = [key for key, tensor in tensors.items() if key in own and own[key].shape == tensor.shape]
        with torch.no_grad():
            for key in taken:
                own[key].copy_(torch.from_numpy(tensors[key].copy()))
        print(f"{len(taken)} of {len(own)} tensors from {run['start']}", flush=True)
    batch, rate, seconds = run.get("batch", 4096), run.get("rate", 3e-3), run["seconds"]
    decay = run.get("average", 0.999)
    batches = Batches(positions, batch, device)
    share = run.get("children", 0.0)
    parameters = list(net.parameters())
    average = [parameter.detach().clone() for parameter in parameters]
    on_gpu = torch.device(device).type == "cuda"
    options = {"fused": True, "capturable": True} if on_gpu else {}
    # A number on the device, so that the captured steps read it anew.
    optimizer = torch.optim.Adam(parameters, lr=torch.tensor(0.0, device=device) if on_gpu else 0.0, **options)
    shown = torch.zeros(2, device=device)
    weight = run.get("moves_weight", 0.5)

    def step():
        with autocast(device):
            ordinal, policy = losses(net, batches.read(), run)
        (ordinal + weight * policy).backward()
        optimizer.step()
        torch._foreach_lerp_(average, [parameter.detach() for parameter in parameters], 1 - decay)
        shown.copy_(torch.stack([ordinal.detach(), policy.detach()]))

    def plain():
        optimizer.zero_grad(set_to_none=True)
        step()

    replay = plain
    if on_gpu:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(4):
                batches.draw(real, share)
                plain()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(graph):
            step()
        replay = graph.replay
    started, steps, said = time.monotonic(), 0, 0.0
    while True:
        if steps % 20 == 0:
            if on_gpu:
                torch.cuda.synchronize()
            spent = (time.monotonic() - started) / max(seconds, 1e-9)
            if spent >= 1:
                break
        now = rate * min(1, (steps + 1) / 300) * (0.01 + 0.99 * (1 + math.cos(math.pi * min(spent, 1))) / 2)
        if on_gpu:
            optimizer.param_groups[0]["lr"].fill_(now)
        else:
            optimizer.param_groups[0]["lr"] = now
        batches.draw(real, share)
        replay()
        steps += 1
        if steps == 1:
            with torch.no_grad():
                for kept, parameter in zip(average, parameters):
                    kept.copy_(parameter)
        if spent - said > 0.2:
            said = spent
            ordinal, policy = shown.tolist()
            print(f"  {spent:.0%} {steps} steps, loss {ordinal:.4f} and {policy:.4f}", flush=True)
            if not math.isfinite(ordinal + policy):
                raise RuntimeError(f"{run['name']}: the loss is not a number any more")
    with torch.no_grad():
        for kept, parameter in zip(average, parameters):
            parameter.copy_(kept)
        norms = [module for module in net.modules() if isinstance(module, nn.BatchNorm2d)]
        for norm in norms if steps else []:
            norm.reset_running_stats()
            norm.momentum = None
        for _ in range(100 if steps else 0):
            batches.draw(real, share)
            with autocast(device):
                net(batches.read()[0])
    took = time.monotonic() - started
    judged = judge(net, validation, names)
    print(f"{run['name']}: {steps * batch / 1e6:.1f} M samples in {took:.0f} s, {steps * batch / max(took, 1e-9):.0f} a second; {judged}", flush=True)
    card = torch.cuda.get_device_name() if on_gpu else "cpu"
    provenance = {
        "training": f"scripts/train_torch.py, PyTorch {torch.__version__}, {card}, bf16",
        "samples": str(steps * batch),
        "run": json.dumps(run),
        "held out": judged,
    }
    save(net, out / f"{run['name']}.safetensors", run["name"], template, provenance)
    return net


@torch.no_grad()
def teach(net, real, children, run):
    """The teacher's chances of moves for all positions, and its values, in centipawns, for those without."""
    net.eval()
    for positions in (real, children):
        positions.chances = torch.empty(positions.size, positions.most, dtype=torch.float16, device=positions.states.device)
        values = torch.empty(positions.size, device=positions.states.device)
        column = torch.arange(positions.most, device=positions.states.device)
        for first in range(0, positions.size, 8192):
            part = slice(first, first + 8192)
            states = functional.pad(positions.states[part].long(), (0, 1), value=EMPTY)
            with autocast(states.device):
                value, outputs = net(states)
            legal = column < positions.counts[part].long()[:, None]
            logs = log_chances(outputs, positions.moves[part].long().clamp(0, POLICY - 1), legal)
            positions.chances[part] = logs.exp().half()
            values[part] = value
        positions.taught = values
    # From its outputs to centipawns: the mean label of neighbours, never falling.
    order = real.taught.argsort()
    groups = order[: len(order) // 512 * 512].view(512, -1)
    labels = real.values.clamp(-3000, 3000)[groups].mean(1).cpu().numpy()
    inputs = real.taught[groups].mean(1).cpu().numpy()
    labels = numpy.maximum.accumulate(labels)
    mapped = numpy.interp(children.taught.cpu().numpy(), inputs, labels)
    # Equal values would make no pairs.
    mapped += 1e-3 * children.taught.cpu().numpy()
    children.values = torch.from_numpy(mapped).float().to(children.states.device)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("arrays", type=Path)
    parser.add_argument("plan", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--template", default="networks/batch-first-fast.safetensors", help="lends the calibration")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--seconds", type=float, default=math.inf, help="no run is begun that would end later")
    args = parser.parse_args()
    started = time.monotonic()
    args.out.mkdir(parents=True, exist_ok=True)
    if args.device.startswith("cuda"):
        torch.backends.cuda.matmul.allow_tf32 = True
        torch.backends.cudnn.allow_tf32 = True
        torch.backends.cudnn.benchmark = True
    template, _ = read_network(args.template)
    positions = Positions(args.arrays, "train", args.device)
    validation = Positions(args.arrays, "validation", args.device)
    has_children = (args.arrays / "children.states").exists()
    children = Positions(args.arrays, "children", args.device) if has_children else None
    real = positions.size
    names_file = args.arrays / "sources.json"
    names = dict(enumerate(json.loads(names_file.read_text()))) if names_file.exists() else {}
    print(f"{real} positions, {children.size if children else 0} children, {validation.size} held out, "
          f"{time.monotonic() - started:.0f} s", flush=True)
    failed = False
    for run in json.loads(args.plan.read_text()):
        if run["seconds"] == "rest":
            run["seconds"] = max(0.0, args.seconds - 15 - (time.monotonic() - started))
        if time.monotonic() - started + run["seconds"] > args.seconds:
            print(f"{run['name']}: left out, the time is over")
            continue
        try:
            net = train(run, positions, real, validation, names, template, args.device, args.out)
            if run.get("teaches") and children is not None:
                began = time.monotonic()
                teach(net, positions, children, run)
                positions.append(children)
                print(f"taught {positions.size} positions in {time.monotonic() - began:.0f} s", flush=True)
        except RuntimeError as error:
            failed = True
            print(f"{run['name']} failed: {error}", file=sys.stderr, flush=True)
            torch.cuda.empty_cache()
    raise SystemExit(failed)


if __name__ == "__main__":
    main()
