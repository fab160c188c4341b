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

use super::{ConnectGuard, ProbeCall, complete_negotiation, policy, probe_error};
use crate::client::call_error::CallError;
use crate::client::client_error::{ClientError, ConnectStep, ErrorKind, Result};
use crate::client::client_state::ClientState;
use crate::client::connection::{ClientConnection, OutboundRequest};
use crate::client::encoded_request::EncodedRequest;
use crate::client::http::{HttpConfig, HttpSse, StreamableHttp, excerpt};
use crate::client::options::Options;
use crate::client::transport::{ServerReply, Transport};

/// Opens a connection. `known` is the result of an earlier probe.
pub(super) async fn open(
    shared: &Arc<ClientState>,
    config: &HttpConfig,
    known: Option<ProbeRecord>,
) -> Result<(Arc<ClientConnection>, Option<ProbeRecord>)> {
    let known = match config.sse_only {
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
        Some(record) => HttpProbe::with_record(policy(shared), record),
        None => HttpProbe::new(policy(shared)),
    };
    let mut guard = ConnectGuard(Some(streamable_http(shared, config)?));
    let (mut status, mut body_excerpt, mut answered) = (0, String::new(), false);
    loop {
        let Some(connection) = &guard.0 else { return Err(ErrorKind::Closed.into()) };
        next = match next {
            // The earlier result is outdated: probe with Streamable HTTP.
            HttpProbeStep::Send(probe_request)
                if !matches!(connection.transport, Transport::StreamableHttp(_)) =>
            {
                guard = ConnectGuard(Some(streamable_http(shared, config)?));
                HttpProbeStep::Send(probe_request)
            }
            HttpProbeStep::Send(probe_request) => {
                let reply = send_probe(connection, probe_request).await?;
                (status, body_excerpt, answered) = (reply.status, reply.excerpt, reply.result.is_some());
                if let Some(Ok(result)) = &reply.result {
                    connection.set_handshake_result(result);
                }
                probe.receive(probe_outcome(reply.status, reply.result.as_ref()))
            }
            HttpProbeStep::OpenSse(_) if config.streamable_only => {
                HttpProbeStep::Fail(ProbeError::HttpStatus(status))
            }
            HttpProbeStep::OpenSse(offer) => match open_http_sse(shared, config, offer).await {
                Ok((sse, Err(error))) if config.sse_only => {
                    sse.abort("the server refused the handshake");
                    return Err(ClientError::from_error_response(error, Initialize::NAME, offer));
                }
                Ok((sse, reply)) => {
                    if let Ok(result) = &reply {
                        sse.set_handshake_result(result);
                    }
                    guard = ConnectGuard(Some(sse));
                    probe.receive(probe_outcome(200, Some(&reply)))
                }
                Err(CallError::Fatal(error)) => match error.kind() {
                    ErrorKind::Status { status, .. } if !config.sse_only => {
                        probe.receive(probe_outcome(*status, None))
                    }
                    _ => return Err(error),
                },
                Err(error) => return Err(error.into()),
            },
            // The endpoint has already tried credentials and retries.
            HttpProbeStep::Fail(ProbeError::HttpStatus(status)) => {
                return Err(ClientError::negotiation_status(status, body_excerpt));
            }
            // The body is not a message, but for example an HTML page.
            HttpProbeStep::Fail(ProbeError::InvalidResponse(_)) if !answered => {
                let body_excerpt = if body_excerpt.is_empty() { "an empty body" } else { &body_excerpt };
                let reason = format!("the response with status {status} is not a message: {body_excerpt}");
                return Err(ErrorKind::Connect { step: ConnectStep::Http, reason }.into());
            }
            HttpProbeStep::Fail(failure) => return Err(probe_error(failure, connection)),
            HttpProbeStep::Done(outcome) => {
                complete_negotiation(connection, outcome).await?;
                let record = probe.record();
                return guard
                    .0
                    .take()
                    .map(|connection| (connection, record))
                    .ok_or_else(|| ErrorKind::Closed.into());
            }
        };
    }
}

fn streamable_http(shared: &Arc<ClientState>, config: &HttpConfig) -> Result<Arc<ClientConnection>> {
    Ok(ClientConnection::new(
        Arc::clone(shared),
        Transport::StreamableHttp(Box::new(StreamableHttp::new(
            config,
            shared.settings.timeouts.idle_timeout,
            Arc::clone(&shared.clock),
        )?)),
    ))
}

/// The response to one of the first two requests.
struct ProbeReply {
    status: u16,
    result: Option<ServerReply>,
    /// The beginning of the body, for an error message.
    excerpt: String,
}

/// Sends one of the first two requests and waits for its response.
async fn send_probe(
    connection: &Arc<ClientConnection>,
    probe_request: ProbeRequest,
) -> Result<ProbeReply, CallError> {
    let Transport::StreamableHttp(http) = &connection.transport else { return Err(ErrorKind::Closed.into()) };
    let request = ProbeCall::new(connection, probe_request);
    let call = connection.calls.register(connection.shared.settings.timeouts, None);
    let mut bytes = Vec::with_capacity(256);
    request.encode(&mut bytes, &Id::from(call.id()), connection, &Options::default())?;
    let outgoing = EncodedRequest {
        bytes,
        method: request.method(),
        name: None,
        param_headers: Vec::new(),
        extra_headers: &[],
        harmless: true,
        checks_liveness: false,
    };
    let probing = http.probe(connection, outgoing, request.revision(), &call);
    let probed = call.run_with_timeout(pin!(probing)).await;
    connection.calls.remove(call.id());
    let probed =
        probed.map_err(|timeout| ErrorKind::TimedOut { limit: timeout.limit, kind: timeout.kind })??;
    let reply = match parse(&probed.body, connection.limits()) {
        Ok(Incoming::Single(Message::Response(response)))
            if response.id.as_ref().is_none_or(|id| *id == Id::from(call.id())) =>
        {
            Some(response.outcome.map(|result| result.to_owned()))
        }
        _ => None,
    };
    let body_excerpt = match &reply {
        Some(Err(error)) => error.message.to_string(),
        _ => excerpt(&probed.body),
    };
    Ok(ProbeReply { status: probed.status, result: reply, excerpt: body_excerpt })
}

/// Opens an HTTP+SSE connection and sends `initialize`.
async fn open_http_sse(
    shared: &Arc<ClientState>,
    config: &HttpConfig,
    offer: Revision,
) -> Result<(Arc<ClientConnection>, ServerReply), CallError> {
    let mut guard = ConnectGuard(Some(HttpSse::open(shared, config).await?));
    let Some(connection) = &guard.0 else { return Err(ErrorKind::Closed.into()) };
    let reply = connection
        .call(&ProbeCall::new(connection, ProbeRequest::Initialize(offer)), &Options::default())
        .await?;
    guard.0.take().map(|connection| (connection, reply)).ok_or_else(|| ErrorKind::Closed.into())
}

fn probe_outcome(status: u16, reply: Option<&ServerReply>) -> HttpProbeEvent<'_> {
    let body = match reply {
        Some(Ok(result)) => ProbeBody::Result(result.into()),
        Some(Err(error)) => ProbeBody::Error(error),
        None => ProbeBody::Other,
    };
    HttpProbeEvent::Response { status, body }
}
