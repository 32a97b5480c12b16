#!/usr/bin/env bash
# The kernels of ARM processors against the plain reference, and the program for ARM, in qemu; for a release.
#
#     scripts/check_arm.sh            # all of it
#     scripts/check_arm.sh quick      # the kernels on their own and in small networks: a minute beyond the build
#
# It shows that NEON computes rightly, with `dotprod` and without. An emulator's time says nothing of a processor's.
# What it needs it fetches: a C compiler for ARM and qemu from Debian, the standard library (scripts/other_systems.sh).
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/other_systems.sh
target=aarch64-unknown-linux-gnu

step() { printf '\n=== %s (%d s)\n' "$1" "$SECONDS"; }

install_missing aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu qemu-aarch64-static qemu-user-static
prepare_std "$target"
export CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc

# Two processors: `max` has every feature; the Cortex-A72, of a Raspberry Pi 4, has no dotprod and computes in f32 only.
declare -A expected=([max]="neon in int8" [cortex-a72]="neon in f32")
emulator() { echo qemu-aarch64-static -L /usr/aarch64-linux-gnu -cpu "$1"; }

run_tests() {
    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="$(emulator "$1")" \
        cargo test --release "${std_arguments[@]}" --target "$target" -p batch-first-eval "${@:2}"
}

step "The evaluator's tests: build"
run_tests max --lib --test agreement --no-run
# A test that the processor cannot run writes a line here (board::testing::skip).
BATCH_FIRST_SKIPPED="$(mktemp)"
export BATCH_FIRST_SKIPPED
trap 'rm -f "$BATCH_FIRST_SKIPPED"' EXIT
small=(a_tiny_network every_kernel_and_dilation heads_on_input_planes a_network_that_knows_its_ranges)
for processor in "${!expected[@]}"; do
    step "Kernels and small networks on $processor"
    : > "$BATCH_FIRST_SKIPPED"
    run_tests "$processor" --lib
    run_tests "$processor" --test agreement -- "${small[@]}"
    skipped="$(grep -c '^SKIPPED agreement: neon' "$BATCH_FIRST_SKIPPED" || true)"
    echo "$processor: ${expected[$processor]}; formats that the path neon lacks here: $skipped"
    # bf16, and int8 without dotprod.
    [ "$skipped" -eq "$(if [ "$processor" = max ]; then echo 1; else echo 2; fi)" ]
done
[ "${1:-}" != quick ] || exit 0

# The other tests of agreement, of random architectures most of all, take an emulator longer than a release waits.
step "Larger networks"
run_tests max --test agreement -- a_shared_trunk convchess_agrees heads_without_a_plain_last_layer long_tails_of_heads \
    rounded_weights what_a_block_adds

step "The program: build"
cargo build --release "${std_arguments[@]}" --target "$target" -p batch-first
program="${CARGO_TARGET_DIR:-target}/$target/release/batch-first"
for processor in "${!expected[@]}"; do
    step "The program on $processor"
    on=($(emulator "$processor") "$program")
    report="$("${on[@]}" doctor --threads 1 --net fast)"
    grep -E '^  (has|lacks|neon)|CPU path|: right' <<< "$report"
    grep -qF "CPU path ${expected[$processor]}" <<< "$report"
    grep -qF ': right' <<< "$report"
    coproc engine { "${on[@]}" uci --net large; }
    printf '%s\n' 'position startpos moves e2e4' 'go nodes 100' >&"${engine[1]}"
    while read -r -t 120 line <&"${engine[0]}" && [[ "$line" != bestmove* ]]; do info="$line"; done
    printf '%s\n' "$info" "$line"
    [[ "$info" == *' nodes '* && "$line" =~ ^bestmove\ [a-h][1-8][a-h][1-8] ]]
    echo quit >&"${engine[1]}"
    wait "$engine_PID"
done
echo "ARM: all right ($SECONDS s)"
