//! What can go wrong, for a person: which step, what was seen, what to try. And the number the process ends with.

use std::io;

use serde::Serialize;
use tsugite::client::{Challenge, ClientError, ErrorKind, ConnectStep};
use tsugite::core::jsonrpc::{ErrorObject, code};
use tsugite::core::protocol::ClientCapabilities;
use tsugite::core::revision::RpcError;

pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

/// What the process ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// All is well, or nobody reads any more.
    Fine = 0,
    /// What was asked for makes no sense.
    Usage = 1,
    /// The server cannot be reached, or is gone.
    Connect = 2,
    /// The server answers, and not as it should.
    Protocol = 3,
    /// The tool ran and says that it failed.
    Tool = 4,
    /// The server wants credentials.
    Unauthorized = 5,
    /// No answer came in time.
    Timeout = 6,
    /// Somebody pressed Ctrl-C.
    Interrupted = 130,
}

/// Why it did not work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    /// How far it came.
    pub(crate) step: Option<&'static str>,
    /// In one line. Nothing is said if it is empty: it has been said already.
    pub(crate) what: String,
    pub(crate) seen: Option<String>,
    pub(crate) hints: Vec<String>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, what: impl Into<String>) -> Self {
        Self { exit, step: None, what: what.into(), seen: None, hints: Vec::new() }
    }

    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Self::new(Exit::Usage, what)
    }

    /// Ends the process without a word.
    pub(crate) fn silent(exit: Exit) -> Self {
        Self::new(exit, "")
    }

    pub(crate) fn at(mut self, step: &'static str) -> Self {
        self.step = Some(step);
        self
    }

    pub(crate) fn seen(mut self, seen: impl Into<String>) -> Self {
        self.seen = Some(seen.into());
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Says that all files are as they were.
    pub(crate) fn nothing_written(mut self) -> Self {
        let seen = self.seen.take().map(|seen| format!("{seen}; ")).unwrap_or_default();
        self.seen(format!("{seen}nothing was written"))
    }

    /// All of it but the hints, where there is room for no more.
    pub(crate) fn in_one_line(&self) -> String {
        match &self.seen {
            Some(seen) => format!("{}: {seen}", self.what),
            None => self.what.clone(),
        }
    }

    /// A server that could not be connected to.
    pub(crate) fn connecting(error: ClientError, place: &str) -> Self {
        let what = format!("cannot connect to {place}");
        match error.kind() {
            ErrorKind::Config(_) => Self::of(error, "setting"),
            ErrorKind::Connect { step, reason: seen } => {
                let exit = if *step == ConnectStep::FirstResponse { Exit::Timeout } else { Exit::Connect };
                let failure = Self::new(exit, what).at(step_name(*step)).seen(seen);
                advice_for(*step).iter().fold(failure, |failure, hint| failure.hint(*hint))
            }
            ErrorKind::Unauthorized(challenge) => unauthorized(challenge),
            ErrorKind::Status { status: 401 | 403, .. } => {
                Self { what: format!("{place} refuses"), ..Self::of(error, "authorization") }
            }
            // What is at a URL has no standard error to look at.
            ErrorKind::ConnectionLost { .. } if place.starts_with("http") => {
                Self { what, hints: vec![NO_MCP.to_owned()], ..Self::of(error, "handshake") }
            }
            ErrorKind::TimedOut { .. } | ErrorKind::ConnectionLost { .. } => Self { what, ..Self::of(error, "handshake") },
            ErrorKind::Status { status, .. } => {
                let failure = Self::new(Exit::Connect, what).at("http").seen(error.to_string());
                match status {
                    404 => failure.hint("is the path right? Most servers are at /mcp"),
                    405 | 406 | 415 => failure.hint(OLD_SERVER),
                    429 | 503 => {
                        failure.hint("the server is busy; try again later, or wait longer with --timeout")
                    }
                    500.. => failure.hint("the server is in trouble; its log may say why"),
                    _ => failure.hint(NO_MCP),
                }
            }
            ErrorKind::Protocol(seen) => Self::new(Exit::Protocol, what)
                .at("revision")
                .seen(seen)
                .hint(ANY_REVISION)
                .hint("does it speak MCP at all? --trace FILE keeps what was said"),
            _ => Self::of(error, "handshake"),
        }
    }

    /// Something that went wrong at `step`, once connected.
    pub(crate) fn of(error: ClientError, step: &'static str) -> Self {
        let said = error.to_string();
        match error.kind() {
            ErrorKind::Config(_) => Self::usage(said),
            ErrorKind::Connect { .. } => Self::connecting(error, "the server"),
            ErrorKind::Unauthorized(challenge) => unauthorized(challenge),
            ErrorKind::Status { status: 401 | 403, .. } => Self::new(Exit::Unauthorized, "the server refuses")
                .at("authorization")
                .seen(said)
                .hint(CREDENTIALS),
            ErrorKind::ConnectionLost { .. } => Self::new(Exit::Connect, "the connection was lost")
                .at(step)
                .seen(said)
                .hint("-v shows what the server writes to its standard error"),
            ErrorKind::TimedOut { .. } => {
                Self::new(Exit::Timeout, "the server took too long").at(step).seen(said).hint(LONGER)
            }
            ErrorKind::ErrorResponse { error: object, rpc_error: refusal } => {
                let failure = Self::new(Exit::Protocol, "the server refused").at(step).seen(told(&error));
                match (&**refusal, object.code) {
                    (RpcError::MissingCapability { required }, _) => missing(failure, required),
                    (RpcError::UnsupportedVersion { .. }, _) => failure.at("revision").hint(ANY_REVISION),
                    (_, code::METHOD_NOT_FOUND) => failure.hint("`info` shows what the server can do"),
                    (RpcError::ResourceNotFound { .. }, _) => failure.hint(OFFERED),
                    (_, code::INVALID_PARAMS) if ["read", "prompt", "complete"].contains(&step) => {
                        failure.hint(OFFERED)
                    }
                    _ => failure.hint(TRACE),
                }
            }
            ErrorKind::ToolFailed(_) => Self::new(Exit::Tool, said).at(step),
            ErrorKind::InputRequired(_) => Self::new(Exit::Protocol, "the server asks what cannot be answered")
                .at(step)
                .seen(said)
                .hint("run it on a terminal, or see --answer and --sample"),
            ErrorKind::UnsupportedByRevision(_) => Self::new(Exit::Protocol, "this revision cannot say that")
                .at(step)
                .seen(said)
                .hint("--rev asks for another revision"),
            _ => Self::new(Exit::Protocol, "the server does not answer as it should")
                .at(step)
                .seen(said)
                .hint(TRACE),
        }
    }

    /// For whoever reads JSON.
    pub(crate) fn json(&self) -> String {
        #[derive(Serialize)]
        struct Outer<'a> {
            error: Inner<'a>,
        }
        #[derive(Serialize)]
        struct Inner<'a> {
            exit: u8,
            step: Option<&'a str>,
            message: &'a str,
            seen: Option<&'a str>,
            #[serde(rename = "try")]
            hints: &'a [String],
        }
        let Self { exit, step, what, seen, hints } = self;
        let inner = Inner { exit: *exit as u8, step: *step, message: what, seen: seen.as_deref(), hints };
        serde_json::to_string(&Outer { error: inner }).unwrap_or_default()
    }
}

