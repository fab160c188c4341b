//! Servers that write HTTP by hand, on their own threads.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::runtime::Handle;
use tsugite::client::{Client, ClientBuilder};
use tsugite::prelude::Revision;

use super::{HANDSHAKE, until};

/// A server that handles each request with a closure.
pub(crate) struct Raw {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<ReceivedRequest>>>,
    /// The number of closed connections.
    ended: Arc<AtomicUsize>,
}

/// One request as it was received.
#[derive(Debug, Clone)]
pub(crate) struct ReceivedRequest {
    /// The HTTP method.
    pub(crate) verb: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Value,
    /// The number of its connection, from 0.
    pub(crate) connection: usize,
}

impl ReceivedRequest {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The JSON-RPC method.
    pub(crate) fn method(&self) -> &str {
        self.body["method"].as_str().unwrap_or_default()
    }

    pub(crate) fn is_call(&self) -> bool {
        self.method() == "tools/call"
    }

    pub(crate) fn id(&self) -> i64 {
        self.body["id"].as_i64().unwrap_or_default()
    }

    /// A response to a tool call.
    pub(crate) fn answer(&self, text: &str) -> Value {
        let result = json!({"content": [{"type": "text", "text": text}], "resultType": "complete"});
        self.result(result)
    }

    pub(crate) fn result(&self, result: Value) -> Value {
        json!({"jsonrpc": "2.0", "id": self.body["id"], "result": result})
    }
}

/// The next state of the connection.
pub(crate) enum AfterResponse {
    /// It stays open for the next request.
    Keep,
    Close,
    /// It is reset.
    Reset,
}

impl Raw {
    /// Serves until the process ends, with a thread for each connection.
    pub(crate) fn start(
        serve: impl Fn(&ReceivedRequest, &mut ResponseWriter) -> AfterResponse + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let ended = Arc::new(AtomicUsize::new(0));
        let (serve, known, over) = (Arc::new(serve), Arc::clone(&seen), Arc::clone(&ended));
        let (count, runtime) = (AtomicUsize::new(0), Handle::current());
        std::thread::spawn(move || {
            for socket in listener.incoming() {
                let (serve, seen) = (Arc::clone(&serve), Arc::clone(&known));
                let connection = count.fetch_add(1, Ordering::Relaxed);
                let (runtime, ended) = (runtime.clone(), Arc::clone(&over));
                std::thread::spawn(move || {
                    // A disconnected client is not an error of the server.
                    let _ = serve_connection(socket.unwrap(), connection, &seen, &runtime, &*serve);
                    ended.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        Self { address, seen, ended }
    }

    /// The same for a single connection: every later one is refused.
    pub(crate) fn once(
        serve: impl Fn(&ReceivedRequest, &mut ResponseWriter) -> AfterResponse + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let ended = Arc::new(AtomicUsize::new(0));
        let (known, over, runtime) = (Arc::clone(&seen), Arc::clone(&ended), Handle::current());
        std::thread::spawn(move || {
            let (socket, _) = listener.accept().unwrap();
            drop(listener);
            let _ = serve_connection(socket, 0, &known, &runtime, &serve);
            over.fetch_add(1, Ordering::SeqCst);
        });
        Self { address, seen, ended }
    }

    /// The same, but only calls reach the closure; all other requests are answered as by an ordinary server.
    pub(crate) fn after_handshake(
        serve: impl Fn(&ReceivedRequest, &mut ResponseWriter) -> AfterResponse + Send + Sync + 'static,
    ) -> Self {
        Self::start(move |request, writer| match answer_handshake(request, writer) {
            Some(then) => then,
            None => serve(request, writer),
        })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// A client with a handshake.
    pub(crate) fn client(&self) -> ClientBuilder {
        Client::connect(self.url()).revision(HANDSHAKE)
    }

    /// A stateless client.
    pub(crate) fn stateless_client(&self) -> ClientBuilder {
        Client::connect(self.url()).revision(Revision::NEWEST)
    }

    pub(crate) fn requests(&self) -> Vec<ReceivedRequest> {
        self.seen.lock().unwrap().clone()
    }

    /// The number of requests that match.
    pub(crate) fn count(&self, is_it: impl Fn(&ReceivedRequest) -> bool) -> usize {
        self.seen.lock().unwrap().iter().filter(|request| is_it(request)).count()
    }

    /// The number of tool calls.
    pub(crate) fn calls(&self) -> usize {
        self.count(ReceivedRequest::is_call)
    }

    /// Waits until this many connections are closed, and the client had several turns to notice.
    pub(crate) async fn wait_for_closed(&self, count: usize) {
        until(|| self.ended.load(Ordering::SeqCst) >= count).await;
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    }

    /// Waits until this many requests match.
    pub(crate) async fn wait_for_requests(&self, count: usize, is_it: impl Fn(&ReceivedRequest) -> bool) {
        until(|| self.count(&is_it) >= count).await;
    }
}

/// Answers everything except calls like an ordinary server of 2025-11-25: no GET stream, one session.
pub(crate) fn answer_handshake(
    request: &ReceivedRequest,
    writer: &mut ResponseWriter,
) -> Option<AfterResponse> {
    match (request.verb.as_str(), request.method()) {
        ("POST", "initialize") => writer.json_with("mcp-session-id: one\r\n", &welcome(request)),
        ("POST", "notifications/initialized" | "notifications/cancelled") => writer.status(202, "", ""),
        ("POST", "") => writer.status(202, "", ""),
        ("GET", _) => writer.status(405, "", ""),
        ("DELETE", _) => writer.status(200, "", ""),
        _ => return None,
    }
    Some(AfterResponse::Keep)
}

pub(crate) fn welcome(request: &ReceivedRequest) -> Value {
    request.result(json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "s", "version": "1"},
    }))
}

fn serve_connection(
    socket: TcpStream,
    connection: usize,
    seen: &Mutex<Vec<ReceivedRequest>>,
    runtime: &Handle,
    serve: &(dyn Fn(&ReceivedRequest, &mut ResponseWriter) -> AfterResponse + Send + Sync),
) -> std::io::Result<()> {
    socket.set_nodelay(true)?;
    let mut reader = BufReader::new(socket.try_clone()?);
    let mut writer = ResponseWriter { socket, broken: false };
    while let Some(request) = read(&mut reader, connection)? {
        seen.lock().unwrap().push(request.clone());
        match serve(&request, &mut writer) {
            AfterResponse::Keep if !writer.broken => {}
            AfterResponse::Keep | AfterResponse::Close => break,
            AfterResponse::Reset => {
                let _runtime = runtime.enter();
                writer.socket.set_nonblocking(true)?;
                tokio::net::TcpStream::from_std(writer.socket)?.set_zero_linger()?;
                return Ok(());
            }
        }
    }
    let _ = writer.socket.shutdown(Shutdown::Both);
    Ok(())
}

fn read(reader: &mut BufReader<TcpStream>, connection: usize) -> std::io::Result<Option<ReceivedRequest>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace();
    let (verb, path) =
        (words.next().unwrap_or_default().to_owned(), words.next().unwrap_or_default().to_owned());
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let mut body = vec![0; length.map_or(0, |(_, length)| length.parse().unwrap())];
    reader.read_exact(&mut body)?;
    let body = if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).unwrap() };
    Ok(Some(ReceivedRequest { verb, path, headers, body, connection }))
}

