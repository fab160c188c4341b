#!/bin/bash
# Makes toolchains for other systems on Debian, without root and without changes outside of one folder.
#
#   toolchain.sh FOLDER check    `cargo check` for x86_64-pc-windows-gnu (mingw) and aarch64-apple-darwin (zig)
#   toolchain.sh FOLDER wine     what runs programs for Windows
#   toolchain.sh FOLDER musl     static Linux for x86_64 and aarch64 (zig), and qemu, which runs the latter
#   . FOLDER/env                 in a shell; then, for example, `cargo test --target x86_64-pc-windows-gnu`
#
# `wine` and `musl` need `check`. It needs a rustc whose sources a Debian suite packages (`rust-src`), curl, xz, dpkg-deb, the
# lists of apt, the registry of crates, and python3 with venv and a package index. The standard library of a target is built once and
# copied to where rustc looks for it, so that later builds need no unstable option.
set -euo pipefail
# `cargo run` puts the libraries of its compiler there, and rustc would take them for its own.
unset LD_LIBRARY_PATH

at=$(realpath -m "$1")
part=$2
jobs=${JOBS:-$(nproc)}
mkdir -p "$at"/{debs,system,bin}
cd "$at"

say() { printf '   %s (%s s)\n' "$1" "$SECONDS"; }

# The mirror that apt uses.
mirror() {
    apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -v -e security -e updates | head -1 |
        sed 's,/$,,'
}

