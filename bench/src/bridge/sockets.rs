//! The clients over HTTP: sockets, and as much of HTTP/1.1 as it takes to know where an answer ends.
//!
//! [`Posts`] speaks Streamable HTTP, where the answer to a call is the response to its request. [`PostSseBody`] speaks HTTP+SSE,
//! where it comes on a stream that was opened before. Each call under way has a connection of its own.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::Client;
use crate::bare_hyper::{INITIALIZE, INITIALIZED, read_answer, write_call};
use crate::worker::text;
use crate::{Era, Failed};

/// Streamable HTTP.
pub(super) struct Posts {
    runtime: Runtime,
    at: Address,
    headers: String,
    /// Those that nobody uses.
    idle: Vec<Connection>,
}

impl Posts {
    /// Shakes hands with the server at `url`.
    pub(super) fn open(url: &str) -> Result<Self, Failed> {
        let (runtime, at) = (runtime()?, Address::read(url)?);
        let mut headers = ACCEPT.to_owned();
        let first = runtime.block_on(async {
            let mut first = Connection::open(&at).await?;
            let greeted = first.post(&at.path, &headers, INITIALIZE.as_bytes()).await?;
            if let Some(session) = greeted.header("mcp-session-id") {
                headers.push_str(&format!("mcp-session-id: {session}\r\n"));
            }
            headers.push_str("mcp-protocol-version: 2025-11-25\r\n");
            first.post(&at.path, &headers, INITIALIZED.as_bytes()).await?;
            Ok::<_, Failed>(first)
        })?;
        Ok(Self { runtime, at, headers, idle: vec![first] })
    }
}

impl Client for Posts {
    fn renew(&mut self) {
        self.idle.clear();
    }

    fn burst(&mut self, calls: usize, window: usize) -> Result<Vec<Duration>, Failed> {
        let Self { runtime, at, headers, idle } = self;
        runtime.block_on(async {
            let mut lanes = JoinSet::new();
            for lane in 0..window {
                let mut connection = match idle.pop() {
                    Some(connection) => connection,
                    None => Connection::open(at).await?,
                };
                let (path, headers) = (at.path.clone(), headers.clone());
                lanes.spawn(async move {
                    let mut each = Vec::new();
                    for number in (lane..calls).step_by(window) {
                        let asked = Instant::now();
                        let answer = connection.post(&path, &headers, &call(number)?).await?;
                        check(answer.message()?, number)?;
                        each.push(asked.elapsed());
                    }
                    Ok::<_, Failed>((connection, each))
                });
            }
            let mut each = Vec::with_capacity(calls);
            while let Some(lane) = lanes.join_next().await {
                let (connection, times) = lane??;
                idle.push(connection);
                each.extend(times);
            }
            Ok(each)
        })
    }
}

/// HTTP+SSE.
pub(super) struct Stream {
    runtime: Runtime,
    at: Address,
    /// What came on the stream.
    heard: mpsc::UnboundedReceiver<Result<Vec<u8>, Failed>>,
    idle: Vec<Connection>,
}

impl Stream {
    /// Opens the stream at `url` and shakes hands.
    pub(super) fn open(url: &str) -> Result<Self, Failed> {
        let (runtime, mut at) = (runtime()?, Address::read(url)?);
        let (hearing, mut heard) = mpsc::unbounded_channel();
        let first = runtime.block_on(async {
            let stream = Connection::open(&at).await?;
            tokio::spawn(stream.listen(at.path.clone(), hearing));
            let endpoint = next(&mut heard).await?;
            let endpoint = String::from_utf8(endpoint)?;
            at.path = match endpoint
                .strip_prefix("http://")
                .and_then(|rest| rest.find('/').map(|at| &rest[at..]))
            {
                Some(path) => path.to_owned(),
                None => endpoint,
            };
            let mut first = Connection::open(&at).await?;
            first.post(&at.path, ACCEPT, INITIALIZE.as_bytes()).await?;
            next(&mut heard).await?;
            first.post(&at.path, ACCEPT, INITIALIZED.as_bytes()).await?;
            Ok::<_, Failed>(first)
        })?;
        Ok(Self { runtime, at, heard, idle: vec![first] })
    }
}

