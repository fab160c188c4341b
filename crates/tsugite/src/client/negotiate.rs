//! Opens a connection: negotiates the revision, and performs the handshake in the era that has one.

use std::sync::Arc;

use tsugite_core::jsonrpc::{Id, RawJson};
use tsugite_core::protocol::discover::Discover;
use tsugite_core::protocol::lifecycle::{Initialize, InitializeParams, Initialized};
use tsugite_core::protocol::logging::{SetLevel, SetLevelParams};
use tsugite_core::protocol::{EmptyParams, Meta, Method};
use tsugite_core::revision::{Revision, Revisions, write_request};
use tsugite_core::session::probe::{
    ProbeError, ProbeMode, ProbeOutcome, ProbePolicy, ProbeRecord, ProbeRequest, StdioProbe, StdioProbeEvent,
    StdioProbeStep,
};

use super::ConnectTarget;
use super::call::TypedRequest;
use super::call_error::CallError;
use super::client_error::{ClientError, ConnectStep, ErrorKind, Result, truncate};
use super::client_state::ClientState;
use super::connection::{ClientConnection, OutboundRequest};
use super::era::Era;
use super::http;
use super::options::Options;
use super::transport::{self, Transport};

/// Opens a connection. `known` is the result of an earlier probe.
pub(super) async fn connect(
    target: &ConnectTarget,
    shared: &Arc<ClientState>,
    known: Option<ProbeRecord>,
) -> Result<(Arc<ClientConnection>, Option<ProbeRecord>)> {
    match target {
        ConnectTarget::Child(command) => {
            probe_over_lines(shared, known, || transport::spawn_child(shared, command)).await
        }
        ConnectTarget::InProcess(server, principal) => {
            probe_over_lines(shared, known, || transport::connect_in_process(shared, server, principal)).await
        }
        ConnectTarget::Http(config) => http::open(shared, config, known).await,
    }
}

/// The revisions this client accepts, as a policy for the probe.
pub(super) fn policy(shared: &ClientState) -> ProbePolicy {
    let revisions = shared.settings.revisions;
    let pinned = revisions.newest_first().next().filter(|_| shared.settings.pinned);
    let mode = match pinned {
        Some(revision) => ProbeMode::Pin(revision),
        None if revisions.handshake() == Revisions::NONE => ProbeMode::StatelessOnly,
        None if revisions.stateless() == Revisions::NONE => ProbeMode::HandshakeOnly,
        None => ProbeMode::Auto,
    };
    ProbePolicy::new(revisions).mode(mode)
}