# A toolchain with the sources of exactly this compiler. Hard links: the original stays as it is.
rust_src() {
    local version from file sum suite found='' sysroot
    version=$(rustc --version | cut -d' ' -f2)
    [ "$(cat toolchain/version 2>/dev/null)" = "$version" ] && return
    say "sources of rustc $version"
    from=$(mirror)
    for suite in trixie-backports sid forky; do
        found=$(curl -fsS --retry 3 "$from/dists/$suite/main/binary-amd64/Packages.xz" | xz -dc | awk -v want="$version+" '
            /^Package: /{package=$2} /^Version: /{version=$2} /^Filename: /{file=$2} /^SHA256: /{sum=$2}
            /^$/{ if (package == "rust-src" && index(version, want) == 1) print file, sum }' | tail -1)
        [ -n "$found" ] && break
    done
    [ -n "$found" ] || { echo "no Debian suite has rust-src $version" >&2; exit 1; }
    read -r file sum <<<"$found"
    # An older archive has another sum.
    echo "$sum  debs/rust-src.deb" | sha256sum --check --quiet --status 2>/dev/null ||
        curl -fsS --retry 3 -o debs/rust-src.deb "$from/$file"
    echo "$sum  debs/rust-src.deb" | sha256sum --check --quiet
    sysroot=$(rustc --print sysroot)
    rm -rf toolchain && mkdir toolchain
    for folder in bin lib libexec; do
        [ -e "$sysroot/$folder" ] || continue
        cp -al "$sysroot/$folder" toolchain/ 2>/dev/null ||
            { rm -rf "toolchain/$folder"; cp -a "$sysroot/$folder" toolchain/; }
    done
    mkdir -p toolchain/lib/rustlib/src/rust
    dpkg-deb --fsys-tarfile debs/rust-src.deb |
        tar -x -C toolchain/lib/rustlib/src/rust --strip-components=4 --wildcards \
            "./usr/src/rustc-$version/library" "./usr/src/rustc-$version/Cargo.*"
    echo "$version" > toolchain/version
}

# Downloads packages and unpacks them below `system`. Nothing is installed.
unpack() {
    local package
    (cd debs && apt-get download -q "$@" >/dev/null)
    for package in "$@"; do dpkg-deb -x "$(ls debs/"$package"_*.deb | tail -1)" system; done
}

mingw() {
    if [ ! -e system/mingw-unpacked ]; then
        say "mingw"
        unpack binutils-mingw-w64-x86-64 gcc-mingw-w64-base gcc-mingw-w64-x86-64-win32 \
            gcc-mingw-w64-x86-64-win32-runtime mingw-w64-common mingw-w64-x86-64-dev
        # Documentation, and compilers of other languages.
        rm -rf system/usr/share/{doc,man,info} system/usr/lib/gcc/*/*/{f951,gnat1,lto1,cc1obj*}
        touch system/mingw-unpacked
    fi
    ln -sf ../system/usr/bin/x86_64-w64-mingw32-gcc-win32 bin/x86_64-w64-mingw32-gcc
}

wine() {
    if [ ! -e system/wine-unpacked ]; then
        say "wine"
        unpack libz-mingw-w64 libunwind8 libwine wine64
        # Programs of 32 bits and documentation.
        rm -rf system/usr/lib/x86_64-linux-gnu/wine/i386-windows system/usr/share/{doc,man,info}
        # Debian's is a script with fixed paths.
        ln -sf wineserver64 system/usr/lib/wine/wineserver
        # `user32.dll` needs it while the prefix is made, and afterwards in the prefix.
        cp system/usr/x86_64-w64-mingw32/lib/zlib1.dll system/usr/lib/x86_64-linux-gnu/wine/x86_64-windows/
        touch system/wine-unpacked
    fi
    cat > bin/in-wine <<END
#!/bin/sh
export WINEPREFIX="$at/wine" WINEARCH=win64 WINEDEBUG="\${WINEDEBUG:--all}"
export WINELOADER="$at/system/usr/lib/wine/wine64" WINESERVER="$at/system/usr/lib/wine/wineserver64"
export WINEDLLOVERRIDES="mscoree,mshtml,winemenubuilder.exe=d"
export LD_LIBRARY_PATH="$at/system/usr/lib/x86_64-linux-gnu\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}"
exec "\$WINELOADER" "\$@"
END
    chmod +x bin/in-wine
}

write_env() {
    cat > env <<END
export PATH="$at/toolchain/bin:$at/bin:$at/system/usr/bin:$at/zig/bin:\$PATH"
export RUSTC="$at/toolchain/bin/rustc" RUSTDOC="$at/toolchain/bin/rustdoc"
unset RUSTUP_TOOLCHAIN LD_LIBRARY_PATH
export CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER="$at/bin/in-wine"
export CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER=x86_64-w64-mingw32-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUNNER="$at/system/usr/bin/qemu-aarch64-static"
export CC_aarch64_apple_darwin="$at/bin/zig-cc-macos" SDKROOT=/
END
    . ./env
}

# Builds the standard library of a target, unless it is there.
standard_library() {
    local target=$1 lib=toolchain/lib/rustlib/$1/lib
    ls "$lib"/libstd-*.rlib >/dev/null 2>&1 && return
    say "standard library of $target"
    rm -rf "std-$target" && mkdir -p "std-$target/src" && touch "std-$target/src/lib.rs"
    cat > "std-$target/Cargo.toml" <<'END'
[package]
name = "empty"
version = "0.0.0"
edition = "2024"
[profile.release]
debug = false
[workspace]
END
    (cd "std-$target" && env -u CARGO_TARGET_DIR RUSTC_BOOTSTRAP=1 cargo build -j"$jobs" --quiet --release --target "$target" \
        -Zbuild-std=std,panic_unwind,panic_abort,proc_macro,test)
    mkdir -p "$lib"
    cp "std-$target/target/$target"/release/deps/*.rlib "$lib"/
    rm -rf "$lib"/libempty-*.rlib "std-$target"
}

wine_prefix() {
    [ -f wine/ready ] && return
    say "wine prefix"
    rm -rf wine
    timeout 300 bin/in-wine wineboot -i >/dev/null 2>&1 || true
    WINEPREFIX="$at/wine" system/usr/lib/wine/wineserver64 -w
    # wine 8 has no `bcryptprimitives.dll`, from which Rust's standard library takes its random numbers.
    cat > prng.c <<'END'
#include <stddef.h>
__declspec(dllimport) unsigned char __stdcall SystemFunction036(void *, unsigned long);
__declspec(dllexport) int __stdcall ProcessPrng(unsigned char *data, size_t length) {
    while (length) {
        unsigned long part = length > 0x10000000 ? 0x10000000 : (unsigned long)length;
        if (!SystemFunction036(data, part)) return 0;
        data += part;
        length -= part;
    }
    return 1;
}
END
    local into=wine/drive_c/windows/system32
    [ -e $into/bcryptprimitives.dll ] ||
        x86_64-w64-mingw32-gcc -shared -O2 -s -o $into/bcryptprimitives.dll prng.c -ladvapi32
    cp system/usr/x86_64-w64-mingw32/lib/zlib1.dll $into/
    rm prng.c
    touch wine/ready
}

# zig is the C compiler and the linker; cargo-zigbuild adapts the arguments of rustc to it.
zig() {
    [ -f zig/ready ] && return
    say "zig"
    python3 -m venv --clear zig
    zig/bin/python -m pip --quiet --no-input --disable-pip-version-check install --only-binary :all: \
        ziglang==0.17.0 cargo-zigbuild==0.24.0
    cat > bin/zig-cc-macos <<END
#!/bin/bash
# zig has its own names of targets.
arguments=()
while [ \$# -gt 0 ]; do
    case \$1 in
    --target=*) ;;
    -arch) shift ;;
    *) arguments+=("\$1") ;;
    esac
    shift
done
exec "$at/zig/bin/python" -m ziglang cc -target aarch64-macos "\${arguments[@]}"
END
    chmod +x bin/zig-cc-macos
    touch zig/ready
}

qemu() {
    [ -e system/usr/bin/qemu-aarch64-static ] && return
    say "qemu"
    unpack qemu-user-static
    # The emulators of other machines.
    find system/usr/bin -name 'qemu-*-static' ! -name qemu-aarch64-static -delete
}

rust_src
write_env
case $part in
check)
    mingw
    zig
    for target in x86_64-pc-windows-gnu aarch64-apple-darwin; do
        standard_library "$target"
    done
    ;;
wine)
    wine
    wine_prefix
    ;;
musl)
    qemu
    for target in x86_64-unknown-linux-musl aarch64-unknown-linux-musl; do
        standard_library "$target"
    done
    ;;
*)
    echo "unknown part $part: check, wine or musl" >&2
    exit 2
    ;;
esac
say "$part: ready"
