//! Probes the era of a server over HTTP.
//!
//! | response to `server/discover` | next step |
//! |---|---|
//! | result naming a supported stateless revision | done |
//! | result naming only others, one of them supported | `initialize` with that one |
//! | result naming none | `initialize` |
//! | -32022 naming a supported stateless revision | again with that one, once |
//! | -32022 naming handshake revisions only | `initialize` with one of them |
//! | -32022 naming nothing we support | failure |
//! | -32020, -32021 | again, once |
//! | any other error in a 200, or -32601 in a 404 | `initialize`, but no HTTP+SSE |
//! | any other 4xx, with any body | `initialize`, then HTTP+SSE if the status of that is 400, 404 or 405 |
//! | 401, 403, 429, 5xx, a redirect that was not followed, no response | failure: says nothing about the era |
//!
//! Authorization and waiting after a 429 belong to the HTTP client below, which repeats the request by itself.

use std::mem::take;

use super::probe_state::{NextStep, ProbeState, is_stateless_error};
use super::{ProbeError, ProbeOutcome, ProbePolicy, ProbeRecord, ProbeRequest, TransportKind};
use crate::jsonrpc::{ErrorObject, JsonError, Raw, code};
use crate::revision::Revision;

/// The probe of a server over HTTP.
#[derive(Debug, Clone)]
pub struct HttpProbe {
    state: ProbeState,
    stage: Stage,
    /// Whether a stored record is being followed and has not failed yet.
    using_record: bool,
    /// Whether the old transport may be tried: the server has not handled a posted message yet.
    may_be_http_sse: bool,
    record: Option<ProbeRecord>,
}

#[derive(Debug, Clone)]
enum Stage {
    /// A request is posted to the server's URL.
    Post(ProbeRequest),
    /// The old transport is tried. If that fails too, the probe fails with this error.
    HttpSse(ProbeError),
}

/// The outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum HttpProbeEvent<'a> {
    /// The server responded. Redirects within its origin have been followed.
    ///
    /// For the old transport: the response to `initialize` on its stream, with the status of the stream; or the status
    /// alone if there is no stream that begins with an `endpoint` event.
    Response {
        /// The HTTP status.
        status: u16,
        /// The body of the response.
        body: ProbeBody<'a>,
    },
    /// The network failed, or the request timed out.
    NoResponse,
}

