#!/usr/bin/env bash
# Everything that wants a GPU, in one call of less than ten minutes (building not counted): agreement with the processor,
# evaluations a second beside PyTorch, how busy the device is in a search, positions trained a second, and a short training run.
#
#   scripts/gpu-check.sh [DEVICE] [PROGRAM]
#
# DEVICE is cuda:0 unless given. Without PROGRAM the program is built here, which needs Rust. PyTorch's side is left out
# where python3 has no torch. What matters most comes first, and nothing is begun that would pass LIMIT seconds (560). Figures are
# printed, and kept in gpu-check/ (or in the folder that OUT names).
set -uo pipefail
device="${1:-cuda:0}"
program=
if [ $# -ge 2 ]; then
    program="$(realpath "$2")"
    [ -x "$program" ] || { echo "$2 is not a program" >&2; exit 2; }
fi
out="$(realpath -m "${OUT:-$(dirname "$0")/../gpu-check}")"
cd "$(dirname "$0")/.."
mkdir -p "$out" || exit 2
feature=cuda
[[ "$device" == cuda* ]] || feature=wgpu
if [ -z "$program" ]; then
    cargo build --release --features "$feature" || exit 1
    program="$(realpath "${CARGO_TARGET_DIR:-target}/release/batch-first")"
fi
lab="$(mktemp -d)"
trap 'rm -rf "$lab"' EXIT
# Functions such as the hyperbolic tangent come from CUDA's toolkit; Triton's package, which PyTorch brings, holds them, too.
if [ "$feature" = cuda ] && timeout 60 "$program" doctor 2> /dev/null | grep -q libdevice; then
    found="$(python3 -c 'import pathlib, triton; print(next(pathlib.Path(triton.__file__).parent.rglob("libdevice.10.bc")))' 2> /dev/null)"
    if [ -n "$found" ]; then
        mkdir -p "$lab/cuda/nvvm/libdevice"
        cp "$found" "$lab/cuda/nvvm/libdevice/"
        export CUDA_PATH="$lab/cuda"
    fi
fi
failed=() left_out=()
SECONDS=0
limit="${LIMIT:-560}"
step() { printf '\n=== %s (%d s)\n' "$1" "$SECONDS"; }
# `must MOST COMMAND...` runs a command for MOST seconds at most, and not beyond the limit.
must() {
    local most=$1 left=$((limit - SECONDS))
    shift
    if [ "$left" -lt 5 ]; then
        left_out+=("$*")
        return
    fi
    timeout $((left < most ? left : most)) "$@" || failed+=("exit code $?: $*")
}
# All whose heads give scores: the selectors of networks/convchess.safetensors run on the processor only.
networks=(networks/{batch-first,batch-first-residual,cockfish,batch-first-original,convchess-attacks,convchess-single}.safetensors)

{
step "Devices"
must 60 "$program" doctor
command -v nvidia-smi > /dev/null && nvidia-smi

step "Agreement with the processor: 10,000 positions of Stockfish's games"
must 30 "$program" data import crates/eval/tests/games/labelled.pgn --out "$lab/verify" --validation 0.95
for network in "${networks[@]:0:3}"; do
    must 60 "$program" net verify "$network" --data "$lab/verify" --device "$device" --only-device
done

step "Evaluations a second"
arguments=(--device "$device" --both --seconds 0.3)
for batch in 64 128 256 512 1024 2048 4096 8192; do arguments+=(--batch "$batch"); done
for network in "${networks[@]}"; do
    must 60 "$program" bench eval --net "$network" "${arguments[@]}"
done

step "Training"
must 60 "$program" bench train --device "$device" --model value --model residual --batch 4096 --precision bf16 --steps 30

step "Searching"
command -v python3 > /dev/null || must 60 "$program" bench search --device "$device" --search kbest --width 2048 --nodes 20000
must 120 python3 scripts/gpu_busy.py --program "$program" --device "$device" --width 2048 512 8192 --seconds 8

step "A short training run, judged by the processor"
must 30 "$program" data import crates/eval/tests/games/labelled.pgn --out "$lab/shards" --validation 0.1
must 90 "$program" train configs/batch-first-residual.toml --progress plain --device "$device" \
    --set training.mixed_precision=true --set "data.directory=$lab/shards" --set 'data.sources=[]' --set data.mirror=false \
    --set "run.directory=$lab/runs" --set training.batch=256 --set training.samples=51200 --set validation.every=50
must 30 "$program" net validate "$lab/runs/batch-first-residual/network.safetensors" --data "$lab/shards"

step "Beside PyTorch"
if [ "$feature" = cuda ] && python3 -c 'import torch' 2> /dev/null; then
    # A line takes up to half a minute, and the last one begins within the limit.
    left=$((limit - SECONDS - 45))
    must 330 python3 scripts/bench_gpu_peer.py "${networks[@]}" --program "$program" --device "$device" --seconds 0.5 \
        --limit $((left < 280 ? left : 280))
else
    echo "left out: no torch here, or no CUDA asked for"
fi

step "Training, other batches"
for batch in 1024 8192; do
    for precision in bf16 f32; do
        must 60 "$program" bench train --device "$device" --model value --model residual --batch "$batch" \
            --precision "$precision" --steps 30
    done
done

step "Done"
[ "${#left_out[@]}" -eq 0 ] || printf 'left out, the time was over: %s\n' "${left_out[@]}"
if [ "${#failed[@]}" -gt 0 ]; then
    printf 'failed: %s\n' "${failed[@]}"
    exit 1
fi
} 2>&1 | tee "$out/report.txt"
exit "${PIPESTATUS[0]}"
