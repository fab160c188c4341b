//! The HTTP transports: HTTP+SSE, Streamable HTTP with sessions, and stateless Streamable HTTP.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use super::connection::Connection;
use super::http::{self, Request, Writer, reply};
use super::{Out, Shared};
use crate::message::{Message, Rev};

/// The open sessions of the server.
pub(super) struct Posts {
    shared: Arc<Shared>,
    sessions: Mutex<HashMap<String, Session>>,
}

struct Session {
    connection: Arc<Connection>,
    stream: Arc<Stream>,
}

/// The callback for a client that disconnects before its response is complete.
pub(super) type Gone = Box<dyn FnOnce() + Send>;

impl Posts {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, sessions: Mutex::default() }
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<String, Session>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn arrive(self: &Arc<Self>, request: Request, writer: Writer) -> Gone {
        let arrived = match self.shared.rev {
            Rev::Nov24 => self.over_sse(&request, &writer),
            Rev::Jul26 => self.stateless(&request, &writer),
            _ => self.in_session(&request, &writer),
        };
        match arrived {
            Ok(gone) => gone,
            Err(fault) => {
                let message = Message::read(&request.body).ok();
                self.shared.log(format!("  server < {} {}", request.method, request.path));
                let Request { method, path, body, .. } = &request;
                self.shared.fault(message.as_ref(), &format!("{fault} ({method} {path} {body})"));
                let id = message.and_then(|message| message.value.get("id").cloned());
                let error = json!({"code": -32600, "message": fault});
                let body = json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string();
                reply(&writer, "400 Bad Request", "", &body);
                nothing()
            }
        }
    }

    /// 2024-11-05: one stream for all messages of the server, and an endpoint to post to.
    fn over_sse(self: &Arc<Self>, request: &Request, writer: &Writer) -> Result<Gone, String> {
        match (request.method.as_str(), request.path.as_str()) {
            ("GET", "/sse") => {
                must_have(request, "accept", "text/event-stream")?;
                let stream = Arc::new(Stream::default());
                let connection = self.shared.join(Arc::clone(&stream) as Arc<dyn Out>);
                let endpoint = format!("/messages?to={}", connection.number());
                http::stream(writer, "");
                http::event(writer, "endpoint", &endpoint);
                stream.open(writer);
                self.sessions().insert(endpoint.clone(), Session { connection, stream });
                let posts = Arc::clone(self);
                Ok(Box::new(move || posts.end(&endpoint)))
            }
            // It does not support newer revisions.
            (_, "/sse") => {
                reply(writer, "405 Method Not Allowed", "", "");
                Ok(nothing())
            }
            ("POST", path) => {
                must_have(request, "content-type", "application/json")?;
                no_stateless_headers(request)?;
                let message = Message::read(&request.body)?;
                let session = self.sessions().get(path).map(|session| {
                    (Arc::clone(&session.connection), Arc::clone(&session.stream) as Arc<dyn Out>)
                });
                match session {
                    Some((connection, out)) => {
                        reply(writer, "202 Accepted", "", "");
                        connection.receive(message, &out);
                    }
                    // The stream may have been closed in the meantime.
                    None if path.starts_with("/messages?to=") => reply(writer, "404 Not Found", "", ""),
                    None => return Err("posted to an unknown endpoint".to_owned()),
                }
                Ok(nothing())
            }
            _ => Err("unexpected method or path".to_owned()),
        }
    }

    /// 2025-03-26 to 2025-11-25: a session, a stream for each request, and a standalone stream.
    fn in_session(self: &Arc<Self>, request: &Request, writer: &Writer) -> Result<Gone, String> {
        let name = request.header("mcp-session-id").map(str::to_owned);
        if request.path != "/mcp" {
            return Err("the path must be /mcp".to_owned());
        }
        let message = match request.method.as_str() {
            "POST" => Some(Message::read(&request.body)?),
            _ => None,
        };
        let method =
            message.as_ref().and_then(|message| message.value["method"].as_str()).unwrap_or_default();
        if method == "server/discover" && name.is_none() {
            let error = json!({"code": -32000, "message": "Bad Request: no session"});
            reply(
                writer,
                "400 Bad Request",
                "",
                &json!({"jsonrpc": "2.0", "id": null, "error": error}).to_string(),
            );
            return Ok(nothing());
        }
        no_stateless_headers(request)?;
        if method == "initialize" {
            return self.open(request, message.ok_or("nothing")?, writer);
        }
        let name = name.ok_or("no session")?;
        self.version(request)?;
        let session = self
            .sessions()
            .get(&name)
            .map(|session| (Arc::clone(&session.connection), Arc::clone(&session.stream)));
        let Some((connection, stream)) = session else {
            reply(writer, "404 Not Found", "", "");
            return Ok(nothing());
        };
        match (request.method.as_str(), message) {
            ("POST", Some(message)) => {
                self.forms(request)?;
                self.post(&connection, message, writer, "");
                Ok(nothing())
            }
            ("GET", _) => {
                must_have(request, "accept", "text/event-stream")?;
                http::stream(writer, "");
                stream.open(writer);
                Ok(Box::new(move || stream.close()))
            }
            ("DELETE", _) => {
                reply(writer, "200 OK", "", "");
                self.end(&name);
                Ok(nothing())
            }
            _ => Err("unexpected method or path".to_owned()),
        }
    }

    fn open(self: &Arc<Self>, request: &Request, message: Message, writer: &Writer) -> Result<Gone, String> {
        self.forms(request)?;
        if request.header("mcp-session-id").is_some() {
            return Err("initialize in a session".to_owned());
        }
        let stream = Arc::new(Stream::default());
        let connection = self.shared.join(Arc::clone(&stream) as Arc<dyn Out>);
        let name = format!("session-{}", connection.number());
        self.sessions().insert(name.clone(), Session { connection: Arc::clone(&connection), stream });
        self.post(&connection, message, writer, &format!("Mcp-Session-Id: {name}\r\n"));
        Ok(nothing())
    }

    /// 2026-07-28: each request is self-contained, and ends with its stream.
    fn stateless(self: &Arc<Self>, request: &Request, writer: &Writer) -> Result<Gone, String> {
        if request.path != "/mcp" {
            return Err("the path must be /mcp".to_owned());
        }
        if request.method != "POST" {
            reply(writer, "405 Method Not Allowed", "", "");
            return Err("the method must be POST".to_owned());
        }
        self.forms(request)?;
        let message = Message::read(&request.body)?;
        let value = &message.value;
        must_be(request, "mcp-session-id", None)?;
        must_be(request, "mcp-protocol-version", Some(self.shared.rev.name()))?;
        if value.get("id").is_some() {
            let method = value["method"].as_str();
            let name = match method {
                Some("tools/call" | "prompts/get") => value["params"]["name"].as_str(),
                Some("resources/read") => value["params"]["uri"].as_str(),
                _ => None,
            };
            must_be(request, "mcp-method", method)?;
            must_be(request, "mcp-name", name)?;
        } else {
            return Err("no notification is sent over HTTP".to_owned());
        }
        let connection = self.shared.alone(Arc::new(Nowhere));
        let id = value["id"].clone();
        self.post(&connection, message, writer, "");
        let shared = Arc::clone(&self.shared);
        Ok(Box::new(move || {
            connection.stop(&id, "closed");
            shared.leave(&connection);
        }))
    }

    fn post(&self, connection: &Arc<Connection>, message: Message, writer: &Writer, headers: &str) {
        let is_request = message.value.get("method").is_some() && message.value.get("id").is_some();
        if !is_request {
            reply(writer, "202 Accepted", "", "");
        }
        // A response is JSON, or the last event of a stream.
        let streams = matches!(self.shared.rev, Rev::Jun25) && message.value["method"] == "tools/call";
        let begun = Mutex::new(streams);
        if streams {
            http::stream(writer, headers);
        }
        let stateless = self.shared.rev.is_stateless();
        let out = Post { writer: writer.clone(), headers: headers.to_owned(), begun, stateless };
        let out: Arc<dyn Out> = Arc::new(out);
        connection.receive(message, &out);
    }

    fn end(&self, name: &str) {
        if let Some(session) = self.sessions().remove(name) {
            session.stream.close();
            self.shared.leave(&session.connection);
        }
    }

    fn forms(&self, request: &Request) -> Result<(), String> {
        must_have(request, "content-type", "application/json")?;
        must_have(request, "accept", "application/json")?;
        must_have(request, "accept", "text/event-stream")
    }

    /// Checks the version header, which every request of a session has from 2025-06-18 on.
    fn version(&self, request: &Request) -> Result<(), String> {
        let version = request.header("mcp-protocol-version");
        if self.shared.rev == Rev::Mar25 && version.is_none() {
            return Ok(());
        }
        must_be(request, "mcp-protocol-version", Some(self.shared.rev.name()))
    }
}

