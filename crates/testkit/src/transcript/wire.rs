//! What carries the lines of a transcript.

use std::process::Stdio;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tsugite::bridge::Bridge;
use tsugite::transport::http::Http;
use tsugite::{Client, Server};
use tsugite_core::revision::Revision;

use super::http::Streams;
use super::sse::OldStream;
use crate::http::Serving;

/// A transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// In memory.
    Memory,
    /// A child process.
    Stdio,
    /// Streamable HTTP.
    Http,
    /// HTTP+SSE, the transport of 2024-11-05.
    Sse,
}

impl Transport {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Memory, Self::Stdio, Self::Http, Self::Sse];

    /// As transcripts write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Stdio => "stdio",
            Self::Http => "http",
            Self::Sse => "sse",
        }
    }

    pub(super) fn carries(self, revision: Revision) -> bool {
        self != Self::Sse || revision == Revision::V2024_11_05
    }
}

/// Something that carries lines to a server and back.
pub enum Wire {
    /// In memory.
    Memory(Box<tsugite::transport::memory::MemoryConnection>),
    /// A child process; stopped when dropped.
    Stdio(Box<(Child, ChildStdin, Lines<BufReader<ChildStdout>>)>),
    /// Sockets.
    Http(Box<Streams>),
    /// Sockets, the old way.
    Sse(Box<OldStream>),
}

impl Wire {
    /// The fixture over a transport; `program` is the one for stdio.
    pub async fn to_fixture(transport: Transport, program: &str) -> Result<Self, String> {
        match transport {
            Transport::Stdio => Self::spawn(program),
            _ => Self::to(transport, crate::fixture::server()).await,
        }
    }

    /// The fixture behind a bridge that speaks `far` to it. Over stdio it would take a program.
    pub async fn across_bridge(transport: Transport, far: Revision) -> Result<Self, String> {
        let bridge = Bridge::to(Client::in_process(&crate::fixture::server()).revision(far));
        Self::to(transport, bridge.server()).await
    }

    async fn to(transport: Transport, server: Server) -> Result<Self, String> {
        Ok(match transport {
            Transport::Stdio => return Err("there is no program".to_owned()),
            Transport::Memory => {
                let wire = tsugite::transport::memory::connect(&server).map_err(|error| error.to_string())?;
                Wire::Memory(Box::new(wire))
            }
            Transport::Http => Wire::Http(Box::new(Streams::new(Serving::start(&server).await))),
            Transport::Sse => {
                let serving = Serving::start(&server.http(Http::new().http_sse())).await;
                Wire::Sse(Box::new(OldStream::open(serving).await?))
            }
        })
    }

    /// A program on its stdin and stdout.
    fn spawn(program: &str) -> Result<Self, String> {
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
            Wire::Http(streams) => streams.send(line).await,
            Wire::Sse(stream) => stream.send(line).await,
        }
    }

    /// What is heard where `expected` should be.
    pub(super) async fn hear(&mut self, expected: &Value) -> Result<Value, String> {
        let line = match self {
            Wire::Memory(wire) => wire.next().await,
            Wire::Stdio(child) => {
                let line = child.2.next_line().await.map_err(|error| error.to_string())?;
                line.ok_or("the server has ended")?
            }
            Wire::Http(streams) => return streams.hear(expected).await,
            Wire::Sse(stream) => stream.next().await?,
        };
        serde_json::from_str(&line).map_err(|error| format!("not a message: {error}: {line}"))
    }

    /// That nothing was said beside what was heard. Where all comes on one stream, a fence has proven it already.
    pub(super) async fn silence(&mut self) -> Result<(), String> {
        match self {
            Wire::Http(streams) => streams.silence().await,
            _ => Ok(()),
        }
    }

    /// What has come and was not heard, for a person.
    pub(super) fn unheard(&self) -> String {
        match self {
            Wire::Http(streams) => format!(", or was it {}", streams.unheard()),
            _ => String::new(),
        }
    }

    /// Ends it in good order.
    pub(super) async fn end(self) -> Result<(), String> {
        match self {
            Wire::Http(streams) => streams.end().await,
            Wire::Sse(stream) => stream.end().await,
            Wire::Memory(_) | Wire::Stdio(_) => Ok(()),
        }
    }
}
