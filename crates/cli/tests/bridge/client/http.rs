//! Streamable HTTP, with sessions up to 2025-11-25 and without on 2026-07-28.

use std::collections::HashMap;
use std::net::SocketAddr;

use serde_json::Value;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tsugite_testkit::http::{Connection, Request, Response};

use super::{On, Received, ReceivedSender};
use crate::message::{Message, Rev};

/// A client over HTTP: every request on a connection of its own.
pub(super) struct Http {
    address: SocketAddr,
    rev: Rev,
    sender: ReceivedSender,
    session: Option<String>,
    /// The tasks that read the responses, by request id.
    reading: HashMap<String, JoinHandle<()>>,
    stream: Option<JoinHandle<()>>,
}

impl Http {
    pub(super) fn new(address: SocketAddr, rev: Rev, sender: ReceivedSender) -> Self {
        Self { address, rev, sender, session: None, reading: HashMap::new(), stream: None }
    }

    fn with_session_headers(&self, mut request: Request) -> Request {
        if let Some(session) = &self.session {
            request = request.header("Mcp-Session-Id", session);
            if self.rev >= Rev::Jun25 {
                request = request.header("MCP-Protocol-Version", self.rev.name());
            }
        }
        request
    }

    pub(super) async fn send(&mut self, message: &Value, text: String) -> Result<(), String> {
        let mut request = self.with_session_headers(Request::post(message).body(text));
        let method = message["method"].as_str().unwrap_or_default();
        if self.rev.is_stateless() {
            request = request.header("MCP-Protocol-Version", self.rev.name()).header("Mcp-Method", method);
            if method == "tools/call" {
                request = request.header("Mcp-Name", message["params"]["name"].as_str().unwrap_or_default());
            }
        }
        let id = message.get("id").filter(|_| !method.is_empty()).cloned();
        let Some(id) = id else {
            let response = Connection::connect(self.address).await.send(request).await;
            return match response.status {
                202 => Ok(()),
                _ => Err(format!("not accepted: {response:?}")),
            };
        };
        let (opened, session) = oneshot::channel();
        let reading = tokio::spawn(read(self.address, request, id.clone(), self.sender.clone(), opened));
        self.reading.insert(id.to_string(), reading);
        if method == "initialize" {
            self.session = session.await.map_err(|_| "no response")?;
            return match self.session {
                Some(_) => Ok(()),
                None => Err("no session".to_owned()),
            };
        }
        Ok(())
    }

    /// Opens the stream of the session.
    pub(super) async fn listen(&mut self) -> Result<(), String> {
        let request = self.with_session_headers(Request::new("GET").header("Accept", "text/event-stream"));
        let mut connection = Connection::connect(self.address).await;
        let head = connection.send(request).await;
        streams(&head)?;
        let sender = self.sender.clone();
        self.stream = Some(tokio::spawn(async move { events(&mut connection, &On::Stream, &sender).await }));
        Ok(())
    }

    /// Closes the connection of a request.
    pub(super) fn close(&mut self, id: &Value) {
        if let Some(reading) = self.reading.remove(&id.to_string()) {
            reading.abort();
        }
    }

    /// Ends the session.
    pub(super) async fn end(&mut self) -> Result<(), String> {
        if self.session.is_none() {
            return Ok(());
        }
        let response = Connection::connect(self.address)
            .await
            .send(self.with_session_headers(Request::new("DELETE")))
            .await;
        match response.status {
            200 | 204 => Ok(()),
            _ => Err(format!("cannot end the session: {response:?}")),
        }
    }
}

impl Drop for Http {
    fn drop(&mut self) {
        self.reading.values().chain(&self.stream).for_each(JoinHandle::abort);
    }
}

/// Reads the response to a request, and forwards its messages.
async fn read(
    address: SocketAddr,
    request: Request,
    id: Value,
    sender: ReceivedSender,
    opened: oneshot::Sender<Option<String>>,
) {
    let mut connection = Connection::connect(address).await;
    let head = connection.send(request).await;
    let _ = opened.send(head.header("mcp-session-id").map(str::to_owned));
    let on = On::Post(id);
    if head.header("content-type").is_some_and(|kind| kind.starts_with("application/json")) {
        let body = connection.read_body().await;
        let _ = sender.send(Message::read(&body).map(|message| Received { on, message }));
        return;
    }
    match streams(&head) {
        Ok(()) => events(&mut connection, &on, &sender).await,
        Err(error) => drop(sender.send(Err(error))),
    }
}

async fn events(connection: &mut Connection, on: &On, sender: &ReceivedSender) {
    while let Some(event) = connection.next_event().await {
        // An event without data only sets the id to resume from.
        if event.data.is_empty() {
            continue;
        }
        let received = match event.event.as_deref() {
            None | Some("message") => {
                Message::read(&event.data).map(|message| Received { on: on.clone(), message })
            }
            Some(_) => Err(format!("not a message: {event:?}")),
        };
        if sender.send(received).is_err() {
            return;
        }
    }
}

fn streams(head: &Response) -> Result<(), String> {
    match head.status == 200
        && head.header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream"))
    {
        true => Ok(()),
        false => Err(format!("neither JSON nor a stream: {head:?}")),
    }
}
