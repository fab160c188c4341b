//! [`ClientError`]: the errors of a client, and whose fault each of them is.

use std::fmt;
use std::time::Duration;

use tsugite_core::jsonrpc::{ErrorObject, JsonError, code};
use tsugite_core::protocol::tools::CallResult;
use tsugite_core::revision::{Revision, RpcError, UnsupportedByRevisionError};

use super::challenge::Challenge;
use crate::shared::failure_causes::FailureCause;

/// The result of a client operation.
pub type Result<T, E = ClientError> = std::result::Result<T, E>;

/// The reason a client operation failed.
///
/// A client of [`Client::in_process`](super::Client::in_process) has the error of the handler as the
/// [source](std::error::Error::source), also where the server hides it from its peers. Nothing more is sent over a wire.
#[derive(Clone)]
#[doc(alias("McpError", "ServiceError", "ToolError"))]
pub struct ClientError(Box<ErrorRepr>);

#[derive(Clone)]
struct ErrorRepr {
    kind: ErrorKind,
    source: Option<FailureCause>,
    /// Whether this attempt or an earlier one of the same call may have run.
    may_have_run: bool,
    /// The task that the call had become.
    task: Option<TaskOfCall>,
}

#[derive(Clone)]
struct TaskOfCall {
    id: Box<str>,
    /// Whether it was not seen to end.
    may_go_on: bool,
}

/// The kind of a [`ClientError`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The address or a setting is invalid.
    Config(String),
    /// The connection could not be opened.
    Connect {
        /// The step that failed.
        step: ConnectStep,
        /// A description of the failure.
        reason: String,
    },
    /// The server rejected the credentials or requires some.
    Unauthorized(Challenge),
    /// The credentials could not be obtained: a login failed, or an authorization server refused.
    Authorization(String),
    /// The server responded with an HTTP status that is not a success.
    Status {
        /// The HTTP status.
        status: u16,
        /// The beginning of the response body.
        body: String,
        /// How long the server asks to wait before the next attempt (`Retry-After`).
        retry_after: Option<Duration>,
        /// Whether the server may have run the call.
        may_have_run: bool,
    },
    /// No common revision was found, or the server violated the protocol.
    Protocol(String),
    /// The server responded with an error.
    ErrorResponse {
        /// The error as received.
        error: ErrorObject,
        /// The error as the server's revision defines it.
        rpc_error: Box<RpcError>,
    },
    /// The tool ran and reported a failure.
    ToolFailed(Box<CallResult>),
    /// The result cannot be read as the result of the method.
    MalformedResult {
        /// The method that was called.
        method: String,
        /// The problem with the result.
        error: JsonError,
    },
    /// The result of a tool cannot be read as the Rust type that the caller expects. The tool has run.
    OutputMismatch {
        /// The name of the tool.
        tool: String,
        /// The name of the Rust type, without the paths of its modules.
        expected: String,
        /// The first difference between the two.
        error: JsonError,
    },
    /// The server's revision does not support the request.
    UnsupportedByRevision(UnsupportedByRevisionError),
    /// No response arrived in time. The client sent a cancellation.
    TimedOut {
        /// The timeout that has passed.
        limit: Duration,
        /// Which of the timeouts it is.
        kind: TimeoutKind,
    },
    /// The connection or the session was lost, and the call was not sent again.
    ConnectionLost {
        /// Whether the server may have run the call.
        may_have_run: bool,
        /// A description of the failure.
        reason: String,
    },
    /// The server asked for input more often than `max_rounds`, or for input that the client cannot give.
    InputRequired(String),
    /// The task that the call had become was cancelled.
    TaskCancelled,
    /// A message or list exceeds its limit.
    TooLarge(String),
    /// The permissions of the host do not allow the operation on this server.
    Forbidden(String),
    /// The client was closed.
    Closed,
}

