#!/usr/bin/env bash
# The cargo that scripts/check_python.sh gives maturin. Maturin builds one package alone. Its dependencies then have other
# features than in the workspace, and all of them are compiled again. This builds the library with $CARGO_ARGUMENTS instead.
set -euo pipefail
[ "$1" = rustc ] || exec cargo "$@"
arguments=()
for argument in "${@:2}"; do
    # What follows is for the compiler of the one package.
    [ "$argument" != -- ] || break
    # The wheel needs one library, but a package with a program only must not be refused.
    [ "$argument" = --lib ] || arguments+=("$argument")
done
# Of the other packages maturin knows nothing, and would warn.
# shellcheck disable=SC2086
cargo build "${arguments[@]}" $CARGO_ARGUMENTS | grep -e '/crates/python#' -e '"reason":"build-finished"'
