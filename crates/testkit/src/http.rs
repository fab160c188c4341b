//! A server on a real socket, and an HTTP/1.1 client that sends exact bytes and shows exact responses.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a peer of tests fails by panicking"
)]

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tsugite::Server;

/// A server on its own port, until it is stopped or dropped.
pub struct TestServer {
    /// The address it listens on.
    pub address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<tsugite::Result<()>>,
}

impl TestServer {
    /// Starts to serve.
    pub async fn start(server: &Server) -> Self {
        let listener = server.bind_http("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr();
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(listener.serve_until(async move { drop(stopped.await) }));
        Self { address, stop: Some(stop), task }
    }

    /// A new connection.
    pub async fn connect(&self) -> Connection {
        Connection::connect(self.address).await
    }

    /// Sends one request on its own connection and reads the whole response.
    pub async fn send(&self, request: Request) -> Response {
        self.connect().await.send_and_read(request).await
    }

    /// Starts the shutdown without waiting for it.
    pub fn request_stop(&mut self) {
        self.stop = None;
    }

    /// Shuts down and waits until it is done.
    pub async fn stop(mut self) -> tsugite::Result<()> {
        self.stop = None;
        (&mut self.task).await.unwrap()
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The server that a test talks to: its own, or one behind an address.
pub struct HttpTarget {
    address: SocketAddr,
    /// Precedes every path.
    folder: String,
    /// Sent with every request.
    token: Option<String>,
    server: Option<TestServer>,
}

impl HttpTarget {
    /// A server at an address, whose paths begin with `folder`.
    pub fn at(address: SocketAddr, folder: &str) -> Self {
        Self { address, folder: folder.to_owned(), token: None, server: None }
    }

    /// The same server, for requests with a token.
    pub fn with_token(&self, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..Self::at(self.address, &self.folder) }
    }

    /// A new connection.
    pub async fn connect(&self) -> Connection {
        Connection::connect(self.address).await
    }

    /// Moves a request into the folder, and adds the token.
    #[must_use]
    pub fn locate(&self, request: Request) -> Request {
        let path = format!("{}{}", self.folder, request.path);
        let request = request.path(&path);
        match &self.token {
            Some(token) => request.header("Authorization", &format!("Bearer {token}")),
            None => request,
        }
    }

    /// Sends one request on its own connection and reads the whole response.
    pub async fn send(&self, request: Request) -> Response {
        self.connect().await.send_and_read(request).await
    }

    /// Shuts a server of its own down.
    pub async fn stop(self) -> tsugite::Result<()> {
        match self.server {
            Some(server) => server.stop().await,
            None => Ok(()),
        }
    }
}

impl From<TestServer> for HttpTarget {
    fn from(server: TestServer) -> Self {
        Self { address: server.address, folder: String::new(), token: None, server: Some(server) }
    }
}

/// A request with all of its headers except `Content-Length`.
#[derive(Clone, Debug)]
pub struct Request {
    /// The method.
    pub method: String,
    /// The path.
    pub path: String,
    /// The headers.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Request {
    /// A request to `/mcp` with only a `Host` header.
    pub fn new(method: &str) -> Self {
        let headers = vec![("Host".to_owned(), "localhost".to_owned())];
        Self { method: method.to_owned(), path: "/mcp".to_owned(), headers, body: Vec::new() }
    }

    /// A POST of a message with the required headers.
    pub fn post(message: &Value) -> Self {
        Self::new("POST")
            .header("Content-Type", "application/json")
            .header("Accept", "application/json, text/event-stream")
            .body(message.to_string())
    }

    /// A POST of a request of 2026-07-28 with the headers that repeat it. `_meta` is added if it is missing.
    pub fn stateless(mut message: Value) -> Self {
        let method = message["method"].as_str().unwrap_or_default().to_owned();
        let meta = &mut message["params"]["_meta"];
        for (key, value) in [
            ("io.modelcontextprotocol/protocolVersion", Value::from("2026-07-28")),
            ("io.modelcontextprotocol/clientCapabilities", Value::Object(Default::default())),
        ] {
            if meta.get(key).is_none() {
                meta[key] = value;
            }
        }
        let params = &message["params"];
        let name = params.get("name").or_else(|| params.get("uri")).and_then(Value::as_str);
        let named = matches!(method.as_str(), "tools/call" | "prompts/get" | "resources/read");
        let request =
            Self::post(&message).header("MCP-Protocol-Version", "2026-07-28").header("Mcp-Method", &method);
        match name.filter(|_| named) {
            Some(name) => request.header("Mcp-Name", name),
            None => request,
        }
    }

    /// A GET for a stream of a session.
    pub fn get_stream(session: &str) -> Self {
        Self::new("GET").header("Accept", "text/event-stream").session(session)
    }

    /// Adds a session id.
    #[must_use]
    pub fn session(self, id: &str) -> Self {
        self.header("Mcp-Session-Id", id)
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Removes a header.
    #[must_use]
    pub fn without_header(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self
    }

    /// Replaces the value of a header.
    #[must_use]
    pub fn replace_header(self, name: &str, value: &str) -> Self {
        self.without_header(name).header(name, value)
    }

    /// Replaces the body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Replaces the path.
    #[must_use]
    pub fn path(mut self, path: &str) -> Self {
        self.path = path.to_owned();
        self
    }

    /// The bytes as they are sent.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.path);
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !self.body.is_empty() || self.method == "POST" {
            head.push_str(&format!("Content-Length: {}\r\n", self.body.len()));
        }
        head.push_str("\r\n");
        [head.into_bytes(), self.body.clone()].concat()
    }
}

/// A response. The body is empty until it is read.
#[derive(Clone, Debug)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: String,
}

impl Response {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The code of the error in the body.
    pub fn error_code(&self) -> Option<i64> {
        self.json()["error"]["code"].as_i64()
    }

