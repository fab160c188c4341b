//! `tsugite bridge`, as a process.

use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::message::Way;
use crate::server::{LONG, Server};

/// A bridge to a server, until it is dropped.
pub(crate) struct Bridge {
    child: Child,
    door: Option<Door>,
    errors: Arc<Mutex<Vec<String>>>,
}

/// Where clients come in: one through the pipes, any number at an address.
pub(crate) enum Door {
    Pipes(ChildStdin, ChildStdout),
    At(SocketAddr),
}

impl Bridge {
    /// Starts it.
    pub(crate) async fn start(way: Way, server: &Server) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tsugite"));
        command.arg("bridge").env("NO_COLOR", "1").kill_on_drop(true);
        if way == Way::Http {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        command.args(server.target()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let errors = Arc::new(Mutex::new(Vec::new()));
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        tokio::spawn(keep(child.stderr.take().unwrap(), Arc::clone(&errors)));
        let mut bridge = Self { child, door: None, errors };
        match way {
            Way::Stdio => bridge.door = Some(Door::Pipes(input, output)),
            Way::Http => {
                let mut lines = BufReader::new(output).lines();
                let first = tokio::time::timeout(LONG, lines.next_line()).await;
                let url =
                    first.unwrap().unwrap().unwrap_or_else(|| panic!("no address: {}", bridge.errors()));
                let address = url.strip_prefix("http://").and_then(|rest| rest.strip_suffix("/mcp")).unwrap();
                bridge.door = Some(Door::At(address.parse().unwrap()));
            }
        }
        bridge
    }

    /// Where the next client comes in.
    pub(crate) fn door(&mut self) -> Door {
        match self.door.take() {
            Some(Door::At(address)) => {
                self.door = Some(Door::At(address));
                Door::At(address)
            }
            taken => taken.expect("only one client comes through the pipes"),
        }
    }

    /// What it has said on standard error.
    pub(crate) fn errors(&self) -> String {
        self.errors.lock().unwrap().join("\n")
    }

    /// The memory it takes, in bytes; nothing is known where the system does not say.
    pub(crate) fn memory(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()?)).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
    }

    /// Ends it without a word.
    pub(crate) async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }

    /// Waits for its end, which must be one in good order.
    pub(crate) async fn end(mut self) -> Result<(), String> {
        match tokio::time::timeout(LONG, self.child.wait()).await {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(status) => Err(format!("the bridge ended with {status:?}: {}", self.errors())),
            Err(_) => Err(format!("the bridge goes on and on: {}", self.errors())),
        }
    }
}

async fn keep(stream: impl AsyncRead + Unpin, kept: Arc<Mutex<Vec<String>>>) {
    let mut lines = BufReader::new(stream).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        kept.lock().unwrap().push(line);
    }
}
