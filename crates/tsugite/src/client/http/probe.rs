//! Opens a connection over HTTP: probes the revision, or falls back to HTTP+SSE.

use std::pin::pin;
use std::sync::Arc;

use tsugite_core::jsonrpc::{Id, Incoming, Message, parse};
use tsugite_core::protocol::Method;
use tsugite_core::protocol::lifecycle::Initialize;
use tsugite_core::revision::Revision;
use tsugite_core::session::probe::{
    HttpProbe, HttpProbeEvent, HttpProbeStep, ProbeBody, ProbeError, ProbeRecord, ProbeRequest, TransportKind,
};

use super::{HttpConfig, HttpSse, StreamableHttp, excerpt, standalone_stream};
use crate::client::call_error::CallError;
use crate::client::client_error::{ClientError, ConnectStep, ErrorKind, Result};
use crate::client::client_state::ClientState;
use crate::client::connection::{ClientConnection, OutboundRequest};
use crate::client::negotiate::{ConnectGuard, ProbeCall, complete_negotiation, policy, probe_error};
use crate::client::options::Options;
use crate::client::transport::{EncodedRequest, ServerReply, Transport};

/// Opens a connection. `known` is the result of an earlier probe.
pub(in crate::client) async fn open(
    shared: &Arc<ClientState>,
    url: &HttpConfig,
    known: Option<ProbeRecord>,
) -> Result<(Arc<ClientConnection>, Option<ProbeRecord>)> {
    let known = match url.sse_only {
        true => {
            let offer = shared.settings.revisions.handshake().newest_first().next();
            let offer = offer.ok_or_else(|| {
                ClientError::config("HTTP+SSE needs a revision with a handshake (up to 2025-11-25)")
            })?;
            Some(ProbeRecord::new(offer, TransportKind::HttpSse))
        }
        false => known,
    };
    let (mut probe, mut next) = match known {
        Some(verdict) => HttpProbe::with_record(policy(shared), verdict),
        None => HttpProbe::new(policy(shared)),
    };
    let mut opening = ConnectGuard(Some(streamable_http(shared, url)?));
    let (mut status, mut said, mut answered) = (0, String::new(), false);
    loop {
        let Some(link) = &opening.0 else { return Err(ErrorKind::Closed.into()) };
        next = match next {
            // The earlier result is outdated: probe with Streamable HTTP.
            HttpProbeStep::Send(ask) if !matches!(link.transport, Transport::StreamableHttp(_)) => {
                opening = ConnectGuard(Some(streamable_http(shared, url)?));
                HttpProbeStep::Send(ask)
            }
            HttpProbeStep::Send(ask) => {
                let posted = send_probe(link, ask).await?;
                (status, said, answered) = (posted.status, posted.excerpt, posted.result.is_some());
                if let Some(Ok(hello)) = &posted.result {
                    link.set_handshake_result(hello);
                }
                probe.receive(probe_outcome(posted.status, posted.result.as_ref()))
            }
            HttpProbeStep::OpenSse(_) if url.streamable_only => {
                HttpProbeStep::Fail(ProbeError::HttpStatus(status))
            }
            HttpProbeStep::OpenSse(offer) => match open_http_sse(shared, url, offer).await {
                Ok((old, Err(error))) if url.sse_only => {
                    old.abort("the server refused the handshake");
                    return Err(ClientError::from_error_response(error, Initialize::NAME, offer));
                }
                Ok((old, answer)) => {
                    if let Ok(hello) = &answer {
                        old.set_handshake_result(hello);
                    }
                    opening = ConnectGuard(Some(old));
                    probe.receive(probe_outcome(200, Some(&answer)))
                }
                Err(CallError::Fatal(error)) => match error.into_kind() {
                    ErrorKind::Status { status, .. } if !url.sse_only => {
                        probe.receive(probe_outcome(status, None))
                    }
                    other => return Err(other.into()),
                },
                Err(lost) => return Err(lost.into()),
            },
            // The endpoint has already tried credentials and retries.
            HttpProbeStep::Fail(ProbeError::HttpStatus(status)) => {
                return Err(ErrorKind::Status { status, body: said }.into());
            }
            // The body is not a message, but for example an HTML page.
            HttpProbeStep::Fail(ProbeError::InvalidResponse(_)) if !answered => {
                let said = if said.is_empty() { "an empty body" } else { &said };
                let seen = format!("the response with status {status} is not a message: {said}");
                return Err(ErrorKind::Connect { step: ConnectStep::Http, reason: seen }.into());
            }
            HttpProbeStep::Fail(failure) => return Err(probe_error(failure, link)),
            HttpProbeStep::Done(settled) => {
                complete_negotiation(link, settled).await?;
                let verdict = probe.record();
                return opening.0.take().map(|link| (link, verdict)).ok_or_else(|| ErrorKind::Closed.into());
            }
        };
    }
}

