//! The settings of a client, fixed before it connects.

use std::sync::Arc;
use std::time::Duration;

use tsugite_core::protocol::logging::Level;
use tsugite_core::protocol::{ClientCapabilities, Implementation, Object, tasks};
use tsugite_core::revision::Revisions;
use tsugite_core::session::call_timer::Timeouts;

use super::client_handler::ClientHandlers;
use super::upstream_observer::UpstreamObserver;

/// The settings of one client.
#[derive(Clone)]
pub(super) struct ClientSettings {
    /// The name and version reported to the server.
    pub(super) info: Implementation,
    /// The revisions to choose from.
    pub(super) revisions: Revisions,
    /// Whether `revisions` holds one pinned revision, for which the server is not probed.
    pub(super) pinned: bool,
    /// The timeout of the probe for the revision.
    pub(super) probe_timeout: Duration,
    /// The timeouts of a call.
    pub(super) timeouts: Timeouts,
    /// How often a server may ask for input during one call.
    pub(super) max_rounds: usize,
    /// The size limit of a message in bytes.
    pub(super) max_message_bytes: usize,
    /// How many pages of one list are read.
    pub(super) max_pages: usize,
    /// The bytes of all pages of one list.
    pub(super) max_list_bytes: usize,
    /// The size limit of a `requestState` that is sent back.
    pub(super) max_request_state_bytes: usize,
    /// The names of the tools that the application lets run twice.
    pub(super) repeatable_tools: Vec<String>,
    /// Whether tools that the server declares idempotent or read-only may run twice.
    pub(super) trust_tool_hints: bool,
    /// Whether a lost call is sent again while the server recognizes it by its key.
    pub(super) repeat_keyed_calls: bool,
    /// Whether a 400 that mentions a session means that the session has expired.
    pub(super) session_expired_on_400: bool,
    /// Whether the standalone stream is opened over HTTP, up to 2025-11-25.
    pub(super) standalone_stream: bool,
    /// How often the client checks that the server responds.
    pub(super) ping_interval: Option<Duration>,
    /// The lowest level of logs to receive.
    pub(super) log_level: Option<Level>,
    /// Capabilities declared in addition to those of the handlers.
    pub(super) extensions: Option<Object>,
    pub(super) experimental: Option<Object>,
    pub(super) handlers: ClientHandlers,
    /// Receives every message on the wire.
    pub(super) on_wire: Option<WireCallback>,
    /// The observer of the server's messages, and the capabilities it declares.
    pub(super) observer: Option<Arc<dyn UpstreamObserver>>,
    pub(super) declared_capabilities: Option<ClientCapabilities>,
}

/// The direction of a message on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Direction {
    /// Sent to the server.
    Sent,
    /// Received from the server.
    Received,
}

pub(super) type WireCallback = Arc<dyn Fn(Direction, &str) + Send + Sync>;

impl Default for ClientSettings {
    fn default() -> Self {
        Self {
            info: Implementation::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION")),
            revisions: Revisions::ALL,
            pinned: false,
            probe_timeout: Duration::from_secs(5),
            timeouts: Timeouts::default(),
            max_rounds: 10,
            max_message_bytes: 64 << 20,
            max_pages: 1_000,
            max_list_bytes: 64 << 20,
            max_request_state_bytes: 1 << 20,
            repeatable_tools: Vec::new(),
            trust_tool_hints: false,
            repeat_keyed_calls: false,
            session_expired_on_400: false,
            standalone_stream: true,
            ping_interval: None,
            log_level: None,
            extensions: None,
            experimental: None,
            handlers: ClientHandlers::default(),
            on_wire: None,
            observer: None,
            declared_capabilities: None,
        }
    }
}

impl ClientSettings {
    /// The capabilities to declare to the server.
    pub(super) fn capabilities(&self) -> ClientCapabilities {
        if let Some(declared) = &self.declared_capabilities {
            return declared.clone();
        }
        let mut capabilities = self.handlers.capabilities();
        capabilities.extensions.clone_from(&self.extensions);
        capabilities.experimental.clone_from(&self.experimental);
        capabilities
    }

    /// Whether calls may become tasks.
    pub(super) fn supports_tasks(&self) -> bool {
        self.extensions.as_ref().is_some_and(|extensions| extensions.contains_key(tasks::EXTENSION))
    }

    /// Announces an extension of the authorizer, unless the application has declared it.
    pub(super) fn announce_extension(&mut self, id: String, settings: serde_json::Value) {
        let declared = match &mut self.declared_capabilities {
            Some(capabilities) => &mut capabilities.extensions,
            None => &mut self.extensions,
        };
        declared.get_or_insert_with(Object::new).entry(id).or_insert(settings);
    }

    /// How long a stream that stays open may be silent before it is opened again: several pings, and several of the
    /// comments that servers send to keep a stream open (ours every 15 seconds). `None` without a `ping_interval`.
    pub(super) fn max_stream_silence(&self) -> Option<Duration> {
        self.ping_interval.map(|interval| interval.saturating_mul(3).max(MIN_STREAM_SILENCE))
    }

    /// The log level to request: the one that was set, else `info` if there is a log callback.
    pub(super) fn effective_log_level(&self) -> Option<Level> {
        self.log_level.or_else(|| self.handlers.log.as_ref().map(|_| Level::Info))
    }
}

/// The shortest limit for the silence of a stream.
const MIN_STREAM_SILENCE: Duration = Duration::from_secs(60);
