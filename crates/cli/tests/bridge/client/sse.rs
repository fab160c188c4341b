//! HTTP+SSE, the transport of 2024-11-05: one stream to receive, and an endpoint to post to.

use std::net::SocketAddr;

use tokio::task::JoinHandle;
use tsugite_testkit::http::{Connection, Request};

use super::{On, Received, ReceivedSender};
use crate::message::Message;

/// A stream and its endpoint.
pub(super) struct Sse {
    address: SocketAddr,
    endpoint: String,
    reading: JoinHandle<()>,
}

impl Sse {
    pub(super) async fn open(address: SocketAddr, sender: ReceivedSender) -> Result<Self, String> {
        let mut stream = Connection::connect(address).await;
        let request = Request::new("GET").path("/sse").header("Accept", "text/event-stream");
        let head = stream.send(request).await;
        if head.status != 200
            || !head.header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream"))
        {
            return Err(format!("no stream: {head:?}"));
        }
        let first = stream.next_event().await.ok_or("the stream ends at once")?;
        if first.event.as_deref() != Some("endpoint") {
            return Err(format!("the first event names no endpoint: {first:?}"));
        }
        let reading = tokio::spawn(async move {
            while let Some(event) = stream.next_event().await {
                let received = match event.event.as_deref() {
                    Some("message") => {
                        Message::read(&event.data).map(|message| Received { on: On::Stream, message })
                    }
                    _ => Err(format!("not a message: {event:?}")),
                };
                if sender.send(received).is_err() {
                    return;
                }
            }
        });
        Ok(Self { address, endpoint: first.data, reading })
    }

    pub(super) async fn send(&mut self, message: String) -> Result<(), String> {
        let request = Request::new("POST").path(&self.endpoint).header("Content-Type", "application/json");
        let response = Connection::connect(self.address).await.send(request.body(message)).await;
        match response.status {
            202 => Ok(()),
            _ => Err(format!("not accepted: {response:?}")),
        }
    }
}

impl Drop for Sse {
    fn drop(&mut self) {
        self.reading.abort();
    }
}