fn streamable_http(shared: &Arc<ClientState>, url: &HttpConfig) -> Result<Arc<ClientConnection>> {
    Ok(ClientConnection::new(
        Arc::clone(shared),
        Transport::StreamableHttp(Box::new(StreamableHttp::new(url, shared.settings.timeouts.idle_timeout)?)),
    ))
}

/// Opens the standalone stream, if the transport has one and the settings allow it.
pub(in crate::client) async fn start_standalone_stream(link: &Arc<ClientConnection>) {
    if matches!(link.transport, Transport::StreamableHttp(_)) && link.shared.settings.standalone_stream {
        standalone_stream::start(link).await;
    }
}

/// The response to one of the first two requests.
struct ProbeReply {
    status: u16,
    result: Option<ServerReply>,
    /// The beginning of the body, for an error message.
    excerpt: String,
}

/// Sends one of the first two requests and waits for its response.
async fn send_probe(link: &Arc<ClientConnection>, ask: ProbeRequest) -> Result<ProbeReply, CallError> {
    let Transport::StreamableHttp(http) = &link.transport else { return Err(ErrorKind::Closed.into()) };
    let request = ProbeCall::new(link, ask);
    let waiting = link.calls.register(link.shared.settings.timeouts, None);
    let mut bytes = Vec::with_capacity(256);
    request.encode(&mut bytes, &Id::from(waiting.id()), link, &Options::default())?;
    let outgoing = EncodedRequest {
        bytes,
        method: request.method(),
        name: None,
        param_headers: Vec::new(),
        extra_headers: &[],
    };
    let probing = http.probe(link, outgoing, request.revision(), &waiting);
    let probed = waiting.run_with_timeout(pin!(probing)).await;
    link.calls.remove(waiting.id());
    let probed = probed.map_err(|late| ErrorKind::TimedOut { limit: late.limit, kind: late.kind })??;
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
    Ok(ProbeReply { status: probed.status, result: answer, excerpt: said })
}

/// Opens an HTTP+SSE connection and sends `initialize`.
async fn open_http_sse(
    shared: &Arc<ClientState>,
    url: &HttpConfig,
    offer: Revision,
) -> Result<(Arc<ClientConnection>, ServerReply), CallError> {
    let mut opening = ConnectGuard(Some(HttpSse::open(shared, url).await?));
    let Some(link) = &opening.0 else { return Err(ErrorKind::Closed.into()) };
    let answer =
        link.call(&ProbeCall::new(link, ProbeRequest::Initialize(offer)), &Options::default()).await?;
    opening.0.take().map(|link| (link, answer)).ok_or_else(|| ErrorKind::Closed.into())
}

fn probe_outcome(status: u16, answer: Option<&ServerReply>) -> HttpProbeEvent<'_> {
    let body = match answer {
        Some(Ok(result)) => ProbeBody::Result(result.into()),
        Some(Err(error)) => ProbeBody::Error(error),
        None => ProbeBody::Other,
    };
    HttpProbeEvent::Response { status, body }
}