    /// The events of a body that was a stream.
    pub fn events(&self) -> Vec<SseEvent> {
        self.body.split("\n\n").filter(|text| !text.is_empty()).filter_map(SseEvent::parse).collect()
    }
}

/// One event of a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct SseEvent {
    /// Its id.
    pub id: Option<String>,
    /// Its type.
    pub event: Option<String>,
    /// The reconnection time in milliseconds.
    pub retry: Option<u64>,
    /// Its data.
    pub data: String,
}

impl SseEvent {
    /// Parses an event; `None` for a comment.
    fn parse(text: &str) -> Option<Self> {
        let mut parsed = Self { id: None, event: None, retry: None, data: String::new() };
        let mut fields = 0;
        for line in text.lines() {
            let Some((field, value)) = line.split_once(':') else { continue };
            let value = value.strip_prefix(' ').unwrap_or(value).to_owned();
            fields += usize::from(!field.is_empty());
            match field {
                "id" => parsed.id = Some(value),
                "event" => parsed.event = Some(value),
                "retry" => parsed.retry = value.parse().ok(),
                "data" => parsed.data = value,
                _ => {}
            }
        }
        (fields > 0).then_some(parsed)
    }

    /// The data as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// A connection: one request at a time, then its body.
pub struct Connection {
    socket: BufReader<TcpStream>,
    remaining: BodyRemaining,
    /// Bytes of a stream that were read and not consumed yet.
    buffer: String,
}

/// The remaining part of a body.
#[derive(Clone, Copy, Debug, PartialEq)]
enum BodyRemaining {
    Length(usize),
    Chunks,
    End,
}

impl Connection {
    /// Connects.
    pub async fn connect(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).await.unwrap();
        socket.set_nodelay(true).unwrap();
        Self { socket: BufReader::new(socket), remaining: BodyRemaining::End, buffer: String::new() }
    }

