//! The scopes of requests and their streams: 403 for callers that lack them.
//!
//! A stream carries the result of an item, so the token that resumes it needs the scopes of that item, too.

use http::Response;
use tsugite_core::jsonrpc::{Incoming, Message};
use tsugite_core::revision::{InsufficientScope, RpcError};
use tsugite_core::session::request_meta::{RequestMeta, parse_with_meta};

use super::authorization::{HostName, insufficient_scope};
use super::event_stream::log_key;
use super::http_state::HttpState;
use super::request_head::RequestHead;
use super::response_body::HttpBody;
use super::responses::store_unavailable;
use super::sessions::HttpSession;
use super::stored_scopes;
use crate::server::Principal;
use crate::store::StoreError;

/// 403 for a request whose caller lacks a scope.
pub(super) fn scope_challenge(
    state: &HttpState,
    is_stateless: bool,
    InsufficientScope { mut required, granted }: InsufficientScope,
    host: HostName,
) -> Response<HttpBody> {
    // Clients of 2026-07-28 add new scopes to those that they have. Older ones ask for what the challenge says alone.
    if !is_stateless {
        let more: Vec<_> = granted.into_iter().filter(|scope| !required.contains(scope)).collect();
        required.extend(more.into_iter().filter(|scope| scope != "offline_access"));
    }
    match &state.authorization {
        Some(authorization) => authorization.insufficient_scope(host, &required).into(),
        None => insufficient_scope(&required).into(),
    }
}

/// Checks the scopes of a message of HTTP+SSE, whose response would not have a status of its own. The error is the response.
pub(super) fn check_message(
    state: &HttpState,
    principal: Option<&Principal>,
    host: HostName,
    body: &[u8],
) -> Result<(), Box<Response<HttpBody>>> {
    let shared = &state.server.shared;
    if !shared.has_scoped_items() {
        return Ok(());
    }
    let mut meta = RequestMeta::default();
    let parsed = parse_with_meta(body, &state.config.limits, &mut meta);
    let Ok(Incoming::Single(Message::Request(request))) = &parsed else { return Ok(()) };
    let needed = shared.needed_scopes(&state.config, principal, &request.method, &meta);
    check_needed(state, principal, &needed, host)
}

fn check_needed(
    state: &HttpState,
    principal: Option<&Principal>,
    needed: &[String],
    host: HostName,
) -> Result<(), Box<Response<HttpBody>>> {
    match state.config.check_scopes(principal, needed) {
        Err(RpcError::InsufficientScope(scopes)) => {
            Err(Box::new(scope_challenge(state, false, *scopes, host)))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Checks that the caller may resume a stream. The error is the response.
pub(super) async fn check_resume(
    state: &HttpState,
    head: &RequestHead,
    session: &HttpSession,
    stream: u128,
) -> Result<(), Box<Response<HttpBody>>> {
    if !state.server.shared.has_scoped_items() {
        return Ok(());
    }
    let needed = match needed_scopes(state, session, stream).await {
        Ok(needed) => needed,
        Err(error) => return Err(Box::new(store_unavailable(&*error))),
    };
    check_needed(state, head.principal.as_ref(), &needed, HostName::of(head.authority()))
}

/// The scopes of a stream.
pub(super) async fn needed_scopes(
    state: &HttpState,
    session: &HttpSession,
    stream: u128,
) -> Result<Vec<String>, StoreError> {
    let Some(replica) = &state.replica else {
        let stream = session.with_streams(|streams, _| streams.find(stream));
        return Ok(stream.map(|stream| stream.needed_scopes()).unwrap_or_default());
    };
    stored_scopes::read(replica, &log_key(session.log_name(), stream)).await
}
