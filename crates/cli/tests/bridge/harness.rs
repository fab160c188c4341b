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
    let (mut flags, mut names) = (Vec::new(), Vec::new());
    let mut rest = words.iter().map(String::as_str);
    while let Some(word) = rest.next() {
        match word {
            _ if !word.starts_with('-') => names.push(word),
            "--format" | "--test-threads" | "--color" | "--skip" | "--logfile" => drop(rest.next()),
            _ => flags.push(word),
        }
    }
    let fits = |name: &str| match flags.contains(&"--exact") {
        true => names.contains(&name),
        false => names.is_empty() || names.iter().any(|word| name.contains(word)),
    };
    // None is ignored.
    let tests = tests.iter().filter(|(name, _)| fits(name) && !flags.contains(&"--ignored"));
    if flags.contains(&"--list") {
        tests.for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    let (mut passed, mut failed) = (0, 0);
    for (name, test) in tests {
        let went_well = catch_unwind(test).is_ok();
        if went_well {
            passed += 1;
        } else {
            failed += 1;
        }
        println!("test {name} ... {}", if went_well { "ok" } else { "FAILED" });
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
