#!/usr/bin/env bash
# The program compiles for Windows and runs under wine; for a release.
#
#     scripts/check_windows.sh target/release/batch-first
#
# What it needs it fetches: MinGW and wine from Debian, python-chess, the standard library (scripts/other_systems.sh). The
# argument is a program for this machine, built from the same revision: its searches must be the same.
set -euo pipefail
fail() { echo "$1" >&2; exit 2; }
[ $# -eq 1 ] && [ -x "$1" ] || fail 'usage: scripts/check_windows.sh target/release/batch-first'
program="$(realpath "$1")"
cd "$(dirname "$0")/.."
. scripts/other_systems.sh
target=x86_64-pc-windows-gnu

install_missing x86_64-w64-mingw32-gcc gcc-mingw-w64-x86-64 wine wine
python3 -c 'import chess' 2> /dev/null || python3 -m pip install --quiet --break-system-packages 'chess==1.11.2'
prepare_std "$target"
# With the features of a release.
cargo build --release "${std_arguments[@]}" --target "$target" -p batch-first --features queue

folder="$(mktemp -d)"
export WINEPREFIX="$folder/wine" WINEDEBUG=-all
trap 'wineserver -k || true; rm -rf "$folder"' EXIT
cp "${CARGO_TARGET_DIR:-target}/$target/release/batch-first.exe" "$folder"
x86_64-w64-mingw32-gcc -O2 -shared -o "$folder/bcryptprimitives.dll" scripts/bcryptprimitives.c -ladvapi32
printf '#!/bin/sh\nexec wine "%s" "$@"\n' "$folder/batch-first.exe" > "$folder/batch-first"
chmod +x "$folder/batch-first"
"$folder/batch-first" --version # The first start makes wine's folder.

nodes() { "$1" bench | tr -d '\r' | grep -oE '^[0-9]+ nodes'; }
native="$(nodes "$program")"
windows="$(nodes "$folder/batch-first")"
echo "bench: $native on this machine, $windows under wine"
[ "$native" = "$windows" ] || fail 'the searches differ: is the program of another revision?'
python3 scripts/check_uci.py "$folder/batch-first"

"$folder/batch-first" match --strict --games 40 --nodes 50 --out "$folder/match" \
    --engine 'self; name=one' --engine 'self; WeightsFile=large; name=other'
"$folder/batch-first" analyze "$folder/match/games.pgn" --out "$folder/annotated.pgn" --nodes 50
python3 scripts/check_annotated.py "$folder/match/games.pgn" "$folder/annotated.pgn"
# A crash in the middle of a game leaves half a line; the same command resumes.
printf 'half a l' >> "$folder/annotated.pgn"
"$folder/batch-first" analyze "$folder/match/games.pgn" --out "$folder/annotated.pgn" --nodes 50
python3 scripts/check_annotated.py "$folder/match/games.pgn" "$folder/annotated.pgn"
grep -q 'half a l' "$folder/annotated.pgn.cut"

"$folder/batch-first" data import "$folder/annotated.pgn" --out "$folder/shards" --validation 0.25
"$folder/batch-first" train configs/first-network.toml --progress plain --set "data.directory=$folder/shards" \
    --set "run.directory=$folder/runs" --set training.batch=64 --set training.samples=12800 --set validation.every=100 \
    --set validation.positions=200
"$folder/batch-first" net validate "$folder/runs/first-network/network.safetensors" --data "$folder/shards"
echo "Windows: all right"
