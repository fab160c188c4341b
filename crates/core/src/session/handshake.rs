//! How a connection opens up to 2025-11-25, as the server sees it: `initialize`, its answer, `notifications/initialized`.
//!
//! The client's side is part of how it finds out what a server speaks: [`super::probe`].

use crate::revision::{Revision, Revisions, RpcError};

/// How far a handshake has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandshakePhase {
    /// Nothing was agreed yet.
    Uninitialized,
    /// A revision was agreed; the client has not said that it is ready.
    Negotiated(Revision),
    /// Both sides are ready.
    Ready(Revision),
}

impl HandshakePhase {
    /// The revision that was agreed.
    pub fn revision(self) -> Option<Revision> {
        match self {
            HandshakePhase::Uninitialized => None,
            HandshakePhase::Negotiated(revision) | HandshakePhase::Ready(revision) => Some(revision),
        }
    }
}

/// The server's side of a handshake.
#[derive(Debug, Clone)]
pub struct ServerHandshake {
    served: Revisions,
    phase: HandshakePhase,
}

impl ServerHandshake {
    /// Nothing has come yet; `served` is what can be agreed.
    pub fn new(served: Revisions) -> Self {
        Self { served, phase: HandshakePhase::Uninitialized }
    }

    /// How far it has come.
    pub fn phase(&self) -> HandshakePhase {
        self.phase
    }

    /// An `initialize` has come: gives the revision to answer with. A repeated one begins anew.
    ///
    /// Fails, naming what is served, when no revision with a handshake is.
    pub fn initialize(&mut self, offered: &str) -> Result<Revision, RpcError> {
        match self.served.negotiate(offered) {
            Some(revision) => {
                self.phase = HandshakePhase::Negotiated(revision);
                Ok(revision)
            }
            None => {
                Err(RpcError::UnsupportedVersion { requested: offered.to_owned(), supported: self.served })
            }
        }
    }

    /// `notifications/initialized`, or the first ordinary request: some clients never send the notification.
    pub fn mark_ready(&mut self) {
        if let HandshakePhase::Negotiated(revision) = self.phase {
            self.phase = HandshakePhase::Ready(revision);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn initialize_may_come_again_and_begins_anew() {
        // LIFE-033
        let mut server = ServerHandshake::new(Revisions::ALL);
        server.initialize("2025-06-18").unwrap();
        server.mark_ready();
        assert_eq!(server.initialize("2024-11-05"), Ok(Revision::V2024_11_05));
        assert_eq!(server.phase(), HandshakePhase::Negotiated(Revision::V2024_11_05));
    }

    #[test]
    fn a_server_without_handshake_says_what_it_serves() {
        // VER-032
        let mut server = ServerHandshake::new(Revisions::ALL.stateless());
        let refusal = server.initialize("2025-11-25").unwrap_err();
        let error = refusal.to_error_object(Revision::V2025_11_25);
        assert!(error.data.unwrap().text().contains("2026-07-28"));
        assert_eq!(server.phase(), HandshakePhase::Uninitialized);
    }
}
