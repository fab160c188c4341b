//! What can go wrong with a client, and whose fault it is.

use std::fmt;
use std::time::Duration;

use tsugite_core::jsonrpc::{ErrorObject, JsonError};
use tsugite_core::protocol::tools::CallResult;
use tsugite_core::revision::{Revision, RpcError, UnsupportedByRevisionError};

/// The result of something a client does.
pub type Result<T, E = ClientError> = std::result::Result<T, E>;

/// Why something a client wanted did not happen.
#[derive(Clone)]
pub struct ClientError(Box<ErrorKind>);

/// What kind of failure it is.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The address, or a setting, cannot be used.
    Config(String),
    /// The server could not be reached.
    Connect {
        /// How far it came.
        step: ConnectStep,
        /// What was seen.
        reason: String,
    },
    /// The server wants other credentials, or none are enough.
    Unauthorized(Challenge),
    /// The server answered with an HTTP status that is no answer.
    Status {
        /// Which.
        status: u16,
        /// The beginning of what came with it.
        body: String,
    },
    /// There is no revision that both sides speak, or none could be found out.
    Protocol(String),
    /// The server answered with an error.
    ErrorResponse {
        /// As it stood on the wire.
        error: ErrorObject,
        /// What it means in the server's revision.
        rpc_error: Box<RpcError>,
    },
    /// The tool ran and says that it failed.
    ToolFailed(Box<CallResult>),
    /// What came back is not what the method answers.
    MalformedResult {
        /// Which method.
        method: String,
        /// What does not fit.
        error: JsonError,
    },
    /// The server's revision cannot say what was asked for.
    UnsupportedByRevision(UnsupportedByRevisionError),
    /// No response arrived in time. The client sent a cancellation.
    TimedOut {
        /// The timeout that has passed.
        limit: Duration,
        /// Which of the two timeouts it is.
        kind: TimeoutKind,
    },
    /// The connection, or the session, is gone, and the call was not repeated.
    ConnectionLost {
        /// Whether the server may have done what was asked.
        may_have_run: bool,
        /// What was seen.
        reason: String,
    },
    /// The server asks back more often than is followed, or something that cannot be answered.
    InputRequired(String),
    /// Something is larger than the limit for it.
    TooLarge(String),
    /// The host does not let this server be used for it.
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
}

/// How far a connection came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectStep {
    /// Finding the address of a name.
    Dns,
    /// Reaching the address.
    Tcp,
    /// Agreeing on encryption.
    Tls,
    /// Sending the request and reading the head of its answer.
    Http,
    /// Starting the command.
    Spawn,
    /// Finding out which revision is spoken.
    Revision,
    /// `initialize`.
    Handshake,
    /// Hearing anything from a server that was started, in time.
    FirstResponse,
}

/// How a server asks for credentials.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Challenge {
    /// 401 or 403.
    pub status: u16,
    /// The address that was asked.
    pub url: String,
    /// Every `WWW-Authenticate` there was.
    pub www_authenticate: Vec<String>,
}

impl ClientError {
    /// What kind of failure it is.
    pub fn kind(&self) -> &ErrorKind {
        &self.0
    }

    /// The same, to be taken apart.
    pub fn into_kind(self) -> ErrorKind {
        *self.0
    }

    /// Whether no answer came in time.
    pub fn is_timeout(&self) -> bool {
        matches!(
            *self.0,
            ErrorKind::TimedOut { .. } | ErrorKind::Connect { step: ConnectStep::FirstResponse, .. }
        )
    }

    /// Whether the connection, or the session, is gone.
    pub fn is_connection_lost(&self) -> bool {
        matches!(*self.0, ErrorKind::ConnectionLost { .. })
    }

    /// Whether the server may have done what was asked, although no answer says so.
    pub fn may_have_run(&self) -> bool {
        match &*self.0 {
            ErrorKind::ConnectionLost { may_have_run, .. } => *may_have_run,
            // A gateway knows no more than we do; one that is busy has done nothing.
            ErrorKind::Status { status, .. } => *status >= 500 && *status != 503,
            ErrorKind::TimedOut { .. } | ErrorKind::TooLarge(_) | ErrorKind::MalformedResult { .. } => true,
            _ => false,
        }
    }

    /// What the server declined with, if it did.
    pub fn as_rpc_error(&self) -> Option<&RpcError> {
        match &*self.0 {
            ErrorKind::ErrorResponse { rpc_error: refusal, .. } => Some(refusal),
            _ => None,
        }
    }

    /// The code of the server's error response, if it sent one.
    pub(super) fn code(&self) -> Option<i64> {
        match &*self.0 {
            ErrorKind::ErrorResponse { error, .. } => Some(error.code),
            _ => None,
        }
    }

