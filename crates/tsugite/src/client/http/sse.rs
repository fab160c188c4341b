//! HTTP+SSE of 2024-11-05: a stream for everything the server says, and an address for everything said to it.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Method, StatusCode, Uri};
use tokio::sync::oneshot;
use tsugite_core::sse::SseReader;

use super::send::{Door, Reply, message_headers, stream_headers};
use super::stream::too_long;
use super::{Url, excerpt};
use crate::client::carrier::{Carrier, Outgoing};
use crate::client::error::{Error, Kind, Step};
use crate::client::link::{Link, Trouble};
use crate::client::shared::Shared;
use crate::lock::lock;

/// A connection of 2024-11-05.
pub(in crate::client) struct Sse {
    door: Door,
    /// Where messages go.
    endpoint: Mutex<Option<Uri>>,
}

impl Sse {
    /// Opens the stream and waits until the server has said where messages go.
    pub(in crate::client) async fn open(shared: &Arc<Shared>, url: &Url) -> Result<Arc<Link>, Error> {
        let door = url.door(shared.settings.patience.idle_timeout)?;
        let limit = shared.settings.patience.idle_timeout;
        let opened = tokio::time::timeout(
            limit,
            door.send(Method::GET, &door.endpoint, &|| Ok(stream_headers()), Bytes::new()),
        );
        let reply = opened.await.map_err(|_| Kind::TimedOut { limit, total: false })??;
        if reply.status != StatusCode::OK || !reply.is_stream() {
            let status = reply.status.as_u16();
            let said = tokio::time::timeout(limit, reply.whole(super::ERROR_BYTES)).await;
            let said = excerpt(&said.ok().and_then(Result::ok).unwrap_or_default());
            return Err(Kind::Status { status, said }.into());
        }
        let link =
            Link::new(Arc::clone(shared), Carrier::Sse(Box::new(Sse { door, endpoint: Mutex::default() })));
        let (told, endpoint) = oneshot::channel();
        link.keep(&tokio::spawn(read(Arc::clone(&link), reply, told)));
        let limit = shared.settings.probe;
        match tokio::time::timeout(limit, endpoint).await {
            Ok(Ok(Ok(()))) => Ok(link),
            Ok(Ok(Err(error))) => {
                link.end("the stream has no endpoint");
                Err(error)
            }
            Ok(Err(_)) | Err(_) => {
                link.end("the stream has no endpoint");
                let seen = "the server's stream does not say where messages go";
                Err(Error::connect(Step::Handshake, seen))
            }
        }
    }

    /// Sends a request; its answer comes on the stream.
    pub(in crate::client) async fn send(&self, outgoing: Outgoing<'_>) -> Result<(), Trouble> {
        let headers = || {
            let mut headers = message_headers();
            for (name, value) in outgoing.extra {
                let (name, value) = super::send::user_header(name, value)?;
                headers.insert(name, value);
            }
            Ok(headers)
        };
        self.post(&headers, outgoing.bytes).await
    }

    /// Sends a notification or an answer.
    pub(in crate::client) async fn tell(&self, bytes: Vec<u8>) -> Result<(), Trouble> {
        self.post(&|| Ok(message_headers()), bytes).await
    }

    async fn post(
        &self,
        headers: &(dyn Fn() -> Result<http::HeaderMap, Error> + Sync),
        bytes: Vec<u8>,
    ) -> Result<(), Trouble> {
        let Some(endpoint) = lock(&self.endpoint).clone() else {
            return Err(Trouble::not_run("the server has not said where messages go"));
        };
        let reply = self.door.send(Method::POST, &endpoint, headers, bytes.into()).await?;
        if reply.status.is_success() {
            reply.discard();
            return Ok(());
        }
        let status = reply.status.as_u16();
        let said = excerpt(&reply.whole(super::ERROR_BYTES).await.unwrap_or_default());
        Err(Kind::Status { status, said }.into())
    }
}

/// Reads the stream to its end, which is the end of the connection.
async fn read(link: Arc<Link>, mut reply: Reply, told: oneshot::Sender<Result<(), Error>>) {
    let Carrier::Sse(sse) = &link.carrier else { return };
    let mut told = Some(told);
    let mut events = SseReader::new(link.limits().max_message_bytes);
    let seen = 'stream: loop {
        let chunk = match reply.chunk().await {
            None => break "the server closed the connection".to_owned(),
            Some(Err(error)) => break format!("the connection was lost: {error}"),
            Some(Ok(chunk)) => chunk,
        };
        events.push(&chunk);
        while let Some(event) = events.next_event() {
            let event = match event {
                Ok(event) => event,
                Err(error) => break 'stream Error::from(too_long(error)).to_string(),
            };
            if event.name != "endpoint" {
                link.receive(event.data, None);
                continue;
            }
            let Some(told) = told.take() else { continue };
            let reference = String::from_utf8_lossy(event.data);
            let endpoint = sse.door.address.join(&reference).and_then(|address| address.path.parse().ok());
            let outcome = match &endpoint {
                Some(_) => Ok(()),
                // What is sent there may hold credentials.
                None => {
                    let seen = "the server wants messages sent to another server, which is refused";
                    Err(Error::connect(Step::Handshake, seen))
                }
            };
            *lock(&sse.endpoint) = endpoint;
            let _ = told.send(outcome);
        }
        link.room_behind().await;
    };
    link.lose(&seen);
}
