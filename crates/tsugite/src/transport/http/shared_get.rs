//! GET for sessions in a store: streams are sent from their logs, whichever replica writes them.

use std::sync::Arc;

use http::Response;
use tsugite_core::revision::Revision;

use super::event_stream::{PUSH_STREAM, log_key, priming_event};
use super::http_state::HttpState;
use super::log_follower::LogFollower;
use super::response_body::HttpBody;
use super::responses::{StatusError, sse, store_unavailable, unknown_event};
use super::sessions::SessionGuard;
use crate::replica::Replica;
use crate::server::limits::CallerKey;

/// Opens the stream of a session for messages that belong to no request.
pub(super) async fn open_stream(
    state: &Arc<HttpState>,
    replica: &Arc<Replica>,
    session: SessionGuard,
    caller: Option<CallerKey>,
    revision: Revision,
) -> Response<HttpBody> {
    let open = match state.open_stream(caller) {
        Ok(open) => open,
        Err(error) => return StatusError::from(error).into(),
    };
    let sent = state.logs.last_sent(&log_key(session.log_name(), PUSH_STREAM));
    let after = match state.take_push_stream(&session).await {
        Ok(delivered) => delivered.max(sent),
        Err(error) => return store_unavailable(&*error),
    };
    let primed =
        revision.primes_streams().then(|| priming_event(PUSH_STREAM, after, state.http.retry_interval));
    let (state, replica) = (state.clone(), replica.clone());
    let follower =
        LogFollower { state, replica, session, stream: PUSH_STREAM, after, may_skip: true, revision };
    sse(HttpBody::sse(follower.start(primed, open)))
}

/// Resumes a stream after the event that the client saw last, and follows it to its end.
pub(super) async fn resume(
    state: &Arc<HttpState>,
    replica: &Arc<Replica>,
    session: SessionGuard,
    caller: Option<CallerKey>,
    named: Option<(u128, u64)>,
    revision: Revision,
) -> Response<HttpBody> {
    let Some((stream, after)) = named else { return unknown_event() };
    let log = log_key(session.log_name(), stream);
    let owner = match state.store.read_log(&log, after).await {
        Ok(Some(read)) if !read.trimmed && after <= read.last => read.owner,
        // No message was sent yet.
        Ok(None) if stream == PUSH_STREAM && after == 0 => String::new(),
        Ok(_) => return unknown_event(),
        Err(error) => return store_unavailable(&*error),
    };
    let open = match state.open_stream(caller) {
        Ok(open) => open,
        Err(error) => return StatusError::from(error).into(),
    };
    if stream == PUSH_STREAM
        && let Err(error) = state.take_push_stream(&session).await
    {
        return store_unavailable(&*error);
    }
    // The readers before end, in this process and at the replica that followed the stream.
    let local = session.with_streams(|streams, _| streams.find(stream));
    let mut follower_before = None;
    if let Some(local) = &local {
        local.attach_reader();
        follower_before = local.other_reader.set(None);
    }
    let primed = revision.primes_streams().then(|| priming_event(stream, after, state.http.retry_interval));
    let (state, replica) = (state.clone(), replica.clone());
    let follower = LogFollower { state, replica, session, stream, after, may_skip: false, revision };
    let told = follower_before.as_deref().unwrap_or(&owner);
    if stream != PUSH_STREAM
        && let Err(error) = follower.announce(told).await
    {
        return store_unavailable(&*error);
    }
    sse(HttpBody::sse(follower.start(primed, open)))
}
