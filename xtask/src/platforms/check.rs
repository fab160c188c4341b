//! The type check of the workspace for Windows and macOS.

use std::env;
use std::time::{Duration, Instant};

use super::toolchain::{Part, Toolchain};
use crate::process;

/// For macOS zig compiles the C code of dependencies, and nothing is linked.
const TARGETS: [&str; 2] = ["x86_64-pc-windows-gnu", "aarch64-apple-darwin"];

/// Makes the toolchain and checks everything.
pub(super) fn run() -> Result<(), String> {
    let toolchain = Toolchain::make(&[Part::Check], TOOLCHAIN_TIMEOUT)?;
    TARGETS.iter().try_for_each(|target| {
        println!("   {target}");
        process::run_or_fail(toolchain.check(target), "fix the errors above")
    })
}

/// The same as a part of `cargo xtask test`, for a few minutes at most, unless [`SWITCH`] is 0.
///
/// Prints what was left out, and why. Fails only if the check finds an error.
pub(crate) fn run_if_possible() -> Result<(), String> {
    if env::var_os(SWITCH).is_some_and(|value| value == "0") {
        left_out(&format!("{SWITCH} is 0"));
        return Ok(());
    }
    let end = Instant::now() + TIME_IN_TESTS;
    let toolchain = match Toolchain::make(&[Part::Check], TIME_IN_TESTS) {
        Ok(toolchain) => toolchain,
        Err(reason) => {
            left_out(&format!("the toolchain could not be made: {reason}"));
            return Ok(());
        }
    };
    for target in TARGETS {
        let limit = end.saturating_duration_since(Instant::now());
        match process::ChildProcess::start_group(toolchain.check(target))?.wait_up_to(limit)? {
            Some(status) if status.success() => println!("   {target}: no errors"),
            Some(status) => {
                return Err(format!(
                    "the check for {target} exited with {status}\n  try: fix the errors above"
                ));
            }
            None => {
                left_out(&format!("the check for {target} took longer than the time for both"));
                println!("   try: `cargo xtask platforms check`");
                return Ok(());
            }
        }
    }
    Ok(())
}

fn left_out(reason: &str) {
    println!("   LEFT OUT: the check for Windows and macOS: {reason}");
}

/// The variable that keeps `cargo xtask test` from the check, if it is 0.
const SWITCH: &str = "TSUGITE_PLATFORMS";

/// How long the toolchain may take, with its downloads.
pub(super) const TOOLCHAIN_TIMEOUT: Duration = Duration::from_secs(1800);

/// How long `cargo xtask test` may take longer for it.
const TIME_IN_TESTS: Duration = Duration::from_secs(600);