async fn next(heard: &mut mpsc::UnboundedReceiver<Result<Vec<u8>, Failed>>) -> Result<Vec<u8>, Failed> {
    heard.recv().await.ok_or("the stream has ended")?
}

impl Client for Stream {
    fn renew(&mut self) {
        self.idle.clear();
    }

    fn burst(&mut self, calls: usize, window: usize) -> Result<Vec<Duration>, Failed> {
        let Self { runtime, at, heard, idle } = self;
        runtime.block_on(async {
            let mut lanes = JoinSet::new();
            let mut answered = Vec::with_capacity(window);
            for lane in 0..window {
                let mut connection = match idle.pop() {
                    Some(connection) => connection,
                    None => Connection::open(at).await?,
                };
                let path = at.path.clone();
                let (told, mut answers) = mpsc::unbounded_channel::<Instant>();
                answered.push(told);
                lanes.spawn(async move {
                    let mut each = Vec::new();
                    for number in (lane..calls).step_by(window) {
                        let asked = Instant::now();
                        connection.post(&path, ACCEPT, &call(number)?).await?;
                        each.push(answers.recv().await.ok_or("no answer")? - asked);
                    }
                    Ok::<_, Failed>((connection, each))
                });
            }
            let hearing = async {
                for _ in 0..calls {
                    let message = next(heard).await?;
                    let number = usize::try_from(read_answer(&message)?.0)?;
                    check(&message, number)?;
                    answered[number % window].send(Instant::now())?;
                }
                Ok(())
            };
            let mut each = Vec::with_capacity(calls);
            let asking = async {
                while let Some(lane) = lanes.join_next().await {
                    let (connection, times) = lane??;
                    idle.push(connection);
                    each.extend(times);
                }
                Ok::<_, Failed>(())
            };
            tokio::try_join!(hearing, asking)?;
            Ok(each)
        })
    }
}

fn runtime() -> Result<Runtime, Failed> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

fn call(number: usize) -> Result<Vec<u8>, Failed> {
    let mut bytes = Vec::with_capacity(192);
    write_call(&mut bytes, number as u64, &text(number), Era::Handshake)?;
    Ok(bytes)
}

fn check(message: &[u8], number: usize) -> Result<(), Failed> {
    let (id, echoed) = read_answer(message)?;
    match id == number as u64 && echoed == text(number) {
        true => Ok(()),
        false => Err(format!("{echoed:?} came back for call {number}").into()),
    }
}

/// Where a server is.
struct Address {
    host: String,
    path: String,
}

impl Address {
    fn read(url: &str) -> Result<Self, Failed> {
        let rest = url.strip_prefix("http://").ok_or("what URL is this?")?;
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        Ok(Self { host: host.to_owned(), path: path.to_owned() })
    }
}

struct Connection {
    socket: TcpStream,
    host: String,
    /// What was read and belongs to nothing yet.
    input: Vec<u8>,
}

/// A response that is here as a whole.
struct Response {
    head: String,
    body: Vec<u8>,
}

impl Connection {
    async fn open(at: &Address) -> Result<Self, Failed> {
        let socket = TcpStream::connect(&at.host).await?;
        socket.set_nodelay(true)?;
        Ok(Self { socket, host: at.host.clone(), input: Vec::new() })
    }

    async fn post(&mut self, path: &str, headers: &str, body: &[u8]) -> Result<Response, Failed> {
        let (host, length) = (&self.host, body.len());
        let mut out = format!(
            "POST {path} HTTP/1.1\r\nhost: {host}\r\n{headers}content-type: application/json\r\ncontent-length: {length}\r\n\r\n"
        )
        .into_bytes();
        out.extend_from_slice(body);
        self.socket.write_all(&out).await?;
        let head = self.head().await?;
        let mut body = Vec::new();
        if is_chunked(&head) {
            while let Some(chunk) = self.chunk().await? {
                body.extend_from_slice(&chunk);
            }
        } else {
            let length = header(&head, "content-length").map_or(Ok(0), str::parse)?;
            body = self.take(length).await?;
        }
        let response = Response { head, body };
        match response.head.split(' ').nth(1) {
            Some(status) if status.starts_with('2') => Ok(response),
            _ => {
                let said = String::from_utf8_lossy(&response.body);
                Err(format!("{} {said}", response.head.lines().next().unwrap_or_default()).into())
            }
        }
    }

