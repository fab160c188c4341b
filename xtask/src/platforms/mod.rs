//! `cargo xtask platforms`: other systems, as far as a Linux machine can try them.
//!
//! Windows programs are built with mingw and run under wine. macOS is type-checked. Static Linux binaries are built and run,
//! those for aarch64 in qemu.

mod macos;
mod musl;
mod toolchain;
mod wine;

use std::time::{Duration, Instant};

use crate::count::Count;
use crate::process::{self, ChildProcess};
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

/// Checks for Windows and macOS, in `cargo xtask test`. What takes too long or has no toolchain is left out, and said so.
pub(crate) fn check_in_time() -> Result<(), String> {
    let end = Instant::now() + CHECK_BUDGET;
    for (part, target) in [(Part::Windows, wine::TARGET), (Part::Others, macos::TARGET)] {
        let left = || end.saturating_duration_since(Instant::now());
        let toolchain = match Toolchain::make(part, left()) {
            Ok(toolchain) => toolchain,
            Err(reason) => {
                println!("   LEFT OUT: the check for {target}: no toolchain: {reason}");
                continue;
            }
        };
        match ChildProcess::start_group(toolchain.check(target))?.wait_with_timeout(left()) {
            Ok(status) if status.success() => println!("   checked for {target}"),
            Ok(_) => return Err(format!("the workspace does not compile for {target}\n  try: see above")),
            Err(_) => {
                println!("   LEFT OUT: the check for {target}: not within {} s", CHECK_BUDGET.as_secs())
            }
        }
    }
    println!("   LEFT OUT: tests under wine and static binaries; `cargo xtask platforms` runs them");
    Ok(())
}

/// How long both checks may take together.
const CHECK_BUDGET: Duration = Duration::from_secs(300);

/// How long a toolchain may take, with its downloads.
const TOOLCHAIN_TIMEOUT: Duration = Duration::from_secs(1800);