/// The response to a request: JSON, or a stream if a message was sent before it.
struct Post {
    writer: Writer,
    headers: String,
    begun: Mutex<bool>,
    stateless: bool,
}

impl Post {
    fn begin(&self) {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        if !*begun {
            http::stream(&self.writer, &self.headers);
            *begun = true;
        }
    }
}

impl Out for Post {
    fn send(&self, text: &str) {
        self.begin();
        http::event(&self.writer, "message", text);
    }

    fn answer(&self, text: &str) {
        let begun = *self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        if begun {
            http::event(&self.writer, "message", text);
            return http::end(&self.writer);
        }
        let refused =
            serde_json::from_str::<Value>(text).ok().and_then(|value| value["error"]["code"].as_i64());
        // In a session, 404 would end the session.
        let status = if refused == Some(-32601) && self.stateless { "404 Not Found" } else { "200 OK" };
        reply(&self.writer, status, &self.headers, text);
    }
}

/// The standalone stream of a session. Messages wait until it is open.
#[derive(Default)]
struct Stream(Mutex<(Option<Writer>, Vec<String>)>);

impl Stream {
    fn state(&self) -> MutexGuard<'_, (Option<Writer>, Vec<String>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self, writer: &Writer) {
        let mut state = self.state();
        for text in state.1.drain(..) {
            http::event(writer, "message", &text);
        }
        state.0 = Some(writer.clone());
    }

    fn close(&self) {
        if let Some(writer) = self.state().0.take() {
            http::end(&writer);
        }
    }
}

impl Out for Stream {
    fn send(&self, text: &str) {
        let mut state = self.state();
        match &state.0 {
            Some(writer) => http::event(writer, "message", text),
            None => state.1.push(text.to_owned()),
        }
    }

    fn answer(&self, text: &str) {
        self.send(text);
    }
}

/// The standalone stream of a stateless request, which does not exist.
struct Nowhere;

impl Out for Nowhere {
    fn send(&self, _: &str) {}
    fn answer(&self, _: &str) {}
}

fn nothing() -> Gone {
    Box::new(|| ())
}

fn no_stateless_headers(request: &Request) -> Result<(), String> {
    must_be(request, "mcp-method", None)?;
    must_be(request, "mcp-name", None)
}

fn must_be(request: &Request, name: &str, value: Option<&str>) -> Result<(), String> {
    let actual = request.header(name);
    match actual == value {
        true => Ok(()),
        false => Err(format!("the header {name} should be {value:?} and is {actual:?}")),
    }
}

fn must_have(request: &Request, name: &str, part: &str) -> Result<(), String> {
    match request.header(name) {
        Some(value) if value.contains(part) => Ok(()),
        actual => Err(format!("the header {name} should have {part} and is {actual:?}")),
    }
}