/// The timeout that ended a call, in [`ErrorKind::TimedOut`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeoutKind {
    /// The idle timeout: no response and no progress for this long. Set by `timeout`.
    Idle,
    /// The total timeout: the whole call took this long. Set by `total_timeout`.
    Total,
    /// The time limit for a task: it has not ended within this time. Set by `task_timeout`.
    Task,
}

/// A step of opening a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectStep {
    /// Resolving the host name.
    Dns,
    /// Opening the TCP connection.
    Tcp,
    /// Opening a tunnel through a proxy.
    Proxy,
    /// The TLS handshake.
    Tls,
    /// Sending the request and reading the head of the response.
    Http,
    /// Starting the command of a child process.
    Spawn,
    /// Probing the revision.
    Revision,
    /// The `initialize` request.
    Handshake,
    /// Waiting for the first response of a child process.
    FirstResponse,
}

impl ClientError {
    /// The kind of the error.
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// Converts the error into its kind.
    pub fn into_kind(self) -> ErrorKind {
        self.0.kind
    }

    /// Whether no response arrived in time.
    pub fn is_timeout(&self) -> bool {
        matches!(
            self.0.kind,
            ErrorKind::TimedOut { .. } | ErrorKind::Connect { step: ConnectStep::FirstResponse, .. }
        )
    }

    /// Whether the connection or the session was lost.
    pub fn is_connection_lost(&self) -> bool {
        matches!(self.0.kind, ErrorKind::ConnectionLost { .. })
    }

    /// Whether the server may have run the call although no response confirms it. Covers all attempts of a call that was
    /// sent more than once. False only if it is certain that the call did not run, or if the server responded to it.
    pub fn may_have_run(&self) -> bool {
        self.0.may_have_run
    }

    /// The id of the task that the call had become when it failed. If the task did not fail itself, it may go on at the server:
    /// [`Client::follow_task`](super::Client::follow_task) takes it up again.
    pub fn task_id(&self) -> Option<&str> {
        self.0.task.as_ref().map(|task| &*task.id)
    }

    /// Sets the task that the call had become. `has_ended` if it was seen to end.
    pub(super) fn with_task(mut self, id: String, has_ended: bool) -> Self {
        let may_go_on = !has_ended && !self.0.kind.ends_task();
        self.0.task = Some(TaskOfCall { id: id.into(), may_go_on });
        self.after_attempts(may_go_on)
    }

    /// Sets whether the call may have run, where more is known than the kind of the error says.
    pub(super) fn with_may_have_run(mut self, value: bool) -> Self {
        self.0.may_have_run = value;
        if let ErrorKind::ConnectionLost { may_have_run, .. } | ErrorKind::Status { may_have_run, .. } =
            &mut self.0.kind
        {
            *may_have_run = value;
        }
        self
    }

    /// Adds that an earlier attempt of the call may have run.
    pub(super) fn after_attempts(self, earlier_may_have_run: bool) -> Self {
        if earlier_may_have_run { self.with_may_have_run(true) } else { self }
    }

    /// The server's error, if it responded with one.
    pub fn as_rpc_error(&self) -> Option<&RpcError> {
        match &self.0.kind {
            ErrorKind::ErrorResponse { rpc_error, .. } => Some(rpc_error),
            _ => None,
        }
    }

    /// The code of the server's error response, if it sent one.
    pub(super) fn code(&self) -> Option<i64> {
        match &self.0.kind {
            ErrorKind::ErrorResponse { error, .. } => Some(error.code),
            _ => None,
        }
    }

    /// The result of a tool that reported a failure.
    pub fn as_tool_failure(&self) -> Option<&CallResult> {
        match &self.0.kind {
            ErrorKind::ToolFailed(result) => Some(result),
            _ => None,
        }
    }

    pub(super) fn from_error_response(error: ErrorObject, method: &str, from: Revision) -> Self {
        let rpc_error = Box::new(RpcError::from_error_object(error.clone(), method, from));
        ErrorKind::ErrorResponse { error, rpc_error }.into()
    }

    /// The error for an HTTP status that is not a success.
    pub(super) fn status(status: u16, body: String, retry_after: Option<Duration>) -> Self {
        ErrorKind::Status { status, body, retry_after, may_have_run: !is_refusal(status) }.into()
    }

