//! How a client finds out which era a server speaks.
//!
//! The eras share no first request: 2026-07-28 (which its text calls modern) begins with any request, everything before it
//! (legacy) with `initialize`. So a client asks for `server/discover`, which does nothing, and judges what comes back.
//! [`HttpProbe`] and [`StdioProbe`] are the two tables as state: they say what to send, are told what came of it, and say
//! what to do next, until it is [settled](Settled) or has [failed](ProbeFailure). Each path through them ends; whatever is
//! tried again is counted here. What was found out is a [`ProbeRecord`], with which the next connection needs no probe.
//!
//! ```
//! use tsugite_core::jsonrpc::RawJson;
//! use tsugite_core::revision::{Revision, Revisions};
//! use tsugite_core::session::probe::*;
//!
//! let policy = ProbePolicy::new(Revisions::ALL);
//! let (mut probe, next) = HttpProbe::new(policy);
//! assert_eq!(next, HttpProbeStep::ProbeRequest(ProbeRequest::Discover(Revision::NEWEST)));
//!
//! // The probe is posted, and the server says that it wants a session.
//! let next = probe.receive(HttpProbeEvent::Answer { status: 400, body: ProbeBody::Other });
//! assert_eq!(next, HttpProbeStep::ProbeRequest(ProbeRequest::Initialize(Revision::NEWEST_HANDSHAKE)));
//!
//! let result = RawJson::parse(
//!     r#"{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"s","version":"1"}}"#,
//! )?;
//! let next = probe.receive(HttpProbeEvent::Answer { status: 200, body: ProbeBody::Result((&result).into()) });
//! assert!(matches!(next, HttpProbeStep::ProbeOutcome(settled) if settled.revision() == Revision::V2025_06_18));
//! assert_eq!(probe.verdict(), Some(ProbeRecord::new(Revision::V2025_06_18, TransportKind::StreamableHttp)));
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

/// What a client is willing to speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProbePolicy {
    /// The revisions it can speak; of those that a server speaks too, the newest is taken.
    pub supported: Revisions,
    /// Which of them are looked for.
    pub mode: ProbeMode,
}

/// Which revisions are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeMode {
    /// Both eras: the server is asked for what it is.
    Auto,
    /// Those without a handshake. The server is asked all the same, so that one of the other era fails at once instead of
    /// doing something half understood; `initialize` is never sent.
    StatelessOnly,
    /// Those with a handshake. Only `initialize` is sent.
    HandshakeOnly,
    /// This one. The server is not asked what it is: one without a handshake is simply spoken, one with it is offered and
    /// no other accepted.
    ///
    /// To have a server asked for a single stateless revision, speak no other in [`ProbeMode::StatelessOnly`].
    Pin(Revision),
}

impl ProbePolicy {
    /// Looks for any revision in `supported`.
    pub fn new(supported: Revisions) -> Self {
        Self { supported, mode: ProbeMode::Auto }
    }

    /// Looks for some of them.
    #[must_use]
    pub fn mode(mut self, mode: ProbeMode) -> Self {
        self.mode = mode;
        self
    }

    /// The revisions that are looked for.
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

/// A request to send. There are two ways to open a conversation, and no third.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeRequest {
    /// `server/discover`, claiming this revision.
    Discover(Revision),
    /// `initialize`, offering this revision.
    Initialize(Revision),
}

/// What was found out. There are two eras, and whoever goes on must know which it is.
#[derive(Debug, Clone, PartialEq)]
pub enum ProbeOutcome {
    /// There is no handshake: requests may be sent.
    Stateless {
        /// What to claim in each of them.
        revision: Revision,
        /// What the server said of itself, if it was asked.
        discover_result: Option<Box<DiscoverResult>>,
    },
    /// The server has answered `initialize`: `notifications/initialized` is due.
    Handshake {
        /// What both speak.
        revision: Revision,
        /// What the server said of itself.
        initialize_result: Box<InitializeResult>,
    },
}

impl ProbeOutcome {
    /// The revision to speak.
    pub fn revision(&self) -> Revision {
        match self {
            ProbeOutcome::Stateless { revision, .. } | ProbeOutcome::Handshake { revision, .. } => *revision,
        }
    }

    /// Whether the server has said so itself.
    fn is_confirmed(&self) -> bool {
        !matches!(self, ProbeOutcome::Stateless { discover_result: None, .. })
    }
}
