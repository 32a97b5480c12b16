# Sourced by checks for other systems: Debian's packages, and the standard library of another target.

# install_missing COMMAND PACKAGE …: installs the packages whose command is missing.
install_missing() {
    local packages=() as_root=(sudo)
    [ "$(id -u)" -ne 0 ] || as_root=()
    while [ $# -gt 0 ]; do
        command -v "$1" > /dev/null || packages+=("$2")
        shift 2
    done
    [ "${#packages[@]}" -gt 0 ] || return 0
    "${as_root[@]}" apt-get update -qq
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y "${packages[@]}"
}

# prepare_std TARGET: makes it ready, and sets `std_arguments`, which `cargo build --target TARGET` then needs. rustup
# has it compiled. Where rustup cannot get it, cargo compiles it from Debian's package of the same version's source.
prepare_std() {
    std_arguments=()
    [ -d "$(rustc --print target-libdir --target "$1")" ] && return
    rustup target add "$1" && return
    local version source suite file
    version="$(rustc --version | cut -d' ' -f2)"
    source="$(realpath "${CARGO_TARGET_DIR:-target}")/rust-src-$version"
    for suite in sid forky trixie-backports; do
        [ -d "$source" ] && break
        file="$(curl -fsS "http://deb.debian.org/debian/dists/$suite/main/binary-amd64/Packages.xz" | xz -dc \
            | grep -o "pool/main/r/rustc/rust-src_$version.*_all.deb" | head -n 1 || true)"
        [ -n "$file" ] || continue
        curl -fsS "http://deb.debian.org/debian/$file" -o "$source.deb"
        dpkg-deb -x "$source.deb" "$source"
    done
    if [ ! -d "$source" ]; then
        echo "neither rustup nor Debian has the standard library of Rust $version for $1" >&2
        return 1
    fi
    # Only nightly cargo compiles the library unasked, and only from a folder of the toolchain.
    export RUSTC_BOOTSTRAP=1 __CARGO_TESTS_ONLY_SRC_ROOT="$source/usr/src/rustc-$version/library"
    std_arguments=(-Zbuild-std)
}
