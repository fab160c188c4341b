//! The rules both tables share: what an answer says of the server, whatever carried it.

use std::mem::replace;

use serde::Deserialize;

use super::{Ask, Mode, Policy, ProbeFailure, Settled};
use crate::jsonrpc::{ErrorObject, Raw};
use crate::protocol::discover::Discover;
use crate::protocol::lifecycle::Initialize;
use crate::revision::{Revision, Revisions, code, read_result, supported_versions};

/// What is known so far.
#[derive(Debug, Clone)]
pub(super) struct Search {
    wanted: Revisions,
    pinned: bool,
    /// The server has shown that it needs no handshake. From then on none is tried unless it names a revision with one.
    stateless: bool,
    /// It was asked what it is, and did not understand.
    baffled: bool,
    /// It was asked what it is, and did not answer in time.
    silent: bool,
    /// `server/discover` was sent again for the version's sake.
    switched: bool,
    /// It was sent again after it was found wanting.
    corrected: bool,
    /// `initialize` was sent again for the version's sake.
    reoffered: bool,
}

/// What follows from an answer.
#[derive(Debug, PartialEq)]
pub(super) enum Found {
    Ask(Ask),
    Settled(Settled),
    Fail(ProbeFailure),
}

impl Search {
    pub(super) fn new(policy: Policy) -> Self {
        Self {
            wanted: policy.wanted(),
            pinned: matches!(policy.mode, Mode::Pin(_)),
            stateless: false,
            baffled: false,
            silent: false,
            switched: false,
            corrected: false,
            reoffered: false,
        }
    }

    pub(super) fn wants(&self, revision: Revision) -> bool {
        self.wanted.contains(revision)
    }

    pub(super) fn is_pinned(&self) -> bool {
        self.pinned
    }

    /// How to begin with a server of which nothing is known.
    pub(super) fn first(&self) -> Found {
        match self.wanted.newest_first().next() {
            None => Found::Fail(ProbeFailure::NothingSpoken),
            Some(revision) if !revision.is_stateless() => Found::Ask(Ask::Initialize(revision)),
            Some(revision) if self.pinned => {
                Found::Settled(Settled::Stateless { revision, discovered: None })
            }
            Some(revision) => Found::Ask(Ask::Discover(revision)),
        }
    }

