//! Static Linux binaries, built with zig as the linker.

use std::fs;
use std::path::Path;

use super::check::TOOLCHAIN_TIMEOUT;
use super::toolchain::{Part, Toolchain};
use crate::process;

const TARGETS: [&str; 2] = ["x86_64-unknown-linux-musl", "aarch64-unknown-linux-musl"];

/// Builds the binary for each target and runs it, that for aarch64 in qemu.
pub(super) fn run() -> Result<(), String> {
    let toolchain = Toolchain::make(&[Part::Check, Part::Musl], TOOLCHAIN_TIMEOUT)?;
    let folder = process::target_dir()?;
    for target in TARGETS {
        let args = ["zigbuild", "--package", "tsugite-cli", "--locked", "--target", target];
        let mut build = toolchain.prepare(process::program(toolchain.path("zig/bin/cargo-zigbuild"), args));
        // The startup files are those of zig.
        build.env("RUSTFLAGS", "-Clink-self-contained=no");
        process::run_or_fail(build, "see above")?;
        let binary = folder.join(target).join("debug/tsugite");
        check_static(&binary)?;
        let words = ["call", "demo", "add", "a=1", "b=2"];
        let command = if target.starts_with("aarch64") {
            let mut qemu = process::program(toolchain.path("system/usr/bin/qemu-aarch64-static"), []);
            qemu.arg(&binary).args(words);
            qemu
        } else {
            process::program(&binary, words)
        };
        let said = process::output(command, "see above")?;
        if said.trim() != "3" {
            return Err(format!("{target}: `tsugite call demo add a=1 b=2` printed {said:?}"));
        }
        println!("   {target}: static, and answers");
    }
    Ok(())
}

/// Fails if an executable of 64 bits names a loader, which a static one does not.
fn check_static(binary: &Path) -> Result<(), String> {
    let wrong = |reason: &str| format!("{}: {reason}", binary.display());
    let bytes = fs::read(binary).map_err(|error| wrong(&error.to_string()))?;
    if !bytes.starts_with(b"\x7fELF\x02\x01") {
        return Err(wrong("not an executable of 64 bits"));
    }
    let number = |at: usize, length: usize| -> Option<usize> {
        let digits = bytes.get(at..at.checked_add(length)?)?;
        Some(digits.iter().rev().fold(0, |sum, digit| sum << 8 | usize::from(*digit)))
    };
    let headers = || Some((number(0x20, 8)?, number(0x36, 2)?, number(0x38, 2)?));
    let (start, size, count) = headers().ok_or_else(|| wrong("its head is cut off"))?;
    match (0..count).any(|index| number(start + index * size, 4) == Some(PT_INTERP)) {
        true => Err(wrong("not static: it names a loader")),
        false => Ok(()),
    }
}

const PT_INTERP: usize = 3;
