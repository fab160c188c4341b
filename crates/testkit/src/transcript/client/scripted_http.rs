//! A scripted server on a socket: it receives POSTs in the order they arrive, and sends messages of the script on the
//! stream that the specification requires.
//!
//! An answer goes to the POST that asked, as JSON, or as an event if something was said on its stream before or all
//! answers are events in this run. Progress goes to the stream of the request with its token, what belongs to a
//! subscription to that of the subscription, anything else to the last request that is open or else to the stream a
//! client has opened with GET. The headers that each revision wants are checked with every request.

use std::collections::VecDeque;
use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tsugite_core::revision::Revision;
use tsugite_core::session::header;

use super::matching::META_PROTOCOL_VERSION;
use super::scripted_server::{ClientAction, Headers};
use crate::transcript::has_version_header;

/// A server on a socket.
pub(super) struct ScriptedHttpServer {
    pub(super) address: SocketAddr,
    accept_task: JoinHandle<()>,
    incoming: mpsc::UnboundedReceiver<ConnectionEvent>,
    /// Whether every response is an event.
    sse_responses: bool,
    /// Whether it serves only HTTP+SSE.
    http_sse_only: bool,
    session_count: usize,
    session: Option<String>,
    revision: Option<Revision>,
    open_requests: Vec<OpenRequest>,
    get_stream: Option<ResponseWriter>,
    /// The received actions that were not consumed yet.
    received: VecDeque<Result<ClientAction, String>>,
}

/// A request of the client without a response yet.
struct OpenRequest {
    number: usize,
    id: Value,
    token: Option<Value>,
    opens_session: bool,
    is_streaming: bool,
    writer: ResponseWriter,
}

type ResponseWriter = mpsc::UnboundedSender<ResponsePart>;

enum ResponsePart {
    Bytes(String),
    /// The response is complete.
    End,
}

enum ConnectionEvent {
    Request {
        number: usize,
        head: RequestHead,
        body: String,
        writer: ResponseWriter,
    },
    /// The client closed the connection before its response was complete.
    Closed {
        number: usize,
    },
}

#[derive(Debug)]
struct RequestHead {
    method: String,
    path: String,
    headers: Headers,
}

impl ScriptedHttpServer {
    pub(super) async fn bind(events: bool, old: bool) -> Result<Self, String> {
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(|error| error.to_string())?;
        let address = listener.local_addr().map_err(|error| error.to_string())?;
        let (events_to, arriving) = mpsc::unbounded_channel();
        let accepting = tokio::spawn(async move {
            let mut connections = 0;
            while let Ok((socket, _)) = listener.accept().await {
                connections += 1;
                tokio::spawn(serve_connection(socket, connections * 1_000, events_to.clone()));
            }
        });
        Ok(Self {
            address,
            accept_task: accepting,
            incoming: arriving,
            sse_responses: events,
            http_sse_only: old,
            session_count: 0,
            session: None,
            revision: None,
            open_requests: Vec::new(),
            get_stream: None,
            received: VecDeque::new(),
        })
    }

    /// The next action of the client.
    pub(super) async fn next(&mut self) -> Result<ClientAction, String> {
        loop {
            match self.received.pop_front() {
                Some(heard) => return heard,
                None => self.receive_next().await,
            }
        }
    }

    /// Waits for the next event and handles it at once if no script line is needed, such as opening a stream.
    pub(super) async fn receive_next(&mut self) {
        let heard = match self.incoming.recv().await {
            None => Err("the server has stopped".to_owned()),
            Some(ConnectionEvent::Closed { number }) => {
                match self.open_requests.iter().position(|open| open.number == number) {
                    Some(at) => Ok(Some(ClientAction::StreamClosed(self.open_requests.remove(at).id))),
                    None => Ok(None),
                }
            }
            Some(ConnectionEvent::Request { number, head, body, writer }) => {
                self.handle_request(number, head, &body, writer)
            }
        };
        self.received.extend(heard.transpose());
    }

