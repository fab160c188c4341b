//! A scripted server on a socket: what a client posts is heard in the order it arrives, and what the script says goes
//! where the specification wants it.
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

use super::matching::VERSION;
use super::wire::{Headers, Heard};

/// A server on a socket.
pub(super) struct Posts {
    pub(super) address: SocketAddr,
    accepting: JoinHandle<()>,
    arriving: mpsc::UnboundedReceiver<Event>,
    /// Whether every answer is an event.
    events: bool,
    /// Whether only HTTP+SSE is spoken.
    old: bool,
    sessions: usize,
    session: Option<String>,
    revision: Option<Revision>,
    open: Vec<Open>,
    stream: Option<Writer>,
    /// What has come and was not heard yet.
    heard: VecDeque<Result<Heard, String>>,
}

/// A request of the client that has no answer yet.
struct Open {
    number: usize,
    id: Value,
    token: Option<Value>,
    opens: bool,
    streams: bool,
    writer: Writer,
}

type Writer = mpsc::UnboundedSender<Write>;

enum Write {
    Bytes(String),
    /// The response is whole.
    Done,
}

enum Event {
    Request {
        number: usize,
        head: Head,
        body: String,
        writer: Writer,
    },
    /// The client has closed the connection before its response was whole.
    Closed {
        number: usize,
    },
}

#[derive(Debug)]
struct Head {
    method: String,
    path: String,
    headers: Headers,
}

impl Posts {
    pub(super) async fn bind(events: bool, old: bool) -> Result<Self, String> {
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(|error| error.to_string())?;
        let address = listener.local_addr().map_err(|error| error.to_string())?;
        let (events_to, arriving) = mpsc::unbounded_channel();
        let accepting = tokio::spawn(async move {
            let mut connections = 0;
            while let Ok((socket, _)) = listener.accept().await {
                connections += 1;
                tokio::spawn(serve(socket, connections * 1_000, events_to.clone()));
            }
        });
        Ok(Self {
            address,
            accepting,
            arriving,
            events,
            old,
            sessions: 0,
            session: None,
            revision: None,
            open: Vec::new(),
            stream: None,
            heard: VecDeque::new(),
        })
    }

    /// What the client says next.
    pub(super) async fn next(&mut self) -> Result<Heard, String> {
        loop {
            match self.heard.pop_front() {
                Some(heard) => return heard,
                None => self.listen().await,
            }
        }
    }

    /// Waits until something comes and does what is due at once, such as opening a stream.
    pub(super) async fn listen(&mut self) {
        let heard = match self.arriving.recv().await {
            None => Err("nobody listens".to_owned()),
            Some(Event::Closed { number }) => match self.open.iter().position(|open| open.number == number) {
                Some(at) => Ok(Some(Heard::Closed(self.open.remove(at).id))),
                None => Ok(None),
            },
            Some(Event::Request { number, head, body, writer }) => self.request(number, head, &body, writer),
        };
        self.heard.extend(heard.transpose());
    }

    fn request(
        &mut self,
        number: usize,
        head: Head,
        body: &str,
        writer: Writer,
    ) -> Result<Option<Heard>, String> {
        match head.method.as_str() {
            "POST" if self.old && self.stream.is_none() => {
                reply(&writer, "405 Method Not Allowed", "", "");
                Ok(None)
            }
            "POST" => self.post(number, head, body, writer).map(Some),
            "GET" => {
                must_have(&head.headers, "accept", "text/event-stream")?;
                let resumes = head.headers.get("last-event-id").is_some();
                let _ = writer.send(Write::Bytes(STREAM.to_owned()));
                if self.old {
                    let _ = writer.send(Write::Bytes(chunk("event: endpoint\ndata: /messages?to=1\n\n")));
                } else {
                    self.in_session(&head.headers)?;
                }
                self.stream = Some(writer);
                Ok(resumes.then_some(Heard::Method("GET".to_owned(), head.headers)))
            }
            "DELETE" => {
                self.in_session(&head.headers)?;
                reply(&writer, "200 OK", "", "");
                self.session = None;
                Ok(Some(Heard::Method("DELETE".to_owned(), head.headers)))
            }
            other => Err(format!("nobody expects {other}")),
        }
    }