    /// Sets the error of the handler as the source.
    pub(super) fn with_source(mut self, source: Option<FailureCause>) -> Self {
        self.0.source = source;
        self
    }

    /// The error for an HTTP status that ends the negotiation, in which nothing has an effect.
    pub(super) fn negotiation_status(status: u16, body: String) -> Self {
        ErrorKind::Status { status, body, retry_after: None, may_have_run: false }.into()
    }

    pub(super) fn connect(step: ConnectStep, reason: impl fmt::Display) -> Self {
        ErrorKind::Connect { step, reason: reason.to_string() }.into()
    }

    pub(super) fn config(message: impl Into<String>) -> Self {
        ErrorKind::Config(message.into()).into()
    }

    pub(super) fn malformed_result(method: &str, error: JsonError) -> Self {
        ErrorKind::MalformedResult { method: method.to_owned(), error }.into()
    }
}

impl ErrorKind {
    /// Whether a call that fails like this may have run.
    fn may_have_run(&self) -> bool {
        match self {
            ErrorKind::ConnectionLost { may_have_run, .. } | ErrorKind::Status { may_have_run, .. } => {
                *may_have_run
            }
            ErrorKind::TimedOut { .. }
            | ErrorKind::Protocol(_)
            | ErrorKind::TooLarge(_)
            | ErrorKind::MalformedResult { .. }
            | ErrorKind::OutputMismatch { .. } => true,
            _ => false,
        }
    }

    /// Whether a task that is followed has ended, or is unknown, if this error is the outcome.
    fn ends_task(&self) -> bool {
        match self {
            // Other errors say that the request failed, not the task.
            ErrorKind::ErrorResponse { error, .. } => {
                matches!(error.code, code::INVALID_PARAMS | code::METHOD_NOT_FOUND)
            }
            ErrorKind::TaskCancelled | ErrorKind::ToolFailed(_) => true,
            _ => false,
        }
    }

    /// Whether the text of the error says already if the call ran.
    fn says_whether_it_ran(&self) -> bool {
        matches!(
            self,
            ErrorKind::ConnectionLost { .. }
                | ErrorKind::TooLarge(_)
                | ErrorKind::MalformedResult { .. }
                | ErrorKind::OutputMismatch { .. }
        )
    }
}

/// Whether an HTTP status means that the server did not process the request: it wants credentials, does not know the
/// session or the endpoint, or rejects the request by its head or its size.
fn is_refusal(status: u16) -> bool {
    matches!(status, 401 | 403 | 404 | 405 | 413 | 415 | 421 | 425 | 431)
}

impl From<ErrorKind> for ClientError {
    fn from(kind: ErrorKind) -> Self {
        let may_have_run = kind.may_have_run();
        Self(Box::new(ErrorRepr { kind, source: None, may_have_run, task: None }))
    }
}

impl From<UnsupportedByRevisionError> for ClientError {
    fn from(error: UnsupportedByRevisionError) -> Self {
        ErrorKind::UnsupportedByRevision(error).into()
    }
}

impl From<super::servers::ServersFileError> for crate::Error {
    fn from(error: super::servers::ServersFileError) -> Self {
        crate::Error::other(error)
    }
}

impl From<ClientError> for crate::Error {
    fn from(error: ClientError) -> Self {
        crate::Error::other(error)
    }
}

impl fmt::Display for ConnectStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ConnectStep::Dns => "DNS lookup",
            ConnectStep::Tcp => "TCP connect",
            ConnectStep::Proxy => "proxy connect",
            ConnectStep::Tls => "TLS handshake",
            ConnectStep::Http => "HTTP request",
            ConnectStep::Spawn => "starting the command",
            ConnectStep::Revision => "probing the revision",
            ConnectStep::Handshake => "handshake",
            ConnectStep::FirstResponse => "waiting for the first response",
        })
    }
}

