#!/usr/bin/env bash
# A GPU against the processor, on positions of real games.
#
#     cargo build --release --features wgpu && scripts/check_gpu_agreement.sh target/release/batch-first [DEVICE]
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
network=networks/batch-first.safetensors
"$program" net verify "$network" --data "$lab/shards" --positions "${POSITIONS:-10000}" --device "$device"
"$program" analyze --device "$device" --batch 128 --nodes 2000 --json | tail -n 1
printf 'setoption name Device value %s\nisready\nposition startpos\ngo nodes 300\n' "$device" | "$program" uci | grep -m 1 bestmove
"$program" train configs/batch-first-residual.toml --progress plain --set "data.directory=$lab/shards" --set 'data.sources=[]' \
    --set "run.directory=$lab/runs" --set model.filters=16 --set model.blocks=1 --set training.batch=64 \
    --set training.samples=320 --set validation.every=1000 --set validation.final_positions=100 --device "$device"
