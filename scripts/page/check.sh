#!/usr/bin/env bash
# Tests the page in Chromium and Firefox: check.sh PROGRAM PICTURES. Installs both (Debian) and package.json's packages (npm)
# if they are missing.
set -euo pipefail
program="$(realpath "$1")"
mkdir -p "$2"
pictures="$(realpath "$2")"
cd "$(dirname "$0")"

as_root() { if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi; }
packages=()
[ -n "${CHROMIUM:-}" ] || [ -x /usr/bin/chromium ] || packages+=(chromium)
[ -n "${FIREFOX:-}" ] || [ -x /usr/bin/firefox-esr ] || packages+=(firefox-esr)
command -v node > /dev/null || packages+=(nodejs)
command -v npm > /dev/null || packages+=(npm)
if [ "${#packages[@]}" -gt 0 ]; then
    as_root apt-get update -qq
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y "${packages[@]}"
fi
if ! cmp -s package-lock.json node_modules/installed.json; then
    PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1 npm ci --no-audit --no-fund --silent
    cp package-lock.json node_modules/installed.json
fi
maia="$(mktemp -d)"
trap 'rm -r "$maia"' EXIT
# shellcheck disable=SC2086
cargo build --quiet --release ${CARGO_ARGUMENTS:--p batch-first-nets} --example leela_file
"${CARGO_TARGET_DIR:-../../target}/release/examples/leela_file" "$maia/maia-1500.pb.gz" conv 16 1 4
node --no-warnings tree.mjs
# Two at a time: a browser waits for its server half of the time.
others() {
    node firefox.mjs "$program" "$pictures"
    node everybody.mjs "$program" "$pictures"
    node playing.mjs "$program"
}
others > "$pictures/others.log" 2>&1 &
others=$!
node check.mjs "$program" "$pictures" "$maia"
wait "$others" || { cat "$pictures/others.log" >&2; exit 1; }
cat "$pictures/others.log"
node visitors.mjs "$program"