/// Prints the message, because this is what a `main` that returns the error prints.
impl fmt::Debug for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.kind.describe(f)?;
        if let Some(task) = self.0.task.as_ref().filter(|task| task.may_go_on) {
            let id = truncate(&task.id, MAX_SHOWN_ID_CHARS);
            return write!(f, "; the task {id} may go on at the server");
        }
        match self.0.may_have_run && !self.0.kind.says_whether_it_ran() {
            true => f.write_str("; the call may have run"),
            false => Ok(()),
        }
    }
}

impl ErrorKind {
    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ErrorKind::Config(message) | ErrorKind::Authorization(message) => f.write_str(message),
            ErrorKind::Connect { step, reason } => {
                write!(f, "cannot reach the server: {step} failed: {reason}")
            }
            ErrorKind::Unauthorized(challenge) if challenge.status == 403 => {
                write!(f, "the server denied access (403 from {})", challenge.url)
            }
            ErrorKind::Unauthorized(challenge) => {
                write!(f, "the server requires credentials ({} from {})", challenge.status, challenge.url)?;
                challenge.www_authenticate.iter().try_for_each(|value| write!(f, "; {value}"))
            }
            ErrorKind::Status { status, body, retry_after, .. } => {
                write!(f, "the server answered with HTTP status {status}")?;
                if !body.is_empty() {
                    write!(f, ": {body}")?;
                }
                match retry_after {
                    Some(delay) => write!(f, "; it asks to wait {}", Seconds(*delay)),
                    None => Ok(()),
                }
            }
            ErrorKind::Protocol(message)
            | ErrorKind::InputRequired(message)
            | ErrorKind::TooLarge(message)
            | ErrorKind::Forbidden(message) => f.write_str(message),
            ErrorKind::ErrorResponse { error, .. } => write!(f, "{} ({})", error.message, error.code),
            ErrorKind::ToolFailed(result) => write!(f, "the tool failed: {}", result_text(result)),
            ErrorKind::MalformedResult { method, error } => {
                write!(f, "the result of `{method}` is malformed: {error}")
            }
            ErrorKind::OutputMismatch { tool, expected, error } => {
                write!(f, "tool `{tool}`: the result does not fit `{expected}`: {error}")
            }
            ErrorKind::UnsupportedByRevision(error) => write!(f, "{error}"),
            ErrorKind::TimedOut { limit, kind: TimeoutKind::Idle } => {
                write!(f, "no response or progress for {}", Seconds(*limit))
            }
            ErrorKind::TimedOut { limit, kind: TimeoutKind::Total } => {
                write!(f, "not complete after {}", Seconds(*limit))
            }
            ErrorKind::TaskCancelled => f.write_str("the task was cancelled"),
            ErrorKind::TimedOut { limit, kind: TimeoutKind::Task } => {
                write!(f, "the task did not end within {}", Seconds(*limit))
            }
            ErrorKind::ConnectionLost { may_have_run: true, reason } => {
                write!(f, "{reason}; the call may have run")
            }
            ErrorKind::ConnectionLost { may_have_run: false, reason } => {
                write!(f, "{reason}; the call did not run")
            }
            ErrorKind::Closed => f.write_str("the client is closed"),
        }
    }
}

impl std::error::Error for ClientError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|source| &**source as &(dyn std::error::Error + 'static))
    }
}

/// The text of a result, shortened for an error message.
fn result_text(result: &CallResult) -> String {
    let texts: Vec<&str> = result.content.iter().filter_map(|block| block.as_text()).collect();
    truncate(&texts.join(" "), 500).to_owned()
}

/// The first `max_chars` characters of a text.
pub(super) fn truncate(text: &str, max_chars: usize) -> &str {
    text.char_indices().nth(max_chars).and_then(|(end, _)| text.get(..end)).unwrap_or(text)
}

/// Characters of the id of a task in an error message. A server may choose an id of any length.
pub(super) const MAX_SHOWN_ID_CHARS: usize = 200;

struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} s", self.0.as_secs_f64())
    }
}
