#!/usr/bin/env bash
# A GPU against the processor, on positions of real games: a small network is trained, then evaluated on both.
#
#     cargo build --release --features wgpu && scripts/check_gpu.sh target/release/batch-first [DEVICE]
#
# DEVICE is vulkan:0 unless given; where there is no card, Debian's mesa-vulkan-drivers plays one.
set -euo pipefail
cd "$(dirname "$0")/.."
program="$(realpath "${1:-target/release/batch-first}")"
device="${2:-vulkan:0}"
lab="$(mktemp -d)"
trap 'rm -rf "$lab"' EXIT
export XDG_CACHE_HOME="$lab/cache"

"$program" doctor
"$program" label --out "$lab/games.pgn" --games 170 --nodes 40 --max-plies 100
"$program" data import "$lab/games.pgn" --out "$lab/shards" --validation 0.9
small=(--progress plain --set "data.directory=$lab/shards" --set 'data.sources=[]' --set "run.directory=$lab/runs"
    --set model.filters=16 --set model.blocks=1 --set training.batch=128 --set validation.every=1000
    --set validation.positions=200 --set validation.final_positions=200)
"$program" train configs/batch-first-residual.toml "${small[@]}" --set training.samples=12800
network="$lab/runs/batch-first-residual/network.safetensors"
"$program" net verify "$network" --data "$lab/shards" --positions 10000 --device "$device"
"$program" analyze --net "$network" --device "$device" --nodes 500 --json | tail -n 1
printf 'setoption name WeightsFile value %s\nsetoption name Device value %s\nisready\nposition startpos\ngo nodes 300\n' \
    "$network" "$device" | "$program" uci | grep -m 1 bestmove
"$program" train configs/batch-first-residual.toml "${small[@]}" --set run.name=on-the-device --set training.samples=640 \
    --device "$device"