    /// Reads events for as long as there are any.
    async fn listen(mut self, path: String, heard: mpsc::UnboundedSender<Result<Vec<u8>, Failed>>) {
        let failed = self.events(&path, &heard).await.err().unwrap_or_else(|| "the stream has ended".into());
        let _ = heard.send(Err(failed));
    }

    async fn events(
        &mut self,
        path: &str,
        heard: &mpsc::UnboundedSender<Result<Vec<u8>, Failed>>,
    ) -> Result<(), Failed> {
        let host = &self.host;
        let out = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\naccept: text/event-stream\r\n\r\n");
        self.socket.write_all(out.as_bytes()).await?;
        let head = self.head().await?;
        if !is_chunked(&head) {
            return Err(format!("no stream was opened: {head}").into());
        }
        let mut text = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            text.extend_from_slice(&chunk);
            let mut start = 0;
            while let Some(length) = memchr::memchr(b'\n', &text[start..]) {
                if let Some(data) = data(&text[start..start + length]) {
                    heard.send(Ok(data.to_vec()))?;
                }
                start += length + 1;
            }
            text.drain(..start);
        }
        Ok(())
    }

    async fn head(&mut self) -> Result<String, Failed> {
        let length = self.until(b"\r\n\r\n").await?;
        let head = self.take(length).await?;
        Ok(String::from_utf8(head)?)
    }

    /// The next piece of a body; none at its end.
    async fn chunk(&mut self) -> Result<Option<Vec<u8>>, Failed> {
        let line = self.until(b"\r\n").await?;
        let line = String::from_utf8(self.take(line).await?)?;
        let length = usize::from_str_radix(line.split(';').next().unwrap_or_default().trim(), 16)?;
        let chunk = self.take(length).await?;
        self.take(2).await?;
        Ok((length > 0).then_some(chunk))
    }

    /// Reads until `mark` is there; how many bytes there are up to its end.
    async fn until(&mut self, mark: &[u8]) -> Result<usize, Failed> {
        loop {
            match memchr::memmem::find(&self.input, mark) {
                Some(at) => return Ok(at + mark.len()),
                None => self.read().await?,
            }
        }
    }

    async fn take(&mut self, length: usize) -> Result<Vec<u8>, Failed> {
        while self.input.len() < length {
            self.read().await?;
        }
        let rest = self.input.split_off(length);
        Ok(std::mem::replace(&mut self.input, rest))
    }

    async fn read(&mut self) -> Result<(), Failed> {
        match self.socket.read_buf(&mut self.input).await? {
            0 => Err("the connection was closed".into()),
            _ => Ok(()),
        }
    }
}

impl Response {
    fn header(&self, name: &str) -> Option<&str> {
        header(&self.head, name)
    }

    /// The only message in it, as JSON or as an event.
    fn message(&self) -> Result<&[u8], Failed> {
        if self.body.first() == Some(&b'{') {
            return Ok(&self.body);
        }
        let mut messages = self.body.split(|byte| *byte == b'\n').filter_map(data);
        Ok(messages.next().ok_or("a response without a message")?)
    }
}

/// What a line of an event says, if it says something.
fn data(line: &[u8]) -> Option<&[u8]> {
    let said = line.strip_prefix(b"data:")?.trim_ascii();
    (!said.is_empty()).then_some(said)
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut headers = head.lines().filter_map(|line| line.split_once(':'));
    headers.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

fn is_chunked(head: &str) -> bool {
    header(head, "transfer-encoding").is_some_and(|coding| coding.ends_with("chunked"))
}

const ACCEPT: &str = "accept: application/json, text/event-stream\r\n";
