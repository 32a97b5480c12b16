#!/usr/bin/env bash
# Is a candidate stronger than a baseline? A sequential test below everything else that the machine does.
#
#     scripts/sprt.sh [--evaluations 10000] [--bounds 0,10] [--games 4000] [--jobs 2] [--seed 8] [--runs FOLDER]
#                     [--search alphabeta] [--table PAGE.md] NAME CANDIDATE BASELINE
#
# CANDIDATE and BASELINE are programs, each with options of its own after a semicolon: './new', './old; Batch=50'.
# 3,000 evaluations screen, 30,000 confirm what was accepted. Fast network, one thread, openings in pairs. The games
# lie in FOLDER/NAME (default: runs/sprt): the same command goes on after an interruption, and adds its row to the
# table once the test is decided or all games are played. `--row` adds the row of a test that is not over.
set -euo pipefail
cd "$(dirname "$0")/.."
evaluations=10000 bounds=0,10 games=4000 jobs=2 seed=8 runs=runs/sprt search=alphabeta table='' row=''
usage() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
while [[ "${1:-}" == --* ]]; do
    case "$1" in
        --evaluations | --bounds | --games | --jobs | --seed | --runs | --search | --table) declare "${1#--}=${2:?}"; shift 2 ;;
        --row) row=yes; shift ;;
        *) usage ;;
    esac
done
[[ $# == 3 ]] || usage
name="$1"

# A program, and the options behind its first semicolon.
player() {
    local options=''
    [[ "$1" == *\;* ]] && options="; ${1#*;}"
    echo "${1%%;*} uci; WeightsFile=fast; Threads=1; Search=$search$options; name=$2"
}
command=(match --engine "$(player "$2" "$name")" --engine "$(player "$3" baseline)" --nodes "$evaluations"
    --games "$games" --jobs "$jobs" --seed "$seed" --sprt "$bounds" --quiet --out "$runs/$name")
arbiter="${BATCH_FIRST:-target/release/batch-first}"
mkdir -p "$runs"
# Engines start at the usual priority: one that gets no processor for 20 seconds at its start loses the game. Then they and
# the match run at idle priority.
lower() {
    sleep 10
    (echo 19 > "/proc/$1/autogroup") 2> /dev/null || true # Of its session, which is its own.
    local pid
    for pid in "$1" $(pgrep -P "$1"); do chrt --all-tasks --idle --pid 0 "$pid" 2> /dev/null || true; done
}
# `--row`: no game begins beyond those that are played.
[[ -n "$row" ]] && command[8]=$(($(wc -l < "$runs/$name/games.jsonl") / 2 * 2))
setsid "$arbiter" "${command[@]}" > "$runs/$name.txt" &
match=$!
interrupted=''
trap 'interrupted=yes; kill -INT "$match" 2> /dev/null' INT TERM
lower "$match" &
while kill -0 "$match" 2> /dev/null; do wait "$match" || true; done
cat "$runs/$name.txt"

if [[ -n "$table" && -z "$interrupted" ]]; then
    if [[ ! -s "$table" ]]; then
        echo '| candidate | revision | evaluations | games and Elo [95 %] | sequential test | machine | command |'
        echo '|---|---|---:|---|---|---|---|'
    fi >> "$table"
    stalls="$(grep -c '"fault":{' "$runs/$name/games.jsonl" || true)" # They are not counted as strength.
    find() { sed -n "s/^$1: *//p" "$runs/$name.txt" | tail -n 1; }
    revision="$(git rev-parse --short HEAD)$(git diff --quiet HEAD -- crates || echo ' and changes')"
    machine="$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(nproc) processors"
    echo "| $name | $revision | $evaluations | $(find result), $stalls faults | $(sed -n 's/^SPRT/SPRT/p' "$runs/$name.txt" | tail -n 1) |" \
        "$machine | \`scripts/sprt.sh --evaluations $evaluations --bounds $bounds --search $search --games $games --jobs $jobs --seed $seed $name '$2' '$3'\` |" >> "$table"
fi
