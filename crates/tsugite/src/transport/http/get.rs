//! GET and DELETE: streams for what belongs to no request, streams taken up again, and the end of a session.

use std::sync::Arc;

use http::request::Parts;
use http::{Response, StatusCode};
use tsugite_core::session::http::{DeleteDecision, GetDecision, OptionalHeader, decide_delete, decide_get};

use super::answer::{bare, denial, events, refuse};
use super::body::HttpBody;
use super::events::{Resumed, Standalone, joined};
use super::hub::Hub;
use super::post::Said;
use super::session::InUse;
use super::track::{event_id, log};
use crate::server::Principal;

/// Opens a stream, or takes one up again.
pub(super) async fn get(hub: &Arc<Hub>, parts: Parts, takes_events: bool) -> Response<HttpBody> {
    let said = Said::read(&parts.headers);
    let (session, head) = said.session(hub, parts.extensions.get::<Principal>());
    let resumes = said.last_event != OptionalHeader::Absent;
    let decision = decide_get(&hub.policy, &head, takes_events, resumes);
    let Some(session) = session else {
        return match decision {
            GetDecision::Reject(denied) => denial(&denied, None, allowed(hub)),
            _ => bare(StatusCode::NOT_FOUND),
        };
    };
    match decision {
        GetDecision::Stream(revision) => {
            // Whoever opens a stream hears of changes from now on.
            session.link.listener();
            let Some(open) = hub.open() else { return too_many() };
            let track = session.tracks(|tracks, id| tracks.standalone(id));
            let first = match revision.primes_streams() {
                true => Some(track.prime(hub.http.retry, &hub.store, hub.bounds())),
                false => None,
            };
            let (first, appending) = first.map_or((None, None), |(text, appending)| (Some(text), appending));
            if let Some(appending) = appending {
                appending.await;
            }
            events(HttpBody::events(Standalone::new(hub.clone(), session, track, first, None, open)))
        }
        GetDecision::Resume(revision) => {
            let named = match said.last_event {
                OptionalHeader::Present(id) => event_id(id),
                _ => None,
            };
            resume(hub, session, named, revision.primes_streams()).await
        }
        GetDecision::Reject(denied) => denial(&denied, None, allowed(hub)),
        _ => bare(StatusCode::METHOD_NOT_ALLOWED),
    }
}

/// Goes on after the event that the client saw last.
async fn resume(
    hub: &Arc<Hub>,
    session: InUse,
    named: Option<(u128, u64)>,
    primes: bool,
) -> Response<HttpBody> {
    let unknown =
        || refuse(StatusCode::BAD_REQUEST, "`Last-Event-ID` names no event of this session that is kept");
    let Some((number, after)) = named else { return unknown() };
    let (track, standalone) = session.tracks(|tracks, _| (tracks.find(number), tracks.is_standalone(number)));
    let shared = hub.store.is_shared();
    let track = match track.filter(|track| after <= track.last()) {
        Some(track) => track,
        // The stream of another replica goes on as one of ours.
        None if standalone && shared => session.tracks(|tracks, id| tracks.standalone(id)),
        None if shared => return elsewhere(hub, &session, number, after).await.unwrap_or_else(unknown),
        None => return unknown(),
    };
    // So that a client that is cut off once more, before anything was said, still knows where it was.
    let primed = primes.then(|| track.priming(after, hub.http.retry)).filter(|_| track.number() == number);
    let last = track.last();
    let missed = match hub.store.read(&log(session.id().as_str(), number), after).wait().await {
        Ok(Some(missed)) => missed,
        // Nothing was said since, so nothing was missed, even if the time of what was said before is over.
        _ if track.number() == number && last == after => Vec::new(),
        _ => return unknown(),
    };
    if !standalone {
        return events(HttpBody::events(Resumed::new(hub.clone(), session, track, after, primed)));
    }
    session.link.listener();
    let Some(open) = hub.open() else { return too_many() };
    let first = match (missed.is_empty(), primed) {
        (true, primed) => primed,
        (false, _) => Some(joined(&missed)),
    };
    let after = missed.last().map_or(after, |missed| missed.last);
    // The events of another replica have numbers of their own.
    let after = (track.number() == number).then_some(after);
    events(HttpBody::events(Standalone::new(hub.clone(), session, track, first, after, open)))
}

/// What another replica has said on a stream so far: the client comes back for more.
async fn elsewhere(hub: &Hub, session: &InUse, number: u128, after: u64) -> Option<Response<HttpBody>> {
    if !hub.store.is_shared() {
        return None;
    }
    let said = hub.store.read(&log(session.id().as_str(), number), after).wait().await.ok()??;
    Some(events(HttpBody::whole(joined(&said))))
}

/// Ends a session.
pub(super) async fn delete(hub: &Arc<Hub>, parts: Parts) -> Response<HttpBody> {
    let (session, head) = Said::read(&parts.headers).session(hub, parts.extensions.get::<Principal>());
    match (decide_delete(&hub.policy, &head), session) {
        (DeleteDecision::EndSession, Some(session)) => {
            hub.end(&session).await;
            bare(StatusCode::OK)
        }
        (DeleteDecision::Reject(denied), _) => denial(&denied, None, allowed(hub)),
        _ => bare(StatusCode::NOT_FOUND),
    }
}

fn too_many() -> Response<HttpBody> {
    refuse(StatusCode::SERVICE_UNAVAILABLE, "Too many streams are open; try again later")
}

/// What can be done at the endpoint.
pub(super) fn allowed(hub: &Hub) -> &'static str {
    match (hub.policy.sessions && !hub.policy.served.handshake().is_empty(), hub.policy.allow_delete, hub.http.cors)
    {
        (true, true, false) => "GET, POST, DELETE",
        (true, true, true) => "GET, POST, DELETE, OPTIONS",
        (true, false, false) => "GET, POST",
        (true, false, true) => "GET, POST, OPTIONS",
        (false, _, false) => "POST",
        (false, _, true) => "POST, OPTIONS",
    }
}
