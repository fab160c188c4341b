//! The server's side of the handshake up to 2025-11-25: `initialize`, its result, `notifications/initialized`.
//!
//! The client's side is part of [`super::probe`].

use crate::revision::{Revision, Revisions, RpcError};

/// The progress of a handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandshakePhase {
    /// No revision is negotiated yet.
    Uninitialized,
    /// A revision is negotiated; the client has not confirmed yet.
    Negotiated(Revision),
    /// The client has confirmed.
    Ready(Revision),
}

impl HandshakePhase {
    /// The negotiated revision.
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
    /// A new handshake; `served` are the revisions that can be negotiated.
    pub fn new(served: Revisions) -> Self {
        Self { served, phase: HandshakePhase::Uninitialized }
    }

    /// The current phase.
    pub fn phase(&self) -> HandshakePhase {
        self.phase
    }

    /// Handles `initialize` and returns the revision for the result. A repeated one starts over.
    ///
    /// Fails, naming the served revisions, if none of them has a handshake.
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

    /// Handles `notifications/initialized`, or the first ordinary request: some clients never send the notification.
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
    fn repeated_initialize_starts_over() {
        // LIFE-033
        let mut server = ServerHandshake::new(Revisions::ALL);
        server.initialize("2025-06-18").unwrap();
        server.mark_ready();
        assert_eq!(server.initialize("2024-11-05"), Ok(Revision::V2024_11_05));
        assert_eq!(server.phase(), HandshakePhase::Negotiated(Revision::V2024_11_05));
    }

    #[test]
    fn server_without_handshake_names_its_revisions() {
        // VER-032
        let mut server = ServerHandshake::new(Revisions::ALL.stateless());
        let rpc_error = server.initialize("2025-11-25").unwrap_err();
        let error = rpc_error.to_error_object(Revision::V2025_11_25);
        assert!(error.data.unwrap().text().contains("2026-07-28"));
        assert_eq!(server.phase(), HandshakePhase::Uninitialized);
    }
}
