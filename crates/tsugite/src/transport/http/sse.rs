//! HTTP+SSE, the transport of 2024-11-05: one stream for everything the server says, and a path to post to.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::request::Parts;
use http::{Response, StatusCode};
use http_body::Body;
use ring::rand::{SecureRandom, SystemRandom};
use tsugite_core::base64;
use tsugite_core::jsonrpc::parse;
use tsugite_core::session::http::decide_http_sse;

use super::answer::{bare, denial, events, fault, refuse};
use super::body::HttpBody;
use super::events::{Beat, Events};
use super::hub::Hub;
use super::post::body_of;
use crate::lock::lock;
use crate::server::Principal;
use crate::server::connection::ServerConnection;
use crate::server::handler_limits::StreamPermit;

/// The sessions of this transport: each lives as long as its stream.
#[derive(Default)]
pub(super) struct OldSessions(Mutex<HashMap<String, Arc<ServerConnection>>>);

impl OldSessions {
    fn find(&self, id: &str, who: Option<&Principal>) -> Option<Arc<ServerConnection>> {
        let link = lock(&self.0).get(id).cloned()?;
        (link.caller.principal.as_ref() == who).then_some(link)
    }

    pub(super) fn close(&self) {
        let links: Vec<_> = lock(&self.0).values().cloned().collect();
        for link in links {
            link.close();
            link.wake_push_stream();
        }
    }
}

/// Opens a stream: first it says where to post, then it carries everything.
pub(super) fn stream(
    hub: &Arc<Hub>,
    parts: &Parts,
    messages: &str,
    takes_events: bool,
) -> Response<HttpBody> {
    if let Err(denied) = decide_http_sse(&hub.policy) {
        return denial(&denied, None, "GET");
    }
    if !takes_events {
        return refuse(StatusCode::NOT_ACCEPTABLE, "A stream is `text/event-stream`: `Accept` must say so");
    }
    let full = || refuse(StatusCode::SERVICE_UNAVAILABLE, "Too many streams are open; try again later");
    let Some(open) = hub.open() else { return full() };
    let mut bits = [0; 24];
    if SystemRandom::new().fill(&mut bits).is_err() {
        return refuse(StatusCode::INTERNAL_SERVER_ERROR, "No session could be opened");
    }
    let id = base64::encode_url(&bits);
    let who = parts.extensions.get::<Principal>().cloned();
    let link = ServerConnection::with_limits(&hub.server, hub.old_config.clone(), who, &hub.room);
    link.outbox();
    lock(&hub.old.0).insert(id.clone(), link.clone());
    let first = Some(Bytes::from(format!("event: endpoint\ndata: {messages}?sessionId={id}\n\n")));
    events(HttpBody::events(OldStream {
        beat: Beat::new(hub),
        hub: hub.clone(),
        id,
        link,
        first,
        _open: open,
    }))
}

/// Takes a message. Its answer comes on the stream.
pub(super) async fn message<B: Body + Unpin>(hub: &Arc<Hub>, parts: Parts, body: B) -> Response<HttpBody> {
    if let Err(denied) = decide_http_sse(&hub.policy) {
        return denial(&denied, None, "POST");
    }
    let query = parts.uri.query().unwrap_or_default();
    let id = query.split('&').find_map(|pair| pair.strip_prefix("sessionId="));
    let link = id.and_then(|id| hub.old.find(id, parts.extensions.get::<Principal>()));
    let Some(link) = link else { return refuse(StatusCode::NOT_FOUND, "Session not found") };
    let bytes = match body_of(hub, body).await {
        Ok(bytes) => bytes,
        Err(refused) => return refused.into(),
    };
    if let Err(wrong) = parse(&bytes, &hub.config.limits) {
        return fault(&wrong, hub.config.revisions.error_fallback());
    }
    // A client that does not read its answers is asked for no more questions.
    link.outbox().room().await;
    for work in link.receive(&bytes) {
        let task = tokio::spawn(work.future);
        link.register_task(&work.id, work.serial, task.abort_handle());
    }
    bare(StatusCode::ACCEPTED)
}

struct OldStream {
    hub: Arc<Hub>,
    id: String,
    link: Arc<ServerConnection>,
    first: Option<Bytes>,
    beat: Beat,
    _open: StreamPermit,
}

impl Events for OldStream {
    fn poll_events(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(first));
        }
        let outbox = self.link.outbox().clone();
        let mut said = Vec::new();
        loop {
            if outbox.take_now(&mut said) {
                self.beat.put_off();
                let mut text = Vec::with_capacity(said.len() + 64);
                for line in said.split_inclusive(|byte| *byte == b'\n') {
                    text.extend_from_slice(b"event: message\n");
                    super::track::data(&mut text, line);
                }
                return Poll::Ready(Some(Bytes::from(text)));
            }
            if outbox.is_closed() || self.hub.is_closing() && !self.link.has_in_flight() {
                return Poll::Ready(None);
            }
            if outbox.poll_filled(cx).is_pending() {
                return self.beat.poll(cx).map(Some);
            }
        }
    }
}

impl Drop for OldStream {
    fn drop(&mut self) {
        lock(&self.hub.old.0).remove(&self.id);
        self.link.abort_all();
    }
}
