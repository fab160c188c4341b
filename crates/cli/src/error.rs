//! What can go wrong, for a person: which step, what was seen, what to try. And the number the process ends with.

use std::io;

use serde::Serialize;
use tsugite::client::{Challenge, ClientError, ConnectStep, ErrorKind};
use tsugite::jsonrpc::{ErrorObject, code};
use tsugite::protocol::ClientCapabilities;
use tsugite::revision::RpcError;

pub(crate) type Result<T, E = CliError> = std::result::Result<T, E>;

/// What the process ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExitStatus {
    /// All is well, or nobody reads any more.
    Success = 0,
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
pub(crate) struct CliError {
    pub(crate) exit: ExitStatus,
    /// How far it came.
    pub(crate) step: Option<&'static str>,
    /// In one line. Nothing is said if it is empty: it has been said already.
    pub(crate) message: String,
    pub(crate) detail: Option<String>,
    pub(crate) hints: Vec<String>,
}

impl CliError {
    pub(crate) fn new(exit: ExitStatus, what: impl Into<String>) -> Self {
        Self { exit, step: None, message: what.into(), detail: None, hints: Vec::new() }
    }

    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Self::new(ExitStatus::Usage, what)
    }

    /// Ends the process without a word.
    pub(crate) fn silent(exit: ExitStatus) -> Self {
        Self::new(exit, "")
    }

    pub(crate) fn at_step(mut self, step: &'static str) -> Self {
        self.step = Some(step);
        self
    }

    pub(crate) fn detail(mut self, seen: impl Into<String>) -> Self {
        self.detail = Some(seen.into());
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Says that all files are as they were.
    pub(crate) fn nothing_written(mut self) -> Self {
        let seen = self.detail.take().map(|seen| format!("{seen}; ")).unwrap_or_default();
        self.detail(format!("{seen}nothing was written"))
    }

    /// All of it but the hints, where there is room for no more.
    pub(crate) fn summary(&self) -> String {
        match &self.detail {
            Some(seen) => format!("{}: {seen}", self.message),
            None => self.message.clone(),
        }
    }

    /// A server that could not be connected to.
    pub(crate) fn from_connect_error(error: ClientError, place: &str) -> Self {
        let what = format!("cannot connect to {place}");
        match error.kind() {
            ErrorKind::Config(_) => Self::from_client_error(error, "setting"),
            ErrorKind::Connect { step, reason: seen } => {
                let exit = if *step == ConnectStep::FirstResponse {
                    ExitStatus::Timeout
                } else {
                    ExitStatus::Connect
                };
                let failure = Self::new(exit, what).at_step(step_name(*step)).detail(seen);
                hints_for(*step).iter().fold(failure, |failure, hint| failure.hint(*hint))
            }
            ErrorKind::Unauthorized(challenge) => unauthorized(challenge),
            ErrorKind::Status { status: 401 | 403, .. } => Self {
                message: format!("{place} refuses"),
                ..Self::from_client_error(error, "authorization")
            },
            // What is at a URL has no standard error to look at.
            ErrorKind::ConnectionLost { .. } if place.starts_with("http") => Self {
                message: what,
                hints: vec![NOT_MCP_HINT.to_owned()],
                ..Self::from_client_error(error, "handshake")
            },
            ErrorKind::TimedOut { .. } | ErrorKind::ConnectionLost { .. } => {
                Self { message: what, ..Self::from_client_error(error, "handshake") }
            }
            ErrorKind::Status { status, .. } => {
                let failure = Self::new(ExitStatus::Connect, what).at_step("http").detail(error.to_string());
                match status {
                    404 => failure.hint("is the path right? Most servers are at /mcp"),
                    405 | 406 | 415 => failure.hint(HTTP_SSE_HINT),
                    429 | 503 => {
                        failure.hint("the server is busy; try again later, or wait longer with --timeout")
                    }
                    500.. => failure.hint("the server is in trouble; its log may say why"),
                    _ => failure.hint(NOT_MCP_HINT),
                }
            }
            ErrorKind::Protocol(seen) => Self::new(ExitStatus::Protocol, what)
                .at_step("revision")
                .detail(seen)
                .hint(REVISION_HINT)
                .hint("does it speak MCP at all? --trace FILE keeps what was said"),
            _ => Self::from_client_error(error, "handshake"),
        }
    }

    /// Something that went wrong at `step`, once connected.
    pub(crate) fn from_client_error(error: ClientError, step: &'static str) -> Self {
        let said = error.to_string();
        match error.kind() {
            ErrorKind::Config(_) => Self::usage(said),
            ErrorKind::Connect { .. } => Self::from_connect_error(error, "the server"),
            ErrorKind::Unauthorized(challenge) => unauthorized(challenge),
            ErrorKind::Status { status: 401 | 403, .. } => {
                Self::new(ExitStatus::Unauthorized, "the server refuses")
                    .at_step("authorization")
                    .detail(said)
                    .hint(CREDENTIALS_HINT)
            }
            ErrorKind::ConnectionLost { .. } => Self::new(ExitStatus::Connect, "the connection was lost")
                .at_step(step)
                .detail(said)
                .hint("-v shows what the server writes to its standard error"),
            ErrorKind::TimedOut { .. } => Self::new(ExitStatus::Timeout, "the server took too long")
                .at_step(step)
                .detail(said)
                .hint(TIMEOUT_HINT),
            ErrorKind::ErrorResponse { error: object, rpc_error: refusal } => {
                let failure = Self::new(ExitStatus::Protocol, "the server refused")
                    .at_step(step)
                    .detail(error_with_data(&error));
                match (&**refusal, object.code) {
                    (RpcError::MissingCapability { required }, _) => missing_capability(failure, required),
                    (RpcError::UnsupportedVersion { .. }, _) => {
                        failure.at_step("revision").hint(REVISION_HINT)
                    }
                    (_, code::METHOD_NOT_FOUND) => failure.hint("`info` shows what the server can do"),
                    (RpcError::ResourceNotFound { .. }, _) => failure.hint(LIST_HINT),
                    (_, code::INVALID_PARAMS) if ["read", "prompt", "complete"].contains(&step) => {
                        failure.hint(LIST_HINT)
                    }
                    _ => failure.hint(TRACE_HINT),
                }
            }
            ErrorKind::ToolFailed(_) => Self::new(ExitStatus::Tool, said).at_step(step),
            ErrorKind::InputRequired(_) => {
                Self::new(ExitStatus::Protocol, "the server asks what cannot be answered")
                    .at_step(step)
                    .detail(said)
                    .hint("run it on a terminal, or see --answer and --sample")
            }
            ErrorKind::UnsupportedByRevision(_) => {
                Self::new(ExitStatus::Protocol, "this revision cannot say that")
                    .at_step(step)
                    .detail(said)
                    .hint("--rev asks for another revision")
            }
            _ => Self::new(ExitStatus::Protocol, "the server does not answer as it should")
                .at_step(step)
                .detail(said)
                .hint(TRACE_HINT),
        }
    }

    /// For whoever reads JSON.
    pub(crate) fn to_json(&self) -> String {
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
        let Self { exit, step, message: what, detail: seen, hints } = self;
        let inner = Inner { exit: *exit as u8, step: *step, message: what, seen: seen.as_deref(), hints };
        serde_json::to_string(&Outer { error: inner }).unwrap_or_default()
    }
}

