//! How a connection over HTTP begins.

use std::pin::pin;
use std::sync::Arc;

use tsugite_core::jsonrpc::{Id, Incoming, Message, parse};
use tsugite_core::protocol::Method;
use tsugite_core::protocol::lifecycle::Initialize;
use tsugite_core::revision::Revision;
use tsugite_core::session::probe::{
    ProbeRequest, ProbeBody, HttpProbeStep, HttpOutcome, HttpProbe, ProbeError, TransportKind, ProbeRecord,
};

use super::{Http, Sse, Url, excerpt, hear};
use crate::client::carrier::{Answered, Carrier, Outgoing};
use crate::client::error::{Error, Kind, Result, Step};
use crate::client::link::{Link, Trouble, Written};
use crate::client::open::{First, Opening, failed, policy, settle};
use crate::client::options::Options;
use crate::client::shared::Shared;

/// Opens a connection. `known` is what was found out earlier.
pub(in crate::client) async fn open(
    shared: &Arc<Shared>,
    url: &Url,
    known: Option<ProbeRecord>,
) -> Result<(Arc<Link>, Option<ProbeRecord>)> {
    let known = match url.only_sse {
        true => {
            let offer = shared.settings.spoken.handshake().newest_first().next();
            let offer = offer.ok_or_else(|| Error::setting("HTTP+SSE needs a revision with a handshake"))?;
            Some(ProbeRecord::new(offer, TransportKind::HttpSse))
        }
        false => known,
    };
    let (mut probe, mut next) = match known {
        Some(verdict) => HttpProbe::with_record(policy(shared), verdict),
        None => HttpProbe::new(policy(shared)),
    };
    let mut opening = Opening(Some(streamable(shared, url)?));
    let (mut status, mut said, mut answered) = (0, String::new(), false);
    loop {
        let Some(link) = &opening.0 else { return Err(Kind::Closed.into()) };
        next = match next {
            // What was believed to be there is not: the usual way is tried instead.
            HttpProbeStep::Send(ask) if !matches!(link.carrier, Carrier::Http(_)) => {
                opening = Opening(Some(streamable(shared, url)?));
                HttpProbeStep::Send(ask)
            }
            HttpProbeStep::Send(ask) => {
                let posted = post(link, ask).await?;
                (status, said, answered) = (posted.status, posted.said, posted.answer.is_some());
                if let Some(Ok(hello)) = &posted.answer {
                    link.introduce(hello);
                }
                probe.receive(outcome(posted.status, posted.answer.as_ref()))
            }
            HttpProbeStep::OpenSse(_) if url.only_streamable => HttpProbeStep::Fail(ProbeError::HttpStatus(status)),
            HttpProbeStep::OpenSse(offer) => match open_old(shared, url, offer).await {
                Ok((old, Err(error))) if url.only_sse => {
                    old.end("the server refused");
                    return Err(Error::refused(error, Initialize::NAME, offer));
                }
                Ok((old, answer)) => {
                    if let Ok(hello) = &answer {
                        old.introduce(hello);
                    }
                    opening = Opening(Some(old));
                    probe.receive(outcome(200, Some(&answer)))
                }
                Err(Trouble::Final(error)) => match error.into_kind() {
                    Kind::Status { status, .. } if !url.only_sse => probe.receive(outcome(status, None)),
                    other => return Err(other.into()),
                },
                Err(lost) => return Err(lost.into()),
            },
            // Credentials and patience have been tried already, where the request was sent.
            HttpProbeStep::Authorize => HttpProbeStep::Fail(ProbeError::HttpStatus(401)),
            HttpProbeStep::StepUp => HttpProbeStep::Fail(ProbeError::HttpStatus(403)),
            HttpProbeStep::Wait => HttpProbeStep::Fail(ProbeError::HttpStatus(429)),
            HttpProbeStep::Fail(ProbeError::HttpStatus(status)) => return Err(Kind::Status { status, said }.into()),
            // A page for people, or whatever else is there.
            HttpProbeStep::Fail(ProbeError::InvalidResponse(_)) if !answered => {
                let said = if said.is_empty() { "nothing" } else { &said };
                let seen = format!("what came with status {status} is no answer: {said}");
                return Err(Kind::Connect { step: Step::Http, seen }.into());
            }
            HttpProbeStep::Fail(failure) => return Err(failed(failure, link)),
            HttpProbeStep::Done(settled) => {
                settle(link, settled).await?;
                let verdict = probe.record();
                return opening.0.take().map(|link| (link, verdict)).ok_or_else(|| Kind::Closed.into());
            }
        };
    }
}

fn streamable(shared: &Arc<Shared>, url: &Url) -> Result<Arc<Link>> {
    Ok(Link::new(Arc::clone(shared), Carrier::Http(Box::new(Http::new(url, shared.settings.patience.idle_timeout)?))))
}

/// Opens the stream for what the server says unasked, where there is one.
pub(in crate::client) async fn start_hearing(link: &Arc<Link>) {
    if matches!(link.carrier, Carrier::Http(_)) && link.shared.settings.hears {
        hear::start(link).await;
    }
}

/// What came back for one of the two first requests.
struct Posted {
    status: u16,
    answer: Option<Answered>,
    /// The beginning of it, for an error.
    said: String,
}

/// Posts one of the two first requests and waits for what comes back.
async fn post(link: &Arc<Link>, ask: ProbeRequest) -> Result<Posted, Trouble> {
    let Carrier::Http(http) = &link.carrier else { return Err(Kind::Closed.into()) };
    let request = First::new(link, ask);
    let waiting = link.calls.begin(link.shared.settings.patience, None);
    let mut bytes = Vec::with_capacity(256);
    request.write(&mut bytes, &Id::from(waiting.id()), link, &Options::default())?;
    let outgoing = Outgoing { bytes, method: request.method(), name: None, headers: Vec::new(), extra: &[] };
    let probing = http.probe(link, outgoing, request.revision(), &waiting);
    let probed = waiting.within(pin!(probing)).await;
    link.calls.forget(waiting.id());
    let probed = probed.map_err(|late| Kind::TimedOut { limit: late.limit, total: late.total })??;
    let answer = match parse(&probed.body, link.limits()) {
        Ok(Incoming::Single(Message::Response(response)))
            if response.id.as_ref().is_none_or(|id| *id == Id::from(waiting.id())) =>
        {
            Some(response.outcome.map(|result| result.to_owned()))
        }
        _ => None,
    };
    let said = match &answer {
        Some(Err(error)) => error.message.to_string(),
        _ => excerpt(&probed.body),
    };
    Ok(Posted { status: probed.status, answer, said })
}

/// Opens a connection of 2024-11-05 and says hello on it.
async fn open_old(
    shared: &Arc<Shared>,
    url: &Url,
    offer: Revision,
) -> Result<(Arc<Link>, Answered), Trouble> {
    let mut opening = Opening(Some(Sse::open(shared, url).await?));
    let Some(link) = &opening.0 else { return Err(Kind::Closed.into()) };
    let answer = link.call(&First::new(link, ProbeRequest::Initialize(offer)), &Options::default()).await?;
    opening.0.take().map(|link| (link, answer)).ok_or_else(|| Kind::Closed.into())
}

fn outcome(status: u16, answer: Option<&Answered>) -> HttpOutcome<'_> {
    let body = match answer {
        Some(Ok(result)) => ProbeBody::Result(result.into()),
        Some(Err(error)) => ProbeBody::Error(error),
        None => ProbeBody::Other,
    };
    HttpOutcome::Response { status, body }
}
