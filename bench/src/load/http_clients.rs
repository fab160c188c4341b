//! The clients over HTTP: sockets, and as much of HTTP/1.1 as it takes to find the end of a response.
//!
//! [`StreamableHttpClient`] gets the result of a call in the HTTP response. [`HttpSseClient`] gets it on a stream that
//! was opened before. Each call in flight has a connection of its own.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::BurstClient;
use crate::bare_hyper::{INITIALIZE, INITIALIZED, read_response, write_call};
use crate::worker::call_text;
use crate::{BoxError, Era};

/// A client over Streamable HTTP.
pub(crate) struct StreamableHttpClient {
    runtime: Runtime,
    address: ServerAddress,
    headers: String,
    era: Era,
    /// The idle connections.
    idle: Vec<SocketConnection>,
}

impl StreamableHttpClient {
    /// Connects to the server at `url` and initializes a session.
    pub(crate) fn open(url: &str) -> Result<Self, BoxError> {
        let (runtime, at) = (runtime()?, ServerAddress::parse(url)?);
        let (first, headers) = runtime.block_on(async {
            let mut first = SocketConnection::open(&at).await?;
            let headers = first.initialize(&at.path).await?;
            Ok::<_, BoxError>((first, headers))
        })?;
        Ok(Self { runtime, address: at, headers, era: Era::Handshake, idle: vec![first] })
    }

    /// Makes calls without a session.
    pub(crate) fn stateless(url: &str) -> Result<Self, BoxError> {
        let (runtime, at) = (runtime()?, ServerAddress::parse(url)?);
        Ok(Self {
            runtime,
            address: at,
            headers: stateless_headers("echo"),
            era: Era::Stateless,
            idle: Vec::new(),
        })
    }

    /// Initializes sessions that stay open. They are not used for calls.
    pub(crate) fn open_sessions(&mut self, sessions: usize) -> Result<(), BoxError> {
        let Self { runtime, address: at, .. } = self;
        runtime.block_on(async {
            let mut connection = SocketConnection::open(at).await?;
            for _ in 0..sessions {
                let headers = connection.initialize(&at.path).await?;
                if !headers.contains(SESSION_HEADER) {
                    return Err("no session was opened".into());
                }
            }
            Ok(())
        })
    }
}

impl StreamableHttpClient {
    /// The same with several connections at a time, for stores that write sessions together.
    pub(crate) fn open_sessions_at_once(&mut self, sessions: usize, window: usize) -> Result<(), BoxError> {
        let Self { runtime, address: at, .. } = self;
        runtime.block_on(async {
            let mut lanes = JoinSet::new();
            for lane in 0..window.min(sessions) {
                let mut connection = SocketConnection::open(at).await?;
                let path = at.path.clone();
                lanes.spawn(async move {
                    for _ in (lane..sessions).step_by(window) {
                        connection.initialize(&path).await?;
                    }
                    Ok::<_, BoxError>(())
                });
            }
            while let Some(lane) = lanes.join_next().await {
                lane??;
            }
            Ok(())
        })
    }
}

impl BurstClient for StreamableHttpClient {
    fn drop_idle(&mut self) {
        self.idle.clear();
    }

