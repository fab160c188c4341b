//! `cargo xtask platforms`: other systems, as far as a Linux machine can try them.
//!
//! Windows programs are built with mingw and run under wine. macOS is type-checked. Static Linux binaries are built and run,
//! those for aarch64 in qemu. The code for systems without `/proc` runs on Linux in the tests of child processes.

mod check;
mod musl;
mod toolchain;
mod wine;
mod without_proc;

use std::time::Instant;

use crate::count::Count;

pub(crate) use check::run_if_possible as check_if_possible;

/// A part of the command: its name, what it prints first, and what it runs.
type Part = (&'static str, &'static str, fn(&mut Count) -> Result<(), String>);

const PARTS: [Part; 4] = [
    ("check", "check for Windows and macOS", |_| check::run()),
    ("without-proc", "child processes without /proc", without_proc::run),
    ("musl", "static binaries", |_| musl::run()),
    ("wine", "tests under wine", wine::run),
];

/// Runs the parts with these names, or all of them if none is named. Prints how long each took, and the count of tests.
pub(crate) fn run(names: &[&str]) -> Result<(), String> {
    if let Some(unknown) = names.iter().find(|name| PARTS.iter().all(|(known, ..)| known != *name)) {
        let known = PARTS.map(|(name, ..)| name).join(", ");
        return Err(format!("unknown part `{unknown}`\n  try: one of {known}"));
    }
    let mut count = Count::default();
    let mut failures = Vec::new();
    for (name, title, run) in PARTS {
        if !names.is_empty() && !names.contains(&name) {
            continue;
        }
        println!("== {title}");
        let start = Instant::now();
        // A failure does not keep the others from being tried.
        if let Err(failure) = run(&mut count) {
            eprintln!("error: {title}: {failure}");
            failures.push(name);
        }
        println!("   {name}: {:.1} s", start.elapsed().as_secs_f64());
    }
    println!("{count}");
    match failures.is_empty() {
        true => Ok(()),
        false => Err(format!("failed: {}; see above", failures.join(", "))),
    }
}