/// The writing half of a connection to the client.
pub(crate) struct ResponseWriter {
    socket: TcpStream,
    broken: bool,
}

impl ResponseWriter {
    /// Writes bytes. Returns false once the client has closed the connection.
    pub(crate) fn write(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.broken |= self.socket.write_all(bytes.as_ref()).is_err();
        !self.broken
    }

    /// Writes the same bytes until the client closes the connection.
    pub(crate) fn repeat_until_closed(&mut self, bytes: impl AsRef<[u8]>) -> AfterResponse {
        while self.write(bytes.as_ref()) {}
        AfterResponse::Close
    }

    pub(crate) fn status(&mut self, status: u16, headers: &str, body: &str) {
        let length = body.len();
        self.write(format!("HTTP/1.1 {status} X\r\n{headers}content-length: {length}\r\n\r\n{body}"));
    }

    pub(crate) fn json(&mut self, message: &Value) {
        self.json_with("", message);
    }

    pub(crate) fn json_with(&mut self, headers: &str, message: &Value) {
        self.status(200, &format!("content-type: application/json\r\n{headers}"), &message.to_string());
    }

    /// Starts a stream of events that ends with the connection.
    pub(crate) fn stream(&mut self) {
        self.write("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n");
    }

    pub(crate) fn event(&mut self, id: Option<&str>, message: &Value) -> bool {
        let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
        self.write(format!("{id}data: {message}\n\n"))
    }

    /// Waits until the client closes the connection; it must send nothing else on it.
    pub(crate) fn closed(&mut self) {
        let mut rest = [0; 64];
        while !matches!(self.socket.read(&mut rest), Ok(0) | Err(_)) {}
    }
}
