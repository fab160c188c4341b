//! One replica, as a process.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;

use super::KEYS_VARIABLE;

/// A process that serves at an address. It is stopped on drop.
#[derive(Debug)]
pub(super) struct ReplicaProcess {
    child: Child,
    /// Fixture programs end with their standard input, so that they end even if this process is killed.
    _input: Option<ChildStdin>,
    address: SocketAddr,
}

impl ReplicaProcess {
    pub(super) fn start(mut command: Command) -> Result<Self, String> {
        command.env(KEYS_VARIABLE, "07".repeat(32));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let name = command.get_program().to_string_lossy().into_owned();
        let mut child = command.spawn().map_err(|error| format!("cannot run {name}: {error}"))?;
        let input = child.stdin.take();
        let mut line = String::new();
        let Some(mut output) = child.stdout.take().map(BufReader::new) else {
            return Err(format!("{name} has no standard output"));
        };
        let address = match output.read_line(&mut line) {
            Ok(_) => parse_address(&line),
            Err(_) => None,
        };
        // The pipe must not fill. The thread ends with the process.
        thread::spawn(move || output.read_to_end(&mut Vec::new()));
        let Some(address) = address else {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("{name} does not say where it listens: {:?}", line.trim()));
        };
        Ok(Self { child, _input: input, address })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for ReplicaProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads `127.0.0.1:80` or `http://127.0.0.1:80/mcp`.
fn parse_address(line: &str) -> Option<SocketAddr> {
    let line = line.trim();
    line.strip_prefix("http://").unwrap_or(line).split('/').next()?.parse().ok()
}
