//! How a connection opens up to 2025-11-25: `initialize`, its answer, `notifications/initialized`.

use crate::protocol::lifecycle::{Initialize, InitializeParams, InitializeResult};
use crate::protocol::ping::Ping;
use crate::protocol::{ClientCapabilities, Implementation, Method};
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

/// The client's side of a handshake.
#[derive(Debug, Clone)]
pub struct ClientHandshake {
    spoken: Revisions,
    phase: Phase,
}

impl ClientHandshake {
    /// Nothing was sent yet; `spoken` is what can be agreed.
    pub fn new(spoken: Revisions) -> Self {
        Self { spoken: spoken.handshake(), phase: Phase::Fresh }
    }

    /// How far it has come.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// What to open with: the newest revision with a handshake. `None` if none is spoken.
    pub fn offer(
        &self,
        client: Implementation,
        capabilities: ClientCapabilities,
    ) -> Option<(Revision, InitializeParams)> {
        let offered = self.spoken.newest_first().next()?;
        Some((offered, InitializeParams::new(offered.as_str(), capabilities, client)))
    }

    /// The server has answered. Gives the revision both speak from now on; `notifications/initialized` is due.
    ///
    /// Fails when the server chose one we do not speak: the connection is to be closed.
    pub fn answered(&mut self, answer: &InitializeResult) -> Result<Revision, Refusal> {
        match self.spoken.best_of([answer.protocol_version.as_str()]) {
            Some(revision) => {
                self.phase = Phase::Ready(revision);
                Ok(revision)
            }
            None => Err(Refusal::UnsupportedVersion {
                requested: answer.protocol_version.clone(),
                supported: self.spoken,
            }),
        }
    }

    /// Whether the client may send this request now: before the server has answered, only `initialize` and `ping`.
    pub fn may_ask(&self, method: &str) -> bool {
        matches!(self.phase, Phase::Ready(_)) || [Initialize::NAME, Ping::NAME].contains(&method)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::ServerCapabilities;

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

    #[test]
    fn the_client_offers_its_newest_and_takes_any_it_speaks() {
        // LIFE-007, LIFE-009, LIFE-010
        let mut client = ClientHandshake::new(Revisions::ALL.without(Revision::V2025_11_25));
        let (offered, params) =
            client.offer(Implementation::new("c", "1"), ClientCapabilities::new()).unwrap();
        assert_eq!((offered, params.protocol_version.as_str()), (Revision::V2025_06_18, "2025-06-18"));
        assert!(!client.may_ask("tools/list"));
        let answer = |version| {
            InitializeResult::new(version, ServerCapabilities::new(), Implementation::new("s", "1"))
        };
        assert_eq!(client.answered(&answer("2024-11-05")), Ok(Revision::V2024_11_05));
        assert!(client.may_ask("tools/list"));
    }

    #[test]
    fn the_client_gives_up_on_a_revision_it_does_not_speak() {
        // LIFE-014
        let mut client = ClientHandshake::new(Revisions::ALL);
        for version in ["1.0", "2026-07-28", ""] {
            let answer =
                InitializeResult::new(version, ServerCapabilities::new(), Implementation::new("s", "1"));
            assert!(client.answered(&answer).is_err(), "{version}");
            assert_eq!(client.phase(), Phase::Fresh);
        }
    }
}
