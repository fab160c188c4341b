//! Opens a connection: negotiates the revision, and performs the handshake in the era that has one.

#[cfg(feature = "http")]
mod http;
#[cfg(not(feature = "http"))]
#[path = "no_http.rs"]
mod http;
mod lines;

use std::sync::Arc;

use tsugite_core::jsonrpc::{Id, RawJson};
use tsugite_core::protocol::discover::Discover;
use tsugite_core::protocol::lifecycle::{Initialize, InitializeParams, Initialized};
use tsugite_core::protocol::logging::{SetLevel, SetLevelParams};
use tsugite_core::protocol::{EmptyParams, Meta, Method};
use tsugite_core::revision::{Revision, Revisions, write_request};
use tsugite_core::session::probe::{
    ProbeError, ProbeMode, ProbeOutcome, ProbePolicy, ProbeRecord, ProbeRequest,
};

use super::ConnectTarget;
use super::call::TypedRequest;
use super::client_error::{ClientError, ConnectStep, ErrorKind, Result, truncate};
use super::client_state::ClientState;
use super::connection::{ClientConnection, OutboundRequest};
use super::era::Era;
use super::http_transport;
use super::line_connection;
use super::options::Options;
use super::transport::Transport;
use crate::shared::log;

/// Opens a connection. `known` is the result of an earlier probe.
pub(super) async fn connect(
    target: &ConnectTarget,
    shared: &Arc<ClientState>,
    known: Option<ProbeRecord>,
) -> Result<(Arc<ClientConnection>, Option<ProbeRecord>)> {
    match target {
        ConnectTarget::Child(command) => {
            lines::open(shared, known, || line_connection::spawn_child(shared, command)).await
        }
        ConnectTarget::InProcess(server, principal) => {
            lines::open(shared, known, || line_connection::connect_in_process(shared, server, principal))
                .await
        }
        ConnectTarget::Streams(streams) => {
            lines::open(shared, known, || line_connection::connect_streams(shared, streams)).await
        }
        ConnectTarget::Http(config) => http::open(shared, config, known).await,
    }
}

/// The revisions this client accepts, as a policy for the probe.
fn policy(shared: &ClientState) -> ProbePolicy {
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

/// Ends a connection that is still being opened when the caller stops waiting, so that no child is left behind.
struct ConnectGuard(Option<Arc<ClientConnection>>);

impl Drop for ConnectGuard {
    fn drop(&mut self) {
        if let Some(connection) = &self.0 {
            connection.abort("connecting was cancelled");
        }
    }
}

/// Stores the result of the negotiation and, after a handshake, sends `notifications/initialized`.
async fn complete_negotiation(connection: &Arc<ClientConnection>, outcome: ProbeOutcome) -> Result<()> {
    let meta_entries =
        |revision: Revision| Era::from(revision).request_meta(revision, &connection.shared.settings);
    match outcome {
        ProbeOutcome::Stateless { revision, discover_result: Some(result) } => {
            let server = result.meta.as_ref().and_then(Meta::server_info);
            let meta_entries = meta_entries(revision);
            let capabilities = Some(result.capabilities);
            connection.set_negotiated(revision, server, capabilities, result.instructions, meta_entries);
        }
        ProbeOutcome::Stateless { revision, discover_result: None } => {
            connection.set_negotiated(revision, None, None, None, meta_entries(revision));
            connection.mark_revision_unverified();
        }
        ProbeOutcome::Handshake { revision, initialize_result: result } => {
            let logs = result.capabilities.logging.is_some();
            connection.set_negotiated(
                revision,
                Some(result.server_info),
                Some(result.capabilities),
                result.instructions,
                meta_entries(revision),
            );
            connection.notify::<Initialized>(EmptyParams::new()).await?;
            http_transport::start_standalone_stream(connection).await;
            if let (true, Some(level)) = (logs, connection.shared.settings.log_level) {
                let params = SetLevelParams::new(level);
                if let Err(error) =
                    connection.call(&TypedRequest::<SetLevel>::new(&params), &Options::default()).await
                {
                    log::warn!(error = %ClientError::from(error), "cannot set the log level");
                }
            }
        }
    }
    Ok(())
}

/// The error of a failed probe, with the end of a child's standard error output.
fn probe_error(error: ProbeError, connection: &ClientConnection) -> ClientError {
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
        ProbeError::HttpStatus(status) => ClientError::negotiation_status(status, String::new()),
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
struct ProbeCall {
    probe: ProbeRequest,
    initialize_params: Option<InitializeParams>,
    meta_entries: Vec<(&'static str, RawJson)>,
}

impl ProbeCall {
    fn new(connection: &ClientConnection, probe_request: ProbeRequest) -> Self {
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

    fn revision(&self) -> Revision {
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
