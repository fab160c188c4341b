//! What a client is and how it behaves, as far as that is settled before it connects.

use std::sync::Arc;
use std::time::Duration;

use tsugite_core::protocol::logging::Level;
use tsugite_core::protocol::{ClientCapabilities, Implementation, Object};
use tsugite_core::revision::Revisions;
use tsugite_core::session::call_timer::Timeouts;

use super::handler::Handlers;
use super::tap::Tap;

/// The settings of one client.
#[derive(Clone)]
pub(super) struct Settings {
    /// What it calls itself.
    pub(super) info: Implementation,
    /// What it may speak.
    pub(super) spoken: Revisions,
    /// Whether one revision was pinned, which is then not found out.
    pub(super) pinned: bool,
    /// How long a server may take over the question which revision it speaks.
    pub(super) probe: Duration,
    /// How long an answer is waited for.
    pub(super) patience: Timeouts,
    /// How often a server may ask back for one call.
    pub(super) rounds: usize,
    /// Bytes of one message.
    pub(super) message_bytes: usize,
    /// Pages of one list.
    pub(super) pages: usize,
    /// Whether a stream for what the server says unasked is opened over HTTP, up to 2025-11-25.
    pub(super) hears: bool,
    /// Which logs are wanted.
    pub(super) log_level: Option<Level>,
    /// Capabilities beyond those of the handlers.
    pub(super) extensions: Option<Object>,
    pub(super) experimental: Option<Object>,
    pub(super) handlers: Handlers,
    /// Told every message.
    pub(super) wire: Option<OnWire>,
    /// Whoever stands behind the client, and what that one can do.
    pub(super) tap: Option<Arc<dyn Tap>>,
    pub(super) face: Option<ClientCapabilities>,
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

pub(super) type OnWire = Arc<dyn Fn(Direction, &str) + Send + Sync>;

impl Default for Settings {
    fn default() -> Self {
        Self {
            info: Implementation::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION")),
            spoken: Revisions::ALL,
            pinned: false,
            probe: Duration::from_secs(5),
            patience: Timeouts::default(),
            rounds: 10,
            message_bytes: 64 << 20,
            pages: 1_000,
            hears: true,
            log_level: None,
            extensions: None,
            experimental: None,
            handlers: Handlers::default(),
            wire: None,
            tap: None,
            face: None,
        }
    }
}

impl Settings {
    /// What the server is told.
    pub(super) fn capabilities(&self) -> ClientCapabilities {
        if let Some(face) = &self.face {
            return face.clone();
        }
        let mut capabilities = self.handlers.capabilities();
        capabilities.extensions.clone_from(&self.extensions);
        capabilities.experimental.clone_from(&self.experimental);
        capabilities
    }

    /// Which logs are wanted: those asked for, else those worth telling whoever listens.
    pub(super) fn wanted_logs(&self) -> Option<Level> {
        self.log_level.or_else(|| self.handlers.log.as_ref().map(|_| Level::Info))
    }
}
