//! What carries the lines of a transcript.

use std::process::Stdio;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// Something that carries lines to a server and back.
pub enum Wire {
    /// In memory.
    Memory(Box<tsugite::transport::memory::Wire>),
    /// A child process; stopped when dropped.
    Stdio(Box<(Child, ChildStdin, Lines<BufReader<ChildStdout>>)>),
}

impl Wire {
    /// The fixture, in memory.
    pub fn memory() -> Result<Self, String> {
        let server = crate::fixture::server();
        let wire = tsugite::transport::memory::connect(&server).map_err(|error| error.to_string())?;
        Ok(Wire::Memory(Box::new(wire)))
    }

    /// A program on its stdin and stdout.
    pub fn spawn(program: &str) -> Result<Self, String> {
        let mut child = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("{program}: {error}"))?;
        let stdin = child.stdin.take().ok_or("no stdin")?;
        let stdout = child.stdout.take().ok_or("no stdout")?;
        Ok(Wire::Stdio(Box::new((child, stdin, BufReader::new(stdout).lines()))))
    }

    pub(super) async fn send(&mut self, line: &str) -> Result<(), String> {
        match self {
            Wire::Memory(wire) => {
                wire.send(line);
                Ok(())
            }
            Wire::Stdio(child) => {
                let sent = child.1.write_all(format!("{line}\n").as_bytes()).await;
                sent.map_err(|error| format!("the server no longer reads: {error}"))
            }
        }
    }

    pub(super) async fn next(&mut self) -> Result<Value, String> {
        let line = match self {
            Wire::Memory(wire) => wire.next().await,
            Wire::Stdio(child) => {
                let line = child.2.next_line().await.map_err(|error| error.to_string())?;
                line.ok_or("the server has ended")?
            }
        };
        serde_json::from_str(&line).map_err(|error| format!("not a message: {error}: {line}"))
    }
}
