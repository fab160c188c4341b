//! The transports of a client transcript: the pipes of a child process, sockets, or a pipe in the process.

use serde_json::Value;
use tokio::io::{
    AsyncBufReadExt, AsyncWrite, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf, duplex,
    split,
};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tsugite::client::{Client, ClientBuilder, Command};

use super::scripted_http::ScriptedHttpServer;
use crate::transcript::Transport;

/// The server side of the connection.
pub(super) enum ScriptedServer {
    Child(Box<ChildServer>),
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
pub(super) struct ChildServer {
    listener: TcpListener,
    child: Option<(Lines<BufReader<OwnedReadHalf>>, OwnedWriteHalf)>,
}

/// A pipe in the process.
pub(super) struct PipeServer(Lines<BufReader<ReadHalf<DuplexStream>>>, WriteHalf<DuplexStream>);

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
                Ok((ScriptedServer::Child(Box::new(ChildServer { listener, child: None })), connecting))
            }
            Transport::Http | Transport::Sse => {
                let posts = ScriptedHttpServer::bind(events, transport == Transport::Sse).await?;
                let connecting = Client::connect(format!("http://{}/mcp", posts.address));
                Ok((ScriptedServer::Http(Box::new(posts)), connecting))
            }
            Transport::Memory => {
                let (ours, theirs) = duplex(1 << 16);
                let ((reader, writer), (client_reader, client_writer)) = (split(ours), split(theirs));
                let pipe = PipeServer(BufReader::new(reader).lines(), writer);
                Ok((ScriptedServer::Pipe(Box::new(pipe)), Client::over(client_reader, client_writer)))
            }
        }
    }

    /// The next action of the client.
    pub(super) async fn next(&mut self) -> Result<ClientAction, String> {
        let line = match self {
            ScriptedServer::Http(posts) => return posts.next().await,
            ScriptedServer::Child(child) => child.next_line().await?,
            ScriptedServer::Pipe(pipe) => pipe.0.next_line().await.map_err(|error| error.to_string())?,
        };
        let Some(line) = line else { return Ok(ClientAction::Eof) };
        let message = serde_json::from_str(&line).map_err(|error| format!("no message: {error}: {line}"))?;
        Ok(ClientAction::Message(message, Headers::default()))
    }

    /// Handles events in the background, forever.
    pub(super) async fn drive(&mut self) {
        match self {
            ScriptedServer::Http(posts) => loop {
                posts.receive_next().await;
            },
            ScriptedServer::Child(_) | ScriptedServer::Pipe(_) => std::future::pending().await,
        }
    }

    pub(super) async fn send(&mut self, message: &Value, status: Option<u16>) -> Result<(), String> {
        match self {
            ScriptedServer::Http(posts) => posts.send(message, status),
            ScriptedServer::Child(child) => child.write_line(&message.to_string()).await,
            ScriptedServer::Pipe(pipe) => write_line(&mut pipe.1, &message.to_string()).await,
        }
    }

    /// Sends a line that is not a message.
    pub(super) async fn send_noise(&mut self, line: &str) -> Result<(), String> {
        match self {
            ScriptedServer::Http(_) => Err("what is no message has no place over HTTP".to_owned()),
            ScriptedServer::Child(child) => child.write_line(line).await,
            ScriptedServer::Pipe(pipe) => write_line(&mut pipe.1, line).await,
        }
    }

    /// Ends the child, or every stream.
    pub(super) async fn disconnect(&mut self) -> Result<(), String> {
        match self {
            ScriptedServer::Http(posts) => posts.end_streams(),
            ScriptedServer::Child(child) => {
                child.accept_child().await?;
                child.child = None;
            }
            ScriptedServer::Pipe(_) => return Err("a pipe is not connected again".to_owned()),
        }
        Ok(())
    }

    pub(super) fn http_server(&mut self) -> Result<&mut ScriptedHttpServer, String> {
        match self {
            ScriptedServer::Http(posts) => Ok(posts),
            ScriptedServer::Child(_) | ScriptedServer::Pipe(_) => Err("only over HTTP".to_owned()),
        }
    }
}

impl ChildServer {
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

    async fn next_line(&mut self) -> Result<Option<String>, String> {
        let line = self.accept_child().await?.0.next_line().await.map_err(|error| error.to_string())?;
        if line.is_none() {
            // The child exits when its stdin ends.
            self.child = None;
        }
        Ok(line)
    }

    async fn write_line(&mut self, line: &str) -> Result<(), String> {
        write_line(&mut self.accept_child().await?.1, line).await
    }
}

async fn write_line(writer: &mut (impl AsyncWrite + Unpin), line: &str) -> Result<(), String> {
    let written = writer.write_all(format!("{line}\n").as_bytes()).await;
    written.map_err(|error| format!("the client no longer reads: {error}"))
}