    fn handle_request(
        &mut self,
        number: usize,
        head: RequestHead,
        body: &str,
        writer: ResponseWriter,
    ) -> Result<Option<ClientAction>, String> {
        match head.method.as_str() {
            "POST" if self.http_sse_only && self.get_stream.is_none() => {
                send_response(&writer, "405 Method Not Allowed", "", "");
                Ok(None)
            }
            "POST" => self.handle_post(number, head, body, writer).map(Some),
            "GET" => {
                expect_header_contains(&head.headers, "accept", "text/event-stream")?;
                let resumes = head.headers.get("last-event-id").is_some();
                let _ = writer.send(ResponsePart::Bytes(SSE_RESPONSE_HEAD.to_owned()));
                if self.http_sse_only {
                    let _ = writer
                        .send(ResponsePart::Bytes(encode_chunk("event: endpoint\ndata: /messages?to=1\n\n")));
                } else {
                    self.check_session_headers(&head.headers)?;
                }
                self.get_stream = Some(writer);
                Ok(resumes.then_some(ClientAction::HttpMethod("GET".to_owned(), head.headers)))
            }
            "DELETE" => {
                self.check_session_headers(&head.headers)?;
                send_response(&writer, "200 OK", "", "");
                self.session = None;
                Ok(Some(ClientAction::HttpMethod("DELETE".to_owned(), head.headers)))
            }
            other => Err(format!("unexpected method {other}")),
        }
    }

    fn handle_post(
        &mut self,
        number: usize,
        head: RequestHead,
        body: &str,
        writer: ResponseWriter,
    ) -> Result<ClientAction, String> {
        let message: Value = serde_json::from_str(body).map_err(|error| format!("{error}: {body}"))?;
        expect_header_contains(&head.headers, "content-type", "application/json")?;
        let method = message.get("method").and_then(Value::as_str);
        let id = message.get("id").filter(|_| method.is_some());
        if self.http_sse_only {
            if head.path != "/messages?to=1" {
                return Err(format!("posted to {}", head.path));
            }
            send_response(&writer, "202 Accepted", "", "");
            return Ok(ClientAction::Message(message, head.headers));
        }
        for form in ["application/json", "text/event-stream"] {
            expect_header_contains(&head.headers, "accept", form)?;
        }
        self.check_headers(&message, &head.headers)?;
        match id {
            Some(id) => self.open_requests.push(OpenRequest {
                number,
                id: id.clone(),
                token: message.pointer("/params/_meta/progressToken").cloned(),
                opens_session: method == Some("initialize"),
                is_streaming: false,
                writer,
            }),
            None => send_response(&writer, "202 Accepted", "", ""),
        }
        Ok(ClientAction::Message(message, head.headers))
    }

    /// Checks the headers that repeat a message, as its revision requires.
    fn check_headers(&self, message: &Value, headers: &Headers) -> Result<(), String> {
        let text = |pointer: &str| message.pointer(pointer).and_then(Value::as_str);
        let method = text("/method").unwrap_or_default();
        let claim = message
            .pointer("/params/_meta")
            .and_then(|meta| meta.get(META_PROTOCOL_VERSION))
            .and_then(Value::as_str);
        if let Some(claim) = claim {
            let name = match method {
                "tools/call" | "prompts/get" => text("/params/name"),
                "resources/read" => text("/params/uri"),
                "tasks/get" | "tasks/update" | "tasks/cancel" => text("/params/taskId"),
                _ => None,
            };
            expect_header(headers, "mcp-protocol-version", Some(claim))?;
            expect_header(headers, "mcp-method", Some(method))?;
            expect_header(headers, "mcp-name", name.map(header::encode).as_deref())?;
            return expect_header(headers, "mcp-session-id", None);
        }
        expect_header(headers, "mcp-method", None)?;
        expect_header(headers, "mcp-name", None)?;
        if method == "initialize" {
            return expect_header(headers, "mcp-session-id", None);
        }
        if self.revision.is_none() {
            return Err(format!("posted before a revision was negotiated: {message}"));
        }
        self.check_session_headers(headers)
    }