/// The body of an HTTP response, from JSON or from a stream.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ProbeBody<'a> {
    /// The result of the request.
    Result(Raw<'a>),
    /// The error of the request.
    Error(&'a ErrorObject),
    /// Nothing, or nothing that is a response to the request.
    Other,
}

/// The next step of a probe. Exhaustive, so that callers handle each.
#[derive(Debug, PartialEq)]
pub enum HttpProbeStep {
    /// Post this request to the server's URL, and pass the outcome to [`HttpProbe::receive`].
    ///
    /// If the same request was just rejected with -32020 or -32021, correct it first.
    Send(ProbeRequest),
    /// Open a stream of the old HTTP+SSE transport with a GET, if it is not open yet, and offer this revision on it.
    OpenSse(Revision),
    /// The probe is complete.
    Done(ProbeOutcome),
    /// The probe has failed.
    Fail(ProbeError),
}

impl HttpProbe {
    /// Starts a probe without a record.
    pub fn new(policy: ProbePolicy) -> (Self, HttpProbeStep) {
        let mut probe = Self {
            state: ProbeState::new(policy),
            // Replaced by the first step below.
            stage: Stage::Post(ProbeRequest::Initialize(Revision::NEWEST_HANDSHAKE)),
            using_record: false,
            may_be_http_sse: true,
            record: None,
        };
        let next = probe.begin();
        (probe, next)
    }

    /// Starts with the record of an earlier probe. A record that the policy or the transport rules out is ignored.
    ///
    /// A handshake that the record promised and that fails is followed by a probe. A record of a stateless revision is
    /// trusted: only the first request can show that it is wrong, and the caller then probes anew.
    pub fn with_record(policy: ProbePolicy, record: ProbeRecord) -> (Self, HttpProbeStep) {
        let (mut probe, first) = Self::new(policy);
        let ProbeRecord { revision, transport } = record;
        if !probe.state.wants(revision) {
            return (probe, first);
        }
        let next = match (revision.is_stateless(), transport) {
            (true, TransportKind::StreamableHttp) => {
                probe.record = Some(record);
                HttpProbeStep::Done(ProbeOutcome::Stateless { revision, discover_result: None })
            }
            (false, TransportKind::StreamableHttp) => {
                probe.apply(NextStep::Send(ProbeRequest::Initialize(revision)))
            }
            (false, TransportKind::HttpSse) => probe.open_http_sse(revision, ProbeError::NoResponse),
            _ => return (probe, first),
        };
        probe.using_record = true;
        (probe, next)
    }

    /// Handles the outcome of the last step and returns the next one.
    pub fn receive(&mut self, outcome: HttpProbeEvent<'_>) -> HttpProbeStep {
        let HttpProbeEvent::Response { status, body } = outcome else {
            return HttpProbeStep::Fail(ProbeError::NoResponse);
        };
        match status {
            401 | 403 | 429 => HttpProbeStep::Fail(ProbeError::HttpStatus(status)),
            200..=299 | 400..=499 => match self.stage.clone() {
                Stage::Post(ProbeRequest::Discover(asked)) => self.on_discover_response(asked, status, body),
                Stage::Post(ProbeRequest::Initialize(offered)) => {
                    self.on_initialize_response(offered, status, body)
                }
                Stage::HttpSse(otherwise) => self.on_http_sse_response(status, body, otherwise),
            },
            _ => HttpProbeStep::Fail(ProbeError::HttpStatus(status)),
        }
    }

    /// The record to store after the probe is done; `None` for a pinned stateless revision, because the server was not
    /// asked.
    pub fn record(&self) -> Option<ProbeRecord> {
        self.record
    }

    fn on_discover_response(&mut self, asked: Revision, status: u16, body: ProbeBody<'_>) -> HttpProbeStep {
        let found = match body {
            ProbeBody::Result(result) if is_success(status) => self.state.on_discover_result(result),
            ProbeBody::Error(error) => self.state.on_discover_error(asked, error),
            _ => self.state.fall_back_to_initialize(unexpected_response(status)),
        };
        // A server that handles posted messages does not use the old transport, nor does one that knows methods.
        self.may_be_http_sse = !is_success(status) && !is_method_not_found(status, body);
        self.apply(found)
    }

    fn on_initialize_response(
        &mut self,
        offered: Revision,
        status: u16,
        body: ProbeBody<'_>,
    ) -> HttpProbeStep {
        let (found, stateless) = match body {
            ProbeBody::Result(result) if is_success(status) => {
                (self.state.on_initialize_result(result), false)
            }
            ProbeBody::Error(error) => {
                let stateless = is_stateless_error(error) || is_method_not_found(status, body);
                (self.state.on_initialize_error(error, stateless), stateless)
            }
            _ => (NextStep::Fail(unexpected_response(status)), false),
        };
        let NextStep::Fail(failure) = found else { return self.apply(found) };
        if take(&mut self.using_record)
            && let NextStep::Send(ProbeRequest::Discover(_)) = self.state.first_step()
        {
            return self.begin();
        }
        let says_nothing = matches!(failure, ProbeError::Rejected(_) | ProbeError::HttpStatus(_));
        if self.may_be_http_sse && says_nothing && !stateless && [400, 404, 405].contains(&status) {
            return self.open_http_sse(offered, failure);
        }
        HttpProbeStep::Fail(failure)
    }

    fn on_http_sse_response(
        &mut self,
        status: u16,
        body: ProbeBody<'_>,
        otherwise: ProbeError,
    ) -> HttpProbeStep {
        let found = match body {
            ProbeBody::Result(result) if is_success(status) => self.state.on_initialize_result(result),
            ProbeBody::Error(error) if is_success(status) => {
                self.state.on_initialize_error(error, is_stateless_error(error))
            }
            _ => NextStep::Fail(otherwise.clone()),
        };
        match found {
            NextStep::Fail(_) if take(&mut self.using_record) => self.begin(),
            NextStep::Send(ProbeRequest::Initialize(offer)) => self.open_http_sse(offer, otherwise),
            found => self.apply(found),
        }
    }

    fn begin(&mut self) -> HttpProbeStep {
        let first = self.state.first_step();
        self.apply(first)
    }

    fn open_http_sse(&mut self, offer: Revision, otherwise: ProbeError) -> HttpProbeStep {
        self.stage = Stage::HttpSse(otherwise);
        HttpProbeStep::OpenSse(offer)
    }

    fn apply(&mut self, found: NextStep) -> HttpProbeStep {
        match found {
            NextStep::Send(ask) => {
                self.stage = Stage::Post(ask);
                HttpProbeStep::Send(ask)
            }
            NextStep::Done(settled) => {
                let transport = match self.stage {
                    Stage::Post(_) => TransportKind::StreamableHttp,
                    Stage::HttpSse(_) => TransportKind::HttpSse,
                };
                self.using_record = false;
                self.record = settled.is_confirmed().then(|| ProbeRecord::new(settled.revision(), transport));
                HttpProbeStep::Done(settled)
            }
            NextStep::Fail(failure) => HttpProbeStep::Fail(failure),
        }
    }
}

fn is_success(status: u16) -> bool {
    (200..=299).contains(&status)
}

fn is_method_not_found(status: u16, body: ProbeBody<'_>) -> bool {
    status == 404 && matches!(body, ProbeBody::Error(error) if error.code == code::METHOD_NOT_FOUND)
}

fn unexpected_response(status: u16) -> ProbeError {
    if is_success(status) {
        ProbeError::InvalidResponse(JsonError::new("it is not a response to the request"))
    } else {
        ProbeError::HttpStatus(status)
    }
}
