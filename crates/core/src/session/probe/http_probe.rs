//! Finding out the era of a server over HTTP.
//!
//! | what came back for `server/discover` | what follows |
//! |---|---|
//! | result naming a stateless revision we speak | settled |
//! | result naming only others, one of them spoken | `initialize` with that |
//! | result that names none | `initialize` |
//! | -32022 naming a stateless revision we speak | again with that, once |
//! | -32022 naming handshake revisions only | `initialize` with one of them |
//! | -32022 naming nothing we speak | failure |
//! | -32020, -32021 | again, once |
//! | any other error in a 200, or -32601 in a 404 | `initialize`, but no HTTP+SSE |
//! | any other 4xx, whatever it says | `initialize`, then HTTP+SSE if that gives 400, 404 or 405 |
//! | 401, 403, 429, 5xx, a redirect that was not followed, no response | failure: says nothing about the era |
//!
//! Authorization and waiting after a 429 belong to the HTTP client below, which repeats the request by itself.

use std::mem::take;

use super::probe_state::{NextStep, ProbeState, is_stateless_error};
use super::{ProbeError, ProbeOutcome, ProbePolicy, ProbeRecord, ProbeRequest, TransportKind};
use crate::jsonrpc::{ErrorObject, JsonError, Raw, code};
use crate::revision::Revision;

/// What is known of a server that is reached over HTTP.
#[derive(Debug, Clone)]
pub struct HttpProbe {
    state: ProbeState,
    stage: Stage,
    /// A verdict is followed, and nothing has spoken against it yet.
    using_record: bool,
    /// Whether the old transport may be tried: nothing here has shown that it knows messages when they are posted.
    may_be_http_sse: bool,
    record: Option<ProbeRecord>,
}

#[derive(Debug, Clone)]
enum Stage {
    /// Something is posted to the server's URL.
    Post(ProbeRequest),
    /// The old transport is tried. If it is not there either, the probe fails with this error.
    HttpSse(ProbeError),
}

/// What came of a request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum HttpProbeEvent<'a> {
    /// The server answered. Redirects within its origin have been followed.
    ///
    /// If the old transport was opened: what its stream brought as the answer to `initialize`, with the status of the
    /// stream; or the status alone if there is no stream that begins with an `endpoint`.
    Response {
        /// The HTTP status.
        status: u16,
        /// What it says.
        body: ProbeBody<'a>,
    },
    /// It did not: the network failed, or time ran out.
    NoResponse,
}

/// What an HTTP answer says, be it JSON or a stream.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ProbeBody<'a> {
    /// The result of the request.
    Result(Raw<'a>),
    /// Its error.
    Error(&'a ErrorObject),
    /// Nothing, or nothing that could be read as an answer to the request.
    Other,
}

/// What to do next. The list is closed: whoever follows it must do something about each.
#[derive(Debug, PartialEq)]
pub enum HttpProbeStep {
    /// Post this to the server's URL, and tell [`HttpProbe::receive`] what came of it.
    ///
    /// If it is what was just refused with -32020 or -32021, correct what was wrong with it first.
    Send(ProbeRequest),
    /// Open a stream of the old HTTP+SSE transport with a GET, if it is not open yet, and offer this revision over it.
    OpenSse(Revision),
    /// It is found out.
    Done(ProbeOutcome),
    /// It is over.
    Fail(ProbeError),
}

impl HttpProbe {
    /// Begins with a server of which nothing is known.
    pub fn new(policy: ProbePolicy) -> (Self, HttpProbeStep) {
        let mut probe = Self {
            state: ProbeState::new(policy),
            // What is asked first takes its place at once.
            stage: Stage::Post(ProbeRequest::Initialize(Revision::NEWEST_HANDSHAKE)),
            using_record: false,
            may_be_http_sse: true,
            record: None,
        };
        let next = probe.begin();
        (probe, next)
    }

    /// Begins with what was found out earlier. A verdict that the policy or the transport rules out does not count.
    ///
    /// A handshake that the record promised and that fails is followed by a probe. A record of a stateless revision is
    /// trusted: only the first request can show that it is wrong, and the caller then probes anew.
    pub fn with_record(policy: ProbePolicy, verdict: ProbeRecord) -> (Self, HttpProbeStep) {
        let (mut probe, first) = Self::new(policy);
        let ProbeRecord { revision, transport } = verdict;
        if !probe.state.wants(revision) {
            return (probe, first);
        }
        let next = match (revision.is_stateless(), transport) {
            (true, TransportKind::StreamableHttp) => {
                probe.record = Some(verdict);
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

    /// What was asked has come to this. Gives what to do next.
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

    /// What to remember, once it is settled: `None` for a stateless revision that was pinned, since nobody asked.
    pub fn record(&self) -> Option<ProbeRecord> {
        self.record
    }

    fn on_discover_response(&mut self, asked: Revision, status: u16, body: ProbeBody<'_>) -> HttpProbeStep {
        let found = match body {
            ProbeBody::Result(result) if is_success(status) => self.state.on_discover_result(result),
            ProbeBody::Error(error) => self.state.on_discover_error(asked, error),
            _ => self.state.fall_back_to_initialize(unexpected_response(status)),
        };
        // Who takes what is posted is not of the old transport, nor is who knows what a method is.
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
        ProbeError::InvalidResponse(JsonError::new("it is no answer to what was asked"))
    } else {
        ProbeError::HttpStatus(status)
    }
}
