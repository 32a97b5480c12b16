#!/usr/bin/env python3
"""How busy a GPU is while a search thinks: its utilisation as nvidia-smi samples it, between the first and the last search.

    scripts/gpu_busy.py --program target/release/batch-first --device cuda:0 --width 512 2048 8192

A short run says how fast the search is, the measured one then lasts --seconds. What happens before and after (loading, compiling
kernels) is not counted. Without nvidia-smi only the search's own figures are shown: evaluations a second, and the share of the
time in which it waited for the device.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import tempfile
import time
from datetime import datetime

# nvidia-smi averages over the time before, so the first samples of a search speak of what was before it.
SETTLING = 1.0
POSITIONS = 16


def search(program, device, width, nodes, net):
    """What `bench search` measured."""
    command = [program, "bench", "search", "--device", device, "--search", "kbest", "--json"]
    command += ["--width", str(width), "--nodes", str(nodes), *(["--net", net] if net else [])]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(output.splitlines()[0])


def utilisation(samples, start, end):
    """Mean of the samples, `YYYY/MM/DD HH:MM:SS.mmm, PER CENT` a line, between two times in seconds; and their number."""
    found = []
    for line in samples.splitlines():
        moment, _, percent = line.rpartition(",")
        try:
            at = datetime.strptime(moment.strip(), "%Y/%m/%d %H:%M:%S.%f").timestamp()
            percent = float(percent)
        except ValueError:
            continue
        if start <= at <= end:
            found.append(percent)
    return (statistics.mean(found) if found else None), len(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="target/release/batch-first")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--net")
    parser.add_argument("--width", type=int, nargs="+", default=[512, 2048, 8192])
    parser.add_argument("--seconds", type=float, default=10.0, help="about how long a search is watched")
    args = parser.parse_args()
    kind, _, index = args.device.partition(":")
    smi = shutil.which("nvidia-smi") if kind == "cuda" else None
    print(f"{'K':>6} {'eval/s':>10} {'waiting':>8} {'fill':>6} {'busy':>7}  samples")
    for width in args.width:
        short = search(args.program, args.device, width, 20_000, args.net)
        nodes = max(20_000, int(short["evaluations_per_second"] * args.seconds / POSITIONS))
        with tempfile.TemporaryFile("w+") as samples:
            watcher = None
            if smi:
                query = ["--query-gpu=timestamp,utilization.gpu", "--format=csv,noheader,nounits", "-lms", "100"]
                command = [smi, "-i", index or "0", *query]
                watcher = subprocess.Popen(command, stdout=samples, stderr=subprocess.DEVNULL)
            try:
                found = search(args.program, args.device, width, nodes, args.net)
                time.sleep(0.2)
            finally:
                if watcher:
                    watcher.kill()
                    watcher.wait()
            samples.seek(0)
            busy, count = utilisation(samples.read(), found["started"] + SETTLING, found["ended"])
        print(
            f"{width:>6} {found['evaluations_per_second']:>10.0f} {100 * found['share_of_time_in_the_evaluator']:>6.0f} %"
            f" {100 * found['batch_fill']:>4.0f} % {'unknown' if busy is None else f'{busy:.0f} %':>7}  {count}",
            flush=True,
        )


if __name__ == "__main__":
    main()
