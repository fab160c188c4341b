//! The rules both probes share: how a response is interpreted, independent of the transport.

use std::mem::replace;

use serde::Deserialize;

use super::{ProbeError, ProbeMode, ProbeOutcome, ProbePolicy, ProbeRequest};
use crate::jsonrpc::{ErrorObject, Raw};
use crate::protocol::discover::Discover;
use crate::protocol::lifecycle::Initialize;
use crate::revision::{Revision, Revisions, code, read_result, supported_versions};

/// The state of a probe.
#[derive(Debug, Clone)]
pub(super) struct ProbeState {
    wanted: Revisions,
    pinned: bool,
    /// Whether the server has shown that it needs no handshake. None is tried then, unless the server names a revision
    /// with one.
    stateless: bool,
    /// Whether `server/discover` was sent and not understood.
    discover_failed: bool,
    /// Whether `server/discover` was sent and timed out.
    discover_timed_out: bool,
    /// Whether an answer to it arrived while `initialize` was pending.
    discover_answered_late: bool,
    /// Whether `server/discover` was sent again with another version.
    discover_version_retried: bool,
    /// Whether `server/discover` was sent again after a correction.
    discover_fields_retried: bool,
    /// Whether `initialize` was sent again with another version.
    initialize_retried: bool,
}

/// The step that follows from a response.
#[derive(Debug, PartialEq)]
pub(super) enum NextStep {
    Send(ProbeRequest),
    Done(ProbeOutcome),
    Fail(ProbeError),
}

impl ProbeState {
    pub(super) fn new(policy: ProbePolicy) -> Self {
        Self {
            wanted: policy.wanted(),
            pinned: matches!(policy.mode, ProbeMode::Pin(_)),
            stateless: false,
            discover_failed: false,
            discover_timed_out: false,
            discover_answered_late: false,
            discover_version_retried: false,
            discover_fields_retried: false,
            initialize_retried: false,
        }
    }

    pub(super) fn wants(&self, revision: Revision) -> bool {
        self.wanted.contains(revision)
    }

    /// The first step without a record.
    pub(super) fn first_step(&self) -> NextStep {
        match self.wanted.newest_first().next() {
            None => NextStep::Fail(ProbeError::NoRevisions),
            Some(revision) if !revision.is_stateless() => NextStep::Send(ProbeRequest::Initialize(revision)),
            Some(revision) if self.pinned => {
                NextStep::Done(ProbeOutcome::Stateless { revision, discover_result: None })
            }
            Some(revision) => NextStep::Send(ProbeRequest::Discover(revision)),
        }
    }

