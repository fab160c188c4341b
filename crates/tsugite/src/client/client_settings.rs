//! What a client is and how it behaves, as far as that is settled before it connects.

use std::sync::Arc;
use std::time::Duration;

use tsugite_core::protocol::logging::Level;
use tsugite_core::protocol::{ClientCapabilities, Implementation, Object};
use tsugite_core::revision::Revisions;
use tsugite_core::session::call_timer::Timeouts;

use super::client_handler::ClientHandlers;
use super::upstream_observer::UpstreamObserver;

/// The settings of one client.
#[derive(Clone)]
pub(super) struct ClientSettings {
    /// What it calls itself.
    pub(super) info: Implementation,
    /// What it may speak.
    pub(super) revisions: Revisions,
    /// Whether one revision was pinned, which is then not found out.
    pub(super) pinned: bool,
    /// How long a server may take over the question which revision it speaks.
    pub(super) probe_timeout: Duration,
    /// How long an answer is waited for.
    pub(super) timeouts: Timeouts,
    /// How often a server may ask back for one call.
    pub(super) max_rounds: usize,
    /// Bytes of one message.
    pub(super) max_message_bytes: usize,
    /// Pages of one list.
    pub(super) max_pages: usize,
    /// Whether a stream for what the server says unasked is opened over HTTP, up to 2025-11-25.
    pub(super) standalone_stream: bool,
    /// Which logs are wanted.
    pub(super) log_level: Option<Level>,
    /// Capabilities beyond those of the handlers.
    pub(super) extensions: Option<Object>,
    pub(super) experimental: Option<Object>,
    pub(super) handlers: ClientHandlers,
    /// Told every message.
    pub(super) on_wire: Option<WireCallback>,
    /// Whoever stands behind the client, and what that one can do.
    pub(super) observer: Option<Arc<dyn UpstreamObserver>>,
    pub(super) declared_capabilities: Option<ClientCapabilities>,
}

/// Which way a message went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Direction {
    /// To the server.
    Sent,
    /// From the server.
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
            standalone_stream: true,
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
    /// What the server is told.
    pub(super) fn capabilities(&self) -> ClientCapabilities {
        if let Some(face) = &self.declared_capabilities {
            return face.clone();
        }
        let mut capabilities = self.handlers.capabilities();
        capabilities.extensions.clone_from(&self.extensions);
        capabilities.experimental.clone_from(&self.experimental);
        capabilities
    }

    /// Which logs are wanted: those asked for, else those worth telling whoever listens.
    pub(super) fn effective_log_level(&self) -> Option<Level> {
        self.log_level.or_else(|| self.handlers.log.as_ref().map(|_| Level::Info))
    }
}