    /// `server/discover` has a result.
    pub(super) fn discovered(&mut self, result: Raw<'_>) -> Found {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Offer {
            supported_versions: Vec<String>,
        }
        let theirs = match result.read_object::<Offer>() {
            Ok(offer) => offer.supported_versions,
            // A server of the handshake era that has an answer to everything.
            Err(error) => return self.baffled(ProbeFailure::Unreadable(error)),
        };
        if let Some(revision) = best(self.wanted.stateless(), &theirs) {
            self.stateless = true;
            return match read_result::<Discover>(result, revision) {
                Ok(discovered) => {
                    let discovered = Some(Box::new(discovered));
                    Found::Settled(Settled::Stateless { revision, discovered })
                }
                Err(error) => Found::Fail(ProbeFailure::Unreadable(error)),
            };
        }
        match best(self.wanted.handshake(), &theirs) {
            Some(revision) => Found::Ask(Ask::Initialize(revision)),
            None => nothing_in_common(theirs, self.wanted),
        }
    }

    /// `server/discover`, which claimed `asked`, was refused.
    pub(super) fn discover_refused(&mut self, asked: Revision, error: &ErrorObject) -> Found {
        match error.code {
            code::UNSUPPORTED_VERSION => self.version_refused(error),
            code::HEADER_MISMATCH | code::MISSING_CLIENT_CAPABILITY => {
                self.stateless = true;
                let again = !replace(&mut self.corrected, true);
                if again { Found::Ask(Ask::Discover(asked)) } else { refused(error) }
            }
            // No number in particular: servers of the handshake era have many ways to say it.
            _ => self.baffled(ProbeFailure::Refused(error.clone())),
        }
    }

    fn version_refused(&mut self, error: &ErrorObject) -> Found {
        self.stateless = true;
        let Some(theirs) = supported_versions(error) else { return refused(error) };
        // Whoever names a revision without a handshake is not to be led back to one (stdio, "Backward Compatibility").
        let only_handshakes = theirs.iter().all(|name| has_handshake(name));
        let ours = if only_handshakes { self.wanted } else { self.wanted.stateless() };
        match best(ours, &theirs) {
            None => nothing_in_common(theirs, ours),
            Some(revision) if only_handshakes => Found::Ask(Ask::Initialize(revision)),
            // Even if it is the very version that was refused: servers do that, once.
            Some(revision) => {
                let again = !replace(&mut self.switched, true);
                if again { Found::Ask(Ask::Discover(revision)) } else { refused(error) }
            }
        }
    }

    /// `server/discover` met with something that no server without a handshake says: the handshake is tried.
    ///
    /// Fails with `otherwise` if the server has shown before that it needs none.
    pub(super) fn baffled(&mut self, otherwise: ProbeFailure) -> Found {
        self.baffled = true;
        self.silent = matches!(otherwise, ProbeFailure::Silent);
        match self.wanted.handshake().newest_first().next() {
            _ if self.stateless => Found::Fail(otherwise),
            Some(offer) => Found::Ask(Ask::Initialize(offer)),
            None => Found::Fail(ProbeFailure::WantsHandshake { ours: self.wanted }),
        }
    }

    /// `initialize` has a result.
    pub(super) fn initialized(&self, result: Raw<'_>) -> Found {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Answer {
            protocol_version: String,
        }
        let theirs = match result.read_object::<Answer>() {
            Ok(answer) => vec![answer.protocol_version],
            Err(error) => return Found::Fail(ProbeFailure::Unreadable(error)),
        };
        let Some(revision) = best(self.wanted.handshake(), &theirs) else {
            return nothing_in_common(theirs, self.wanted.handshake());
        };
        match read_result::<Initialize>(result, revision) {
            Ok(answer) => Found::Settled(Settled::Handshake { revision, answer: Box::new(answer) }),
            Err(error) => Found::Fail(ProbeFailure::Unreadable(error)),
        }
    }

    /// `initialize` was refused; `stateless` if in a way that only a server without a handshake has.
    pub(super) fn initialize_refused(&mut self, error: &ErrorObject, stateless: bool) -> Found {
        let theirs = supported_versions(error).unwrap_or_default();
        if let Some(revision) = best(self.wanted.handshake(), &theirs) {
            // The server should have answered with that revision, but the text of its era has an example that does not.
            let again = !replace(&mut self.reoffered, true);
            return if again { Found::Ask(Ask::Initialize(revision)) } else { refused(error) };
        }
        match best(self.wanted.stateless(), &theirs) {
            // It was only slow to start, so the question is worth asking again.
            Some(revision) if self.silent && !self.switched => {
                self.switched = true;
                self.stateless = true;
                Found::Ask(Ask::Discover(revision))
            }
            None if !theirs.is_empty() => nothing_in_common(theirs, self.wanted),
            _ if stateless && self.baffled => Found::Fail(ProbeFailure::NoDiscover(error.clone())),
            _ => refused(error),
        }
    }
}

/// Whether only servers without a handshake have this error.
pub(super) fn is_stateless(error: &ErrorObject) -> bool {
    [code::UNSUPPORTED_VERSION, code::HEADER_MISMATCH, code::MISSING_CLIENT_CAPABILITY].contains(&error.code)
}

fn refused(error: &ErrorObject) -> Found {
    Found::Fail(ProbeFailure::Refused(error.clone()))
}

fn nothing_in_common(theirs: Vec<String>, ours: Revisions) -> Found {
    Found::Fail(ProbeFailure::NoCommon { theirs, ours })
}

fn best(ours: Revisions, theirs: &[String]) -> Option<Revision> {
    ours.best_of(theirs.iter().map(String::as_str))
}

/// All revisions with a handshake are known: there will be no others.
fn has_handshake(name: &str) -> bool {
    name.parse::<Revision>().is_ok_and(|revision| !revision.is_stateless())
}
