//! `tsugite bridge` as a process.

use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::message::Transport;
use crate::server::{LONG, Server};

/// A bridge to a server, until it is dropped.
pub(crate) struct Bridge {
    child: Child,
    endpoint: Option<Endpoint>,
    errors: Arc<Mutex<Vec<String>>>,
}

/// Where clients connect: one through the pipes, any number at an address.
pub(crate) enum Endpoint {
    Pipes(ChildStdin, ChildStdout),
    At(SocketAddr),
}

impl Bridge {
    /// Starts a bridge.
    pub(crate) async fn start(transport: Transport, server: &Server) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tsugite"));
        command.arg("bridge").env("NO_COLOR", "1").kill_on_drop(true);
        if transport == Transport::Http {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        command.args(server.target()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let errors = Arc::new(Mutex::new(Vec::new()));
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        tokio::spawn(collect_lines(child.stderr.take().unwrap(), Arc::clone(&errors)));
        let mut bridge = Self { child, endpoint: None, errors };
        match transport {
            Transport::Stdio => bridge.endpoint = Some(Endpoint::Pipes(input, output)),
            Transport::Http => {
                let mut lines = BufReader::new(output).lines();
                let first = tokio::time::timeout(LONG, lines.next_line()).await;
                let url =
                    first.unwrap().unwrap().unwrap_or_else(|| panic!("no address: {}", bridge.errors()));
                let address = url.strip_prefix("http://").and_then(|rest| rest.strip_suffix("/mcp")).unwrap();
                bridge.endpoint = Some(Endpoint::At(address.parse().unwrap()));
            }
        }
        bridge
    }

    /// Returns the endpoint for the next client.
    pub(crate) fn endpoint(&mut self) -> Endpoint {
        match self.endpoint.take() {
            Some(Endpoint::At(address)) => {
                self.endpoint = Some(Endpoint::At(address));
                Endpoint::At(address)
            }
            taken => taken.expect("only one client can use the pipes"),
        }
    }

    /// Returns the standard error so far.
    pub(crate) fn errors(&self) -> String {
        self.errors.lock().unwrap().join("\n")
    }

    /// Returns its resident memory in bytes; `None` if the system does not report it.
    pub(crate) fn memory(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()?)).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
    }

    /// Kills the process.
    pub(crate) async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }

    /// Waits for its end. Fails unless the exit code is 0.
    pub(crate) async fn end(mut self) -> Result<(), String> {
        match tokio::time::timeout(LONG, self.child.wait()).await {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(status) => Err(format!("the bridge ended with {status:?}: {}", self.errors())),
            Err(_) => Err(format!("the bridge does not end: {}", self.errors())),
        }
    }
}

async fn collect_lines(stream: impl AsyncRead + Unpin, collected: Arc<Mutex<Vec<String>>>) {
    let mut lines = BufReader::new(stream).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        collected.lock().unwrap().push(line);
    }
}
