#!/usr/bin/env bash
# The program compiles and links for Windows; for a release.
#
#     scripts/check_windows.sh
#
# What it needs it fetches: MinGW from Debian, the standard library (scripts/rust_std.sh). The program is not run: Debian
# 12's wine (8.0) has no bcryptprimitives.dll, which Rust's standard library needs.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/rust_std.sh
target=x86_64-pc-windows-gnu

as_root() { if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi; }
if ! command -v x86_64-w64-mingw32-gcc > /dev/null; then
    as_root apt-get update -qq
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y gcc-mingw-w64-x86-64
fi
prepare_std "$target"
cargo build --release "${std_arguments[@]}" --target "$target" -p batch-first
echo "Windows: ${CARGO_TARGET_DIR:-target}/$target/release/batch-first.exe"
