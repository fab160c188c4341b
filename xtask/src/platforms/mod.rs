//! `cargo xtask platforms`: other systems, as far as a Linux machine can try them.
//!
//! Windows programs are built with mingw and run under wine. macOS is type-checked. Static Linux binaries are built and run,
//! those for aarch64 in qemu.

mod macos;
mod musl;
mod toolchain;
mod wine;

use std::time::Duration;

use crate::count::Count;
use crate::process;
use toolchain::{Part, Toolchain};

/// Makes the toolchains and runs everything.
pub(crate) fn run(count: &mut Count) -> Result<(), String> {
    let windows = Toolchain::make(Part::Windows, TOOLCHAIN_TIMEOUT)?;
    println!("== check for Windows");
    process::run_or_fail(windows.check(wine::TARGET), "fix the errors above")?;
    println!("== tests under wine");
    wine::run(&windows, count)?;
    let others = Toolchain::make(Part::Others, TOOLCHAIN_TIMEOUT)?;
    println!("== check for macOS");
    process::run_or_fail(others.check(macos::TARGET), "fix the errors above")?;
    println!("== static binaries");
    musl::run(&others)
}

/// How long a toolchain may take, with its downloads.
const TOOLCHAIN_TIMEOUT: Duration = Duration::from_secs(1800);
