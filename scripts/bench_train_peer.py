#!/usr/bin/env python3
"""Training speed of the value network: ours against PyTorch, alternating, in positions a second of processor time.

Needs `pip install torch numpy` and a release build. Both sides train random weights on positions without sense, with the
pairwise ordinal loss and Adam; PyTorch under bf16 autocast, channels last.
"""

import argparse
import json
import statistics
import subprocess
import time

import torch
from torch import nn


class Value(nn.Module):
    """The value network of Batch First (2018)."""

    def __init__(self):
        super().__init__()
        widths = [64, 32, 20, 20, 18, 18, 16]
        self.branches = nn.ModuleList(
            nn.Conv2d(15, width, 3, dilation=step, padding=step, bias=False)
            for step, width in enumerate(widths, 1)
        )
        # 2x2 with dilations (2, 4) and (4, 2): equal reach to both sides.
        for dilation in [(2, 4), (4, 2)]:
            padding = (dilation[0] // 2, dilation[1] // 2)
            self.branches.append(nn.Conv2d(15, 24, 2, dilation=dilation, padding=padding, bias=False))
        layers = [nn.BatchNorm2d(sum(widths) + 48), nn.ReLU()]
        inputs = sum(widths) + 48
        for kernel, channels in [(1, 512), (1, 128)] + 6 * [(3, 32)]:
            layers += [
                nn.Conv2d(inputs, channels, kernel, padding=kernel // 2, bias=False),
                nn.BatchNorm2d(channels),
                nn.ReLU(),
            ]
            inputs = channels
        layers += [nn.Conv2d(32, 16, 8, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 1, 1)]
        self.rest = nn.Sequential(*layers)

    def forward(self, planes):
        return self.rest(torch.cat([branch(planes) for branch in self.branches], 1)).flatten()


def ordinal(logits, labels):
    margins = logits[:, None] - logits[None, :]
    above = labels[:, None] > labels[None, :]
    return nn.functional.softplus(-margins[above]).mean()


def theirs(batch, steps, threads):
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    network = Value().to(memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    classes = torch.randint(1, 16, (batch, 8, 8)) * (torch.rand(batch, 8, 8) < 1 / 3)
    planes = nn.functional.one_hot(classes, 16)[..., 1:].permute(0, 3, 1, 2).float()
    planes = planes.contiguous(memory_format=torch.channels_last)
    labels = torch.randint(0, 1000, (batch,))

    def step():
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = network(planes)
        optimizer.zero_grad()
        ordinal(logits.float(), labels).backward()
        optimizer.step()

    step()
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(steps):
        step()
    return batch * steps / (time.process_time() - cpu), batch * steps / (time.perf_counter() - wall)


def ours(program, batch, steps, threads):
    command = [program, "bench", "train", "--model", "value", "--json", "--batch", str(batch)]
    command += ["--steps", str(steps), "--threads", str(threads)]
    answer = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return answer["positions_per_cpu_second"], answer["positions_per_second"], answer["backend"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default="target/release/batch-first")
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    rows = []
    for number in range(args.rounds):
        own = ours(args.program, args.batch, args.steps, args.threads)
        other = theirs(args.batch, args.steps, args.threads)
        rows.append((own[0], other[0], own[0] / other[0]))
        print(
            f"round {number + 1}: ours {own[0]:.0f} a CPU second ({own[1]:.0f} wall, {own[2]}), "
            f"PyTorch {torch.__version__} {other[0]:.0f} ({other[1]:.0f} wall), ratio {rows[-1][2]:.2f}",
            flush=True,
        )
    medians = [statistics.median(column) for column in zip(*rows)]
    print(f"medians: ours {medians[0]:.0f}, PyTorch {medians[1]:.0f} a CPU second, ratio {medians[2]:.2f}")


if __name__ == "__main__":
    main()
