#!/usr/bin/env bash
# Everything that wants a GPU, in one call of less than ten minutes: agreement with the processor, evaluations a second
# beside PyTorch, how busy the device is in a search, positions trained a second.
#
#   scripts/gpu-check.sh [DEVICE] [PROGRAM]
#
# DEVICE is cuda:0 unless given. Without PROGRAM the program is built here, which needs Rust. PyTorch's side is left out
# where python3 has no torch. Figures are printed, and kept in gpu-check/ (or in the folder that OUT names).
set -uo pipefail
cd "$(dirname "$0")/.."
device="${1:-cuda:0}"
out="${OUT:-gpu-check}"
mkdir -p "$out"
feature=cuda
[[ "$device" == cuda* ]] || feature=wgpu
if [ $# -ge 2 ]; then
    program="$2"
else
    cargo build --release --features "$feature" || exit 1
    program="${CARGO_TARGET_DIR:-target}/release/batch-first"
fi
# pip's packages hold NVRTC and the headers, too.
if [ "$feature" = cuda ] && [ -z "${CUDA_PATH:-}" ] && [ ! -e /usr/local/cuda/include ]; then
    found="$(python3 -c 'import pathlib, nvidia; print(next(iter(sorted(pathlib.Path(list(nvidia.__path__)[0]).glob("cu1*")))))' 2> /dev/null)"
    if [ -n "$found" ]; then
        export CUDA_PATH="$found" LD_LIBRARY_PATH="$found/lib:${LD_LIBRARY_PATH:-}"
    fi
fi
failed=()
step() { printf '\n=== %s (%d s)\n' "$1" "$SECONDS"; }
must() { "$@" || failed+=("$*"); }

{
step "Devices"
must "$program" doctor
command -v nvidia-smi > /dev/null && nvidia-smi

step "Agreement with the processor"
for network in batch-first batch-first-residual cockfish; do
    must timeout 120 "$program" net verify "networks/$network.safetensors" --device "$device"
done

step "Evaluations a second"
if [ "$feature" = cuda ] && python3 -c 'import torch' 2> /dev/null; then
    must timeout 200 python3 scripts/bench_gpu_peer.py networks/batch-first.safetensors networks/batch-first-residual.safetensors \
        --program "$program" --device "$device" --seconds 0.5
else
    must timeout 200 "$program" bench eval --device "$device" --both --net networks/batch-first.safetensors \
        --net networks/batch-first-residual.safetensors --batch 64 --batch 128 --batch 256 --batch 512 --batch 1024 \
        --batch 2048 --batch 4096 --batch 8192 --seconds 0.5
fi

step "Searching"
for batch in 512 2048 8192; do
    command -v nvidia-smi > /dev/null && nvidia-smi --query-gpu=utilization.gpu --format=csv,noheader,nounits -lms 100 \
        > "$out/busy-$batch.txt" &
    watcher=$!
    must timeout 60 "$program" bench search --device "$device" --search kbest --width "$batch" --nodes 100000
    kill "$watcher" 2> /dev/null
    wait "$watcher" 2> /dev/null
    if [ -s "$out/busy-$batch.txt" ]; then
        python3 -c "
import sys
busy = sorted(int(line) for line in open(sys.argv[1]) if line.strip().isdigit())
print(f'K = {sys.argv[2]}: the device is busy {busy[len(busy) // 2]} % of the time (median of {len(busy)} samples of 0.1 s)')
" "$out/busy-$batch.txt" "$batch"
    fi
done

step "Training"
for batch in 1024 4096 8192; do
    for precision in f32 bf16; do
        must timeout 60 "$program" bench train --device "$device" --model value --model residual --batch "$batch" \
            --precision "$precision" --steps 30
    done
done

step "Done"
if [ "${#failed[@]}" -gt 0 ]; then
    printf 'failed: %s\n' "${failed[@]}"
    exit 1
fi
} 2>&1 | tee "$out/report.txt"
exit "${PIPESTATUS[0]}"