    /// Connects from one of the addresses of the loopback interface.
    pub async fn connect_from(source: [u8; 4], address: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from((source, 0))).unwrap();
        let socket = socket.connect(address).await.unwrap();
        socket.set_nodelay(true).unwrap();
        Self { socket: BufReader::new(socket), remaining: BodyRemaining::End, buffer: String::new() }
    }

    /// The socket, for sending raw bytes.
    pub fn socket(&mut self) -> &mut TcpStream {
        self.socket.get_mut()
    }

    /// Sends a request and reads the head of the response.
    pub async fn send(&mut self, request: Request) -> Response {
        self.write_request(&request).await;
        self.read_head().await.unwrap_or_else(|| panic!("no response to {request:?}"))
    }

    /// Sends a request and reads the whole response.
    pub async fn send_and_read(&mut self, request: Request) -> Response {
        let mut response = self.send(request).await;
        response.body = self.read_body().await;
        response
    }

    /// Sends a request and reads nothing.
    pub async fn write_request(&mut self, request: &Request) {
        self.socket.get_mut().write_all(&request.to_bytes()).await.unwrap();
    }

    /// The head of a response; `None` if the connection ended instead.
    pub async fn read_head(&mut self) -> Option<Response> {
        let mut status = String::new();
        if self.socket.read_line(&mut status).await.ok()? == 0 {
            return None;
        }
        let status = status.split(' ').nth(1)?.parse().ok()?;
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            self.socket.read_line(&mut line).await.ok()?;
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            headers.push((name.to_owned(), value.to_owned()));
        }
        let response = Response { status, headers, body: String::new() };
        self.remaining = match response.header("content-length").and_then(|length| length.parse().ok()) {
            Some(length) => BodyRemaining::Length(length),
            None if response.header("transfer-encoding").is_some() => BodyRemaining::Chunks,
            None => BodyRemaining::End,
        };
        self.buffer.clear();
        Some(response)
    }

    /// The whole body.
    pub async fn read_body(&mut self) -> String {
        while self.read_more().await {}
        std::mem::take(&mut self.buffer)
    }

    /// Reads `length` bytes of a body with a `Content-Length`.
    pub async fn read_part(&mut self, length: usize) -> Vec<u8> {
        let BodyRemaining::Length(left) = &mut self.remaining else {
            panic!("the body has no Content-Length")
        };
        *left -= length;
        let mut bytes = vec![0; length];
        self.socket.read_exact(&mut bytes).await.unwrap();
        bytes
    }

    /// The next event of a stream, comments left out; `None` if the stream ended.
    pub async fn next_event(&mut self) -> Option<SseEvent> {
        loop {
            if let Some((text, rest)) = self.buffer.split_once("\n\n") {
                let (event, rest) = (SseEvent::parse(text), rest.to_owned());
                self.buffer = rest;
                match event {
                    Some(event) => return Some(event),
                    None => continue,
                }
            }
            if !self.read_more().await {
                return None;
            }
        }
    }

    /// The next event that has data.
    pub async fn next_message(&mut self) -> Option<Value> {
        loop {
            let event = self.next_event().await?;
            if !event.data.is_empty() {
                return Some(event.json());
            }
        }
    }

    /// Reads more bytes; false at the end of the body.
    async fn read_more(&mut self) -> bool {
        match self.remaining {
            BodyRemaining::End => false,
            BodyRemaining::Length(0) => {
                self.remaining = BodyRemaining::End;
                false
            }
            BodyRemaining::Length(length) => {
                let mut bytes = vec![0; length];
                let whole = self.socket.read_exact(&mut bytes).await.is_ok();
                self.buffer.push_str(&String::from_utf8_lossy(&bytes));
                self.remaining = BodyRemaining::End;
                whole
            }
            BodyRemaining::Chunks => {
                let mut length = String::new();
                let read = self.socket.read_line(&mut length).await.unwrap_or(0);
                let length = usize::from_str_radix(length.trim(), 16).unwrap_or(0);
                let mut bytes = vec![0; length + 2];
                if read == 0 || self.socket.read_exact(&mut bytes).await.is_err() || length == 0 {
                    self.remaining = BodyRemaining::End;
                    return false;
                }
                bytes.truncate(length);
                self.buffer.push_str(&String::from_utf8_lossy(&bytes));
                true
            }
        }
    }
}

/// An `initialize` request.
pub fn initialize_request(revision: &str, capabilities: Value) -> Value {
    let client = serde_json::json!({"name": "testkit", "version": "1.0.0"});
    let params =
        serde_json::json!({"protocolVersion": revision, "capabilities": capabilities, "clientInfo": client});
    serde_json::json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
}

/// Opens a session, completes its handshake, and returns its id.
pub async fn open_session(serving: &TestServer, revision: &str, capabilities: Value) -> String {
    let opened = serving.send(Request::post(&initialize_request(revision, capabilities))).await;
    assert_eq!(opened.status, 200, "{opened:?}");
    let id = opened.header("mcp-session-id").unwrap_or_else(|| panic!("no session: {opened:?}")).to_owned();
    let ready = serde_json::json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let accepted = serving.send(Request::post(&ready).session(&id)).await;
    assert_eq!(accepted.status, 202, "{accepted:?}");
    id
}
