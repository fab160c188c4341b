//! How a client finds out which era a server speaks.
//!
//! The eras share no first request: 2026-07-28 (called modern in its text) begins with any request, everything before
//! it (legacy) with `initialize`. So a client sends `server/discover`, which has no side effects, and interprets the
//! response. [`HttpProbe`] and [`StdioProbe`] are the two decision tables as state: they return what to send, get the
//! outcome, and return the next step, until the probe is [done](ProbeOutcome) or has [failed](ProbeError). Every path
//! ends; retries are counted here. The result is stored as a [`ProbeRecord`], with which the next connection needs no
//! probe.
//! ```
//! use tsugite_core::jsonrpc::RawJson;
//! use tsugite_core::revision::{Revision, Revisions};
//! use tsugite_core::session::probe::*;
//!
//! let policy = ProbePolicy::new(Revisions::ALL);
//! let (mut probe, next) = HttpProbe::new(policy);
//! assert_eq!(next, HttpProbeStep::Send(ProbeRequest::Discover(Revision::NEWEST)));
//!
//! // The probe is posted, and the server requires a session.
//! let next = probe.receive(HttpProbeEvent::Response { status: 400, body: ProbeBody::Other });
//! assert_eq!(next, HttpProbeStep::Send(ProbeRequest::Initialize(Revision::NEWEST_HANDSHAKE)));
//!
//! let result = RawJson::parse(
//!     r#"{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"s","version":"1"}}"#,
//! )?;
//! let next = probe.receive(HttpProbeEvent::Response { status: 200, body: ProbeBody::Result((&result).into()) });
//! assert!(matches!(next, HttpProbeStep::Done(outcome) if outcome.revision() == Revision::V2025_06_18));
//! assert_eq!(probe.record(), Some(ProbeRecord::new(Revision::V2025_06_18, TransportKind::StreamableHttp)));
//! # Ok::<(), tsugite_core::jsonrpc::JsonError>(())
//! ```

mod http_probe;
mod probe_error;
mod probe_record;
mod probe_state;
mod stdio_probe;
#[cfg(test)]
mod tests;

pub use http_probe::{HttpProbe, HttpProbeEvent, HttpProbeStep, ProbeBody};
pub use probe_error::ProbeError;
pub use probe_record::{ProbeRecord, TransportKind};
pub use stdio_probe::{StdioProbe, StdioProbeEvent, StdioProbeStep};

use crate::protocol::discover::DiscoverResult;
use crate::protocol::lifecycle::InitializeResult;
use crate::revision::{Revision, Revisions};

/// The revisions a client is willing to speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProbePolicy {
    /// The supported revisions; the newest that the server supports too is used.
    pub supported: Revisions,
    /// Which of them are probed for.
    pub mode: ProbeMode,
}

/// Which revisions are probed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeMode {
    /// Both eras: `server/discover` first.
    Auto,
    /// Stateless revisions only. The server is probed all the same, so that one of the other era fails at once instead
    /// of doing something half understood; `initialize` is never sent.
    StatelessOnly,
    /// Handshake revisions only. Only `initialize` is sent.
    HandshakeOnly,
    /// Exactly this revision, without a probe: a stateless one is used at once, one with a handshake is offered and no
    /// other accepted.
    ///
    /// To probe for a single stateless revision, support no other in [`ProbeMode::StatelessOnly`].
    Pin(Revision),
}

impl ProbePolicy {
    /// Probes for any revision in `supported`.
    pub fn new(supported: Revisions) -> Self {
        Self { supported, mode: ProbeMode::Auto }
    }

    /// Restricts the revisions that are probed for.
    #[must_use]
    pub fn mode(mut self, mode: ProbeMode) -> Self {
        self.mode = mode;
        self
    }

    /// The revisions that are probed for.
    fn wanted(self) -> Revisions {
        match self.mode {
            ProbeMode::Auto => self.supported,
            ProbeMode::StatelessOnly => self.supported.stateless(),
            ProbeMode::HandshakeOnly => self.supported.handshake(),
            ProbeMode::Pin(revision) if self.supported.contains(revision) => Revisions::NONE.with(revision),
            ProbeMode::Pin(_) => Revisions::NONE,
        }
    }
}

/// A request to send: one of the two ways to open a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeRequest {
    /// `server/discover`, claiming this revision.
    Discover(Revision),
    /// `initialize`, offering this revision.
    Initialize(Revision),
}

/// The result of a probe: the era, and what the server said about itself.
#[derive(Debug, Clone, PartialEq)]
pub enum ProbeOutcome {
    /// There is no handshake: requests may be sent at once.
    Stateless {
        /// The revision to claim in each request.
        revision: Revision,
        /// The result of `server/discover`, if it was sent.
        discover_result: Option<Box<DiscoverResult>>,
    },
    /// The server has responded to `initialize`: send `notifications/initialized` next.
    Handshake {
        /// The negotiated revision.
        revision: Revision,
        /// The result of `initialize`.
        initialize_result: Box<InitializeResult>,
    },
}

impl ProbeOutcome {
    /// The revision to use.
    pub fn revision(&self) -> Revision {
        match self {
            ProbeOutcome::Stateless { revision, .. } | ProbeOutcome::Handshake { revision, .. } => *revision,
        }
    }

    /// Whether the server has confirmed the revision.
    fn is_confirmed(&self) -> bool {
        !matches!(self, ProbeOutcome::Stateless { discover_result: None, .. })
    }
}
