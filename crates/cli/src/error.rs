//! Errors as the user sees them: the step, the details, what to try, and the exit code.

use std::io;

use serde::Serialize;
use tsugite::client::{Challenge, ClientError, ConnectStep, ErrorKind};
use tsugite::jsonrpc::{ErrorObject, code};
use tsugite::protocol::ClientCapabilities;
use tsugite::revision::RpcError;

use crate::url_hints;

pub(crate) type Result<T, E = CliError> = std::result::Result<T, E>;

/// The exit code of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExitStatus {
    /// Success, or the reader of standard output has gone.
    Success = 0,
    /// The command line or a file is invalid.
    Usage = 1,
    /// The server cannot be reached, or the connection was lost.
    Connect = 2,
    /// The server returned an error or violated the protocol.
    Protocol = 3,
    /// The tool ran and reported an error.
    Tool = 4,
    /// The server requires credentials.
    Unauthorized = 5,
    /// No response arrived in time.
    Timeout = 6,
    /// Interrupted by Ctrl-C or a signal.
    Interrupted = 130,
}

/// An error that ends a verb.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CliError {
    pub(crate) exit: ExitStatus,
    /// The step that failed.
    pub(crate) step: Option<&'static str>,
    /// One line. If it is empty, nothing is printed because the error has been reported already.
    pub(crate) message: String,
    pub(crate) detail: Option<String>,
    pub(crate) hints: Vec<String>,
    /// The task that the command is about, for `--json`.
    pub(crate) task_id: Option<String>,
}

impl CliError {
    pub(crate) fn new(exit: ExitStatus, message: impl Into<String>) -> Self {
        Self { exit, step: None, message: message.into(), detail: None, hints: Vec::new(), task_id: None }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(ExitStatus::Usage, message)
    }

    /// Returns an error that ends the process without output.
    pub(crate) fn silent(exit: ExitStatus) -> Self {
        Self::new(exit, "")
    }

    pub(crate) fn at_step(mut self, step: &'static str) -> Self {
        self.step = Some(step);
        self
    }

    pub(crate) fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Adds that no file was changed.
    pub(crate) fn nothing_written(mut self) -> Self {
        let detail = self.detail.take().map(|detail| format!("{detail}; ")).unwrap_or_default();
        self.detail(format!("{detail}nothing was written"))
    }

    /// Returns the message and the details in one line, without the hints.
    pub(crate) fn summary(&self) -> String {
        match &self.detail {
            Some(detail) => format!("{}: {detail}", self.message),
            None => self.message.clone(),
        }
    }

    /// Converts an error of connecting to the server `display_name`, which is its URL if it was given by one. `login` is the
    /// command that logs in to it.
    pub(crate) fn from_connect_error(error: ClientError, display_name: &str, login: Option<&str>) -> Self {
        let mcp_hint = suggests_other_path(error.kind()).then(|| url_hints::mcp_path(display_name)).flatten();
        let mut failure = match error.kind() {
            ErrorKind::Unauthorized(challenge) => unauthorized(challenge, login),
            _ => Self::from_connect_error_kind(error, display_name),
        };
        if let Some(hint) = mcp_hint {
            failure.message = format!("cannot connect to {display_name}");
            failure.hints.retain(|hint| ![MCP_PATH_HINT, HTTP_SSE_HINT].contains(&hint.as_str()));
            failure.hints.insert(0, hint);
        }
        failure
    }

    fn from_connect_error_kind(error: ClientError, display_name: &str) -> Self {
        let message = format!("cannot connect to {display_name}");
        match error.kind() {
            ErrorKind::Config(_) => Self::from_client_error(error, "setting"),
            ErrorKind::Connect { step, reason } => {
                let exit = if *step == ConnectStep::FirstResponse {
                    ExitStatus::Timeout
                } else {
                    ExitStatus::Connect
                };
                let failure = Self::new(exit, message).at_step(step_name(*step)).detail(reason);
                hints_for(*step).iter().fold(failure, |failure, hint| failure.hint(*hint))
            }
            ErrorKind::Authorization(_) => Self {
                message: format!("cannot log in to {display_name}"),
                ..Self::from_client_error(error, "login")
            },
            ErrorKind::Status { status, body, .. } if url_hints::rejects_address(*status, body) => {
                let failure = Self::new(ExitStatus::Connect, message).at_step("http");
                url_hints::rejected_address(failure.detail(error.to_string()), body, display_name)
            }
            ErrorKind::Status { status: 401 | 403, .. } => Self {
                message: format!("access to {display_name} denied"),
                ..Self::from_client_error(error, "authorization")
            },
            // A server at a URL has no standard error that we could show.
            ErrorKind::ConnectionLost { .. } if display_name.starts_with("http") => Self {
                message,
                hints: vec![NOT_MCP_HINT.to_owned()],
                ..Self::from_client_error(error, "handshake")
            },
            ErrorKind::TimedOut { .. } | ErrorKind::ConnectionLost { .. } => {
                Self { message, ..Self::from_client_error(error, "handshake") }
            }
            ErrorKind::Status { status, .. } => {
                let failure =
                    Self::new(ExitStatus::Connect, message).at_step("http").detail(error.to_string());
                match status {
                    404 => failure.hint(MCP_PATH_HINT),
                    405 | 406 | 415 => failure.hint(HTTP_SSE_HINT),
                    429 | 503 => failure
                        .hint("the server is busy; try again later, or wait longer with --timeout SECONDS"),
                    500.. => failure.hint("the server failed; check its log"),
                    _ => failure.hint(NOT_MCP_HINT),
                }
            }
            ErrorKind::Protocol(detail) => Self::new(ExitStatus::Protocol, message)
                .at_step("revision")
                .detail(detail)
                .hint(REVISION_HINT)
                .hint("check that it is an MCP server; --trace FILE records every message"),
            _ => Self::from_client_error(error, "handshake"),
        }
    }