async fn probe_over_lines(
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
    loop {
        let Some(connection) = &guard.0 else { return Err(ErrorKind::Closed.into()) };
        next = match next {
            StdioProbeStep::Send(probe_request) => send_probe(&mut probe, connection, probe_request).await?,
            StdioProbeStep::Restart(probe_request) => {
                connection.abort("the server is restarted for the handshake");
                guard = ConnectGuard(Some(start()?));
                let Some(connection) = &guard.0 else { return Err(ErrorKind::Closed.into()) };
                send_probe(&mut probe, connection, probe_request).await?
            }
            // Lines that are not messages are skipped where they are read, so the probe never reports one.
            StdioProbeStep::KeepWaiting => StdioProbeStep::Fail(ProbeError::NoResponse),
            StdioProbeStep::Fail(error) => return Err(probe_error(error, connection)),
            StdioProbeStep::Done(outcome) => {
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

/// Ends a connection that is still being opened when the caller stops waiting, so that no child is left behind.
pub(super) struct ConnectGuard(pub(super) Option<Arc<ClientConnection>>);

impl Drop for ConnectGuard {
    fn drop(&mut self) {
        if let Some(connection) = &self.0 {
            connection.abort("connecting was cancelled");
        }
    }
}

async fn send_probe(
    probe: &mut StdioProbe,
    connection: &Arc<ClientConnection>,
    probe_request: ProbeRequest,
) -> Result<StdioProbeStep> {
    let request = ProbeCall::new(connection, probe_request);
    let limit = connection.shared.settings.probe_timeout;
    let options = match probe_request {
        ProbeRequest::Discover(_) => {
            Options { idle_timeout: Some(limit), total_timeout: Some(limit), ..Options::default() }
        }
        ProbeRequest::Initialize(_) => Options::default(),
    };
    Ok(match connection.call(&request, &options).await {
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

/// Stores the result of the negotiation and, after a handshake, sends `notifications/initialized`.
pub(super) async fn complete_negotiation(
    connection: &Arc<ClientConnection>,
    outcome: ProbeOutcome,
) -> Result<()> {
    match outcome {
        ProbeOutcome::Stateless { revision, discover_result: Some(result) } => {
            let server = result.meta.as_ref().and_then(Meta::server_info);
            connection.set_negotiated(revision, server, Some(result.capabilities), result.instructions);
        }
        ProbeOutcome::Stateless { revision, discover_result: None } => {
            connection.set_negotiated(revision, None, None, None);
            connection.mark_revision_unverified();
        }
        ProbeOutcome::Handshake { revision, initialize_result: result } => {
            let logs = result.capabilities.logging.is_some();
            connection.set_negotiated(
                revision,
                Some(result.server_info),
                Some(result.capabilities),
                result.instructions,
            );
            connection.notify::<Initialized>(EmptyParams::new()).await?;
            http::start_standalone_stream(connection).await;
            if let (true, Some(level)) = (logs, connection.shared.settings.log_level) {
                let params = SetLevelParams::new(level);
                if let Err(error) =
                    connection.call(&TypedRequest::<SetLevel>::new(&params), &Options::default()).await
                {
                    tracing::warn!(error = %ClientError::from(error), "cannot set the log level");
                }
            }
        }
    }
    Ok(())
}

/// The error of a failed probe, with the end of a child's standard error output.
pub(super) fn probe_error(error: ProbeError, connection: &ClientConnection) -> ClientError {
    let stderr_tail = match &connection.transport {
        Transport::Child(pipe) => {
            let stderr = pipe.child.stderr();
            let lines: Vec<&str> = stderr.trim_end().lines().rev().take(5).collect();
            let lines: Vec<&str> = lines.into_iter().rev().collect();
            match lines.is_empty() {
                true => String::new(),
                false => {
                    format!("; end of its standard error: {}", truncate(&lines.join("\n"), 1000))
                }
            }
        }
        _ => String::new(),
    };
    match error {
        ProbeError::HttpStatus(status) => ErrorKind::Status { status, body: String::new() }.into(),
        ProbeError::Rejected(error) => {
            let revision = connection.revision();
            ClientError::from_error_response(error, Initialize::NAME, revision)
        }
        ProbeError::NoResponse => ClientError::connect(
            ConnectStep::FirstResponse,
            format!("the server does not respond{stderr_tail}"),
        ),
        ProbeError::Exited => {
            let reason = connection.disconnect_reason().unwrap_or("the server ended");
            ClientError::connect(ConnectStep::Handshake, format!("{reason}{stderr_tail}"))
        }
        other => ErrorKind::Protocol(other.to_string()).into(),
    }
}

/// The first request of a connection, before the negotiation is complete.
pub(super) struct ProbeCall {
    probe: ProbeRequest,
    initialize_params: Option<InitializeParams>,
    meta_entries: Vec<(&'static str, RawJson)>,
}

impl ProbeCall {
    pub(super) fn new(connection: &ClientConnection, probe_request: ProbeRequest) -> Self {
        let settings = &connection.shared.settings;
        match probe_request {
            ProbeRequest::Discover(revision) => Self {
                probe: probe_request,
                initialize_params: None,
                meta_entries: Era::from(revision).request_meta(revision, &connection.shared.settings),
            },
            ProbeRequest::Initialize(offer) => {
                let params =
                    InitializeParams::new(offer.as_str(), settings.capabilities(), settings.info.clone());
                Self { probe: probe_request, initialize_params: Some(params), meta_entries: Vec::new() }
            }
        }
    }

    pub(super) fn revision(&self) -> Revision {
        match self.probe {
            ProbeRequest::Discover(revision) | ProbeRequest::Initialize(revision) => revision,
        }
    }
}

impl OutboundRequest for ProbeCall {
    fn method(&self) -> &str {
        match self.probe {
            ProbeRequest::Discover(_) => Discover::NAME,
            ProbeRequest::Initialize(_) => Initialize::NAME,
        }
    }

    fn name(&self) -> Option<&str> {
        None
    }

    fn encode(&self, out: &mut Vec<u8>, id: &Id<'_>, _: &ClientConnection, _: &Options) -> Result<()> {
        match &self.initialize_params {
            Some(params) => write_request::<Initialize>(out, id, params.clone(), self.revision())?,
            None => {
                let mut meta = Meta::new();
                for (key, value) in &self.meta_entries {
                    meta.insert(*key, value);
                }
                write_request::<Discover>(out, id, EmptyParams::new().meta(meta), self.revision())?;
            }
        }
        Ok(())
    }

    fn param_headers(&self, _: &ClientConnection) -> Vec<(String, String)> {
        Vec::new()
    }
}
