#!/usr/bin/env bash
# The way of the data from nothing to a network that plays: games labelled by Stockfish, imported, five short runs
# (interrupted by nobody, long enough to be validated), joined, used. It shows that the parts fit, not that they learn.
#
#     cargo build --release && scripts/check_lab.sh target/release/batch-first
set -euo pipefail
cd "$(dirname "$0")/.."
program="$(realpath "${1:-target/release/batch-first}")"
lab="$(mktemp -d)"
trap 'rm -rf "$lab"' EXIT

"$program" label --out "$lab/games.pgn" --games 16 --nodes 200 --max-plies 80
"$program" data import "$lab/games.pgn" --out "$lab/shards" --validation 0.25
"$program" data inspect "$lab/shards" > "$lab/inspect.txt"

short=(--progress plain --set "data.directory=$lab/shards" --set 'data.sources=[]' --set "run.directory=$lab/runs"
    --set training.batch=64 --set training.samples=1280 --set validation.every=10 --set validation.positions=100)
"$program" train configs/batch-first-value.toml "${short[@]}"
"$program" train configs/batch-first-moves.toml "${short[@]}" \
    --set "model.start=$lab/runs/batch-first-value/network.safetensors"
"$program" net join "$lab/runs/batch-first-value/network.safetensors" "$lab/runs/batch-first-moves/network.safetensors" \
    --out "$lab/joined.safetensors"
"$program" train configs/batch-first-moves-explored.toml "${short[@]}" \
    --set "model.start=$lab/joined.safetensors" --set "data.teacher=$lab/joined.safetensors"
"$program" net validate "$lab/joined.safetensors" --data "$lab/shards"
"$program" analyze --net "$lab/joined.safetensors" --nodes 200 --json | tail -n 1

"$program" train configs/batch-first-residual.toml "${short[@]}"
"$program" net validate "$lab/runs/batch-first-residual/network.safetensors" --data "$lab/shards"
"$program" analyze --net "$lab/runs/batch-first-residual/network.safetensors" --nodes 200 --json | tail -n 1

"$program" train configs/first-network.toml "${short[@]}"
"$program" net validate "$lab/runs/first-network/network.safetensors" --data "$lab/shards"
