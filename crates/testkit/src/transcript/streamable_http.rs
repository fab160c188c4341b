//! The lines of a transcript over Streamable HTTP: each line is sent as a POST, and messages come on many streams.
//!
//! Between streams there is no order, so the expected message decides the stream: a response comes on that of its request,
//! progress on that of the request with its token, any other message on any stream. Within a stream the order counts,
//! nothing may follow a response, and in the end no message may be left.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tsugite_core::revision::Revision;

use super::has_version_header;
use super::matching::Bindings;
use crate::http::{Connection, HttpTarget, Request, Response};

/// A server on a socket, and the streams that a client of it has open.
pub struct HttpStreams {
    server: HttpTarget,
    /// The session and its revision, once there is one.
    session: Option<(String, Revision)>,
    streams: Vec<ResponseStream>,
    /// The head of the response with the last received message.
    last_head: ResponseHead,
}

/// The head of a response, as soon as it has come.
type ResponseHead = Arc<OnceLock<Response>>;

impl HttpStreams {
    pub(super) fn new(server: HttpTarget) -> Self {
        Self { server, session: None, streams: Vec::new(), last_head: ResponseHead::default() }
    }

    /// The streams of another caller of the same server.
    pub(super) fn open_as(&self, caller: &str) -> Self {
        Self::new(self.server.with_token(caller))
    }

    pub(super) async fn send(&mut self, line: &str) -> Result<(), String> {
        let message: Value = serde_json::from_str(line).unwrap_or_default();
        let claim = message.pointer("/params/_meta/io.modelcontextprotocol~1protocolVersion");
        let method = message.get("method").and_then(Value::as_str).unwrap_or_default();
        if method == "notifications/cancelled" {
            self.request_stream(message.pointer("/params/requestId"))?.cancelled = true;
            if self.session.is_none() {
                // 2026-07-28: closing its stream is how a request is cancelled.
                self.request_stream(message.pointer("/params/requestId"))?.close();
                return Ok(());
            }
        }
        let request = self.http_request(&message).body(line);
        if expects_response(&message) {
            let opens = method == "initialize" && claim.is_none();
            return self.send_request(&message, request, opens).await;
        }
        let response = self.server.send(request).await;
        if (response.status, response.body.as_str()) != (202, "") {
            return Err(format!("{line} was not accepted: {response:?}"));
        }
        if method == "notifications/initialized" {
            self.open_get_stream().await?;
        }
        Ok(())
    }

    /// A POST with the headers that go with a message.
    fn http_request(&self, message: &Value) -> Request {
        let post = self.server.locate(Request::post(message));
        let text = |pointer: &str| message.pointer(pointer).and_then(Value::as_str);
        if let Some(claim) = text("/params/_meta/io.modelcontextprotocol~1protocolVersion") {
            let method = text("/method").unwrap_or_default();
            let post = post.header("MCP-Protocol-Version", claim).header("Mcp-Method", method);
            let name = match method {
                "tools/call" | "prompts/get" => text("/params/name"),
                "resources/read" => text("/params/uri"),
                "tasks/get" | "tasks/update" | "tasks/cancel" => text("/params/taskId"),
                _ => None,
            };
            return match name {
                Some(name) => post.header("Mcp-Name", name),
                None => post,
            };
        }
        match &self.session {
            None => post,
            Some((id, revision)) if has_version_header(*revision) => {
                post.session(id).header("MCP-Protocol-Version", revision.as_str())
            }
            Some((id, _)) => post.session(id),
        }
    }

    /// Sends a request, and waits for its response only if it opens a session.
    async fn send_request(&mut self, message: &Value, request: Request, opens: bool) -> Result<(), String> {
        let mut connection = self.server.connect().await;
        connection.write_request(&request).await;
        let head = if opens { Some(connection.read_head().await.ok_or("no response")?) } else { None };
        if let Some(id) = head.as_ref().and_then(|head| head.header("mcp-session-id")) {
            // The revision is known when the response is received.
            self.session = Some((id.to_owned(), Revision::OLDEST));
        }
        let asked = SentRequest {
            id: message.get("id").cloned(),
            token: message.pointer("/params/_meta/progressToken").cloned(),
        };
        self.streams.push(ResponseStream::spawn_reader(Some(asked), connection, head));
        Ok(())
    }

