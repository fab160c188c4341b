//! Finding out the era of a server that is a process.
//!
//! | what came back for `server/discover` | what follows |
//! |---|---|
//! | result, -32020, -32021, -32022 | as over HTTP |
//! | any other error, or silence | `initialize` in the same process; a late answer is stray |
//! | the process ends | it is started again, once, and hears `initialize` alone |
//! | a line that is no message | the wait goes on, and is not made longer by it |

use std::mem::{replace, take};

use super::probe_state::{NextStep, ProbeState, is_stateless_error};
use super::{ProbeError, ProbeOutcome, ProbePolicy, ProbeRecord, ProbeRequest, TransportKind};
use crate::jsonrpc::{ErrorObject, Raw};
use crate::revision::Revision;

/// What is known of a server that is a process.
#[derive(Debug, Clone)]
pub struct StdioProbe {
    state: ProbeState,
    sent: ProbeRequest,
    /// A verdict is followed, and nothing has spoken against it yet.
    using_record: bool,
    /// The process has heard `server/discover`, which may have upset it.
    discover_sent: bool,
    restarted: bool,
    record: Option<ProbeRecord>,
}

/// What came of a request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum StdioProbeEvent<'a> {
    /// The result of the request.
    Result(Raw<'a>),
    /// Its error.
    Error(&'a ErrorObject),
    /// No answer within the time for it, whatever else was written meanwhile.
    Timeout,
    /// The process ended, or closed its output.
    Exited,
    /// A line that is no message.
    NotAMessage,
}

/// What to do next. The list is closed: whoever follows it must do something about each.
#[derive(Debug, PartialEq)]
pub enum StdioProbeStep {
    /// Send this, and tell [`StdioProbe::receive`] what came of it.
    ///
    /// If it is what was just refused with -32020 or -32021, correct what was wrong with it first.
    Send(ProbeRequest),
    /// Start the process again, and send this as the first line.
    Restart(ProbeRequest),
    /// Go on waiting for the answer, no longer than before.
    KeepWaiting,
    /// It is found out.
    Done(ProbeOutcome),
    /// It is over.
    Fail(ProbeError),
}

impl StdioProbe {
    /// Begins with a server of which nothing is known.
    pub fn new(policy: ProbePolicy) -> (Self, StdioProbeStep) {
        let mut probe = Self {
            state: ProbeState::new(policy),
            // What is asked first takes its place at once.
            sent: ProbeRequest::Initialize(Revision::NEWEST_HANDSHAKE),
            using_record: false,
            discover_sent: false,
            restarted: false,
            record: None,
        };
        let next = probe.begin();
        (probe, next)
    }

    /// Begins with what was found out earlier. A verdict that the policy or the transport rules out does not count.
    ///
    /// A handshake that the record promised and that fails is followed by a probe. A record of a stateless revision is
    /// trusted: only the first request can show that it is wrong, and the caller then probes anew.
    pub fn with_record(policy: ProbePolicy, verdict: ProbeRecord) -> (Self, StdioProbeStep) {
        let (mut probe, first) = Self::new(policy);
        let ProbeRecord { revision, transport } = verdict;
        if !probe.state.wants(revision) || !matches!(transport, TransportKind::Stdio) {
            return (probe, first);
        }
        probe.discover_sent = false;
        let next = if revision.is_stateless() {
            probe.record = Some(verdict);
            StdioProbeStep::Done(ProbeOutcome::Stateless { revision, discover_result: None })
        } else {
            probe.apply(NextStep::Send(ProbeRequest::Initialize(revision)))
        };
        probe.using_record = true;
        (probe, next)
    }

    /// What was asked has come to this. Gives what to do next.
    pub fn receive(&mut self, outcome: StdioProbeEvent<'_>) -> StdioProbeStep {
        let exited = matches!(outcome, StdioProbeEvent::Exited);
        let found = match (self.sent, outcome) {
            (_, StdioProbeEvent::NotAMessage) => return StdioProbeStep::KeepWaiting,
            (ProbeRequest::Discover(_), StdioProbeEvent::Result(result)) => {
                self.state.on_discover_result(result)
            }
            (ProbeRequest::Discover(asked), StdioProbeEvent::Error(error)) => {
                self.state.on_discover_error(asked, error)
            }
            (ProbeRequest::Discover(_), StdioProbeEvent::Timeout) => {
                self.state.fall_back_to_initialize(ProbeError::NoResponse)
            }
            (ProbeRequest::Discover(_), StdioProbeEvent::Exited) => {
                self.state.fall_back_to_initialize(ProbeError::Exited)
            }
            (ProbeRequest::Initialize(_), StdioProbeEvent::Result(result)) => {
                self.state.on_initialize_result(result)
            }
            (ProbeRequest::Initialize(_), StdioProbeEvent::Error(error)) => {
                self.state.on_initialize_error(error, is_stateless_error(error))
            }
            (ProbeRequest::Initialize(_), StdioProbeEvent::Timeout) => NextStep::Fail(ProbeError::NoResponse),
            (ProbeRequest::Initialize(offered), StdioProbeEvent::Exited) if self.discover_sent => {
                NextStep::Send(ProbeRequest::Initialize(offered))
            }
            (ProbeRequest::Initialize(_), StdioProbeEvent::Exited) => NextStep::Fail(ProbeError::Exited),
        };
        let found = match found {
            NextStep::Fail(failure) if take(&mut self.using_record) => match self.state.first_step() {
                NextStep::Send(ProbeRequest::Discover(revision)) => {
                    NextStep::Send(ProbeRequest::Discover(revision))
                }
                _ => NextStep::Fail(failure),
            },
            found => found,
        };
        match found {
            NextStep::Send(_) if exited && replace(&mut self.restarted, true) => {
                StdioProbeStep::Fail(ProbeError::Exited)
            }
            NextStep::Send(ask) if exited => {
                self.apply(NextStep::Send(ask));
                StdioProbeStep::Restart(ask)
            }
            found => self.apply(found),
        }
    }

    /// What to remember, once it is settled: `None` for a stateless revision that was pinned, since nobody asked.
    pub fn record(&self) -> Option<ProbeRecord> {
        self.record
    }

    fn begin(&mut self) -> StdioProbeStep {
        let first = self.state.first_step();
        self.apply(first)
    }

    fn apply(&mut self, found: NextStep) -> StdioProbeStep {
        match found {
            NextStep::Send(ask) => {
                self.sent = ask;
                self.discover_sent |= matches!(ask, ProbeRequest::Discover(_));
                StdioProbeStep::Send(ask)
            }
            NextStep::Done(settled) => {
                self.using_record = false;
                self.record = settled
                    .is_confirmed()
                    .then(|| ProbeRecord::new(settled.revision(), TransportKind::Stdio));
                StdioProbeStep::Done(settled)
            }
            NextStep::Fail(failure) => StdioProbeStep::Fail(failure),
        }
    }
}
