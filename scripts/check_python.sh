#!/usr/bin/env bash
# The Python package: its wheel is built by maturin, installed in a fresh environment, and used: by the examples, by
# mypy in its strict mode, and by scripts/check_python.py.
#
#     scripts/check_python.sh PROGRAM LEELA_NETWORK.pb.gz
#
# With CARGO_ARGUMENTS, those of the last build, that build's libraries are used.
set -euo pipefail
cd "$(dirname "$0")/.."
program="$(realpath "$1")"
leela="$(realpath "$2")"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

python3 -m venv "$work/venv"
python="$work/venv/bin/python"
"$python" -m pip install --quiet 'maturin>=1.9,<2' mypy 'chess==1.11.2'
[ -z "${CARGO_ARGUMENTS:-}" ] || export CARGO="$PWD/scripts/cargo_of_workspace.sh"
"$work/venv/bin/maturin" build --quiet --release --manifest-path crates/python/Cargo.toml --out "$work/wheels"
"$python" -m pip install --quiet "$work"/wheels/batch_first-*.whl

"$python" scripts/check_python.py "$program" "$leela"
"$work/venv/bin/mypy" --strict --no-error-summary examples/python/*.py
for example in "maia_moves.py $leela" accuracy_by_evaluations.py "own_network.py $work/own"; do
    # shellcheck disable=SC2086
    "$python" examples/python/$example
done
