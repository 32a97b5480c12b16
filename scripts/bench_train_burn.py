#!/usr/bin/env python3
"""Training of the value network: our kernels beside burn-flex, the CPU backend of Burn, positions a CPU second on one thread.

    cargo build --release -p batch-first --features burn
    scripts/bench_train_burn.py target/release/batch-first --data data/shards --rounds 2

Both train configs/batch-first-value.toml in batches of 256 on the same shards. A rate is that of a long run less a short one, so
that starting and the last validation do not count.
"""

import argparse
import os
import resource
import statistics
import subprocess
import tempfile

BATCH = 256
SHORT = 1024


def seconds(options, backend, path, samples):
    """CPU seconds of a run of so many samples."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "data.directory": options.data,
            "data.sources": "[]",
            "run.directory": folder,
            "training.threads": 1,
            "training.batch": BATCH,
            "training.backend": f'"{backend}"',
            "training.samples": samples,
            "validation.every": 100_000,
            "validation.positions": 100,
            "validation.final_positions": 100,
        }
        command = [options.program, "train", options.config, "--progress", "none"]
        for key, value in settings.items():
            command += ["--set", f"{key}={value}"]
        environment = os.environ | ({"BATCH_FIRST_CPU": path} if path else {})
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--data", required=True, help="folder of shards")
    parser.add_argument("--config", default="configs/batch-first-value.toml")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--path", nargs="+", default=["avx2", "avx512", "amx"])
    options = parser.parse_args()
    # About as long each.
    ways = {"burn-flex": ("burn", "", 4 * SHORT)}
    ways |= {path: ("cpu", path, (20 if path == "amx" else 8) * SHORT) for path in options.path}
    rates = {name: [] for name in ways}
    for _ in range(options.rounds):
        for name, (backend, path, long) in ways.items():
            spent = seconds(options, backend, path, long) - seconds(options, backend, path, SHORT)
            rates[name].append((long - SHORT) / spent)
    base = statistics.median(rates["burn-flex"])
    for name, found in rates.items():
        rate = statistics.median(found)
        print(f"{name:<10} {rate:6.0f} positions a CPU second, {rate / base:5.1f} times burn-flex")


if __name__ == "__main__":
    main()
