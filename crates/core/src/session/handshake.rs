//! How a connection opens up to 2025-11-25, as the server sees it: `initialize`, its answer, `notifications/initialized`.
//!
//! The client's side is part of how it finds out what a server speaks: [`super::probe`].

use crate::protocol::Method;
use crate::protocol::ping::Ping;
use crate::revision::{Refusal, Revision, Revisions};

/// How far a handshake has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Nothing was agreed yet.
    Fresh,
    /// A revision was agreed; the client has not said that it is ready.
    Agreed(Revision),
    /// Both sides are ready.
    Ready(Revision),
}

impl Phase {
    /// The revision that was agreed.
    pub fn revision(self) -> Option<Revision> {
        match self {
            Phase::Fresh => None,
            Phase::Agreed(revision) | Phase::Ready(revision) => Some(revision),
        }
    }
}

/// The server's side of a handshake.
#[derive(Debug, Clone)]
pub struct ServerHandshake {
    served: Revisions,
    phase: Phase,
}

impl ServerHandshake {
    /// Nothing has come yet; `served` is what can be agreed.
    pub fn new(served: Revisions) -> Self {
        Self { served, phase: Phase::Fresh }
    }

    /// How far it has come.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// An `initialize` has come: gives the revision to answer with. A repeated one begins anew.
    ///
    /// Fails, naming what is served, when no revision with a handshake is.
    pub fn initialize(&mut self, offered: &str) -> Result<Revision, Refusal> {
        match self.served.answer_to_initialize(offered) {
            Some(revision) => {
                self.phase = Phase::Agreed(revision);
                Ok(revision)
            }
            None => {
                Err(Refusal::UnsupportedVersion { requested: offered.to_owned(), supported: self.served })
            }
        }
    }

    /// `notifications/initialized`, or the first ordinary request: some clients never send the notification.
    pub fn ready(&mut self) {
        if let Phase::Agreed(revision) = self.phase {
            self.phase = Phase::Ready(revision);
        }
    }

    /// Whether the server may send this request now: before the client is ready, only `ping`.
    pub fn may_ask(&self, method: &str) -> bool {
        match self.phase {
            Phase::Ready(_) => true,
            Phase::Agreed(_) => method == Ping::NAME,
            Phase::Fresh => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_asks_nothing_but_ping_until_the_client_is_ready() {
        // LIFE-008
        let mut server = ServerHandshake::new(Revisions::ALL);
        assert!(!server.may_ask("ping"));
        assert_eq!(server.initialize("2025-06-18"), Ok(Revision::V2025_06_18));
        assert!(server.may_ask("ping") && !server.may_ask("roots/list"));
        server.ready();
        assert!(server.may_ask("roots/list"));
    }

    #[test]
    fn initialize_may_come_again_and_begins_anew() {
        // LIFE-033
        let mut server = ServerHandshake::new(Revisions::ALL);
        server.initialize("2025-06-18").unwrap();
        server.ready();
        assert_eq!(server.initialize("2024-11-05"), Ok(Revision::V2024_11_05));
        assert_eq!(server.phase(), Phase::Agreed(Revision::V2024_11_05));
    }

    #[test]
    fn a_server_without_handshake_says_what_it_serves() {
        // VER-032
        let mut server = ServerHandshake::new(Revisions::ALL.stateless());
        let refusal = server.initialize("2025-11-25").unwrap_err();
        let error = refusal.error(Revision::V2025_11_25);
        assert!(error.data.unwrap().text().contains("2026-07-28"));
        assert_eq!(server.phase(), Phase::Fresh);
    }
}