    fn post(&mut self, number: usize, head: Head, body: &str, writer: Writer) -> Result<Heard, String> {
        let message: Value = serde_json::from_str(body).map_err(|error| format!("{error}: {body}"))?;
        must_have(&head.headers, "content-type", "application/json")?;
        let method = message.get("method").and_then(Value::as_str);
        let id = message.get("id").filter(|_| method.is_some());
        if self.old {
            if head.path != "/messages?to=1" {
                return Err(format!("posted to {}", head.path));
            }
            reply(&writer, "202 Accepted", "", "");
            return Ok(Heard::Message(message, head.headers));
        }
        for form in ["application/json", "text/event-stream"] {
            must_have(&head.headers, "accept", form)?;
        }
        self.check(&message, &head.headers)?;
        match id {
            Some(id) => self.open.push(Open {
                number,
                id: id.clone(),
                token: message.pointer("/params/_meta/progressToken").cloned(),
                opens: method == Some("initialize"),
                streams: false,
                writer,
            }),
            None => reply(&writer, "202 Accepted", "", ""),
        }
        Ok(Heard::Message(message, head.headers))
    }

    /// The headers that mirror a message, as its revision wants them.
    fn check(&self, message: &Value, headers: &Headers) -> Result<(), String> {
        let text = |pointer: &str| message.pointer(pointer).and_then(Value::as_str);
        let method = text("/method").unwrap_or_default();
        let claim =
            message.pointer("/params/_meta").and_then(|meta| meta.get(VERSION)).and_then(Value::as_str);
        if let Some(claim) = claim {
            let name = match method {
                "tools/call" | "prompts/get" => text("/params/name"),
                "resources/read" => text("/params/uri"),
                "tasks/get" | "tasks/update" | "tasks/cancel" => text("/params/taskId"),
                _ => None,
            };
            must_be(headers, "mcp-protocol-version", Some(claim))?;
            must_be(headers, "mcp-method", Some(method))?;
            must_be(headers, "mcp-name", name.map(header::encode).as_deref())?;
            return must_be(headers, "mcp-session-id", None);
        }
        must_be(headers, "mcp-method", None)?;
        must_be(headers, "mcp-name", None)?;
        if method == "initialize" {
            return must_be(headers, "mcp-session-id", None);
        }
        if self.revision.is_none() {
            return Err(format!("posted although nothing is agreed on: {message}"));
        }
        self.in_session(headers)
    }

    fn in_session(&self, headers: &Headers) -> Result<(), String> {
        must_be(headers, "mcp-session-id", self.session.as_deref())?;
        match self.revision {
            Some(revision)
                if revision.has_version_header() || headers.get("mcp-protocol-version").is_some() =>
            {
                must_be(headers, "mcp-protocol-version", Some(revision.as_str()))
            }
            _ => Ok(()),
        }
    }

    /// Says a message, with a status if it is not the usual one.
    pub(super) fn say(&mut self, message: &Value, status: Option<u16>) -> Result<(), String> {
        let first =
            message.as_array().and_then(|all| all.iter().find(|one| is_answer(one))).unwrap_or(message);
        if self.old || !is_answer(first) {
            let writer = self.stream_for(message)?;
            return event(&writer, message);
        }
        let asked = self.open.iter().position(|open| Some(&open.id) == first.get("id"));
        let Some(at) = asked else {
            // To something that was never asked, or whose stream is gone: it comes wherever it can.
            let writer = self.stream_for(message)?;
            return event(&writer, message);
        };
        let open = self.open.remove(at);
        let mut session = String::new();
        if open.opens
            && let Some(agreed) = first.pointer("/result/protocolVersion").and_then(Value::as_str)
        {
            self.sessions += 1;
            session = format!("session-{}", self.sessions);
            self.session = Some(session.clone());
            self.revision = agreed.parse().ok();
            session = format!("Mcp-Session-Id: {session}\r\n");
        }
        if open.streams || (self.events && status.is_none()) {
            if !open.streams {
                let _ = open.writer.send(Write::Bytes(STREAM.replacen("\r\n", &format!("\r\n{session}"), 1)));
            }
            event(&open.writer, message)?;
            let _ = open.writer.send(Write::Bytes("0\r\n\r\n".to_owned()));
            let _ = open.writer.send(Write::Done);
        } else {
            let status = format!("{} Whatever", status.unwrap_or(200));
            let extra = format!("{session}Content-Type: application/json\r\n");
            reply(&open.writer, &status, &extra, &message.to_string());
        }
        Ok(())
    }

