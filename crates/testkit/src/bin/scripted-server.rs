//! A server that forwards its stdin to an address, and all data from there to its stdout. The transcript at that
//! address decides what it says, see `src/transcript/client`.

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

/// Forwards both ways until the connection to the address ends.
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

/// Copies bytes. `io::copy` would splice from a socket to a pipe, which locks the pipe while it waits, and a reader of
/// the pipe waits, too, even in non-blocking mode.
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
