//! GET and DELETE: opens the stream of a session, resumes a stream, ends a session.

use std::sync::Arc;

use http::{Response, StatusCode};
use tsugite_core::revision::Revision;
use tsugite_core::session::http::{
    DeleteDecision, GetDecision, GetHeaders, OptionalHeader, decide_delete, decide_get,
};

use super::event_stream::{encode_log, log_key, parse_event_id, priming_event};
use super::http_state::HttpState;
use super::named_session::NamedSession;
use super::request_head::RequestHead;
use super::response_body::HttpBody;
use super::responses::{StatusError, empty, http_error, sse, store_unavailable, unknown_event};
use super::sessions::SessionGuard;
use super::shared_get;
use super::sse_body::{ResumedSseBody, StandaloneSseBody, kept_batches};
use super::stream_scopes::check_resume;
use crate::server::limits::CallerKey;

/// Opens the stream of a session for messages that belong to no request, or resumes a stream.
pub(super) async fn get(
    state: &Arc<HttpState>,
    head: &RequestHead,
    session: NamedSession,
) -> Response<HttpBody> {
    let resumes = head.mcp.last_event_id.to_text() != OptionalHeader::Absent;
    let headers = GetHeaders {
        common: head.mcp.with_session(&session),
        accepts_events: head.accepts_events(),
        has_last_event_id: resumes,
    };
    match (decide_get(&state.policy, &headers), session.into_guard()) {
        (GetDecision::Stream(revision), Some(session)) => match &state.replica {
            None => open_stream(state, session, head.caller_key(), revision).await,
            Some(replica) => {
                shared_get::open_stream(state, replica, session, head.caller_key(), revision).await
            }
        },
        (GetDecision::Resume(revision), Some(session)) => {
            let event = match head.mcp.last_event_id.to_text() {
                OptionalHeader::Present(id) => parse_event_id(id),
                OptionalHeader::Absent | OptionalHeader::Ambiguous => None,
            };
            if let Some((stream, _)) = event
                && let Err(response) = check_resume(state, head, &session, stream).await
            {
                return *response;
            }
            match &state.replica {
                None => resume(state, session, head.caller_key(), event, revision.primes_streams()).await,
                Some(replica) => {
                    let caller = head.caller_key();
                    shared_get::resume(state, replica, session, caller, event, revision).await
                }
            }
        }
        (GetDecision::Reject(error), _) => http_error(&error, None, allowed_methods(state)),
        // Only a session that was found is streamed or resumed.
        (GetDecision::Stream(_) | GetDecision::Resume(_), None) => empty(StatusCode::NOT_FOUND),
    }
}

/// Opens the stream of a session for messages that belong to no request.
async fn open_stream(
    state: &Arc<HttpState>,
    session: SessionGuard,
    caller: Option<CallerKey>,
    revision: Revision,
) -> Response<HttpBody> {
    // From now on the session is notified of changes.
    session.connection.listener();
    let permit = match state.open_stream(caller) {
        Ok(permit) => permit,
        Err(error) => return StatusError::from(error).into(),
    };
    let stream = session.with_streams(|streams, id| streams.standalone(id));
    let mut first = None;
    if revision.primes_streams() {
        let (event, _) = stream.prime(state.http.retry_interval, &state.logs);
        first = Some(event);
    }
    sse(HttpBody::sse(StandaloneSseBody::new(state.clone(), session, stream, first, None, permit)))
}

/// Resumes a stream after the event that the client saw last.
async fn resume(
    state: &Arc<HttpState>,
    session: SessionGuard,
    caller: Option<CallerKey>,
    named: Option<(u128, u64)>,
    primes: bool,
) -> Response<HttpBody> {
    let Some((number, after)) = named else { return unknown_event() };
    let (stream, standalone) =
        session.with_streams(|streams, _| (streams.find(number), streams.is_standalone(number)));
    let Some(stream) = stream.filter(|stream| after <= stream.last_event()) else { return unknown_event() };
    // Repeats the id, so that a client that is cut off again before the next event can still resume.
    let primed = primes.then(|| priming_event(number, after, state.http.retry_interval));
    let last = stream.last_event();
    let read = state.store.read_log(&log_key(session.log_name(), number), after).await;
    let missed = match kept_batches(read) {
        Some(missed) => missed,
        // No event followed, so none was missed, even if the log has expired.
        None if last == after => Vec::new(),
        None => return unknown_event(),
    };
    let open = match state.open_stream(caller) {
        Ok(open) => open,
        Err(error) => return StatusError::from(error).into(),
    };
    if !standalone {
        return sse(HttpBody::sse(ResumedSseBody::new(state.clone(), session, stream, after, primed, open)));
    }
    session.connection.listener();
    let first = match (missed.is_empty(), primed) {
        (true, primed) => primed,
        (false, _) => Some(encode_log(number, &missed, after)),
    };
    let after = Some(missed.last().map_or(after, |missed| missed.last));
    sse(HttpBody::sse(StandaloneSseBody::new(state.clone(), session, stream, first, after, open)))
}

/// Ends a session.
pub(super) async fn delete(
    state: &HttpState,
    head: &RequestHead,
    session: NamedSession,
) -> Response<HttpBody> {
    let headers = head.mcp.with_session(&session);
    match (decide_delete(&state.policy, &headers), session.into_guard()) {
        (DeleteDecision::EndSession, Some(session)) => match state.end_session(&session).await {
            Ok(()) => empty(StatusCode::OK),
            Err(error) => store_unavailable(&*error),
        },
        (DeleteDecision::Reject(error), _) => http_error(&error, None, allowed_methods(state)),
        (DeleteDecision::EndSession, None) => empty(StatusCode::NOT_FOUND),
    }
}

/// The methods that the endpoint serves, for `Allow`.
pub(super) fn allowed_methods(state: &HttpState) -> &'static str {
    match (
        state.policy.sessions && !state.policy.served.handshake().is_empty(),
        state.policy.allow_delete,
        state.http.cors,
    ) {
        (true, true, false) => "GET, POST, DELETE",
        (true, true, true) => "GET, POST, DELETE, OPTIONS",
        (true, false, false) => "GET, POST",
        (true, false, true) => "GET, POST, OPTIONS",
        (false, _, false) => "POST",
        (false, _, true) => "POST, OPTIONS",
    }
}