    /// Converts an error that occurred at `step`, after connecting.
    pub(crate) fn from_client_error(error: ClientError, step: &'static str) -> Self {
        let detail = error.to_string();
        match error.kind() {
            ErrorKind::Config(_) => Self::usage(detail),
            ErrorKind::Connect { .. } => Self::from_connect_error(error, "the server", None),
            ErrorKind::Unauthorized(challenge) => unauthorized(challenge, None),
            ErrorKind::Authorization(_) => Self::new(ExitStatus::Unauthorized, "cannot log in")
                .at_step("login")
                .detail(detail)
                .hint(NO_BROWSER_HINT)
                .hint(BEARER_HINT),
            ErrorKind::Status { status, body, .. } if url_hints::rejects_address(*status, body) => {
                let failure = Self::new(ExitStatus::Connect, "the server rejected the request").at_step(step);
                url_hints::rejected_address(failure.detail(detail), body, "")
            }
            ErrorKind::Status { status: 401 | 403, .. } => {
                Self::new(ExitStatus::Unauthorized, "access to the server denied")
                    .at_step("authorization")
                    .detail(detail)
                    .hint(CREDENTIALS_HINT)
            }
            ErrorKind::ConnectionLost { .. } => Self::new(ExitStatus::Connect, "the connection was lost")
                .at_step(step)
                .detail(detail)
                .hint("-v shows the server's standard error"),
            ErrorKind::TimedOut { .. } => {
                Self::new(ExitStatus::Timeout, "the server did not respond in time")
                    .at_step(step)
                    .detail(detail)
                    .hint(TIMEOUT_HINT)
            }
            ErrorKind::ErrorResponse { error: object, rpc_error } => {
                let failure = Self::new(ExitStatus::Protocol, "the server returned an error")
                    .at_step(step)
                    .detail(error_with_data(&error));
                match (&**rpc_error, object.code) {
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
            ErrorKind::ToolFailed(_) => Self::new(ExitStatus::Tool, detail).at_step(step),
            ErrorKind::TaskCancelled => Self::new(ExitStatus::Tool, detail).at_step(step),
            ErrorKind::InputRequired(_) => {
                Self::new(ExitStatus::Protocol, "the server asked for input that cannot be given here")
                    .at_step(step)
                    .detail(detail)
                    .hint("run it on a terminal, or pass --answer or --sample")
            }
            ErrorKind::UnsupportedByRevision(_) => {
                Self::new(ExitStatus::Protocol, "the negotiated revision does not support this")
                    .at_step(step)
                    .detail(detail)
                    .hint("--rev REVISION selects another revision")
            }
            _ => Self::new(ExitStatus::Protocol, "the server sent an invalid response")
                .at_step(step)
                .detail(detail)
                .hint(TRACE_HINT),
        }
    }

    /// Returns the error as JSON, for `--json`.
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
            #[serde(rename = "taskId", skip_serializing_if = "Option::is_none")]
            task_id: Option<&'a str>,
        }
        let Self { exit, step, message, detail, hints, task_id } = self;
        let (seen, task_id) = (detail.as_deref(), task_id.as_deref());
        let inner = Inner { exit: *exit as u8, step: *step, message, seen, hints, task_id };
        serde_json::to_string(&Outer { error: inner }).unwrap_or_default()
    }
}

/// Converts a failed write to standard output. A closed pipe is not an error.
impl From<io::Error> for CliError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::silent(ExitStatus::Success),
            _ => Self::usage(format!("cannot write to standard output: {error}")),
        }
    }
}

/// Formats an error response with its `data`.
fn error_with_data(error: &ClientError) -> String {
    match error.kind() {
        ErrorKind::ErrorResponse { error: ErrorObject { data: Some(data), .. }, .. } => {
            format!("{error}, {}", data.text())
        }
        _ => error.to_string(),
    }
}