    fn check_session_headers(&self, headers: &Headers) -> Result<(), String> {
        expect_header(headers, "mcp-session-id", self.session.as_deref())?;
        match self.revision {
            Some(revision)
                if has_version_header(revision) || headers.get("mcp-protocol-version").is_some() =>
            {
                expect_header(headers, "mcp-protocol-version", Some(revision.as_str()))
            }
            _ => Ok(()),
        }
    }

    /// Sends a message, with a status if it is not the usual one.
    pub(super) fn send(&mut self, message: &Value, status: Option<u16>) -> Result<(), String> {
        let first =
            message.as_array().and_then(|all| all.iter().find(|one| is_response(one))).unwrap_or(message);
        if self.http_sse_only || !is_response(first) {
            let writer = self.stream_for(message)?;
            return send_event(&writer, message);
        }
        let asked = self.open_requests.iter().position(|open| Some(&open.id) == first.get("id"));
        let Some(at) = asked else {
            // A response to an unknown request, or one whose stream is closed, goes to any open stream.
            let writer = self.stream_for(message)?;
            return send_event(&writer, message);
        };
        let open = self.open_requests.remove(at);
        let mut session = String::new();
        if open.opens_session
            && let Some(agreed) = first.pointer("/result/protocolVersion").and_then(Value::as_str)
        {
            self.session_count += 1;
            session = format!("session-{}", self.session_count);
            self.session = Some(session.clone());
            self.revision = agreed.parse().ok();
            session = format!("Mcp-Session-Id: {session}\r\n");
        }
        if open.is_streaming || (self.sse_responses && status.is_none()) {
            if !open.is_streaming {
                let _ = open.writer.send(ResponsePart::Bytes(SSE_RESPONSE_HEAD.replacen(
                    "\r\n",
                    &format!("\r\n{session}"),
                    1,
                )));
            }
            send_event(&open.writer, message)?;
            let _ = open.writer.send(ResponsePart::Bytes("0\r\n\r\n".to_owned()));
            let _ = open.writer.send(ResponsePart::End);
        } else {
            let status = format!("{} Whatever", status.unwrap_or(200));
            let extra = format!("{session}Content-Type: application/json\r\n");
            send_response(&open.writer, &status, &extra, &message.to_string());
        }
        Ok(())
    }

    /// Answers the oldest pending request with only a status.
    pub(super) fn reject(&mut self, status: u16) -> Result<(), String> {
        if self.open_requests.is_empty() {
            return Err("nothing was asked".to_owned());
        }
        let open = self.open_requests.remove(0);
        if status == 404 {
            self.session = None;
            self.revision = None;
            self.get_stream = None;
        }
        send_response(&open.writer, &format!("{status} Whatever"), "", "");
        Ok(())
    }

    /// Sends an event without a message on the stream of the last request.
    pub(super) fn send_priming_event(&mut self, id: &str, retry: &str) -> Result<(), String> {
        let writer = self.stream_for(&Value::Null)?;
        let text = format!("id: {id}\nretry: {retry}\ndata: \n\n");
        writer.send(ResponsePart::Bytes(encode_chunk(&text))).map_err(|_| "the stream is closed".to_owned())
    }

    /// Breaks every stream.
    pub(super) fn end_streams(&mut self) {
        for open in self.open_requests.drain(..) {
            if open.is_streaming {
                let _ = open.writer.send(ResponsePart::Bytes("0\r\n\r\n".to_owned()));
            }
            let _ = open.writer.send(ResponsePart::End);
        }
    }

