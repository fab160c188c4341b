//! Probes the era of a server that is a process.
//!
//! | response to `server/discover` | next step |
//! |---|---|
//! | result, -32020, -32021, -32022 | as over HTTP |
//! | any other error | `initialize` in the same process |
//! | a timeout | `initialize` in the same process; a result that arrives before the response to it still counts |
//! | the process exits | start it again, once, and send `initialize` only |
//! | a line that is not a message | keep waiting, within the same timeout |

use std::mem::{replace, take};

use super::probe_state::{NextStep, ProbeState, is_stateless_error};
use super::{ProbeError, ProbeOutcome, ProbePolicy, ProbeRecord, ProbeRequest, TransportKind};
use crate::jsonrpc::{ErrorObject, Raw};
use crate::revision::Revision;

/// The probe of a server that is a process.
#[derive(Debug, Clone)]
pub struct StdioProbe {
    state: ProbeState,
    sent: ProbeRequest,
    /// Whether a stored record is being followed and has not failed yet.
    using_record: bool,
    /// Whether the process has received `server/discover`, which may have crashed it.
    discover_sent: bool,
    restarted: bool,
    record: Option<ProbeRecord>,
}

/// The outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum StdioProbeEvent<'a> {
    /// The result of the request.
    Result(Raw<'a>),
    /// The error of the request.
    Error(&'a ErrorObject),
    /// No response in time, even if other lines were written.
    Timeout,
    /// The process exited, or closed its output.
    Exited,
    /// A line that is not a message.
    NotAMessage,
}

/// The next step of a probe. Exhaustive, so that callers handle each.
#[derive(Debug, PartialEq)]
pub enum StdioProbeStep {
    /// Send this request, and pass the outcome to [`StdioProbe::receive`].
    ///
    /// If the same request was just rejected with -32020 or -32021, correct it first.
    Send(ProbeRequest),
    /// Start the process again, and send this as the first line.
    Restart(ProbeRequest),
    /// Keep waiting for the response, within the same timeout.
    KeepWaiting,
    /// The probe is complete.
    Done(ProbeOutcome),
    /// The probe has failed.
    Fail(ProbeError),
}

impl StdioProbe {
    /// Starts a probe without a record.
    pub fn new(policy: ProbePolicy) -> (Self, StdioProbeStep) {
        let mut probe = Self {
            state: ProbeState::new(policy),
            // Replaced by the first step below.
            sent: ProbeRequest::Initialize(Revision::NEWEST_HANDSHAKE),
            using_record: false,
            discover_sent: false,
            restarted: false,
            record: None,
        };
        let next = probe.begin();
        (probe, next)
    }

    /// Starts with the record of an earlier probe. A record that the policy or the transport rules out is ignored.
    ///
    /// A handshake that the record promised and that fails is followed by a probe. A record of a stateless revision is
    /// trusted: only the first request can show that it is wrong, and the caller then probes anew.
    pub fn with_record(policy: ProbePolicy, record: ProbeRecord) -> (Self, StdioProbeStep) {
        let (mut probe, first) = Self::new(policy);
        let ProbeRecord { revision, transport } = record;
        if !probe.state.wants(revision) || !matches!(transport, TransportKind::Stdio) {
            return (probe, first);
        }
        probe.discover_sent = false;
        let next = if revision.is_stateless() {
            probe.record = Some(record);
            StdioProbeStep::Done(ProbeOutcome::Stateless { revision, discover_result: None })
        } else {
            probe.apply(NextStep::Send(ProbeRequest::Initialize(revision)))
        };
        probe.using_record = true;
        (probe, next)
    }

    /// Handles the outcome of the last step and returns the next one.
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

    /// Handles a response to `server/discover` that arrives after the timeout and before the response to `initialize`.
    /// Returns the next step if the response ends the probe; otherwise the response to `initialize` decides.
    ///
    /// A server that takes long to start answers both requests, in this order.
    pub fn receive_late_discover(
        &mut self,
        response: Result<Raw<'_>, &ErrorObject>,
    ) -> Option<StdioProbeStep> {
        match response {
            Ok(result) => self.state.on_late_discover_result(result).map(|outcome| self.apply(outcome)),
            Err(_) => {
                self.state.confirm_handshake_era();
                None
            }
        }
    }

    /// The record to store after the probe is done. `None` for a pinned stateless revision, because the server was not
    /// asked, and for a handshake after `server/discover` timed out, because the server may support more.
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
                self.record = (settled.is_confirmed() && !self.state.is_guess(&settled))
                    .then(|| ProbeRecord::new(settled.revision(), TransportKind::Stdio));
                StdioProbeStep::Done(settled)
            }
            NextStep::Fail(failure) => StdioProbeStep::Fail(failure),
        }
    }
}
