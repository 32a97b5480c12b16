#!/usr/bin/env bash
# One archive and one Python wheel of this revision, with their SHA-256 sums; made to be the same bytes from every folder.
#
#     scripts/release.sh [--target TRIPLE] [--glibc 2.17] [--out FOLDER] [--no-wheel]
#
# FOLDER (default: target/release-archive) gets batch-first-VERSION-TRIPLE.tar.xz (.zip for Windows), the wheel and
# SHA256SUMS of all files of this version there. Needs a clean checkout, Rust, GNU tar, xz, and Python 3 with venv. With
# --glibc the program runs with that C library and later ones: Zig links it, from a virtual environment with
# `pip install ziglang cargo-zigbuild`. Two builds should be equal if they have the same Rust, C compiler and CARGO_HOME.
set -euo pipefail
cd "$(dirname "$0")/.."
fail() { echo "$1" >&2; exit 2; }
target="$(rustc -vV | sed -n 's/^host: //p')" glibc='' out='' wheel=yes
while [[ $# -gt 0 ]]; do
    case "$1" in
        --target) target="${2:?}"; shift 2 ;;
        --glibc) glibc="${2:?}"; shift 2 ;;
        --out) out="${2:?}"; shift 2 ;;
        --no-wheel) wheel=''; shift ;;
        *) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    esac
done
[[ -d "$(rustc --print sysroot)/lib/rustlib/$target/lib" ]] \
    || fail "there is no standard library for $target here: rustup target add $target"
[[ -z "$(git status --porcelain)" ]] || fail 'there are changes or files that are not committed'
[[ -z "$wheel" ]] || python3 -c 'import ensurepip' 2> /dev/null || fail 'Python has no venv: apt install python3-venv'
[[ -z "$glibc" ]] || command -v cargo-zigbuild > /dev/null || fail 'in a virtual environment: pip install ziglang cargo-zigbuild'

version="$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)"
name="batch-first-$version-$target"
build="${CARGO_TARGET_DIR:-$PWD/target}"
out="$(realpath -m "${out:-$build/release-archive}")"
cargo_home="${CARGO_HOME:-$HOME/.cargo}"
SOURCE_DATE_EPOCH="$(git log -1 --format=%ct)"
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC CARGO_PROFILE_RELEASE_STRIP=symbols
umask 022
# Neither panics nor C's asserts name folders of this machine. The source of the standard library, where it is installed,
# is named as where it is not.
library="$(realpath "$(rustc --print sysroot)")/lib/rustlib/src/rust"
commit="$(rustc -vV | sed -n 's/^commit-hash: //p')"
export RUSTFLAGS="--remap-path-prefix=$PWD=. --remap-path-prefix=$cargo_home=cargo --remap-path-prefix=$library=/rustc/$commit"
export CFLAGS="-ffile-prefix-map=$PWD=. -ffile-prefix-map=$build=target -ffile-prefix-map=$cargo_home=cargo"

if [[ -n "$glibc" ]]; then
    cargo zigbuild --release --locked --target "$target.$glibc" -p batch-first --features queue
else
    cargo build --release --locked --target "$target" -p batch-first --features queue
fi
program="$build/$target/release/batch-first"
[[ "$target" != *windows* ]] || program+=.exe

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
folder="$work/$name"
mkdir -p "$folder/completions" "$out"
cp "$program" LICENSE README.md CHANGELOG.md "$folder/"
python3 scripts/third_party.py "$target" > "$folder/THIRD-PARTY.txt"
# Manual and completions are the program's own words; one that runs here writes them.
if "$program" --version > /dev/null 2>&1; then
    "$program" man "$folder/man"
    for shell in bash zsh fish powershell; do "$program" completions "$shell" > "$folder/completions/batch-first.$shell"; done
else
    rmdir "$folder/completions"
    echo "a program for $target does not run here: the archive has neither manual nor completions" >&2
fi
archive="$name.tar.xz"
if [[ "$target" == *windows* ]]; then
    archive="$name.zip"
    python3 - "$work" "$name" "$work/$archive" <<'END'
import os, pathlib, sys, time, zipfile
work, name, out = sys.argv[1:]
when = time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))[:6]
with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
    for path in sorted(path for path in pathlib.Path(work, name).rglob("*") if path.is_file()):
        entry = zipfile.ZipInfo(path.relative_to(work).as_posix(), when)
        entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o100644 << 16
        archive.writestr(entry, path.read_bytes())
END
else
    tar --create --sort=name --mode=u+rw,go=rX --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=gnu \
        --directory "$work" "$name" | xz -9 --threads=1 > "$work/$archive"
fi
mv "$work/$archive" "$out/"

if [[ -n "$wheel" ]]; then
    python3 -m venv "$work/venv"
    "$work/venv/bin/pip" install --quiet 'maturin==1.16.0' ${glibc:+ziglang}
    tag="${glibc:+manylinux_${glibc/./_}}"
    "$work/venv/bin/maturin" build --quiet --release --locked --target "$target" --manifest-path crates/python/Cargo.toml \
        ${tag:+--zig --compatibility "$tag"} --out "$work/wheel"
    made="$(basename "$work"/wheel/*.whl)"
    cp "$work/wheel/$made" "$out/"
fi
(cd "$out" && sha256sum -- batch?first-"$version"-*.* > "$work/SHA256SUMS")
mv "$work/SHA256SUMS" "$out/"

(cd "$out" && du --apparent-size --block-size=KB -- "$archive" ${wheel:+"$made"} && cat SHA256SUMS)
du --apparent-size --block-size=KB "$program"
if [[ "$target" == *linux-gnu* ]]; then
    # objdump is binutils'; Debian's reads programs of this machine's kind only.
    needed="$(objdump -T "$program" 2> /dev/null | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -n 1 || true)"
    [[ -z "$needed" ]] || echo "the program needs glibc ${needed#GLIBC_} or later"
fi
