#!/usr/bin/env bash
# This program against the classical engines that Debian packages, a second a move and one thread each: one table.
#
#     scripts/gauntlet.sh [--games 20] [--movetime 1s] [--jobs 1] [--out runs/gauntlet] [PLAYER]
#
# PLAYER is written as for `match --engine`; without one it is `target/release/batch-first uci; Threads=1`. The engines
# come from `apt-get install gnuchess toga2 glaurung ethereal-chess fairy-stockfish`; those that are missing are named and
# left out. Ethereal at 10 ms a move is the opponent of 2018. Games that a fault decides are counted apart. The same
# command goes on after an interruption. `--jobs` must leave a processor for each player that thinks.
set -euo pipefail
cd "$(dirname "$0")/.."
games=20 movetime=1s jobs=1 out=runs/gauntlet
usage() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
while [[ "${1:-}" == --* ]]; do
    case "$1" in
        --games | --movetime | --jobs | --out) declare "${1#--}=${2:?}"; shift 2 ;;
        *) usage ;;
    esac
done
[[ $# -le 1 ]] || usage
player="${1:-target/release/batch-first uci; Threads=1}"
PATH="$PATH:/usr/games"
opponents=()
opponent() { # NAME PROGRAM [ARGUMENTS AND OPTIONS]
    if command -v "$2" > /dev/null; then
        opponents+=(--engine "$(command -v "$2")${3:-}; name=$1")
    else
        echo "$1 is left out: there is no $2 here" >&2
    fi
}
opponent 'GNU Chess' gnuchess ' --uci'
opponent 'Toga II' toga2
opponent 'Glaurung' glaurung '; Threads=1'
opponent 'Ethereal' ethereal-chess '; Threads=1'
opponent 'Ethereal at 10 ms' ethereal-chess '; Threads=1; movetime=10ms'
opponent 'Fairy-Stockfish' fairy-stockfish '; Threads=1'
[[ ${#opponents[@]} -gt 0 ]] || { echo 'no opponent is installed' >&2; exit 2; }
exec "${BATCH_FIRST:-target/release/batch-first}" match --gauntlet --games "$games" --movetime "$movetime" --margin 300ms \
    --jobs "$jobs" --out "$out" --engine "$player" "${opponents[@]}"