    /// The result of a tool that failed.
    pub fn as_tool_failure(&self) -> Option<&CallResult> {
        match &*self.0 {
            ErrorKind::ToolFailed(result) => Some(result),
            _ => None,
        }
    }

    pub(super) fn from_error_response(error: ErrorObject, method: &str, from: Revision) -> Self {
        let refusal = Box::new(RpcError::from_error_object(error.clone(), method, from));
        ErrorKind::ErrorResponse { error, rpc_error: refusal }.into()
    }

    pub(super) fn connect(step: ConnectStep, seen: impl fmt::Display) -> Self {
        ErrorKind::Connect { step, reason: seen.to_string() }.into()
    }

    pub(super) fn config(what: impl Into<String>) -> Self {
        ErrorKind::Config(what.into()).into()
    }

    pub(super) fn malformed_result(method: &str, what: JsonError) -> Self {
        ErrorKind::MalformedResult { method: method.to_owned(), error: what }.into()
    }
}

impl From<ErrorKind> for ClientError {
    fn from(kind: ErrorKind) -> Self {
        Self(Box::new(kind))
    }
}

impl From<UnsupportedByRevisionError> for ClientError {
    fn from(unsayable: UnsupportedByRevisionError) -> Self {
        ErrorKind::UnsupportedByRevision(unsayable).into()
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
            ConnectStep::Dns => "finding its address",
            ConnectStep::Tcp => "connecting",
            ConnectStep::Tls => "agreeing on encryption",
            ConnectStep::Http => "sending the request",
            ConnectStep::Spawn => "starting it",
            ConnectStep::Revision => "finding out its revision",
            ConnectStep::Handshake => "the handshake",
            ConnectStep::FirstResponse => "waiting for an answer",
        })
    }
}

/// In words: this is what a `main` that returns it prints.
impl fmt::Debug for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            ErrorKind::Config(what) => f.write_str(what),
            ErrorKind::Connect { step, reason: seen } => {
                write!(f, "cannot reach the server: {step} failed: {seen}")
            }
            ErrorKind::Unauthorized(challenge) if challenge.status == 403 => {
                write!(f, "the server forbids it (403 from {})", challenge.url)
            }
            ErrorKind::Unauthorized(challenge) => {
                write!(f, "the server wants credentials ({} from {})", challenge.status, challenge.url)?;
                challenge.www_authenticate.iter().try_for_each(|wanted| write!(f, "; {wanted}"))
            }
            ErrorKind::Status { status, body: said } if said.is_empty() => {
                write!(f, "the server answered with HTTP status {status}")
            }
            ErrorKind::Status { status, body: said } => {
                write!(f, "the server answered with HTTP status {status}: {said}")
            }
            ErrorKind::Protocol(what)
            | ErrorKind::InputRequired(what)
            | ErrorKind::TooLarge(what)
            | ErrorKind::Forbidden(what) => f.write_str(what),
            ErrorKind::ErrorResponse { error, .. } => write!(f, "{} ({})", error.message, error.code),
            ErrorKind::ToolFailed(result) => write!(f, "the tool failed: {}", result_text(result)),
            ErrorKind::MalformedResult { method, error: what } => {
                write!(f, "the answer to `{method}` is malformed: {what}")
            }
            ErrorKind::UnsupportedByRevision(unsayable) => unsayable.fmt(f),
            ErrorKind::TimedOut { limit, kind: TimeoutKind::Idle } => {
                write!(f, "no sign of life for {}", Seconds(*limit))
            }
            ErrorKind::TimedOut { limit, kind: TimeoutKind::Total } => {
                write!(f, "not done within {}", Seconds(*limit))
            }
            ErrorKind::ConnectionLost { may_have_run: true, reason: seen } => {
                write!(f, "{seen}; the call may have run")
            }
            ErrorKind::ConnectionLost { may_have_run: false, reason: seen } => {
                write!(f, "{seen}; the call has not run")
            }
            ErrorKind::Closed => f.write_str("the client is closed"),
        }
    }
}

impl std::error::Error for ClientError {}

/// The text of a result, as far as a line of an error holds it.
fn result_text(result: &CallResult) -> String {
    let texts: Vec<&str> = result.content.iter().filter_map(|block| block.as_text()).collect();
    truncate(&texts.join(" "), 500).to_owned()
}

/// The beginning of a text, cut between characters.
pub(super) fn truncate(text: &str, most: usize) -> &str {
    text.char_indices().nth(most).and_then(|(end, _)| text.get(..end)).unwrap_or(text)
}

struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} s", self.0.as_secs_f64())
    }
}
