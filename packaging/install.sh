#!/bin/sh
# Installs the program `tsugite` for the current user, without root; `install.sh --help` lists the options.
#
# The archive must have the checksum that SHA256SUMS lists for it. Nothing is written but the program, and nothing is run but
# the new program with `--version`.
set -eu

# `cargo xtask package assemble` fills these in.
release=''
version=''

main() {
    folder=${TSUGITE_BIN_DIR:-}
    release=${TSUGITE_RELEASE:-$release}
    while [ $# -gt 0 ]; do
        case $1 in
        --to) folder=$(value "$@") ;;
        --from) release=$(value "$@") ;;
        --version) version=$(value "$@") ;;
        -h | --help)
            usage
            exit 0
            ;;
        *) fail "unknown option $1" "install.sh --help" ;;
        esac
        shift 2
    done
    if [ -z "$folder" ]; then
        [ -n "${HOME:-}" ] || fail "HOME is not set" "name a folder with --to"
        folder=$HOME/.local/bin
    fi
    [ -n "$release" ] || fail "this copy of the script belongs to no release" "name a place with --from"
    [ -n "$version" ] || fail "this copy of the script has no version" "name one with --version"

    archive=tsugite-$version-$(target).tar.gz
    temporary=$(mktemp -d) || fail "cannot create a temporary folder" "set TMPDIR"
    trap 'rm -rf "$temporary"' EXIT
    trap 'exit 1' HUP INT TERM
    get SHA256SUMS
    get "$archive"
    verify
    install_program
}

usage() {
    cat <<'END'
install.sh [--to FOLDER] [--from PLACE] [--version VERSION]

  --to FOLDER        where the program goes; default: $TSUGITE_BIN_DIR, or else ~/.local/bin
  --from PLACE       a folder or an https URL with the archives and SHA256SUMS; default: $TSUGITE_RELEASE, or else the
                     release that this script belongs to
  --version VERSION  the version in the names of the archives; default: that of this script
END
}

# The value of the option that comes first.
value() {
    [ $# -gt 1 ] && [ -n "$2" ] || fail "$1 needs a value" "install.sh --help"
    printf '%s\n' "$2"
}

# Prints the target of this machine, as archives are named.
target() {
    system=$(uname -s)
    machine=$(uname -m)
    # A shell under Rosetta says x86_64 on a machine that runs arm64.
    if [ "$system/$machine" = Darwin/x86_64 ] && [ "$(sysctl -n sysctl.proc_translated 2>/dev/null || true)" = 1 ]; then
        machine=arm64
    fi
    case $system/$machine in
    Linux/x86_64 | Linux/amd64) echo x86_64-unknown-linux-musl ;;
    Linux/aarch64 | Linux/arm64) echo aarch64-unknown-linux-musl ;;
    Darwin/x86_64) echo x86_64-apple-darwin ;;
    Darwin/arm64) echo aarch64-apple-darwin ;;
    MINGW* | MSYS* | CYGWIN*) fail "this script does not install on Windows" "unpack the .zip of the release" ;;
    *) fail "there is no program for $system on $machine" "build it: cargo install --locked --path crates/cli" ;;
    esac
}

# Copies or downloads a file of the release into the temporary folder.
get() {
    case $release in
    https://*) download "$release/$1" "$temporary/$1" ;;
    file://*) copy "${release#file://}/$1" "$temporary/$1" ;;
    *://*) fail "$release is neither https nor a folder" "use an https URL" ;;
    *) copy "$release/$1" "$temporary/$1" ;;
    esac
}

copy() {
    [ -f "$1" ] || fail "there is no file $1" "check --from and --version"
    cp "$1" "$2"
}

download() {
    # Not wget, which would follow a redirect to plain http.
    has curl || fail "curl is not installed" "download the release and name its folder with --from"
    curl --proto '=https' --tlsv1.2 --fail --silent --show-error --location --output "$2" "$1" ||
        fail "cannot download $1" "check the connection, --from and --version"
}

# Compares the checksum of the archive with the listed one.
verify() {
    expected=$(awk -v name="$archive" '$2 == name || $2 == "*" name { print $1; exit }' "$temporary/SHA256SUMS")
    [ -n "$expected" ] || fail "SHA256SUMS does not list $archive" "check --version"
    if has sha256sum; then
        actual=$(sha256sum "$temporary/$archive")
    elif has shasum; then
        actual=$(shasum -a 256 "$temporary/$archive")
    elif has openssl; then
        actual=$(openssl dgst -sha256 -r "$temporary/$archive")
    else
        fail "no program computes SHA-256 here" "install sha256sum, shasum or openssl"
    fi
    actual=${actual%% *}
    [ "$actual" = "$expected" ] ||
        fail "$archive has the SHA-256 checksum $actual, not $expected: nothing was installed" "download it again"
}

install_program() {
    tar -xzf "$temporary/$archive" -C "$temporary"
    mkdir -p "$folder" 2>/dev/null || fail "cannot create $folder" "name another folder with --to"
    # Renamed within the folder, so that a program in use is replaced at once or not at all.
    part=$folder/.tsugite.$$
    trap 'rm -rf "$temporary" "$part"' EXIT
    { cp "$temporary/${archive%.tar.gz}/tsugite" "$part" && chmod 755 "$part"; } 2>/dev/null ||
        fail "cannot write to $folder" "name another folder with --to"
    said=$("$part" --version) || fail "the program of $archive does not run here" "build it from its sources with cargo"
    mv -f "$part" "$folder/tsugite" || fail "cannot replace $folder/tsugite" "name another folder with --to"
    echo "installed $said as $folder/tsugite"
    case :$PATH: in
    *":$folder:"*) ;;
    *) echo "$folder is not in PATH; add it in the start file of your shell: export PATH=\"$folder:\$PATH\"" ;;
    esac
}

has() { command -v "$1" >/dev/null 2>&1; }

fail() {
    printf 'error: %s\n  try   %s\n' "$1" "$2" >&2
    exit 1
}

# At the end, so that a script that arrives in part does nothing.
main "$@"
