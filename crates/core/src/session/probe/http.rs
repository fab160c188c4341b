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
//! | 401, 403 | authorize, then again, three times in all |
//! | 429 | wait, then again, three times in all |
//! | 5xx, a redirect that nobody followed, no answer | failure: it says nothing of the era |

use std::mem::take;

use super::search::{Found, Search, is_stateless};
use super::{Ask, Policy, ProbeFailure, Settled, Transport, Verdict};
use crate::jsonrpc::{BadShape, ErrorObject, Raw, code};
use crate::revision::Revision;

/// What is known of a server that is reached over HTTP.
#[derive(Debug, Clone)]
pub struct HttpProbe {
    search: Search,
    stage: Stage,
    /// A verdict is followed, and nothing has spoken against it yet.
    trusting: bool,
    /// Whether the old transport may be tried: nothing here has shown that it knows messages when they are posted.
    may_be_old: bool,
    challenges: u8,
    waits: u8,
    verdict: Option<Verdict>,
}

#[derive(Debug, Clone)]
enum Stage {
    /// Something is posted to the server's URL.
    Post(Ask),
    /// The old transport is tried, offering this revision. If it is not there either, this is why we failed.
    Old(Revision, ProbeFailure),
}

/// What came of a request.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum HttpOutcome<'a> {
    /// The server answered. Redirects within its origin have been followed.
    ///
    /// If the old transport was opened: what its stream brought as the answer to `initialize`, with the status of the
    /// stream; or the status alone if there is no stream that begins with an `endpoint`.
    Answer {
        /// The HTTP status.
        status: u16,
        /// What it says.
        body: Body<'a>,
    },
    /// It did not: the network failed, or time ran out.
    Nothing,
}

