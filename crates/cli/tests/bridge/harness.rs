//! Runs tests as the runner of Rust does, or is a puppet: `bridge --puppet ADDRESS`.
//!
//! What stands on the stdin of a puppet goes to the address it was given, and what comes from there to its stdout.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::panic::catch_unwind;
use std::process::ExitCode;

/// A test and its name.
pub(crate) type Test = (&'static str, fn());

/// What makes a process a puppet.
pub(crate) const PUPPET: &str = "--puppet";

/// Runs the tests that are asked for, one after the other.
pub(crate) fn run(tests: &[Test]) -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [word, address] = words.as_slice()
        && word == PUPPET
    {
        return match play(address) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{address}: {error}");
                ExitCode::FAILURE
            }
        };
    }
    let has = |flag: &str| words.iter().any(|word| word == flag);
    let wanted: Vec<_> = words.iter().filter(|word| !word.starts_with('-') && *word != "terse").collect();
    let fits = |name: &str| {
        wanted.is_empty()
            || wanted
                .iter()
                .any(|word| if has("--exact") { *word == name } else { name.contains(word.as_str()) })
    };
    // None is ignored.
    let tests = tests.iter().filter(|(name, _)| fits(name) && !has("--ignored"));
    if has("--list") {
        tests.for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    let (mut passed, mut failed) = (0, 0);
    for (name, test) in tests {
        match catch_unwind(test) {
            Ok(()) => passed += 1,
            Err(_) => failed += 1,
        }
        println!("test {name} ... {}", if failed == 0 { "ok" } else { "FAILED" });
    }
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    println!(
        "\ntest result: {verdict}. {passed} passed; {failed} failed; 0 ignored; 0 measured; 0 filtered out"
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Ends when the address has nothing more to say.
fn play(address: &str) -> io::Result<()> {
    let mut heard = TcpStream::connect(address)?;
    heard.set_nodelay(true)?;
    let said = heard.try_clone()?;
    std::thread::spawn(move || {
        let _ = carry(io::stdin().lock(), &mut heard);
        let _ = heard.shutdown(Shutdown::Write);
    });
    carry(said, io::stdout().lock())
}

/// Not `io::copy`: from a socket to a pipe it splices, which locks the pipe while it waits.
fn carry(mut from: impl Read, mut to: impl Write) -> io::Result<()> {
    let mut buffer = [0; 4096];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(()),
            length => to.write_all(&buffer[..length])?,
        }
        to.flush()?;
    }
}