/// What was written could not be. Nobody reading any more is no failure.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::silent(Exit::Fine),
            _ => Self::usage(format!("cannot write: {error}")),
        }
    }
}

/// What the server said, with all that came along.
fn told(error: &ClientError) -> String {
    match error.kind() {
        ErrorKind::ErrorResponse { error: ErrorObject { data: Some(data), .. }, .. } => {
            format!("{error}, {}", data.text())
        }
        _ => error.to_string(),
    }
}

fn unauthorized(challenge: &Challenge) -> Failure {
    let what = match challenge.status {
        403 => format!("{} forbids it", challenge.url),
        _ => format!("{} wants credentials", challenge.url),
    };
    let mut seen = format!("HTTP status {}", challenge.status);
    for header in &challenge.www_authenticate {
        seen.push_str(", WWW-Authenticate: ");
        seen.push_str(header);
    }
    Failure::new(Exit::Unauthorized, what).at("authorization").seen(seen).hint(CREDENTIALS)
}

/// What would give the server what it lacks.
fn missing(mut failure: Failure, required: &ClientCapabilities) -> Failure {
    if required.sampling.is_some() {
        failure = failure.hint("--sample TEXT answers for a model; on a terminal you are asked");
    }
    if required.roots.is_some() {
        failure = failure.hint("--root FOLDER lets the server work there");
    }
    if required.elicitation.is_some() {
        failure = failure.hint("run it on a terminal, where you can be asked");
    }
    failure
}

fn step_name(step: ConnectStep) -> &'static str {
    match step {
        ConnectStep::Dns => "dns",
        ConnectStep::Tcp => "tcp",
        ConnectStep::Tls => "tls",
        ConnectStep::Http => "http",
        ConnectStep::Spawn => "start",
        ConnectStep::Revision => "revision",
        _ => "handshake",
    }
}

fn advice_for(step: ConnectStep) -> &'static [&'static str] {
    match step {
        ConnectStep::Dns => &["is the host's name spelt right?"],
        ConnectStep::Tcp => &[
            "is the server running, and is the port right?",
            "`tsugite serve` starts one at http://127.0.0.1:8808/mcp",
        ],
        ConnectStep::Tls => &[
            "if the server speaks no https, its address begins with http://",
            "a certificate this machine does not trust: SSL_CERT_FILE names a file of those it shall",
        ],
        ConnectStep::Http => &[NO_MCP],
        ConnectStep::Spawn => &["`-- COMMAND` is looked for in PATH; a path works too"],
        ConnectStep::FirstResponse => &[LONGER, OUT, ENVIRONMENT],
        _ => &[OUT, ENVIRONMENT],
    }
}

const CREDENTIALS: &str = "-H 'Authorization: Bearer …' sends a token; if you sent one, it is not good here";
const NO_MCP: &str = "is it an MCP server that listens there?";
const ANY_REVISION: &str = "--rev auto takes any revision that both sides speak";
const OFFERED: &str = "`list` shows what there is";
const TRACE: &str = "--trace FILE keeps what was said";
const OLD_SERVER: &str =
    "an old server may speak only HTTP+SSE: --transport sse, with the address of its stream";
const LONGER: &str = "--timeout SECONDS waits longer";
const OUT: &str = "does it speak MCP on standard output, and nothing else? -v shows its standard error";
const ENVIRONMENT: &str =
    "it sees few variables of your environment: -e NAME passes one on, -e NAME=VALUE sets one";