    /// Opens the stream for messages that belong to no request.
    async fn open_get_stream(&mut self) -> Result<(), String> {
        let Some((id, _)) = &self.session else { return Ok(()) };
        let mut connection = self.server.connect().await;
        let head = connection.send(self.server.locate(Request::get_stream(id))).await;
        if (head.status, head.header("content-type")) != (200, Some("text/event-stream")) {
            return Err(format!("no stream for messages that belong to no request: {head:?}"));
        }
        self.streams.push(ResponseStream::spawn_reader(None, connection, Some(head)));
        Ok(())
    }

    /// Receives the message that stands where `expected` should be.
    pub(super) async fn receive(&mut self, expected: &Value) -> Result<Value, String> {
        let stream = if let Some(token) = expected.pointer("/params/progressToken") {
            self.last_post_stream(|asked| asked.token.as_ref() == Some(token))
        } else if expected.get("method").is_some() {
            return self.receive_from_any(expected).await;
        } else if let Some(id) = expected.get("id").filter(|id| !id.is_null()) {
            Some(self.request_stream(Some(id))?)
        } else {
            // A response without an id belongs to the last POST.
            self.last_post_stream(|_| true)
        };
        let stream = stream.ok_or("nothing was asked")?;
        let Some(heard) = stream.next().await? else { return Err(format!("nothing came for {expected}")) };
        let head = Arc::clone(&stream.head);
        let is_answer = heard.get("method").is_none();
        if is_answer && let Some(more) = stream.next().await? {
            return Err(format!("after its answer a stream said {more}"));
        }
        self.last_head = head;
        let agreed = heard.pointer("/result/protocolVersion").and_then(Value::as_str);
        if let (Some(agreed), Some((_, revision))) = (agreed, &mut self.session) {
            *revision = agreed.parse().map_err(|_| format!("what is {agreed}"))?;
        }
        Ok(heard)
    }

    /// Receives `expected` from any stream where it is the next message.
    async fn receive_from_any(&mut self, expected: &Value) -> Result<Value, String> {
        poll_fn(|cx| {
            let mut waits = false;
            for stream in &mut self.streams {
                match stream.poll_peek(cx) {
                    Poll::Ready(Ok(Some(heard))) if Bindings::default().matches(expected, heard) => {
                        self.last_head = Arc::clone(&stream.head);
                        return Poll::Ready(stream.received.pop_front().unwrap_or(Ok(Value::Null)));
                    }
                    Poll::Ready(_) => {}
                    Poll::Pending => waits = true,
                }
            }
            match waits {
                true => Poll::Pending,
                false => Poll::Ready(Err(format!("expected {expected}\n   heard {}", self.unread()))),
            }
        })
        .await
    }

    /// Checks a header of the response with the last message: `(none)` for one that is missing.
    pub(super) fn expect_header(&self, name: &str, expected: &str) -> Result<(), String> {
        let head = self.last_head.get().ok_or("no response was received")?;
        match head.header(name).unwrap_or("(none)") {
            value if value == expected => Ok(()),
            value => Err(format!("expected the header {name}: {expected}\n   received {value}")),
        }
    }

    /// Checks that no message is left: no stream has more, and those of cancelled requests have ended.
    pub(super) async fn expect_silence(&mut self) -> Result<(), String> {
        for stream in &mut self.streams {
            if stream.cancelled
                && let Some(heard) = stream.next().await?
            {
                return Err(format!("expected nothing\n   heard {heard}"));
            }
        }
        poll_fn(|cx| {
            for stream in &mut self.streams {
                let _ = stream.poll_peek(cx);
            }
            Poll::Ready(())
        })
        .await;
        match self.streams.iter().all(|stream| stream.received.is_empty()) {
            true => Ok(()),
            false => Err(format!("expected nothing\n   heard {}", self.unread())),
        }
    }

    /// Ends the session, and with it every stream; no message may be left in any of them.
    pub(super) async fn finish(mut self) -> Result<(), String> {
        match self.session.take() {
            Some((id, _)) => {
                let deleted = self.server.send(self.server.locate(Request::new("DELETE").session(&id))).await;
                if deleted.status != 200 {
                    return Err(format!("the session could not be ended: {deleted:?}"));
                }
                for stream in &mut self.streams {
                    if let Some(heard) = stream.next().await? {
                        return Err(format!("in the end a message was left: {heard}"));
                    }
                }
            }
            None => {
                self.expect_silence().await?;
                self.streams.clear();
            }
        }
        self.server.stop().await.map_err(|error| error.to_string())
    }

