//! What carries the lines of a client's transcript: the pipes of a child, or sockets.

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tsugite::client::{Client, Command, ClientBuilder};

use super::http::Posts;
use crate::transcript::Transport;

/// The server's end.
pub(super) enum Wire {
    Pipe(Box<Pipe>),
    Http(Box<Posts>),
}

/// What the client did.
#[derive(Debug)]
pub(super) enum Heard {
    Message(Value, Headers),
    /// A request of HTTP without a message.
    Method(String, Headers),
    /// The stream of this request was closed.
    Closed(Value),
    /// Nothing more will come.
    End,
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

/// A child whose strings are held here; see `src/bin/scripted-server.rs`.
pub(super) struct Pipe {
    listener: TcpListener,
    child: Option<(Lines<BufReader<OwnedReadHalf>>, OwnedWriteHalf)>,
}

impl Wire {
    /// A server that waits for a client, and a client that knows where.
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
                Ok((Wire::Pipe(Box::new(Pipe { listener, child: None })), connecting))
            }
            Transport::Http | Transport::Sse => {
                let posts = Posts::bind(events, transport == Transport::Sse).await?;
                let connecting = Client::connect(format!("http://{}/mcp", posts.address));
                Ok((Wire::Http(Box::new(posts)), connecting))
            }
            Transport::Memory => Err("a client in memory talks to a server of ours".to_owned()),
        }
    }

    /// What the client does next.
    pub(super) async fn next(&mut self) -> Result<Heard, String> {
        let pipe = match self {
            Wire::Http(posts) => return posts.next().await,
            Wire::Pipe(pipe) => pipe,
        };
        let Some(line) = pipe.open().await?.0.next_line().await.map_err(|error| error.to_string())? else {
            // Whoever hears no more says no more: the child ends.
            pipe.child = None;
            return Ok(Heard::End);
        };
        let message = serde_json::from_str(&line).map_err(|error| format!("no message: {error}: {line}"))?;
        Ok(Heard::Message(message, Headers::default()))
    }

    /// Does what is due meanwhile, without end.
    pub(super) async fn listen(&mut self) {
        match self {
            Wire::Http(posts) => loop {
                posts.listen().await;
            },
            Wire::Pipe(_) => std::future::pending().await,
        }
    }

    pub(super) async fn say(&mut self, message: &Value, status: Option<u16>) -> Result<(), String> {
        match self {
            Wire::Http(posts) => posts.say(message, status),
            Wire::Pipe(pipe) => pipe.write(&message.to_string()).await,
        }
    }

    /// Something that is no message, in the way of those that are.
    pub(super) async fn noise(&mut self, line: &str) -> Result<(), String> {
        match self {
            Wire::Http(_) => Err("what is no message has no place over HTTP".to_owned()),
            Wire::Pipe(pipe) => pipe.write(line).await,
        }
    }

    /// The child ends, or every stream does.
    pub(super) async fn break_off(&mut self) -> Result<(), String> {
        match self {
            Wire::Http(posts) => posts.break_off(),
            Wire::Pipe(pipe) => {
                pipe.open().await?;
                pipe.child = None;
            }
        }
        Ok(())
    }

    pub(super) fn posts(&mut self) -> Result<&mut Posts, String> {
        match self {
            Wire::Http(posts) => Ok(posts),
            Wire::Pipe(_) => Err("only over HTTP".to_owned()),
        }
    }
}

impl Pipe {
    /// The child that runs, or the next one to be started.
    async fn open(&mut self) -> Result<&mut (Lines<BufReader<OwnedReadHalf>>, OwnedWriteHalf), String> {
        if self.child.is_none() {
            let (socket, _): (TcpStream, _) =
                self.listener.accept().await.map_err(|error| error.to_string())?;
            socket.set_nodelay(true).map_err(|error| error.to_string())?;
            let (read, write) = socket.into_split();
            self.child = Some((BufReader::new(read).lines(), write));
        }
        self.child.as_mut().ok_or_else(|| "nobody is there".to_owned())
    }

    async fn write(&mut self, line: &str) -> Result<(), String> {
        let written = self.open().await?.1.write_all(format!("{line}\n").as_bytes()).await;
        written.map_err(|error| format!("the client no longer reads: {error}"))
    }
}
