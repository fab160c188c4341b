//! How a client finds out which era a server speaks.
//!
//! The eras share no first request: 2026-07-28 (which its text calls modern) begins with any request, everything before it
//! (legacy) with `initialize`. So a client asks for `server/discover`, which does nothing, and judges what comes back.
//! [`HttpProbe`] and [`StdioProbe`] are the two tables as state: they say what to send, are told what came of it, and say
//! what to do next, until it is [settled](Settled) or has [failed](ProbeFailure). Each path through them ends; whatever is
//! tried again is counted here. What was found out is a [`Verdict`], with which the next connection needs no probe.
//!
//! ```
//! use tsugite_core::jsonrpc::RawJson;
//! use tsugite_core::revision::{Revision, Revisions};
//! use tsugite_core::session::probe::*;
//!
//! let policy = Policy::new(Revisions::ALL);
//! let (mut probe, next) = HttpProbe::new(policy);
//! assert_eq!(next, HttpNext::Ask(Ask::Discover(Revision::NEWEST)));
//!
//! // The probe is posted, and the server says that it wants a session.
//! let next = probe.heard(HttpOutcome::Answer { status: 400, body: Body::Other });
//! assert_eq!(next, HttpNext::Ask(Ask::Initialize(Revision::NEWEST_HANDSHAKE)));
//!
//! let result = RawJson::parse(
//!     r#"{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"s","version":"1"}}"#,
//! )?;
//! let next = probe.heard(HttpOutcome::Answer { status: 200, body: Body::Result((&result).into()) });
//! assert!(matches!(next, HttpNext::Settled(settled) if settled.revision() == Revision::V2025_06_18));
//! assert_eq!(probe.verdict(), Some(Verdict::new(Revision::V2025_06_18, Transport::StreamableHttp)));
//! # Ok::<(), tsugite_core::jsonrpc::BadShape>(())
//! ```

mod failure;
mod http;
mod search;
mod stdio;
#[cfg(test)]
mod tests;
mod verdict;

pub use failure::ProbeFailure;
pub use http::{Body, HttpNext, HttpOutcome, HttpProbe};
pub use stdio::{StdioNext, StdioOutcome, StdioProbe};
pub use verdict::{Transport, Verdict};

use crate::protocol::discover::DiscoverResult;
use crate::protocol::lifecycle::InitializeResult;
use crate::revision::{Revision, Revisions};

/// What a client is willing to speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Policy {
    /// The revisions it can speak; of those that a server speaks too, the newest is taken.
    pub spoken: Revisions,
    /// Which of them are looked for.
    pub mode: Mode,
}

/// Which revisions are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
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
    /// To have a server asked for a single stateless revision, speak no other in [`Mode::StatelessOnly`].
    Pin(Revision),
}

impl Policy {
    /// Looks for any revision in `spoken`.
    pub fn new(spoken: Revisions) -> Self {
        Self { spoken, mode: Mode::Auto }
    }

    /// Looks for some of them.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// The revisions that are looked for.
    fn wanted(self) -> Revisions {
        match self.mode {
            Mode::Auto => self.spoken,
            Mode::StatelessOnly => self.spoken.stateless(),
            Mode::HandshakeOnly => self.spoken.handshake(),
            Mode::Pin(revision) if self.spoken.contains(revision) => Revisions::NONE.with(revision),
            Mode::Pin(_) => Revisions::NONE,
        }
    }
}

/// A request to send. There are two ways to open a conversation, and no third.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// `server/discover`, claiming this revision.
    Discover(Revision),
    /// `initialize`, offering this revision.
    Initialize(Revision),
}

/// What was found out. There are two eras, and whoever goes on must know which it is.
#[derive(Debug, Clone, PartialEq)]
pub enum Settled {
    /// There is no handshake: requests may be sent.
    Stateless {
        /// What to claim in each of them.
        revision: Revision,
        /// What the server said of itself, if it was asked.
        discovered: Option<Box<DiscoverResult>>,
    },
    /// The server has answered `initialize`: `notifications/initialized` is due.
    Handshake {
        /// What both speak.
        revision: Revision,
        /// What the server said of itself.
        answer: Box<InitializeResult>,
    },
}

impl Settled {
    /// The revision to speak.
    pub fn revision(&self) -> Revision {
        match self {
            Settled::Stateless { revision, .. } | Settled::Handshake { revision, .. } => *revision,
        }
    }

    /// Whether the server has said so itself.
    fn is_proven(&self) -> bool {
        !matches!(self, Settled::Stateless { discovered: None, .. })
    }
}