    fn burst(&mut self, calls: usize, window: usize) -> Result<Vec<Duration>, BoxError> {
        let Self { runtime, address: at, headers, era, idle } = self;
        let era = *era;
        runtime.block_on(async {
            let mut lanes = JoinSet::new();
            for lane in 0..window {
                let mut connection = match idle.pop() {
                    Some(connection) => connection,
                    None => SocketConnection::open(at).await?,
                };
                let (path, headers) = (at.path.clone(), headers.clone());
                lanes.spawn(async move {
                    let mut each = Vec::new();
                    for number in (lane..calls).step_by(window) {
                        let asked = Instant::now();
                        let answer = connection.post(&path, &headers, &call_body(number, era)?).await?;
                        check_response(answer.message()?, number)?;
                        each.push(asked.elapsed());
                    }
                    Ok::<_, BoxError>((connection, each))
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

/// A client over HTTP+SSE.
pub(crate) struct HttpSseClient {
    runtime: Runtime,
    address: ServerAddress,
    /// The messages of the stream.
    messages: mpsc::UnboundedReceiver<Result<Vec<u8>, BoxError>>,
    idle: Vec<SocketConnection>,
}

impl HttpSseClient {
    /// Opens the stream at `url` and initializes a session.
    pub(crate) fn open(url: &str) -> Result<Self, BoxError> {
        let (runtime, mut at) = (runtime()?, ServerAddress::parse(url)?);
        let (hearing, mut heard) = mpsc::unbounded_channel();
        let first = runtime.block_on(async {
            let stream = SocketConnection::open(&at).await?;
            tokio::spawn(stream.forward_events(at.path.clone(), hearing));
            let endpoint = next_message(&mut heard).await?;
            let endpoint = String::from_utf8(endpoint)?;
            at.path = match endpoint
                .strip_prefix("http://")
                .and_then(|rest| rest.find('/').map(|at| &rest[at..]))
            {
                Some(path) => path.to_owned(),
                None => endpoint,
            };
            let mut first = SocketConnection::open(&at).await?;
            first.post(&at.path, ACCEPT, INITIALIZE.as_bytes()).await?;
            next_message(&mut heard).await?;
            first.post(&at.path, ACCEPT, INITIALIZED.as_bytes()).await?;
            Ok::<_, BoxError>(first)
        })?;
        Ok(Self { runtime, address: at, messages: heard, idle: vec![first] })
    }
}

async fn next_message(
    heard: &mut mpsc::UnboundedReceiver<Result<Vec<u8>, BoxError>>,
) -> Result<Vec<u8>, BoxError> {
    heard.recv().await.ok_or("the stream has ended")?
}

impl BurstClient for HttpSseClient {
    fn drop_idle(&mut self) {
        self.idle.clear();
    }

    fn burst(&mut self, calls: usize, window: usize) -> Result<Vec<Duration>, BoxError> {
        let Self { runtime, address: at, messages: heard, idle } = self;
        runtime.block_on(async {
            let mut lanes = JoinSet::new();
            let mut answered = Vec::with_capacity(window);
            for lane in 0..window {
                let mut connection = match idle.pop() {
                    Some(connection) => connection,
                    None => SocketConnection::open(at).await?,
                };
                let path = at.path.clone();
                let (told, mut answers) = mpsc::unbounded_channel::<Instant>();
                answered.push(told);
                lanes.spawn(async move {
                    let mut each = Vec::new();
                    for number in (lane..calls).step_by(window) {
                        let asked = Instant::now();
                        connection.post(&path, ACCEPT, &call_body(number, Era::Handshake)?).await?;
                        each.push(answers.recv().await.ok_or("no answer")? - asked);
                    }
                    Ok::<_, BoxError>((connection, each))
                });
            }
            let hearing = async {
                for _ in 0..calls {
                    let message = next_message(heard).await?;
                    let number = usize::try_from(read_response(&message)?.0)?;
                    check_response(&message, number)?;
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
                Ok::<_, BoxError>(())
            };
            tokio::try_join!(hearing, asking)?;
            Ok(each)
        })
    }
}

fn runtime() -> Result<Runtime, BoxError> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

pub(crate) fn call_body(number: usize, era: Era) -> Result<Vec<u8>, BoxError> {
    let mut bytes = Vec::with_capacity(384);
    write_call(&mut bytes, number as u64, &call_text(number), era)?;
    Ok(bytes)
}

pub(crate) fn check_response(message: &[u8], number: usize) -> Result<(), BoxError> {
    let (id, echoed) = read_response(message)?;
    match id == number as u64 && echoed == call_text(number) {
        true => Ok(()),
        false => Err(format!("{echoed:?} came back for call {number}").into()),
    }
}

/// The address of a server.
pub(crate) struct ServerAddress {
    host: String,
    pub(crate) path: String,
    /// The address that connections come from, if it is not up to the system.
    source: Option<IpAddr>,
}

impl ServerAddress {
    pub(crate) fn parse(url: &str) -> Result<Self, BoxError> {
        let rest = url.strip_prefix("http://").ok_or("what URL is this?")?;
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        Ok(Self { host: host.to_owned(), path: path.to_owned(), source: None })
    }

    /// Sets the address that connections come from.
    pub(crate) fn with_source(self, source: IpAddr) -> Self {
        Self { source: Some(source), ..self }
    }
}

pub(crate) struct SocketConnection {
    socket: TcpStream,
    host: String,
    /// Bytes that were read and not consumed yet.
    input: Vec<u8>,
}

/// A complete response.
pub(crate) struct Response {
    head: String,
    body: Vec<u8>,
}

impl SocketConnection {
    pub(crate) async fn open(at: &ServerAddress) -> Result<Self, BoxError> {
        let socket = match at.source {
            Some(source) => {
                let socket = TcpSocket::new_v4()?;
                socket.bind(SocketAddr::new(source, 0))?;
                socket.connect(at.host.parse()?).await?
            }
            None => TcpStream::connect(&at.host).await?,
        };
        socket.set_nodelay(true)?;
        Ok(Self { socket, host: at.host.clone(), input: Vec::new() })
    }

    /// Initializes a session, and returns the headers of its requests.
    async fn initialize(&mut self, path: &str) -> Result<String, BoxError> {
        let mut headers = ACCEPT.to_owned();
        let response = self.post(path, &headers, INITIALIZE.as_bytes()).await?;
        if let Some(session) = response.header(SESSION_HEADER) {
            headers.push_str(&format!("{SESSION_HEADER}: {session}\r\n"));
        }
        headers.push_str("mcp-protocol-version: 2025-11-25\r\n");
        self.post(path, &headers, INITIALIZED.as_bytes()).await?;
        Ok(headers)
    }

    pub(crate) async fn post(
        &mut self,
        path: &str,
        headers: &str,
        body: &[u8],
    ) -> Result<Response, BoxError> {
        let response = self.exchange(path, headers, body).await?;
        match response.status() {
            Some(status) if status.starts_with('2') => Ok(response),
            _ => {
                let said = String::from_utf8_lossy(&response.body);
                Err(format!("{} {said}", response.head.lines().next().unwrap_or_default()).into())
            }
        }
    }

    /// Posts a message, and returns the response whatever its status.
    pub(crate) async fn exchange(
        &mut self,
        path: &str,
        headers: &str,
        body: &[u8],
    ) -> Result<Response, BoxError> {
        let (host, length) = (&self.host, body.len());
        let mut out = format!(
            "POST {path} HTTP/1.1\r\nhost: {host}\r\n{headers}content-type: application/json\r\ncontent-length: {length}\r\n\r\n"
        )
        .into_bytes();
        out.extend_from_slice(body);
        self.socket.write_all(&out).await?;
        let head = self.read_head().await?;
        let mut body = Vec::new();
        if is_chunked(&head) {
            while let Some(chunk) = self.read_chunk().await? {
                body.extend_from_slice(&chunk);
            }
        } else {
            let length = header(&head, "content-length").map_or(Ok(0), str::parse)?;
            body = self.read_exact(length).await?;
        }
        Ok(Response { head, body })
    }

    /// Reads events until the stream ends.
    async fn forward_events(mut self, path: String, heard: mpsc::UnboundedSender<Result<Vec<u8>, BoxError>>) {
        let failed =
            self.read_events(&path, &heard).await.err().unwrap_or_else(|| "the stream has ended".into());
        let _ = heard.send(Err(failed));
    }

    async fn read_events(
        &mut self,
        path: &str,
        heard: &mpsc::UnboundedSender<Result<Vec<u8>, BoxError>>,
    ) -> Result<(), BoxError> {
        let host = &self.host;
        let out = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\naccept: text/event-stream\r\n\r\n");
        self.socket.write_all(out.as_bytes()).await?;
        let head = self.read_head().await?;
        if !is_chunked(&head) {
            return Err(format!("no stream was opened: {head}").into());
        }
        let mut text = Vec::new();
        while let Some(chunk) = self.read_chunk().await? {
            text.extend_from_slice(&chunk);
            let mut start = 0;
            while let Some(length) = memchr::memchr(b'\n', &text[start..]) {
                if let Some(data) = event_data(&text[start..start + length]) {
                    heard.send(Ok(data.to_vec()))?;
                }
                start += length + 1;
            }
            text.drain(..start);
        }
        Ok(())
    }

    async fn read_head(&mut self) -> Result<String, BoxError> {
        let length = self.read_until(b"\r\n\r\n").await?;
        let head = self.read_exact(length).await?;
        Ok(String::from_utf8(head)?)
    }

    /// Reads the next chunk of a body; none at its end.
    async fn read_chunk(&mut self) -> Result<Option<Vec<u8>>, BoxError> {
        let line = self.read_until(b"\r\n").await?;
        let line = String::from_utf8(self.read_exact(line).await?)?;
        let length = usize::from_str_radix(line.split(';').next().unwrap_or_default().trim(), 16)?;
        let chunk = self.read_exact(length).await?;
        self.read_exact(2).await?;
        Ok((length > 0).then_some(chunk))
    }

    /// Reads until `mark` has arrived. Returns the number of bytes up to its end.
    async fn read_until(&mut self, mark: &[u8]) -> Result<usize, BoxError> {
        loop {
            match memchr::memmem::find(&self.input, mark) {
                Some(at) => return Ok(at + mark.len()),
                None => self.fill_buffer().await?,
            }
        }
    }

    async fn read_exact(&mut self, length: usize) -> Result<Vec<u8>, BoxError> {
        while self.input.len() < length {
            self.fill_buffer().await?;
        }
        let rest = self.input.split_off(length);
        Ok(std::mem::replace(&mut self.input, rest))
    }

    async fn fill_buffer(&mut self) -> Result<(), BoxError> {
        match self.socket.read_buf(&mut self.input).await? {
            0 => Err("the connection was closed".into()),
            _ => Ok(()),
        }
    }
}

impl Response {
    pub(crate) fn status(&self) -> Option<&str> {
        self.head.split(' ').nth(1)
    }

    fn header(&self, name: &str) -> Option<&str> {
        header(&self.head, name)
    }

    /// The single message in the body, as JSON or as an event.
    pub(crate) fn message(&self) -> Result<&[u8], BoxError> {
        if self.body.first() == Some(&b'{') {
            return Ok(&self.body);
        }
        let mut messages = self.body.split(|byte| *byte == b'\n').filter_map(event_data);
        Ok(messages.next().ok_or("a response without a message")?)
    }
}

/// The data of a line of an event, if it has any.
fn event_data(line: &[u8]) -> Option<&[u8]> {
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

/// The headers of a stateless call of `tool`.
pub(crate) fn stateless_headers(tool: &str) -> String {
    let revision = Era::Stateless.revision();
    format!("{ACCEPT}mcp-protocol-version: {revision}\r\nmcp-method: tools/call\r\nmcp-name: {tool}\r\n")
}

const SESSION_HEADER: &str = "mcp-session-id";
const ACCEPT: &str = "accept: application/json, text/event-stream\r\n";
