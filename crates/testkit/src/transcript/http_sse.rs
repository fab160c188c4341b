//! The lines of a transcript over HTTP+SSE: each line is sent as a POST that gets 202, and every message is received on
//! one stream.

use crate::http::{Connection, HttpTarget, Request};

/// A server on a socket, and the stream of its messages.
pub struct HttpSseStream {
    server: HttpTarget,
    stream: Connection,
    /// The path to post to.
    endpoint: String,
}

impl HttpSseStream {
    pub(super) async fn open(server: HttpTarget) -> Result<Self, String> {
        let mut stream = server.connect().await;
        let get = Request::new("GET").path("/sse").header("Accept", "text/event-stream");
        let head = stream.send(server.locate(get)).await;
        if (head.status, head.header("content-type")) != (200, Some("text/event-stream")) {
            return Err(format!("no stream: {head:?}"));
        }
        let first = stream.next_event().await.ok_or("the stream has ended")?;
        if first.event.as_deref() != Some("endpoint") {
            return Err(format!("the stream does not name its endpoint: {first:?}"));
        }
        Ok(Self { server, stream, endpoint: first.data })
    }

    pub(super) async fn send(&mut self, line: &str) -> Result<(), String> {
        let post = Request::new("POST").path(&self.endpoint).header("Content-Type", "application/json");
        let response = self.server.send(post.body(line)).await;
        match response.status {
            202 => Ok(()),
            _ => Err(format!("{line} was not accepted: {response:?}")),
        }
    }

    pub(super) async fn next(&mut self) -> Result<String, String> {
        let event = self.stream.next_event().await.ok_or("the stream has ended")?;
        match event.event.as_deref() {
            Some("message") => Ok(event.data),
            _ => Err(format!("no message: {event:?}")),
        }
    }

    pub(super) async fn finish(self) -> Result<(), String> {
        drop(self.stream);
        self.server.stop().await.map_err(|error| error.to_string())
    }
}
