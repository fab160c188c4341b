//! A test runner with the interface of Rust's, or a relay: `bridge --relay ADDRESS`.
//!
//! A relay copies its standard input to the address, and what it receives from there to standard output.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::panic::catch_unwind;
use std::process::ExitCode;

/// A test with its name.
pub(crate) type Test = (&'static str, fn());

/// The option that turns the process into a relay.
pub(crate) const RELAY: &str = "--relay";

/// Runs the selected tests one after the other.
pub(crate) fn run(tests: &[Test]) -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [word, address] = words.as_slice()
        && word == RELAY
    {
        return match relay(address) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{address}: {error}");
                ExitCode::FAILURE
            }
        };
    }
    let (mut flags, mut names, mut skipped) = (Vec::new(), Vec::new(), Vec::new());
    let mut rest = words.iter().map(String::as_str);
    while let Some(word) = rest.next() {
        match word {
            _ if !word.starts_with('-') => names.push(word),
            "--skip" => skipped.extend(rest.next()),
            "--format" | "--test-threads" | "--color" | "--logfile" => drop(rest.next()),
            _ => flags.push(word),
        }
    }
    let fits = |name: &str| match flags.contains(&"--exact") {
        true => names.contains(&name),
        false => names.is_empty() || names.iter().any(|word| name.contains(word)),
    };
    let is_skipped = |name: &str| skipped.iter().any(|word| name.contains(word));
    // No test is ignored.
    let tests =
        tests.iter().filter(|(name, _)| fits(name) && !is_skipped(name) && !flags.contains(&"--ignored"));
    if flags.contains(&"--list") {
        tests.for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    let (mut passed, mut failed) = (0, 0);
    for (name, test) in tests {
        let is_ok = catch_unwind(test).is_ok();
        if is_ok {
            passed += 1;
        } else {
            failed += 1;
        }
        println!("test {name} ... {}", if is_ok { "ok" } else { "FAILED" });
    }
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    println!(
        "\ntest result: {verdict}. {passed} passed; {failed} failed; 0 ignored; 0 measured; 0 filtered out"
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Relays until the address closes the connection.
fn relay(address: &str) -> io::Result<()> {
    let mut writer = TcpStream::connect(address)?;
    writer.set_nodelay(true)?;
    let reader = writer.try_clone()?;
    std::thread::spawn(move || {
        let _ = copy(io::stdin().lock(), &mut writer);
        let _ = writer.shutdown(Shutdown::Write);
    });
    copy(reader, io::stdout().lock())
}

/// Copies all bytes. Not `io::copy`, which splices from a socket to a pipe and locks the pipe while it waits.
fn copy(mut from: impl Read, mut to: impl Write) -> io::Result<()> {
    let mut buffer = [0; 4096];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(()),
            length => to.write_all(&buffer[..length])?,
        }
        to.flush()?;
    }
}
