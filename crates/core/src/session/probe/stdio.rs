//! Finding out the era of a server that is a process.
//!
//! | what came back for `server/discover` | what follows |
//! |---|---|
//! | result, -32020, -32021, -32022 | as over HTTP |
//! | any other error, or silence | `initialize` in the same process; a late answer is stray |
//! | the process ends | it is started again, once, and hears `initialize` alone |
//! | a line that is no message | the wait goes on, and is not made longer by it |

use std::mem::{replace, take};

use super::search::{Found, Search, is_stateless};
use super::{Ask, Policy, ProbeFailure, Settled, Transport, Verdict};
use crate::jsonrpc::{ErrorObject, Raw};
use crate::revision::Revision;

/// What is known of a server that is a process.
#[derive(Debug, Clone)]
pub struct StdioProbe {
    search: Search,
    asked: Ask,
    /// A verdict is followed, and nothing has spoken against it yet.
    trusting: bool,
    /// The process has heard `server/discover`, which may have upset it.
    probed: bool,
    restarted: bool,
    verdict: Option<Verdict>,
}

/// What came of a request.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum StdioOutcome<'a> {
    /// The result of the request.
    Result(Raw<'a>),
    /// Its error.
    Error(&'a ErrorObject),
    /// No answer within the time for it, whatever else was written meanwhile.
    Silence,
    /// The process ended, or closed its output.
    Exited,
    /// A line that is no message.
    Noise,
}

/// What to do next. The list is closed: whoever follows it must do something about each.
#[derive(Debug, PartialEq)]
pub enum StdioNext {
    /// Send this, and tell [`StdioProbe::heard`] what came of it.
    ///
    /// If it is what was just refused with -32020 or -32021, correct what was wrong with it first.
    Ask(Ask),
    /// Start the process again, and send this as the first line.
    Restart(Ask),
    /// Go on waiting for the answer, no longer than before.
    KeepWaiting,
    /// It is found out.
    Settled(Settled),
    /// It is over.
    Fail(ProbeFailure),
}

impl StdioProbe {
    /// Begins with a server of which nothing is known.
    pub fn new(policy: Policy) -> (Self, StdioNext) {
        let mut probe = Self {
            search: Search::new(policy),
            // What is asked first takes its place at once.
            asked: Ask::Initialize(Revision::NEWEST_HANDSHAKE),
            trusting: false,
            probed: false,
            restarted: false,
            verdict: None,
        };
        let next = probe.begin();
        (probe, next)
    }

    /// Begins with what was found out earlier. A verdict that the policy or the transport rules out does not count.
    ///
    /// A handshake that the verdict promised and that fails is followed by a probe. Without a handshake only the first
    /// request can show that a verdict is wrong: then ask [`stale`](Self::stale).
    pub fn with_verdict(policy: Policy, verdict: Verdict) -> (Self, StdioNext) {
        let (mut probe, first) = Self::new(policy);
        let Verdict { revision, transport } = verdict;
        if !probe.search.wants(revision) || !matches!(transport, Transport::Stdio) {
            return (probe, first);
        }
        probe.probed = false;
        let next = if revision.is_stateless() {
            probe.verdict = Some(verdict);
            StdioNext::Settled(Settled::Stateless { revision, discovered: None })
        } else {
            probe.take(Found::Ask(Ask::Initialize(revision)))
        };
        probe.trusting = true;
        (probe, next)
    }

    /// What was asked has come to this. Gives what to do next.
    pub fn heard(&mut self, outcome: StdioOutcome<'_>) -> StdioNext {
        let exited = matches!(outcome, StdioOutcome::Exited);
        let found = match (self.asked, outcome) {
            (_, StdioOutcome::Noise) => return StdioNext::KeepWaiting,
            (Ask::Discover(_), StdioOutcome::Result(result)) => self.search.discovered(result),
            (Ask::Discover(asked), StdioOutcome::Error(error)) => self.search.discover_refused(asked, error),
            (Ask::Discover(_), StdioOutcome::Silence) => self.search.baffled(ProbeFailure::Silent),
            (Ask::Discover(_), StdioOutcome::Exited) => self.search.baffled(ProbeFailure::Exited),
            (Ask::Initialize(_), StdioOutcome::Result(result)) => self.search.initialized(result),
            (Ask::Initialize(_), StdioOutcome::Error(error)) => {
                self.search.initialize_refused(error, is_stateless(error))
            }
            (Ask::Initialize(_), StdioOutcome::Silence) => Found::Fail(ProbeFailure::Silent),
            (Ask::Initialize(offered), StdioOutcome::Exited) if self.probed => {
                Found::Ask(Ask::Initialize(offered))
            }
            (Ask::Initialize(_), StdioOutcome::Exited) => Found::Fail(ProbeFailure::Exited),
        };
        let found = match found {
            Found::Fail(failure) if take(&mut self.trusting) => match self.search.first() {
                Found::Ask(Ask::Discover(revision)) => Found::Ask(Ask::Discover(revision)),
                _ => Found::Fail(failure),
            },
            found => found,
        };
        match found {
            Found::Ask(_) if exited && replace(&mut self.restarted, true) => {
                StdioNext::Fail(ProbeFailure::Exited)
            }
            Found::Ask(ask) if exited => {
                self.take(Found::Ask(ask));
                StdioNext::Restart(ask)
            }
            found => self.take(found),
        }
    }

    /// The first request after a verdict was settled upon failed in a way that the verdict may be to blame for: begins
    /// anew, in a new process if the one before has ended. `None` if it is not to blame: nothing was settled by a verdict,
    /// or it was given up already.
    ///
    /// Do not ask after a request that went well: what works is never taken for another era because of a later failure.
    pub fn stale(&mut self) -> Option<StdioNext> {
        if !take(&mut self.trusting) || self.search.is_pinned() {
            return None;
        }
        self.verdict = None;
        Some(self.begin())
    }

    /// What to remember, once it is settled: `None` for a stateless revision that was pinned, since nobody asked.
    pub fn verdict(&self) -> Option<Verdict> {
        self.verdict
    }

    fn begin(&mut self) -> StdioNext {
        let first = self.search.first();
        self.take(first)
    }

    fn take(&mut self, found: Found) -> StdioNext {
        match found {
            Found::Ask(ask) => {
                self.asked = ask;
                self.probed |= matches!(ask, Ask::Discover(_));
                StdioNext::Ask(ask)
            }
            Found::Settled(settled) => {
                self.trusting = false;
                self.verdict =
                    settled.is_proven().then(|| Verdict::new(settled.revision(), Transport::Stdio));
                StdioNext::Settled(settled)
            }
            Found::Fail(failure) => StdioNext::Fail(failure),
        }
    }
}
