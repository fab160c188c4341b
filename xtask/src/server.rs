//! Servers under test: started on a free port, and stopped whatever happens.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::binary;
use crate::run::{self, Running};

/// A server of the testkit that answers. It ends with this value.
pub(crate) struct Server {
    running: Running,
    address: SocketAddr,
}

impl Server {
    /// Builds and starts a binary of the testkit. What it says goes to a file in `folder`.
    pub(crate) fn start(binary: &str, folder: &Path) -> Result<Self, String> {
        let program = binary::build(binary, folder)?;
        let address = free_address()?;
        let said = folder.join("server.txt");
        let mut command = run::program(program, ["--listen", &address.to_string()]);
        // It may end with its standard input, so that it is gone even if nobody lives to stop it.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(run::log(&said)?);
        let mut running = Running::start(command)?;
        let start = Instant::now();
        while TcpStream::connect_timeout(&address, BEGINNING).is_err() {
            let ended = running.ended()?;
            if ended.is_some() || start.elapsed() >= BEGINNING {
                let how = ended.map_or("does not answer".to_owned(), |status| format!("ended with {status}"));
                let said = fs::read_to_string(&said).unwrap_or_default();
                return Err(format!("{binary} {how}\n  it said: {}", said.trim()));
            }
            thread::sleep(run::LOOK);
        }
        Ok(Self { running, address })
    }

    /// Where clients find it.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Whether it is still there.
    pub(crate) fn runs(&mut self) -> bool {
        matches!(self.running.ended(), Ok(None))
    }
}

/// A server that says where it listens. It ends with this value, and if it ends with its standard input, with us.
pub(crate) struct Listening<T> {
    pub(crate) running: Running,
    pub(crate) place: T,
}

impl<T> Listening<T> {
    /// Starts one; `read` finds the place in one of the lines it says. They all go to a file.
    pub(crate) fn start(
        mut command: Command,
        file: &Path,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Self, String> {
        overhear(&mut command, file)?;
        // Theirs start others, and end with their standard input.
        command.stdin(Stdio::piped());
        Self::when_ready(Running::with_children(command)?, file, read)
    }

    fn when_ready(
        mut running: Running,
        file: &Path,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Self, String> {
        let start = Instant::now();
        loop {
            let said = fs::read_to_string(file).unwrap_or_default();
            if let Some(place) = whole_lines(&said).find_map(&read) {
                return Ok(Self { running, place });
            }
            let ended = running.ended()?;
            if ended.is_some() || start.elapsed() >= SLOW_BEGINNING {
                let how = ended.map_or("is not ready".to_owned(), |status| format!("ended with {status}"));
                return Err(format!("the server {how}\n  it said: {}", said.trim()));
            }
            thread::sleep(run::LOOK);
        }
    }
}

impl Listening<u16> {
    /// `tsugite`, which is told to `--listen`. Gives its port.
    pub(crate) fn tsugite(mut command: Command, file: &Path) -> Result<Self, String> {
        overhear(&mut command, file)?;
        // A terminal that stops us stops it too.
        Self::when_ready(Running::start(command)?, file, |line| {
            line.strip_prefix("http://127.0.0.1:")?.strip_suffix("/mcp")?.parse().ok()
        })
    }
}

/// Lets all it says go to a file.
fn overhear(command: &mut Command, file: &Path) -> Result<(), String> {
    let log = run::log(file)?;
    let errors = log.try_clone().map_err(|error| format!("{}: {error}", file.display()))?;
    command.stdout(log).stderr(errors);
    Ok(())
}

/// Without one that is still being written.
fn whole_lines(said: &str) -> impl Iterator<Item = &str> {
    said.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'))
}

/// A port that was free a moment ago.
fn free_address() -> Result<SocketAddr, String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let address = listener.and_then(|listener| listener.local_addr());
    address.map_err(|error| format!("there is no free port: {error}"))
}

const BEGINNING: Duration = Duration::from_secs(10);

/// Node and Python on a slow machine, with all they import.
const SLOW_BEGINNING: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_counts_when_it_is_whole() {
        assert_eq!(whole_lines("Starting\nready 80").collect::<Vec<_>>(), ["Starting"]);
        assert_eq!(whole_lines("ready 8080\nServer is running\n").count(), 2);
    }
}
