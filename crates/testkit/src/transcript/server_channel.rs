//! The transports that carry the lines of a transcript.

use std::process::Stdio;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tsugite::bridge::Bridge;
use tsugite::server::Principal;
use tsugite::transport::http::Http;
use tsugite::transport::memory::{self, MemoryConnection};
use tsugite::{Client, Server};
use tsugite_core::revision::Revision;

use super::http_sse::HttpSseStream;
use super::streamable_http::HttpStreams;
use crate::http::{HttpTarget, TestServer};

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

    /// Whether it carries the lines of callers that the server can tell from each other.
    pub(super) fn knows_callers(self) -> bool {
        matches!(self, Self::Memory | Self::Http)
    }

    pub(super) fn supports(self, revision: Revision) -> bool {
        self != Self::Sse || revision == Revision::V2024_11_05
    }
}

/// A connection that carries lines to a server and back.
pub enum ServerChannel {
    /// In memory, to this server.
    Memory(Box<(Server, MemoryConnection)>),
    /// A child process; stopped when dropped.
    Stdio(Box<(Child, ChildStdin, Lines<BufReader<ChildStdout>>)>),
    /// Sockets.
    Http(Box<HttpStreams>),
    /// Sockets, with the transport of 2024-11-05.
    Sse(Box<HttpSseStream>),
}

impl ServerChannel {
    /// Connects to the fixture server called `name`; `program` serves it over stdio.
    pub async fn to_fixture(transport: Transport, name: &str, program: &str) -> Result<Self, String> {
        match transport {
            Transport::Stdio => Self::spawn(program, name),
            _ => Self::connect(transport, crate::fixture::by_name(name)?).await,
        }
    }

    /// Connects to a server over HTTP or HTTP+SSE.
    pub async fn over_http(transport: Transport, server: HttpTarget) -> Result<Self, String> {
        match transport {
            Transport::Http => Ok(Self::Http(Box::new(HttpStreams::new(server)))),
            Transport::Sse => Ok(Self::Sse(Box::new(HttpSseStream::open(server).await?))),
            Transport::Memory | Transport::Stdio => Err("not over HTTP".to_owned()),
        }
    }

    /// Connects to a bridge in front of the fixture server called `name`, to which it speaks `upstream`. Not over stdio.
    pub async fn through_bridge(
        transport: Transport,
        name: &str,
        upstream: Revision,
    ) -> Result<Self, String> {
        let bridge = Bridge::to(Client::in_process(&crate::fixture::by_name(name)?).revision(upstream));
        Self::connect(transport, bridge.server()).await
    }

    /// Opens another connection to the server, as this caller.
    pub(super) async fn open_as(&self, caller: &str) -> Result<Self, String> {
        match self {
            Self::Memory(opened) => {
                let server = opened.0.clone();
                let wire = memory::connect_as(&server, Principal::new(caller));
                Ok(Self::Memory(Box::new((server, wire.map_err(|error| error.to_string())?))))
            }
            Self::Http(streams) => Ok(Self::Http(Box::new(streams.open_as(caller)))),
            Self::Stdio(_) | Self::Sse(_) => Err("callers are known only in memory and over HTTP".to_owned()),
        }
    }

    async fn connect(transport: Transport, server: Server) -> Result<Self, String> {
        Ok(match transport {
            Transport::Stdio => return Err("there is no program".to_owned()),
            Transport::Memory => {
                let wire = memory::connect(&server).map_err(|error| error.to_string())?;
                ServerChannel::Memory(Box::new((server, wire)))
            }
            Transport::Http => {
                ServerChannel::Http(Box::new(HttpStreams::new(TestServer::start(&server).await.into())))
            }
            Transport::Sse => {
                let serving = TestServer::start(&server.http(Http::new().http_sse())).await;
                ServerChannel::Sse(Box::new(HttpSseStream::open(serving.into()).await?))
            }
        })
    }

    /// Starts the program that serves the fixture server called `name` on its stdin and stdout.
    fn spawn(program: &str, name: &str) -> Result<Self, String> {
        let mut child = Command::new(program)
            .args(["--server", name])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("{program}: {error}"))?;
        let stdin = child.stdin.take().ok_or("no stdin")?;
        let stdout = child.stdout.take().ok_or("no stdout")?;
        Ok(ServerChannel::Stdio(Box::new((child, stdin, BufReader::new(stdout).lines()))))
    }

    pub(super) async fn send(&mut self, line: &str) -> Result<(), String> {
        match self {
            ServerChannel::Memory(wire) => {
                wire.1.send(line);
                Ok(())
            }
            ServerChannel::Stdio(child) => {
                let sent = child.1.write_all(format!("{line}\n").as_bytes()).await;
                sent.map_err(|error| format!("the server no longer reads: {error}"))
            }
            ServerChannel::Http(streams) => streams.send(line).await,
            ServerChannel::Sse(stream) => stream.send(line).await,
        }
    }

    /// Receives the message that stands where `expected` should be.
    pub(super) async fn receive(&mut self, expected: &Value) -> Result<Value, String> {
        let line = match self {
            ServerChannel::Memory(wire) => wire.1.next().await,
            ServerChannel::Stdio(child) => {
                let line = child.2.next_line().await.map_err(|error| error.to_string())?;
                line.ok_or("the server has ended")?
            }
            ServerChannel::Http(streams) => return streams.receive(expected).await,
            ServerChannel::Sse(stream) => stream.next().await?,
        };
        serde_json::from_str(&line).map_err(|error| format!("not a message: {error}: {line}"))
    }

    /// Checks a header of the response with the last message. Only HTTP has headers.
    pub(super) fn expect_header(&self, name: &str, value: &str) -> Result<(), String> {
        match self {
            ServerChannel::Http(streams) => streams.expect_header(name, value),
            _ => Ok(()),
        }
    }

    /// Checks that no message is left. On a transport with one stream the fence has proven it already.
    pub(super) async fn expect_silence(&mut self) -> Result<(), String> {
        match self {
            ServerChannel::Http(streams) => streams.expect_silence().await,
            _ => Ok(()),
        }
    }

    /// The messages that came and were not expected, for an error.
    pub(super) fn unread(&self) -> String {
        match self {
            ServerChannel::Http(streams) => format!("; unread: {}", streams.unread()),
            _ => String::new(),
        }
    }

    /// Closes the connection in good order.
    pub(super) async fn finish(self) -> Result<(), String> {
        match self {
            ServerChannel::Http(streams) => streams.finish().await,
            ServerChannel::Sse(stream) => stream.finish().await,
            ServerChannel::Memory(_) | ServerChannel::Stdio(_) => Ok(()),
        }
    }
}