    /// The messages that came and were not expected.
    pub(super) fn unread(&self) -> String {
        let heard: Vec<_> = self.streams.iter().flat_map(|stream| &stream.received).collect();
        let texts = heard.into_iter().map(|heard| match heard {
            Ok(heard) => heard.to_string(),
            Err(error) => error.clone(),
        });
        let text = texts.collect::<Vec<_>>().join("\n         ");
        if text.is_empty() { "nothing".to_owned() } else { text }
    }

    /// The stream of the last request with this id.
    fn request_stream(&mut self, id: Option<&Value>) -> Result<&mut ResponseStream, String> {
        let found = self.last_post_stream(|asked| asked.id.as_ref() == id);
        found.ok_or_else(|| format!("nothing was asked with the id {}", id.unwrap_or(&Value::Null)))
    }

    /// The stream of the last POST of which something is true.
    fn last_post_stream(&mut self, is: impl Fn(&SentRequest) -> bool) -> Option<&mut ResponseStream> {
        self.streams.iter_mut().rev().find(|stream| stream.request.as_ref().is_some_and(&is))
    }
}

/// Whether a message gets a response, as invalid messages do; notifications and responses get none.
fn expects_response(message: &Value) -> bool {
    match message {
        Value::Array(messages) => messages.is_empty() || messages.iter().any(expects_response),
        Value::Object(members) if members.contains_key("method") => members.contains_key("id"),
        Value::Object(members) => !members.contains_key("result") && !members.contains_key("error"),
        _ => true,
    }
}

/// One stream: the response to a POST, or what a GET opened.
struct ResponseStream {
    /// The request it responds to, if it was a POST.
    request: Option<SentRequest>,
    cancelled: bool,
    /// Messages that came and were not taken yet.
    received: VecDeque<Result<Value, String>>,
    ended: bool,
    incoming: mpsc::UnboundedReceiver<Result<Value, String>>,
    head: ResponseHead,
    reader: JoinHandle<()>,
}

/// The request of a POST.
struct SentRequest {
    /// None for a batch.
    id: Option<Value>,
    token: Option<Value>,
}

impl ResponseStream {
    /// Starts to read a response. Its head is read first, unless it is given.
    fn spawn_reader(
        request: Option<SentRequest>,
        mut connection: Connection,
        head: Option<Response>,
    ) -> Self {
        let (said, incoming) = mpsc::unbounded_channel();
        let received_head = ResponseHead::default();
        let known_head = Arc::clone(&received_head);
        let reader = tokio::spawn(async move {
            let head = match head {
                Some(head) => Some(head),
                None => connection.read_head().await,
            };
            let tell = |heard: Result<Value, String>| drop(said.send(heard));
            let Some(head) = head else { return tell(Err("the connection ended".to_owned())) };
            let head = known_head.get_or_init(|| head);
            match (head.status, head.header("content-type")) {
                (200, Some("text/event-stream")) => {
                    while let Some(message) = connection.next_message().await {
                        tell(Ok(message));
                    }
                }
                (200 | 400 | 404 | 503, Some("application/json")) => {
                    let body = connection.read_body().await;
                    tell(serde_json::from_str(&body).map_err(|error| format!("no message: {error}: {body}")));
                }
                // Without a token, or with one that is not enough.
                (status @ (401 | 403), _) => tell(Ok(status.into())),
                _ => tell(Err(format!("no answer: {head:?} {}", connection.read_body().await))),
            }
        });
        let head = received_head;
        Self { request, cancelled: false, received: VecDeque::new(), ended: false, incoming, head, reader }
    }

    /// Ends it from this side.
    fn close(&mut self) {
        self.reader.abort();
    }

    /// Takes the next message; `None` if the stream has ended.
    async fn next(&mut self) -> Result<Option<Value>, String> {
        match self.received.pop_front() {
            Some(heard) => heard.map(Some),
            None => self.incoming.recv().await.transpose(),
        }
    }

    /// Looks at the next message without taking it.
    fn poll_peek(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<&Value>, &String>> {
        while !self.ended {
            match self.incoming.poll_recv(cx) {
                Poll::Ready(Some(more)) => self.received.push_back(more),
                Poll::Ready(None) => self.ended = true,
                Poll::Pending => break,
            }
        }
        match self.received.front() {
            Some(heard) => Poll::Ready(heard.as_ref().map(Some)),
            None if self.ended => Poll::Ready(Ok(None)),
            None => Poll::Pending,
        }
    }
}

impl Drop for ResponseStream {
    fn drop(&mut self) {
        self.reader.abort();
    }
}
