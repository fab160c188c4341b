//! A server that is a puppet: what stands on its stdin goes to the address it was given, and what comes from there goes
//! to its stdout. The strings are held by the transcript, see `src/transcript/client`.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(address) = std::env::args().nth(1) else {
        eprintln!("usage: scripted-server ADDRESS");
        return ExitCode::from(2);
    };
    match relay(&address) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{address}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Ends when the address has nothing more to say.
fn relay(address: &str) -> io::Result<()> {
    let mut heard = TcpStream::connect(address)?;
    heard.set_nodelay(true)?;
    let said = heard.try_clone()?;
    std::thread::spawn(move || {
        let _ = copy(io::stdin().lock(), &mut heard);
        let _ = heard.shutdown(Shutdown::Write);
    });
    copy(said, io::stdout().lock())
}

/// Not `io::copy`: from a socket to a pipe it splices, which locks the pipe while it waits, and whoever reads from the
/// pipe waits too, even if it asked not to.
fn copy(mut from: impl Read, mut to: impl Write) -> io::Result<()> {
    let mut buffer = [0; 4096];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(()),
            length => to.write_all(buffer.get(..length).unwrap_or_default())?,
        }
        to.flush()?;
    }
}
