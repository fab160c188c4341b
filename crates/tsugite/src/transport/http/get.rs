//! GET and DELETE: streams for what belongs to no request, streams taken up again, and the end of a session.

use std::sync::Arc;

use http::request::Parts;
use http::{Response, StatusCode};
use tsugite_core::session::http::{DeleteDecision, GetDecision, OptionalHeader, decide_delete, decide_get};

use super::event_stream::{log_key, parse_event_id};
use super::http_state::HttpState;
use super::post::McpHeaders;
use super::response_body::HttpBody;
use super::responses::{empty, http_error, sse, status_error};
use super::sessions::SessionGuard;
use super::sse_body::{ResumedSseBody, StandaloneSseBody, concat_events};
use crate::server::Principal;

/// Opens a stream, or takes one up again.
pub(super) async fn get(hub: &Arc<HttpState>, parts: Parts, takes_events: bool) -> Response<HttpBody> {
    let said = McpHeaders::parse(&parts.headers);
    let (session, head) = said.resolve_session(hub, parts.extensions.get::<Principal>());
    let resumes = said.last_event_id != OptionalHeader::Absent;
    let decision = decide_get(&hub.policy, &head, takes_events, resumes);
    let Some(session) = session else {
        return match decision {
            GetDecision::Reject(denied) => http_error(&denied, None, allowed_methods(hub)),
            GetDecision::Stream(_) | GetDecision::Resume(_) => empty(StatusCode::NOT_FOUND),
        };
    };
    match decision {
        GetDecision::Stream(revision) => {
            // Whoever opens a stream hears of changes from now on.
            session.connection.listener();
            let Some(open) = hub.open_stream() else { return too_many_streams() };
            let track = session.with_streams(|tracks, id| tracks.standalone(id));
            let first = match revision.primes_streams() {
                true => Some(track.prime(hub.http.retry_interval, &hub.store, hub.log_limits())),
                false => None,
            };
            let (first, appending) = first.map_or((None, None), |(text, appending)| (Some(text), appending));
            if let Some(appending) = appending {
                appending.await;
            }
            sse(HttpBody::sse(StandaloneSseBody::new(hub.clone(), session, track, first, None, open)))
        }
        GetDecision::Resume(revision) => {
            let named = match said.last_event_id {
                OptionalHeader::Present(id) => parse_event_id(id),
                _ => None,
            };
            resume(hub, session, named, revision.primes_streams()).await
        }
        GetDecision::Reject(denied) => http_error(&denied, None, allowed_methods(hub)),
    }
}

/// Goes on after the event that the client saw last.
async fn resume(
    hub: &Arc<HttpState>,
    session: SessionGuard,
    named: Option<(u128, u64)>,
    primes: bool,
) -> Response<HttpBody> {
    let unknown = || {
        status_error(StatusCode::BAD_REQUEST, "`Last-Event-ID` names no event of this session that is kept")
    };
    let Some((number, after)) = named else { return unknown() };
    let (track, standalone) =
        session.with_streams(|tracks, _| (tracks.find(number), tracks.is_standalone(number)));
    let shared = hub.store.is_shared();
    let track = match track.filter(|track| after <= track.last_event()) {
        Some(track) => track,
        // The stream of another replica goes on as one of ours.
        None if standalone && shared => session.with_streams(|tracks, id| tracks.standalone(id)),
        None if shared => {
            return replay_from_store(hub, &session, number, after).await.unwrap_or_else(unknown);
        }
        None => return unknown(),
    };
    // So that a client that is cut off once more, before anything was said, still knows where it was.
    let primed =
        primes.then(|| track.priming_event(after, hub.http.retry_interval)).filter(|_| track.id() == number);
    let last = track.last_event();
    let missed = match hub.store.read(&log_key(session.id().as_str(), number), after).wait().await {
        Ok(Some(missed)) => missed,
        // Nothing was said since, so nothing was missed, even if the time of what was said before is over.
        _ if track.id() == number && last == after => Vec::new(),
        _ => return unknown(),
    };
    if !standalone {
        return sse(HttpBody::sse(ResumedSseBody::new(hub.clone(), session, track, after, primed)));
    }
    session.connection.listener();
    let Some(open) = hub.open_stream() else { return too_many_streams() };
    let first = match (missed.is_empty(), primed) {
        (true, primed) => primed,
        (false, _) => Some(concat_events(&missed)),
    };
    let after = missed.last().map_or(after, |missed| missed.last);
    // The events of another replica have numbers of their own.
    let after = (track.id() == number).then_some(after);
    sse(HttpBody::sse(StandaloneSseBody::new(hub.clone(), session, track, first, after, open)))
}

/// What another replica has said on a stream so far: the client comes back for more.
async fn replay_from_store(
    hub: &HttpState,
    session: &SessionGuard,
    number: u128,
    after: u64,
) -> Option<Response<HttpBody>> {
    if !hub.store.is_shared() {
        return None;
    }
    let said = hub.store.read(&log_key(session.id().as_str(), number), after).wait().await.ok()??;
    Some(sse(HttpBody::full(concat_events(&said))))
}

/// Ends a session.
pub(super) async fn delete(hub: &Arc<HttpState>, parts: Parts) -> Response<HttpBody> {
    let (session, head) =
        McpHeaders::parse(&parts.headers).resolve_session(hub, parts.extensions.get::<Principal>());
    match (decide_delete(&hub.policy, &head), session) {
        (DeleteDecision::EndSession, Some(session)) => {
            hub.end_session(&session).await;
            empty(StatusCode::OK)
        }
        (DeleteDecision::Reject(denied), _) => http_error(&denied, None, allowed_methods(hub)),
        (DeleteDecision::EndSession, None) => empty(StatusCode::NOT_FOUND),
    }
}

fn too_many_streams() -> Response<HttpBody> {
    status_error(StatusCode::SERVICE_UNAVAILABLE, "Too many streams are open; try again later")
}

/// What can be done at the endpoint.
pub(super) fn allowed_methods(hub: &HttpState) -> &'static str {
    match (
        hub.policy.sessions && !hub.policy.served.handshake().is_empty(),
        hub.policy.allow_delete,
        hub.http.cors,
    ) {
        (true, true, false) => "GET, POST, DELETE",
        (true, true, true) => "GET, POST, DELETE, OPTIONS",
        (true, false, false) => "GET, POST",
        (true, false, true) => "GET, POST, OPTIONS",
        (false, _, false) => "POST",
        (false, _, true) => "POST, OPTIONS",
    }
}