    fn stream_for(&mut self, message: &Value) -> Result<ResponseWriter, String> {
        let token = message.pointer("/params/progressToken");
        let subscription = message
            .pointer("/params/_meta")
            .and_then(|meta| meta.get("io.modelcontextprotocol/subscriptionId"));
        let found = self.open_requests.iter_mut().rev().find(|open| match (token, subscription) {
            (Some(token), _) => open.token.as_ref() == Some(token),
            (_, Some(subscription)) => open.id == *subscription,
            _ => true,
        });
        match (found, &self.get_stream) {
            (Some(open), _) if !self.http_sse_only => {
                if !std::mem::replace(&mut open.is_streaming, true) {
                    let _ = open.writer.send(ResponsePart::Bytes(SSE_RESPONSE_HEAD.to_owned()));
                }
                Ok(open.writer.clone())
            }
            (_, Some(stream)) => Ok(stream.clone()),
            _ => Err(format!("there is no stream for {message}")),
        }
    }

    pub(super) fn has_session(&self) -> bool {
        self.session.is_some()
    }
}

impl Drop for ScriptedHttpServer {
    fn drop(&mut self) {
        self.accept_task.abort();
    }
}

fn is_response(message: &Value) -> bool {
    message.get("method").is_none() && message.get("id").is_some()
}

fn expect_header(headers: &Headers, name: &str, value: Option<&str>) -> Result<(), String> {
    let heard = headers.get(name);
    match heard == value {
        true => Ok(()),
        false => Err(format!("the header {name} should be {value:?} and is {heard:?}")),
    }
}

fn expect_header_contains(headers: &Headers, name: &str, part: &str) -> Result<(), String> {
    match headers.get(name) {
        Some(value) if value.contains(part) => Ok(()),
        heard => Err(format!("the header {name} should have {part} and is {heard:?}")),
    }
}

fn send_response(writer: &ResponseWriter, status: &str, headers: &str, body: &str) {
    let text = format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len());
    let _ = writer.send(ResponsePart::Bytes(text));
    let _ = writer.send(ResponsePart::End);
}

fn send_event(writer: &ResponseWriter, message: &Value) -> Result<(), String> {
    let sent =
        writer.send(ResponsePart::Bytes(encode_chunk(&format!("event: message\ndata: {message}\n\n"))));
    sent.map_err(|_| format!("the stream is closed before {message}"))
}

fn encode_chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

/// One connection: requests in, responses out, one at a time.
async fn serve_connection(socket: TcpStream, first: usize, events: mpsc::UnboundedSender<ConnectionEvent>) {
    let _ = socket.set_nodelay(true);
    let mut socket = BufReader::new(socket);
    for number in first.. {
        let Some((head, body)) = read_request(&mut socket).await else { return };
        let (writer, mut writes) = mpsc::unbounded_channel();
        if events.send(ConnectionEvent::Request { number, head, body, writer }).is_err() {
            return;
        }
        loop {
            tokio::select! {
                biased;
                write = writes.recv() => match write {
                    Some(ResponsePart::Bytes(text)) => {
                        if socket.get_mut().write_all(text.as_bytes()).await.is_err() {
                            let _ = events.send(ConnectionEvent::Closed { number });
                            return;
                        }
                    }
                    Some(ResponsePart::End) => break,
                    None => return,
                },
                more = socket.fill_buf() => {
                    // There is no pipelining, so this is the end.
                    let _ = more;
                    let _ = events.send(ConnectionEvent::Closed { number });
                    return;
                }
            }
        }
    }
}

async fn read_request(socket: &mut BufReader<TcpStream>) -> Option<(RequestHead, String)> {
    let mut line = String::new();
    socket.read_line(&mut line).await.ok()?;
    let mut words = line.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = Headers::default();
    loop {
        let mut line = String::new();
        socket.read_line(&mut line).await.ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.add(name, value.trim());
    }
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    socket.read_exact(&mut body).await.ok()?;
    Some((RequestHead { method, path, headers }, String::from_utf8(body).ok()?))
}

const SSE_RESPONSE_HEAD: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