    /// Answers the request that waits longest with a status and nothing else.
    pub(super) fn refuse(&mut self, status: u16) -> Result<(), String> {
        if self.open.is_empty() {
            return Err("nothing was asked".to_owned());
        }
        let open = self.open.remove(0);
        if status == 404 {
            self.session = None;
            self.revision = None;
            self.stream = None;
        }
        reply(&open.writer, &format!("{status} Whatever"), "", "");
        Ok(())
    }

    /// An event without a message, on the stream of the last request.
    pub(super) fn prime(&mut self, id: &str, retry: &str) -> Result<(), String> {
        let writer = self.stream_for(&Value::Null)?;
        let text = format!("id: {id}\nretry: {retry}\ndata: \n\n");
        writer.send(Write::Bytes(chunk(&text))).map_err(|_| "nobody reads".to_owned())
    }

    /// Ends every stream in the middle.
    pub(super) fn break_off(&mut self) {
        for open in self.open.drain(..) {
            if open.streams {
                let _ = open.writer.send(Write::Bytes("0\r\n\r\n".to_owned()));
            }
            let _ = open.writer.send(Write::Done);
        }
    }

    fn stream_for(&mut self, message: &Value) -> Result<Writer, String> {
        let token = message.pointer("/params/progressToken");
        let subscription = message
            .pointer("/params/_meta")
            .and_then(|meta| meta.get("io.modelcontextprotocol/subscriptionId"));
        let found = self.open.iter_mut().rev().find(|open| match (token, subscription) {
            (Some(token), _) => open.token.as_ref() == Some(token),
            (_, Some(subscription)) => open.id == *subscription,
            _ => true,
        });
        match (found, &self.stream) {
            (Some(open), _) if !self.old => {
                if !std::mem::replace(&mut open.streams, true) {
                    let _ = open.writer.send(Write::Bytes(STREAM.to_owned()));
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

impl Drop for Posts {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

fn is_answer(message: &Value) -> bool {
    message.get("method").is_none() && message.get("id").is_some()
}

fn must_be(headers: &Headers, name: &str, value: Option<&str>) -> Result<(), String> {
    let heard = headers.get(name);
    match heard == value {
        true => Ok(()),
        false => Err(format!("the header {name} should be {value:?} and is {heard:?}")),
    }
}

fn must_have(headers: &Headers, name: &str, part: &str) -> Result<(), String> {
    match headers.get(name) {
        Some(value) if value.contains(part) => Ok(()),
        heard => Err(format!("the header {name} should have {part} and is {heard:?}")),
    }
}

fn reply(writer: &Writer, status: &str, headers: &str, body: &str) {
    let text = format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len());
    let _ = writer.send(Write::Bytes(text));
    let _ = writer.send(Write::Done);
}

fn event(writer: &Writer, message: &Value) -> Result<(), String> {
    let sent = writer.send(Write::Bytes(chunk(&format!("event: message\ndata: {message}\n\n"))));
    sent.map_err(|_| format!("nobody reads {message}"))
}

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

/// One connection: requests in, responses out, one at a time.
async fn serve(socket: TcpStream, first: usize, events: mpsc::UnboundedSender<Event>) {
    let _ = socket.set_nodelay(true);
    let mut socket = BufReader::new(socket);
    for number in first.. {
        let Some((head, body)) = read_request(&mut socket).await else { return };
        let (writer, mut writes) = mpsc::unbounded_channel();
        if events.send(Event::Request { number, head, body, writer }).is_err() {
            return;
        }
        loop {
            tokio::select! {
                biased;
                write = writes.recv() => match write {
                    Some(Write::Bytes(text)) => {
                        if socket.get_mut().write_all(text.as_bytes()).await.is_err() {
                            let _ = events.send(Event::Closed { number });
                            return;
                        }
                    }
                    Some(Write::Done) => break,
                    None => return,
                },
                more = socket.fill_buf() => {
                    // Nobody asks for two things at once, so this is the end.
                    let _ = more;
                    let _ = events.send(Event::Closed { number });
                    return;
                }
            }
        }
    }
}

async fn read_request(socket: &mut BufReader<TcpStream>) -> Option<(Head, String)> {
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
    Some((Head { method, path, headers }, String::from_utf8(body).ok()?))
}

const STREAM: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