    /// Handles the result of `server/discover`.
    pub(super) fn on_discover_result(&mut self, result: Raw<'_>) -> NextStep {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct OfferedVersions {
            supported_versions: Vec<String>,
        }
        let theirs = match result.read_object::<OfferedVersions>() {
            Ok(offer) => offer.supported_versions,
            // A server of the handshake era that responds to every method.
            Err(error) => return self.fall_back_to_initialize(ProbeError::InvalidResponse(error)),
        };
        if let Some(revision) = newest_common(self.wanted.stateless(), &theirs) {
            self.stateless = true;
            return match read_result::<Discover>(result, revision) {
                Ok(discovered) => {
                    let discovered = Some(Box::new(discovered));
                    NextStep::Done(ProbeOutcome::Stateless { revision, discover_result: discovered })
                }
                Err(error) => NextStep::Fail(ProbeError::InvalidResponse(error)),
            };
        }
        match newest_common(self.wanted.handshake(), &theirs) {
            Some(revision) => NextStep::Send(ProbeRequest::Initialize(revision)),
            None => no_common_revision(theirs, self.wanted),
        }
    }

    /// Handles a result of `server/discover` that arrives while `initialize` is pending. `None` if it names no stateless
    /// revision that both support.
    pub(super) fn on_late_discover_result(&mut self, result: Raw<'_>) -> Option<NextStep> {
        let mut late = self.clone();
        match late.on_discover_result(result) {
            NextStep::Done(outcome) => {
                *self = late;
                Some(NextStep::Done(outcome))
            }
            _ => {
                self.confirm_handshake_era();
                None
            }
        }
    }

    /// Records that the server has answered `server/discover` after all, without a stateless revision.
    pub(super) fn confirm_handshake_era(&mut self) {
        self.discover_answered_late = true;
    }

    /// Whether the outcome follows from a timeout, not from an answer to `server/discover`.
    pub(super) fn is_guess(&self, outcome: &ProbeOutcome) -> bool {
        matches!(outcome, ProbeOutcome::Handshake { .. })
            && self.discover_timed_out
            && !self.discover_answered_late
    }

    /// Handles the error of a `server/discover` that claimed `asked`.
    pub(super) fn on_discover_error(&mut self, asked: Revision, error: &ErrorObject) -> NextStep {
        match error.code {
            code::UNSUPPORTED_VERSION => self.on_unsupported_version(error),
            code::HEADER_MISMATCH | code::MISSING_CLIENT_CAPABILITY => {
                self.stateless = true;
                let again = !replace(&mut self.discover_fields_retried, true);
                if again { NextStep::Send(ProbeRequest::Discover(asked)) } else { rejected(error) }
            }
            // Any code: servers of the handshake era use many.
            _ => self.fall_back_to_initialize(ProbeError::Rejected(error.clone())),
        }
    }

    fn on_unsupported_version(&mut self, error: &ErrorObject) -> NextStep {
        self.stateless = true;
        let Some(theirs) = supported_versions(error) else { return rejected(error) };
        // A server that names a stateless revision must not be led back to a handshake (stdio, "Backward
        // Compatibility").
        let only_handshakes = theirs.iter().all(|name| has_handshake(name));
        let ours = if only_handshakes { self.wanted } else { self.wanted.stateless() };
        match newest_common(ours, &theirs) {
            None => no_common_revision(theirs, ours),
            Some(revision) if only_handshakes => NextStep::Send(ProbeRequest::Initialize(revision)),
            // Even if it is the version that was just rejected: some servers do that, once.
            Some(revision) => {
                let again = !replace(&mut self.discover_version_retried, true);
                if again { NextStep::Send(ProbeRequest::Discover(revision)) } else { rejected(error) }
            }
        }
    }

    /// Tries the handshake after a response that no stateless server gives.
    ///
    /// Fails with `otherwise` if the server has shown before that it needs no handshake.
    pub(super) fn fall_back_to_initialize(&mut self, otherwise: ProbeError) -> NextStep {
        self.discover_failed = true;
        self.discover_timed_out = matches!(otherwise, ProbeError::NoResponse);
        match self.wanted.handshake().newest_first().next() {
            _ if self.stateless => NextStep::Fail(otherwise),
            Some(offer) => NextStep::Send(ProbeRequest::Initialize(offer)),
            // It may be a server that ends at an unknown request; that it ended is what is known.
            None if matches!(otherwise, ProbeError::Exited) => NextStep::Fail(otherwise),
            None => NextStep::Fail(ProbeError::HandshakeRequired { ours: self.wanted }),
        }
    }

    /// Handles the result of `initialize`.
    pub(super) fn on_initialize_result(&self, result: Raw<'_>) -> NextStep {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct NegotiatedVersion {
            protocol_version: String,
        }
        let theirs = match result.read_object::<NegotiatedVersion>() {
            Ok(answer) => vec![answer.protocol_version],
            Err(error) => return NextStep::Fail(ProbeError::InvalidResponse(error)),
        };
        let Some(revision) = newest_common(self.wanted.handshake(), &theirs) else {
            return no_common_revision(theirs, self.wanted.handshake());
        };
        match read_result::<Initialize>(result, revision) {
            Ok(answer) => {
                NextStep::Done(ProbeOutcome::Handshake { revision, initialize_result: Box::new(answer) })
            }
            Err(error) => NextStep::Fail(ProbeError::InvalidResponse(error)),
        }
    }

    /// Handles the error of `initialize`; `stateless`: whether only a stateless server gives this error.
    pub(super) fn on_initialize_error(&mut self, error: &ErrorObject, stateless: bool) -> NextStep {
        let theirs = supported_versions(error).unwrap_or_default();
        if let Some(revision) = newest_common(self.wanted.handshake(), &theirs) {
            // The server should have responded with that revision, but the specification has an example that does not.
            let again = !replace(&mut self.initialize_retried, true);
            return if again { NextStep::Send(ProbeRequest::Initialize(revision)) } else { rejected(error) };
        }
        match newest_common(self.wanted.stateless(), &theirs) {
            // The server was only slow to start, so probe again.
            Some(revision) if self.discover_timed_out && !self.discover_version_retried => {
                self.discover_version_retried = true;
                self.stateless = true;
                NextStep::Send(ProbeRequest::Discover(revision))
            }
            None if !theirs.is_empty() => no_common_revision(theirs, self.wanted),
            _ if stateless && self.discover_failed => NextStep::Fail(ProbeError::NoDiscover(error.clone())),
            _ => rejected(error),
        }
    }
}

/// Whether only stateless servers have this error.
pub(super) fn is_stateless_error(error: &ErrorObject) -> bool {
    [code::UNSUPPORTED_VERSION, code::HEADER_MISMATCH, code::MISSING_CLIENT_CAPABILITY].contains(&error.code)
}

fn rejected(error: &ErrorObject) -> NextStep {
    NextStep::Fail(ProbeError::Rejected(error.clone()))
}

fn no_common_revision(theirs: Vec<String>, ours: Revisions) -> NextStep {
    NextStep::Fail(ProbeError::NoCommonRevision { theirs, ours })
}

fn newest_common(ours: Revisions, theirs: &[String]) -> Option<Revision> {
    ours.newest_common(theirs.iter().map(String::as_str))
}

/// Whether the named revision has a handshake. All of these are known: there will be no others.
fn has_handshake(name: &str) -> bool {
    name.parse::<Revision>().is_ok_and(|revision| !revision.is_stateless())
}
