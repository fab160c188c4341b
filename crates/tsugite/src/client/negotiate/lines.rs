//! Opens a connection over lines: probes the revision, and restarts a child that does not survive the probe.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tsugite_core::jsonrpc::Raw;
use tsugite_core::session::probe::{
    ProbeError, ProbeRecord, ProbeRequest, StdioProbe, StdioProbeEvent, StdioProbeStep,
};

use super::{ConnectGuard, ProbeCall, complete_negotiation, policy, probe_error};
use crate::client::call_error::CallError;
use crate::client::client_error::{ErrorKind, Result};
use crate::client::client_state::ClientState;
use crate::client::connection::ClientConnection;
use crate::client::options::Options;
use crate::client::transport::ServerReply;

/// Opens a connection that `start` starts. `known` is the result of an earlier probe.
pub(super) async fn open(
    shared: &Arc<ClientState>,
    known: Option<ProbeRecord>,
    start: impl Fn() -> Result<Arc<ClientConnection>>,
) -> Result<(Arc<ClientConnection>, Option<ProbeRecord>)> {
    let policy = policy(shared);
    let (mut probe, mut next) = match known {
        Some(record) => StdioProbe::with_record(policy, record),
        None => StdioProbe::new(policy),
    };
    let mut guard = ConnectGuard(Some(start()?));
    let mut late_discover = None;
    loop {
        let Some(connection) = &guard.0 else { return Err(ErrorKind::Closed.into()) };
        next = match next {
            StdioProbeStep::Send(probe_request) => {
                send_probe(&mut probe, connection, probe_request, &mut late_discover).await?
            }
            StdioProbeStep::Restart(probe_request) => {
                late_discover = None;
                connection.abort("the server is restarted for the handshake");
                guard = ConnectGuard(Some(start()?));
                let Some(connection) = &guard.0 else { return Err(ErrorKind::Closed.into()) };
                send_probe(&mut probe, connection, probe_request, &mut late_discover).await?
            }
            // Lines that are not messages are skipped where they are read, so the probe never reports one.
            StdioProbeStep::KeepWaiting => StdioProbeStep::Fail(ProbeError::NoResponse),
            StdioProbeStep::Fail(error) => return Err(probe_error(error, connection)),
            StdioProbeStep::Done(outcome) => {
                // Dropped while the negotiation is incomplete, so that no cancellation is sent.
                drop(late_discover);
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

/// A request of the probe that waits for its response.
type ProbeFuture = Pin<Box<dyn Future<Output = Result<ServerReply, CallError>> + Send>>;

/// Sends a request of the probe. A `server/discover` that times out stays in `late_discover`, since its response counts until
/// `initialize` is answered.
async fn send_probe(
    probe: &mut StdioProbe,
    connection: &Arc<ClientConnection>,
    probe_request: ProbeRequest,
    late_discover: &mut Option<ProbeFuture>,
) -> Result<StdioProbeStep> {
    let outcome = match probe_request {
        ProbeRequest::Discover(_) => {
            let forever = Some(Duration::MAX);
            let options = Options { idle_timeout: forever, total_timeout: forever, ..Options::default() };
            let mut response = request(connection, probe_request, options);
            let limit = connection.shared.settings.probe_timeout;
            match tokio::time::timeout(limit, &mut response).await {
                Ok(outcome) => outcome,
                Err(_) => {
                    *late_discover = Some(response);
                    return Ok(probe.receive(StdioProbeEvent::Timeout));
                }
            }
        }
        ProbeRequest::Initialize(_) => {
            let mut response = request(connection, probe_request, Options::default());
            loop {
                tokio::select! {
                    biased;
                    late = response_of(late_discover) => {
                        *late_discover = None;
                        let Ok(reply) = late else { continue };
                        let next = probe.receive_late_discover(reply.as_ref().map(Raw::from));
                        if let Some(next) = next {
                            reply.iter().for_each(|result| connection.set_handshake_result(result));
                            return Ok(next);
                        }
                    }
                    outcome = &mut response => break outcome,
                }
            }
        }
    };
    Ok(match outcome {
        Ok(Ok(result)) => {
            connection.set_handshake_result(&result);
            probe.receive(StdioProbeEvent::Result((&result).into()))
        }
        Ok(Err(error)) => probe.receive(StdioProbeEvent::Error(&error)),
        Err(CallError::Disconnected { .. }) => probe.receive(StdioProbeEvent::Exited),
        Err(CallError::Fatal(error)) if error.is_timeout() => probe.receive(StdioProbeEvent::Timeout),
        Err(CallError::Fatal(error)) => return Err(error),
    })
}

fn request(connection: &Arc<ClientConnection>, probe_request: ProbeRequest, options: Options) -> ProbeFuture {
    let (connection, request) = (Arc::clone(connection), ProbeCall::new(connection, probe_request));
    Box::pin(async move { connection.call(&request, &options).await })
}

/// The response to a `server/discover` that timed out, if there is one.
async fn response_of(late_discover: &mut Option<ProbeFuture>) -> Result<ServerReply, CallError> {
    match late_discover {
        Some(response) => response.await,
        None => std::future::pending().await,
    }
}
