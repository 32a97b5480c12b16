#!/usr/bin/env bash
# One analysis by three workers over a NATS JetStream server, one of them killed in the middle and the coordinator
# killed and started again: the output must be that of a single process, to the byte.
#
#     cargo build --release --features queue && scripts/check_queue.sh target/release/batch-first GAMES.pgn
set -euo pipefail
program="$(realpath "$1")"
games="$(realpath "$2")"
folder="$(mktemp -d)"
trap 'kill -9 $(jobs -p) 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
port=$((20000 + RANDOM % 20000))
url="nats://127.0.0.1:$port"
nats-server -js -sd "$folder/store" -a 127.0.0.1 -p "$port" > server.log 2>&1 &
for _ in $(seq 50); do
    (exec 3<> "/dev/tcp/127.0.0.1/$port") 2> /dev/null && break
    sleep 0.1
done

analysis=("$games" --nodes 100 --multipv 2)
"$program" analyze "${analysis[@]}" --out alone.pgn --jsonl alone.jsonl

for worker in 1 2 3; do
    "$program" worker --queue "$url" --jobs 1 > "worker-$worker.txt" 2>&1 &
    eval "worker_$worker=$!"
done
together=("${analysis[@]}" --out together.pgn --jsonl together.jsonl --queue "$url" --patience 3s)
written() { local count; count="$(grep -c '^\[Annotator ' together.pgn 2> /dev/null || true)"; echo "${count:-0}"; }
"$program" analyze "${together[@]}" &
coordinator=$!
until [ "$(written)" -ge 2 ]; do sleep 0.05; done
kill -9 "$worker_2"
kill -9 "$coordinator"
wait "$coordinator" 2> /dev/null || true
before="$(written)"
all="$(grep -c '^\[Annotator ' alone.pgn)"
if [ "$before" -ge "$all" ]; then
    echo "all $all games were done before anything was killed: more games are needed" >&2
    exit 1
fi
"$program" analyze "${together[@]}"
cmp alone.pgn together.pgn
cmp alone.jsonl together.jsonl
kill -INT "$worker_1" "$worker_3"
wait "$worker_1" "$worker_3"
cat worker-1.txt worker-3.txt
echo "killed after $before of $all games; the output is that of one process"
