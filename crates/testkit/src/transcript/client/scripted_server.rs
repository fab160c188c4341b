//! The transports of a client transcript: the pipes of a child process, or sockets.

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tsugite::client::{Client, ClientBuilder, Command};

use super::scripted_http::ScriptedHttpServer;
use crate::transcript::Transport;

/// The server side of the connection.
pub(super) enum ScriptedServer {
    Pipe(Box<PipeServer>),
    Http(Box<ScriptedHttpServer>),
}

/// An action of the client.
#[derive(Debug)]
pub(super) enum ClientAction {
    Message(Value, Headers),
    /// An HTTP request without a message.
    HttpMethod(String, Headers),
    /// The stream of this request was closed.
    StreamClosed(Value),
    /// The end of the input.
    Eof,
}

/// The headers of a request, by their names in small letters.
#[derive(Debug, Default)]
pub(super) struct Headers(Vec<(String, String)>);

impl Headers {
    pub(super) fn add(&mut self, name: &str, value: &str) {
        self.0.push((name.to_ascii_lowercase(), value.to_owned()));
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

/// A child that forwards to a socket here; see `src/bin/scripted-server.rs`.
pub(super) struct PipeServer {
    listener: TcpListener,
    child: Option<(Lines<BufReader<OwnedReadHalf>>, OwnedWriteHalf)>,
}

impl ScriptedServer {
    /// Starts to listen and returns a client builder with the address.
    pub(super) async fn new(
        transport: Transport,
        events: bool,
        program: &str,
    ) -> Result<(Self, ClientBuilder), String> {
        match transport {
            Transport::Stdio => {
                let listener = TcpListener::bind("127.0.0.1:0").await.map_err(|error| error.to_string())?;
                let address = listener.local_addr().map_err(|error| error.to_string())?;
                let connecting = Client::spawn(Command::new(program).arg(address.to_string()));
                Ok((ScriptedServer::Pipe(Box::new(PipeServer { listener, child: None })), connecting))
            }
            Transport::Http | Transport::Sse => {
                let posts = ScriptedHttpServer::bind(events, transport == Transport::Sse).await?;
                let connecting = Client::connect(format!("http://{}/mcp", posts.address));
                Ok((ScriptedServer::Http(Box::new(posts)), connecting))
            }
            Transport::Memory => Err("a client in memory talks to a server of ours".to_owned()),
        }
    }

    /// The next action of the client.
    pub(super) async fn next(&mut self) -> Result<ClientAction, String> {
        let pipe = match self {
            ScriptedServer::Http(posts) => return posts.next().await,
            ScriptedServer::Pipe(pipe) => pipe,
        };
        let Some(line) = pipe.accept_child().await?.0.next_line().await.map_err(|error| error.to_string())?
        else {
            // The child exits when its stdin ends.
            pipe.child = None;
            return Ok(ClientAction::Eof);
        };
        let message = serde_json::from_str(&line).map_err(|error| format!("no message: {error}: {line}"))?;
        Ok(ClientAction::Message(message, Headers::default()))
    }

    /// Handles events in the background, forever.
    pub(super) async fn drive(&mut self) {
        match self {
            ScriptedServer::Http(posts) => loop {
                posts.receive_next().await;
            },
            ScriptedServer::Pipe(_) => std::future::pending().await,
        }
    }

    pub(super) async fn send(&mut self, message: &Value, status: Option<u16>) -> Result<(), String> {
        match self {
            ScriptedServer::Http(posts) => posts.send(message, status),
            ScriptedServer::Pipe(pipe) => pipe.write_line(&message.to_string()).await,
        }
    }

    /// Sends a line that is not a message.
    pub(super) async fn send_noise(&mut self, line: &str) -> Result<(), String> {
        match self {
            ScriptedServer::Http(_) => Err("what is no message has no place over HTTP".to_owned()),
            ScriptedServer::Pipe(pipe) => pipe.write_line(line).await,
        }
    }

    /// Ends the child, or every stream.
    pub(super) async fn disconnect(&mut self) -> Result<(), String> {
        match self {
            ScriptedServer::Http(posts) => posts.end_streams(),
            ScriptedServer::Pipe(pipe) => {
                pipe.accept_child().await?;
                pipe.child = None;
            }
        }
        Ok(())
    }

    pub(super) fn http_server(&mut self) -> Result<&mut ScriptedHttpServer, String> {
        match self {
            ScriptedServer::Http(posts) => Ok(posts),
            ScriptedServer::Pipe(_) => Err("only over HTTP".to_owned()),
        }
    }
}

impl PipeServer {
    /// The running child, or the next one that is started.
    async fn accept_child(
        &mut self,
    ) -> Result<&mut (Lines<BufReader<OwnedReadHalf>>, OwnedWriteHalf), String> {
        if self.child.is_none() {
            let (socket, _): (TcpStream, _) =
                self.listener.accept().await.map_err(|error| error.to_string())?;
            socket.set_nodelay(true).map_err(|error| error.to_string())?;
            let (read, write) = socket.into_split();
            self.child = Some((BufReader::new(read).lines(), write));
        }
        self.child.as_mut().ok_or_else(|| "no child is connected".to_owned())
    }

    async fn write_line(&mut self, line: &str) -> Result<(), String> {
        let written = self.accept_child().await?.1.write_all(format!("{line}\n").as_bytes()).await;
        written.map_err(|error| format!("the client no longer reads: {error}"))
    }
}