/// Whether the server answered as one that has no MCP endpoint at this path.
fn suggests_other_path(kind: &ErrorKind) -> bool {
    match kind {
        ErrorKind::Status { status, .. } => matches!(status, 400 | 404..=428),
        ErrorKind::Connect { step, .. } => *step == ConnectStep::Http,
        // Some servers write the reason of a 404 or 405 as a JSON-RPC error.
        ErrorKind::ErrorResponse { error, .. } => {
            [code::INVALID_REQUEST, code::METHOD_NOT_FOUND].contains(&error.code)
        }
        _ => false,
    }
}

fn unauthorized(challenge: &Challenge, login: Option<&str>) -> CliError {
    let message = match challenge.status {
        403 => format!("access to {} denied", challenge.url),
        _ => format!("{} requires credentials", challenge.url),
    };
    let mut detail = format!("HTTP status {}", challenge.status);
    for header in &challenge.www_authenticate {
        detail.push_str(", WWW-Authenticate: ");
        detail.push_str(header);
    }
    let failure = CliError::new(ExitStatus::Unauthorized, message).at_step("authorization").detail(detail);
    let login = login.map_or_else(|| format!("tsugite login {}", challenge.url), str::to_owned);
    let failure = match (challenge.status, challenge.param("scope")) {
        _ if challenge.url.starts_with("unix:") => failure,
        (401, _) => failure.hint(format!("`{login}` logs in with a browser")),
        (_, Some(scope)) if scope.chars().all(is_plain) => {
            failure.hint(format!("`{login} --scope '{scope}'` logs in for more"))
        }
        _ => failure,
    };
    failure.hint(CREDENTIALS_HINT)
}

/// Whether a character of a scope can be pasted into a shell within quotes.
fn is_plain(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || " :._/-".contains(letter)
}

/// Adds the options that would provide the missing capabilities.
fn missing_capability(mut failure: CliError, required: &ClientCapabilities) -> CliError {
    if required.sampling.is_some() {
        failure = failure.hint("--sample TEXT answers for a model; on a terminal tsugite prompts for it");
    }
    if required.roots.is_some() {
        failure = failure.hint("--root FOLDER gives the server access to a folder");
    }
    if required.elicitation.is_some() {
        failure = failure.hint("run it on a terminal, where tsugite can prompt");
    }
    failure
}

fn step_name(step: ConnectStep) -> &'static str {
    match step {
        ConnectStep::Dns => "dns",
        ConnectStep::Tcp => "tcp",
        ConnectStep::Proxy => "proxy",
        ConnectStep::Tls => "tls",
        ConnectStep::Http => "http",
        ConnectStep::Spawn => "start",
        ConnectStep::Revision => "revision",
        _ => "handshake",
    }
}

fn hints_for(step: ConnectStep) -> &'static [&'static str] {
    match step {
        ConnectStep::Dns => &["check the spelling of the host name"],
        ConnectStep::Tcp => &[
            "check that the server is running and that the port is right",
            "`tsugite serve` starts a server at http://127.0.0.1:8808/mcp",
        ],
        ConnectStep::Proxy => {
            &["HTTP_PROXY, HTTPS_PROXY and NO_PROXY say which servers are reached through which proxy"]
        }
        ConnectStep::Tls => &[
            "if the server does not use TLS, write http:// instead of https://",
            "if its certificate is not trusted here, set SSL_CERT_FILE to a file of trusted certificates",
        ],
        ConnectStep::Http => &[NOT_MCP_HINT],
        ConnectStep::Spawn => &["check that the command is in PATH, or give its full path"],
        ConnectStep::FirstResponse => &[TIMEOUT_HINT, STDOUT_HINT, ENVIRONMENT_HINT],
        _ => &[STDOUT_HINT, ENVIRONMENT_HINT],
    }
}

const CREDENTIALS_HINT: &str =
    "--bearer-env NAME sends the token in that variable; a token that was sent is not valid here";
const NO_BROWSER_HINT: &str = "--no-browser prints the address, and reads the pasted answer";
const BEARER_HINT: &str = "if you have a token, --bearer-env NAME sends it";
const MCP_PATH_HINT: &str = "check the path of the URL; most servers use /mcp";
const NOT_MCP_HINT: &str = "check that an MCP server listens there";
const REVISION_HINT: &str = "--rev auto accepts any revision that both sides support";
const LIST_HINT: &str = "`list` shows what the server offers";
const TRACE_HINT: &str = "--trace FILE records every message";
const HTTP_SSE_HINT: &str =
    "an old server may support only HTTP+SSE: use --transport sse with the URL of its stream";
const TIMEOUT_HINT: &str = "--timeout SECONDS waits longer";
const STDOUT_HINT: &str =
    "check that it writes only MCP messages to standard output; -v shows its standard error";
const ENVIRONMENT_HINT: &str =
    "few environment variables are passed to it: -e NAME passes one on, -e NAME=VALUE sets one";
