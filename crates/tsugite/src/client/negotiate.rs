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
    way: &ConnectTarget,
    shared: &Arc<ClientState>,
    known: Option<ProbeRecord>,
) -> Result<(Arc<ClientConnection>, Option<ProbeRecord>)> {
    match way {
        ConnectTarget::Child(command) => {
            probe_over_lines(shared, known, || transport::spawn_child(shared, command)).await
        }
        ConnectTarget::InProcess(server, who) => {
            probe_over_lines(shared, known, || transport::connect_in_process(shared, server, who)).await
        }
        ConnectTarget::Http(url) => http::open(shared, url, known).await,
    }
}

/// The revisions this client accepts, as a policy for the probe.
pub(super) fn policy(shared: &ClientState) -> ProbePolicy {
    let spoken = shared.settings.revisions;
    let only = spoken.newest_first().next().filter(|_| shared.settings.pinned);
    let mode = match only {
        Some(revision) => ProbeMode::Pin(revision),
        None if spoken.handshake() == Revisions::NONE => ProbeMode::StatelessOnly,
        None if spoken.stateless() == Revisions::NONE => ProbeMode::HandshakeOnly,
        None => ProbeMode::Auto,
    };
    ProbePolicy::new(spoken).mode(mode)
}

async fn probe_over_lines(
    shared: &Arc<ClientState>,
    known: Option<ProbeRecord>,
    start: impl Fn() -> Result<Arc<ClientConnection>>,
) -> Result<(Arc<ClientConnection>, Option<ProbeRecord>)> {
    let policy = policy(shared);
    let (mut probe, mut next) = match known {
        Some(verdict) => StdioProbe::with_record(policy, verdict),
        None => StdioProbe::new(policy),
    };
    let mut opening = ConnectGuard(Some(start()?));
    loop {
        let Some(link) = &opening.0 else { return Err(ErrorKind::Closed.into()) };
        next = match next {
            StdioProbeStep::Send(ask) => send_probe(&mut probe, link, ask).await?,
            StdioProbeStep::Restart(ask) => {
                link.abort("the server is restarted for the handshake");
                opening = ConnectGuard(Some(start()?));
                let Some(link) = &opening.0 else { return Err(ErrorKind::Closed.into()) };
                send_probe(&mut probe, link, ask).await?
            }
            // Lines that are not messages are skipped where they are read, so the probe never reports one.
            StdioProbeStep::KeepWaiting => StdioProbeStep::Fail(ProbeError::NoResponse),
            StdioProbeStep::Fail(failure) => return Err(probe_error(failure, link)),
            StdioProbeStep::Done(settled) => {
                complete_negotiation(link, settled).await?;
                let verdict = probe.record();
                return opening.0.take().map(|link| (link, verdict)).ok_or_else(|| ErrorKind::Closed.into());
            }
        };
    }
}

/// Ends a connection that is still being opened when the caller stops waiting, so that no child is left behind.
pub(super) struct ConnectGuard(pub(super) Option<Arc<ClientConnection>>);

impl Drop for ConnectGuard {
    fn drop(&mut self) {
        if let Some(link) = &self.0 {
            link.abort("connecting was cancelled");
        }
    }
}

async fn send_probe(
    probe: &mut StdioProbe,
    link: &Arc<ClientConnection>,
    ask: ProbeRequest,
) -> Result<StdioProbeStep> {
    let request = ProbeCall::new(link, ask);
    let limit = link.shared.settings.probe_timeout;
    let options = match ask {
        ProbeRequest::Discover(_) => {
            Options { idle_timeout: Some(limit), total_timeout: Some(limit), ..Options::default() }
        }
        ProbeRequest::Initialize(_) => Options::default(),
    };
    Ok(match link.call(&request, &options).await {
        Ok(Ok(result)) => {
            link.set_handshake_result(&result);
            probe.receive(StdioProbeEvent::Result((&result).into()))
        }
        Ok(Err(error)) => probe.receive(StdioProbeEvent::Error(&error)),
        Err(CallError::Disconnected { .. }) => probe.receive(StdioProbeEvent::Exited),
        Err(CallError::Fatal(error)) if error.is_timeout() => probe.receive(StdioProbeEvent::Timeout),
        Err(CallError::Fatal(error)) => return Err(error),
    })
}

/// Stores the result of the negotiation and, after a handshake, sends `notifications/initialized`.
pub(super) async fn complete_negotiation(link: &Arc<ClientConnection>, settled: ProbeOutcome) -> Result<()> {
    match settled {
        ProbeOutcome::Stateless { revision, discover_result: Some(found) } => {
            let server = found.meta.as_ref().and_then(Meta::server_info);
            link.set_negotiated(revision, server, Some(found.capabilities), found.instructions);
        }
        ProbeOutcome::Stateless { revision, discover_result: None } => {
            link.set_negotiated(revision, None, None, None);
            link.mark_revision_unverified();
        }
        ProbeOutcome::Handshake { revision, initialize_result: answer } => {
            let logs = answer.capabilities.logging.is_some();
            link.set_negotiated(
                revision,
                Some(answer.server_info),
                Some(answer.capabilities),
                answer.instructions,
            );
            link.notify::<Initialized>(EmptyParams::new()).await?;
            http::start_standalone_stream(link).await;
            if let (true, Some(level)) = (logs, link.shared.settings.log_level) {
                let params = SetLevelParams::new(level);
                if let Err(trouble) =
                    link.call(&TypedRequest::<SetLevel>::new(&params), &Options::default()).await
                {
                    tracing::warn!(error = %ClientError::from(trouble), "cannot set the log level");
                }
            }
        }
    }
    Ok(())
}

/// The error of a failed probe, with the end of a child's standard error output.
pub(super) fn probe_error(failure: ProbeError, link: &ClientConnection) -> ClientError {
    let last_words = match &link.transport {
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
    match failure {
        ProbeError::HttpStatus(status) => ErrorKind::Status { status, body: String::new() }.into(),
        ProbeError::Rejected(error) => {
            let revision = link.revision();
            ClientError::from_error_response(error, Initialize::NAME, revision)
        }
        ProbeError::NoResponse => ClientError::connect(
            ConnectStep::FirstResponse,
            format!("the server does not respond{last_words}"),
        ),
        ProbeError::Exited => {
            let seen = link.disconnect_reason().unwrap_or("the server ended");
            ClientError::connect(ConnectStep::Handshake, format!("{seen}{last_words}"))
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
    pub(super) fn new(link: &ClientConnection, ask: ProbeRequest) -> Self {
        let settings = &link.shared.settings;
        match ask {
            ProbeRequest::Discover(revision) => Self {
                probe: ask,
                initialize_params: None,
                meta_entries: Era::from(revision).request_meta(revision, &link.shared.settings),
            },
            ProbeRequest::Initialize(offer) => {
                let hello =
                    InitializeParams::new(offer.as_str(), settings.capabilities(), settings.info.clone());
                Self { probe: ask, initialize_params: Some(hello), meta_entries: Vec::new() }
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
            Some(hello) => write_request::<Initialize>(out, id, hello.clone(), self.revision())?,
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
