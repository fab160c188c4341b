//! Servers under test: started on a free port, and stopped on drop.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::binary;
use crate::process::{self, ChildProcess};

/// A running server of the testkit, stopped on drop.
pub(crate) struct TestkitServer {
    process: ChildProcess,
    address: SocketAddr,
}

impl TestkitServer {
    /// Builds and starts a binary of the testkit. Its output goes to a file in `folder`.
    pub(crate) fn start(binary: &str, folder: &Path) -> Result<Self, String> {
        let program = binary::build(binary, folder)?;
        let address = free_address()?;
        let said = folder.join("server.txt");
        let mut command = process::program(program, ["--listen", &address.to_string()]);
        // It exits with its standard input, so that it ends even if xtask is killed.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(process::create_log(&said)?);
        let mut running = ChildProcess::start(command)?;
        let start = Instant::now();
        while TcpStream::connect_timeout(&address, START_TIMEOUT).is_err() {
            let ended = running.try_wait()?;
            if ended.is_some() || start.elapsed() >= START_TIMEOUT {
                let how =
                    ended.map_or("does not respond".to_owned(), |status| format!("exited with {status}"));
                let said = fs::read_to_string(&said).unwrap_or_default();
                return Err(format!("{binary} {how}\n  output: {}", said.trim()));
            }
            thread::sleep(process::POLL_INTERVAL);
        }
        Ok(Self { process: running, address })
    }

    /// The URL for clients.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Whether it still runs.
    pub(crate) fn is_running(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(None))
    }
}

/// Three replicas of a server of the testkit, behind nginx and with a Redis server. All of them are stopped on drop.
pub(crate) struct ReplicatedServer(ListeningServer<String>);

impl ReplicatedServer {
    /// Builds and starts a binary of the testkit. All output goes to a file in `folder`.
    pub(crate) fn start(binary: &str, folder: &Path) -> Result<Self, String> {
        let (replicas, program) = (binary::build("replicas", folder)?, binary::build(binary, folder)?);
        let mut command = process::program(replicas, []);
        command.arg(program);
        ListeningServer::start(command, &folder.join("replicas.txt"), |line| {
            line.starts_with("http://").then(|| line.to_owned())
        })
        .map(Self)
    }

    /// The URL for clients.
    pub(crate) fn url(&self) -> &str {
        &self.0.endpoint
    }

    /// Stops them. Fails if a replica has exited before.
    pub(crate) fn stop(mut self) -> Result<(), String> {
        self.0.process.close_input();
        match self.0.process.wait_with_timeout(START_TIMEOUT)? {
            status if status.success() => Ok(()),
            status => Err(format!("a replica has exited early ({status})\n  try: see replicas.txt")),
        }
    }
}

/// A server that prints its address, stopped on drop. If it exits with its standard input, it also ends with xtask.
pub(crate) struct ListeningServer<T> {
    pub(crate) process: ChildProcess,
    pub(crate) endpoint: T,
}

impl<T> ListeningServer<T> {
    /// Starts a server; `read` parses the address from a line of its output, which goes to a file.
    pub(crate) fn start(
        mut command: Command,
        file: &Path,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Self, String> {
        redirect_output(&mut command, file)?;
        // Some start other processes and exit with their standard input.
        command.stdin(Stdio::piped());
        Self::wait_until_ready(ChildProcess::start_group(command)?, file, read)
    }

    fn wait_until_ready(
        mut running: ChildProcess,
        file: &Path,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Self, String> {
        let start = Instant::now();
        loop {
            let said = fs::read_to_string(file).unwrap_or_default();
            if let Some(place) = complete_lines(&said).find_map(&read) {
                return Ok(Self { process: running, endpoint: place });
            }
            let ended = running.try_wait()?;
            if ended.is_some() || start.elapsed() >= SLOW_START_TIMEOUT {
                let how = ended.map_or("is not ready".to_owned(), |status| format!("exited with {status}"));
                return Err(format!("the server {how}\n  output: {}", said.trim()));
            }
            thread::sleep(process::POLL_INTERVAL);
        }
    }
}

impl ListeningServer<u16> {
    /// Starts `tsugite` with `--listen` and returns it with its port.
    pub(crate) fn start_tsugite(mut command: Command, file: &Path) -> Result<Self, String> {
        redirect_output(&mut command, file)?;
        // A terminal that stops xtask stops it, too.
        Self::wait_until_ready(ChildProcess::start(command)?, file, |line| {
            line.strip_prefix("http://127.0.0.1:")?.strip_suffix("/mcp")?.parse().ok()
        })
    }
}

/// Redirects all output to a file.
fn redirect_output(command: &mut Command, file: &Path) -> Result<(), String> {
    let log = process::create_log(file)?;
    let errors = log.try_clone().map_err(|error| format!("{}: {error}", file.display()))?;
    command.stdout(log).stderr(errors);
    Ok(())
}

/// The lines without an incomplete last one.
fn complete_lines(said: &str) -> impl Iterator<Item = &str> {
    said.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'))
}

/// A port that was free a moment ago.
pub(crate) fn free_address() -> Result<SocketAddr, String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let address = listener.and_then(|listener| listener.local_addr());
    address.map_err(|error| format!("no free port: {error}"))
}

const START_TIMEOUT: Duration = Duration::from_secs(10);

/// The time limit for Node and Python to start on a slow machine.
const SLOW_START_TIMEOUT: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_complete_lines_count() {
        assert_eq!(complete_lines("Starting\nready 80").collect::<Vec<_>>(), ["Starting"]);
        assert_eq!(complete_lines("ready 8080\nServer is running\n").count(), 2);
    }
}