/// What an HTTP answer says, be it JSON or a stream.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Body<'a> {
    /// The result of the request.
    Result(Raw<'a>),
    /// Its error.
    Error(&'a ErrorObject),
    /// Nothing, or nothing that could be read as an answer to the request.
    Other,
}

/// What to do next. The list is closed: whoever follows it must do something about each.
#[derive(Debug, PartialEq)]
pub enum HttpNext {
    /// Post this to the server's URL, and tell [`HttpProbe::heard`] what came of it.
    ///
    /// If it is what was just refused with -32020 or -32021, correct what was wrong with it first.
    Ask(Ask),
    /// Open a stream of the old HTTP+SSE transport with a GET, if it is not open yet, and offer this revision over it.
    OpenSse(Revision),
    /// The answer was 401: authorize, then go on with [`HttpProbe::again`].
    Authorize,
    /// The answer was 403: go on with [`HttpProbe::again`] if it named a scope, and that was granted. Otherwise it is over.
    StepUp,
    /// The answer was 429: wait as long as it says, then go on with [`HttpProbe::again`].
    Wait,
    /// It is found out.
    Settled(Settled),
    /// It is over.
    Fail(ProbeFailure),
}

impl HttpProbe {
    /// Begins with a server of which nothing is known.
    pub fn new(policy: Policy) -> (Self, HttpNext) {
        let mut probe = Self {
            search: Search::new(policy),
            // What is asked first takes its place at once.
            stage: Stage::Post(Ask::Initialize(Revision::NEWEST_HANDSHAKE)),
            trusting: false,
            may_be_old: true,
            challenges: 0,
            waits: 0,
            verdict: None,
        };
        let next = probe.begin();
        (probe, next)
    }

    /// Begins with what was found out earlier. A verdict that the policy or the transport rules out does not count.
    ///
    /// A handshake that the verdict promised and that fails is followed by a probe. Without a handshake only the first
    /// request can show that a verdict is wrong: then ask [`stale`](Self::stale).
    pub fn with_verdict(policy: Policy, verdict: Verdict) -> (Self, HttpNext) {
        let (mut probe, first) = Self::new(policy);
        let Verdict { revision, transport } = verdict;
        if !probe.search.wants(revision) {
            return (probe, first);
        }
        let next = match (revision.is_stateless(), transport) {
            (true, Transport::StreamableHttp) => {
                probe.verdict = Some(verdict);
                HttpNext::Settled(Settled::Stateless { revision, discovered: None })
            }
            (false, Transport::StreamableHttp) => probe.take(Found::Ask(Ask::Initialize(revision))),
            (false, Transport::HttpSse) => probe.open_old(revision, ProbeFailure::Silent),
            _ => return (probe, first),
        };
        probe.trusting = true;
        (probe, next)
    }

    /// What was asked has come to this. Gives what to do next.
    pub fn heard(&mut self, outcome: HttpOutcome<'_>) -> HttpNext {
        let HttpOutcome::Answer { status, body } = outcome else {
            return HttpNext::Fail(ProbeFailure::Silent);
        };
        match status {
            401 | 403 if self.challenges < MOST_CHALLENGES => {
                self.challenges += 1;
                if status == 401 { HttpNext::Authorize } else { HttpNext::StepUp }
            }
            429 if self.waits < MOST_WAITS => {
                self.waits += 1;
                HttpNext::Wait
            }
            401 | 403 | 429 => HttpNext::Fail(ProbeFailure::Status(status)),
            200..=299 | 400..=499 => match self.stage.clone() {
                Stage::Post(Ask::Discover(asked)) => self.heard_of_discover(asked, status, body),
                Stage::Post(Ask::Initialize(offered)) => self.heard_of_initialize(offered, status, body),
                Stage::Old(_, otherwise) => self.heard_of_old(status, body, otherwise),
            },
            _ => HttpNext::Fail(ProbeFailure::Status(status)),
        }
    }

    /// What to do once more, after [`HttpNext::Authorize`], [`HttpNext::StepUp`] or [`HttpNext::Wait`].
    pub fn again(&self) -> HttpNext {
        match &self.stage {
            Stage::Post(ask) => HttpNext::Ask(*ask),
            Stage::Old(offer, _) => HttpNext::OpenSse(*offer),
        }
    }

    /// The first request after a verdict was settled upon failed in a way that the verdict may be to blame for: begins
    /// anew. `None` if it is not to blame: nothing was settled by a verdict, or it was given up already.
    ///
    /// Do not ask after a request that went well: what works is never taken for another era because of a later failure.
    pub fn stale(&mut self) -> Option<HttpNext> {
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

    fn heard_of_discover(&mut self, asked: Revision, status: u16, body: Body<'_>) -> HttpNext {
        let found = match body {
            Body::Result(result) if is_success(status) => self.search.discovered(result),
            Body::Error(error) => self.search.discover_refused(asked, error),
            _ => self.search.baffled(unclear(status)),
        };
        // Who takes what is posted is not of the old transport, nor is who knows what a method is.
        self.may_be_old = !is_success(status) && !is_method_not_found(status, body);
        self.take(found)
    }

    fn heard_of_initialize(&mut self, offered: Revision, status: u16, body: Body<'_>) -> HttpNext {
        let (found, stateless) = match body {
            Body::Result(result) if is_success(status) => (self.search.initialized(result), false),
            Body::Error(error) => {
                let stateless = is_stateless(error) || is_method_not_found(status, body);
                (self.search.initialize_refused(error, stateless), stateless)
            }
            _ => (Found::Fail(unclear(status)), false),
        };
        let Found::Fail(failure) = found else { return self.take(found) };
        if take(&mut self.trusting)
            && let Found::Ask(Ask::Discover(_)) = self.search.first()
        {
            return self.begin();
        }
        let says_nothing = matches!(failure, ProbeFailure::Refused(_) | ProbeFailure::Status(_));
        if self.may_be_old && says_nothing && !stateless && [400, 404, 405].contains(&status) {
            return self.open_old(offered, failure);
        }
        HttpNext::Fail(failure)
    }

    fn heard_of_old(&mut self, status: u16, body: Body<'_>, otherwise: ProbeFailure) -> HttpNext {
        let found = match body {
            Body::Result(result) if is_success(status) => self.search.initialized(result),
            Body::Error(error) if is_success(status) => {
                self.search.initialize_refused(error, is_stateless(error))
            }
            _ => Found::Fail(otherwise.clone()),
        };
        match found {
            Found::Fail(_) if take(&mut self.trusting) => self.begin(),
            Found::Ask(Ask::Initialize(offer)) => self.open_old(offer, otherwise),
            found => self.take(found),
        }
    }

    fn begin(&mut self) -> HttpNext {
        let first = self.search.first();
        self.take(first)
    }

    fn open_old(&mut self, offer: Revision, otherwise: ProbeFailure) -> HttpNext {
        self.stage = Stage::Old(offer, otherwise);
        HttpNext::OpenSse(offer)
    }

    fn take(&mut self, found: Found) -> HttpNext {
        match found {
            Found::Ask(ask) => {
                self.stage = Stage::Post(ask);
                HttpNext::Ask(ask)
            }
            Found::Settled(settled) => {
                let transport = match self.stage {
                    Stage::Post(_) => Transport::StreamableHttp,
                    Stage::Old(..) => Transport::HttpSse,
                };
                self.trusting = false;
                self.verdict = settled.is_proven().then(|| Verdict::new(settled.revision(), transport));
                HttpNext::Settled(settled)
            }
            Found::Fail(failure) => HttpNext::Fail(failure),
        }
    }
}

fn is_success(status: u16) -> bool {
    (200..=299).contains(&status)
}

fn is_method_not_found(status: u16, body: Body<'_>) -> bool {
    status == 404 && matches!(body, Body::Error(error) if error.code == code::METHOD_NOT_FOUND)
}

fn unclear(status: u16) -> ProbeFailure {
    if is_success(status) {
        ProbeFailure::Unreadable(BadShape::new("it is no answer to what was asked"))
    } else {
        ProbeFailure::Status(status)
    }
}

/// Authorizing once must do; another scope may be wanted after that.
const MOST_CHALLENGES: u8 = 3;

const MOST_WAITS: u8 = 3;
