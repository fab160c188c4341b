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

use super::http_state::HttpState;
use super::post::read_body;
use super::response_body::HttpBody;
use super::responses::{empty, http_error, parse_error, sse, status_error};
use super::sse_body::{KeepAlive, SseBody};
use crate::lock::lock;
use crate::server::Principal;
use crate::server::connection::ServerConnection;
use crate::server::handler_limits::StreamPermit;

/// The sessions of this transport: each lives as long as its stream.
#[derive(Default)]
pub(super) struct HttpSseSessions(Mutex<HashMap<String, Arc<ServerConnection>>>);

impl HttpSseSessions {
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
pub(super) fn open_stream(
    hub: &Arc<HttpState>,
    parts: &Parts,
    messages: &str,
    takes_events: bool,
) -> Response<HttpBody> {
    if let Err(denied) = decide_http_sse(&hub.policy) {
        return http_error(&denied, None, "GET");
    }
    if !takes_events {
        return status_error(
            StatusCode::NOT_ACCEPTABLE,
            "A stream is `text/event-stream`: `Accept` must say so",
        );
    }
    let full = || status_error(StatusCode::SERVICE_UNAVAILABLE, "Too many streams are open; try again later");
    let Some(open) = hub.open_stream() else { return full() };
    let mut bits = [0; 24];
    if SystemRandom::new().fill(&mut bits).is_err() {
        return status_error(StatusCode::INTERNAL_SERVER_ERROR, "No session could be opened");
    }
    let id = base64::encode_url(&bits);
    let who = parts.extensions.get::<Principal>().cloned();
    let link =
        ServerConnection::with_limits(&hub.server, hub.http_sse_config.clone(), who, &hub.handler_limits);
    link.outbox();
    lock(&hub.http_sse_sessions.0).insert(id.clone(), link.clone());
    let first = Some(Bytes::from(format!("event: endpoint\ndata: {messages}?sessionId={id}\n\n")));
    sse(HttpBody::sse(HttpSseBody {
        keep_alive: KeepAlive::new(hub),
        state: hub.clone(),
        id,
        connection: link,
        endpoint_event: first,
        _open_stream: open,
    }))
}

/// Takes a message. Its answer comes on the stream.
pub(super) async fn handle_message<B: Body + Unpin>(
    hub: &Arc<HttpState>,
    parts: Parts,
    body: B,
) -> Response<HttpBody> {
    if let Err(denied) = decide_http_sse(&hub.policy) {
        return http_error(&denied, None, "POST");
    }
    let query = parts.uri.query().unwrap_or_default();
    let id = query.split('&').find_map(|pair| pair.strip_prefix("sessionId="));
    let link = id.and_then(|id| hub.http_sse_sessions.find(id, parts.extensions.get::<Principal>()));
    let Some(link) = link else { return status_error(StatusCode::NOT_FOUND, "Session not found") };
    let bytes = match read_body(hub, body).await {
        Ok(bytes) => bytes,
        Err(refused) => return refused.into(),
    };
    if let Err(wrong) = parse(&bytes, &hub.config.limits) {
        return parse_error(&wrong, hub.config.revisions.error_fallback());
    }
    // A client that does not read its answers is asked for no more questions.
    link.outbox().wait_for_capacity().await;
    link.spawn(link.receive(&bytes));
    empty(StatusCode::ACCEPTED)
}

struct HttpSseBody {
    state: Arc<HttpState>,
    id: String,
    connection: Arc<ServerConnection>,
    endpoint_event: Option<Bytes>,
    keep_alive: KeepAlive,
    _open_stream: StreamPermit,
}

impl SseBody for HttpSseBody {
    fn poll_events(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(first) = self.endpoint_event.take() {
            return Poll::Ready(Some(first));
        }
        let outbox = self.connection.outbox().clone();
        let mut said = Vec::new();
        loop {
            if outbox.take_all(&mut said) {
                self.keep_alive.reset();
                let mut text = Vec::with_capacity(said.len() + 64);
                for line in said.split_inclusive(|byte| *byte == b'\n') {
                    text.extend_from_slice(b"event: message\n");
                    super::event_stream::write_event(&mut text, line);
                }
                return Poll::Ready(Some(Bytes::from(text)));
            }
            if outbox.is_closed() || self.state.is_closing() && !self.connection.has_in_flight() {
                return Poll::Ready(None);
            }
            if outbox.poll_readable(cx).is_pending() {
                return self.keep_alive.poll(cx).map(Some);
            }
        }
    }
}

impl Drop for HttpSseBody {
    fn drop(&mut self) {
        lock(&self.state.http_sse_sessions.0).remove(&self.id);
        self.connection.abort_all();
    }
}