/// What was written could not be. Nobody reading any more is no failure.
impl From<io::Error> for CliError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::silent(ExitStatus::Success),
            _ => Self::usage(format!("cannot write: {error}")),
        }
    }
}

/// What the server said, with all that came along.
fn error_with_data(error: &ClientError) -> String {
    match error.kind() {
        ErrorKind::ErrorResponse { error: ErrorObject { data: Some(data), .. }, .. } => {
            format!("{error}, {}", data.text())
        }
        _ => error.to_string(),
    }
}

fn unauthorized(challenge: &Challenge) -> CliError {
    let what = match challenge.status {
        403 => format!("{} forbids it", challenge.url),
        _ => format!("{} wants credentials", challenge.url),
    };
    let mut seen = format!("HTTP status {}", challenge.status);
    for header in &challenge.www_authenticate {
        seen.push_str(", WWW-Authenticate: ");
        seen.push_str(header);
    }
    CliError::new(ExitStatus::Unauthorized, what).at_step("authorization").detail(seen).hint(CREDENTIALS_HINT)
}

/// What would give the server what it lacks.
fn missing_capability(mut failure: CliError, required: &ClientCapabilities) -> CliError {
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

fn hints_for(step: ConnectStep) -> &'static [&'static str] {
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
        ConnectStep::Http => &[NOT_MCP_HINT],
        ConnectStep::Spawn => &["`-- COMMAND` is looked for in PATH; a path works too"],
        ConnectStep::FirstResponse => &[TIMEOUT_HINT, STDOUT_HINT, ENVIRONMENT_HINT],
        _ => &[STDOUT_HINT, ENVIRONMENT_HINT],
    }
}

const CREDENTIALS_HINT: &str =
    "-H 'Authorization: Bearer …' sends a token; if you sent one, it is not good here";
const NOT_MCP_HINT: &str = "is it an MCP server that listens there?";
const REVISION_HINT: &str = "--rev auto takes any revision that both sides speak";
const LIST_HINT: &str = "`list` shows what there is";
const TRACE_HINT: &str = "--trace FILE keeps what was said";
const HTTP_SSE_HINT: &str =
    "an old server may speak only HTTP+SSE: --transport sse, with the address of its stream";
const TIMEOUT_HINT: &str = "--timeout SECONDS waits longer";
const STDOUT_HINT: &str =
    "does it speak MCP on standard output, and nothing else? -v shows its standard error";
const ENVIRONMENT_HINT: &str =
    "it sees few variables of your environment: -e NAME passes one on, -e NAME=VALUE sets one";
