//! What can go wrong with a client, and whose fault it is.

use std::fmt;
use std::time::Duration;

use tsugite_core::jsonrpc::{JsonError, ErrorObject};
use tsugite_core::protocol::tools::CallResult;
use tsugite_core::revision::{RpcError, Revision, UnsupportedByRevisionError};

/// The result of something a client does.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why something a client wanted did not happen.
#[derive(Clone)]
pub struct Error(Box<Kind>);

/// What kind of failure it is.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Kind {
    /// The address, or a setting, cannot be used.
    Setting(String),
    /// The server could not be reached.
    Connect {
        /// How far it came.
        step: Step,
        /// What was seen.
        seen: String,
    },
    /// The server wants other credentials, or none are enough.
    Unauthorized(Challenge),
    /// The server answered with an HTTP status that is no answer.
    Status {
        /// Which.
        status: u16,
        /// The beginning of what came with it.
        said: String,
    },
    /// There is no revision that both sides speak, or none could be found out.
    Revision(String),
    /// The server answered with an error.
    Refused {
        /// As it stood on the wire.
        error: ErrorObject,
        /// What it means in the server's revision.
        refusal: Box<RpcError>,
    },
    /// The tool ran and says that it failed.
    Tool(Box<CallResult>),
    /// What came back is not what the method answers.
    Shape {
        /// Which method.
        method: String,
        /// What does not fit.
        what: JsonError,
    },
    /// The server's revision cannot say what was asked for.
    Unsayable(UnsupportedByRevisionError),
    /// No answer came in time. The server was told to stop.
    TimedOut {
        /// What was waited for.
        limit: Duration,
        /// Whether the limit is for all of the call, not for silence.
        total: bool,
    },
    /// The connection, or the session, is gone, and the call was not repeated.
    Lost {
        /// Whether the server may have done what was asked.
        may_have_run: bool,
        /// What was seen.
        seen: String,
    },
    /// The server asks back more often than is followed, or something that cannot be answered.
    Rounds(String),
    /// Something is larger than the limit for it.
    TooLarge(String),
    /// The host does not let this server be used for it.
    Forbidden(String),
    /// The client was closed.
    Closed,
}

/// How far a connection came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// Finding the address of a name.
    Name,
    /// Reaching the address.
    Tcp,
    /// Agreeing on encryption.
    Tls,
    /// Sending the request and reading the head of its answer.
    Http,
    /// Starting the command.
    Start,
    /// Finding out which revision is spoken.
    Revision,
    /// `initialize`.
    Handshake,
    /// Hearing anything from a server that was started, in time.
    Answer,
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

impl Error {
    /// What kind of failure it is.
    pub fn kind(&self) -> &Kind {
        &self.0
    }

    /// The same, to be taken apart.
    pub fn into_kind(self) -> Kind {
        *self.0
    }

    /// Whether no answer came in time.
    pub fn is_timeout(&self) -> bool {
        matches!(*self.0, Kind::TimedOut { .. } | Kind::Connect { step: Step::Answer, .. })
    }

    /// Whether the connection, or the session, is gone.
    pub fn is_lost(&self) -> bool {
        matches!(*self.0, Kind::Lost { .. })
    }

    /// Whether the server may have done what was asked, although no answer says so.
    pub fn may_have_run(&self) -> bool {
        match &*self.0 {
            Kind::Lost { may_have_run, .. } => *may_have_run,
            // A gateway knows no more than we do; one that is busy has done nothing.
            Kind::Status { status, .. } => *status >= 500 && *status != 503,
            Kind::TimedOut { .. } | Kind::TooLarge(_) | Kind::Shape { .. } => true,
            _ => false,
        }
    }

    /// What the server declined with, if it did.
    pub fn as_refusal(&self) -> Option<&RpcError> {
        match &*self.0 {
            Kind::Refused { refusal, .. } => Some(refusal),
            _ => None,
        }
    }

    /// The result of a tool that failed.
    pub fn as_tool_failure(&self) -> Option<&CallResult> {
        match &*self.0 {
            Kind::Tool(result) => Some(result),
            _ => None,
        }
    }

    pub(super) fn refused(error: ErrorObject, method: &str, from: Revision) -> Self {
        let refusal = Box::new(RpcError::from_error_object(error.clone(), method, from));
        Kind::Refused { error, refusal }.into()
    }

    pub(super) fn connect(step: Step, seen: impl fmt::Display) -> Self {
        Kind::Connect { step, seen: seen.to_string() }.into()
    }

    pub(super) fn setting(what: impl Into<String>) -> Self {
        Kind::Setting(what.into()).into()
    }

    pub(super) fn shape(method: &str, what: JsonError) -> Self {
        Kind::Shape { method: method.to_owned(), what }.into()
    }
}

impl From<Kind> for Error {
    fn from(kind: Kind) -> Self {
        Self(Box::new(kind))
    }
}

impl From<UnsupportedByRevisionError> for Error {
    fn from(unsayable: UnsupportedByRevisionError) -> Self {
        Kind::Unsayable(unsayable).into()
    }
}

impl From<super::servers::BadServersFile> for crate::Error {
    fn from(error: super::servers::BadServersFile) -> Self {
        crate::Error::other(error)
    }
}

impl From<Error> for crate::Error {
    fn from(error: Error) -> Self {
        crate::Error::other(error)
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Step::Name => "finding its address",
            Step::Tcp => "connecting",
            Step::Tls => "agreeing on encryption",
            Step::Http => "sending the request",
            Step::Start => "starting it",
            Step::Revision => "finding out its revision",
            Step::Handshake => "the handshake",
            Step::Answer => "waiting for an answer",
        })
    }
}

/// In words: this is what a `main` that returns it prints.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Kind::Setting(what) => f.write_str(what),
            Kind::Connect { step, seen } => write!(f, "cannot reach the server: {step} failed: {seen}"),
            Kind::Unauthorized(challenge) if challenge.status == 403 => {
                write!(f, "the server forbids it (403 from {})", challenge.url)
            }
            Kind::Unauthorized(challenge) => {
                write!(f, "the server wants credentials ({} from {})", challenge.status, challenge.url)?;
                challenge.www_authenticate.iter().try_for_each(|wanted| write!(f, "; {wanted}"))
            }
            Kind::Status { status, said } if said.is_empty() => {
                write!(f, "the server answered with HTTP status {status}")
            }
            Kind::Status { status, said } => {
                write!(f, "the server answered with HTTP status {status}: {said}")
            }
            Kind::Revision(what) | Kind::Rounds(what) | Kind::TooLarge(what) | Kind::Forbidden(what) => {
                f.write_str(what)
            }
            Kind::Refused { error, .. } => write!(f, "{} ({})", error.message, error.code),
            Kind::Tool(result) => write!(f, "the tool failed: {}", text_of(result)),
            Kind::Shape { method, what } => write!(f, "the answer to `{method}` is malformed: {what}"),
            Kind::Unsayable(unsayable) => unsayable.fmt(f),
            Kind::TimedOut { limit, total: false } => {
                write!(f, "no sign of life for {}", Seconds(*limit))
            }
            Kind::TimedOut { limit, total: true } => write!(f, "not done within {}", Seconds(*limit)),
            Kind::Lost { may_have_run: true, seen } => {
                write!(f, "{seen}; the call may have run")
            }
            Kind::Lost { may_have_run: false, seen } => write!(f, "{seen}; the call has not run"),
            Kind::Closed => f.write_str("the client is closed"),
        }
    }
}

impl std::error::Error for Error {}

/// The text of a result, as far as a line of an error holds it.
fn text_of(result: &CallResult) -> String {
    let texts: Vec<&str> = result.content.iter().filter_map(|block| block.as_text()).collect();
    clip(&texts.join(" "), 500).to_owned()
}

/// The beginning of a text, cut between characters.
pub(super) fn clip(text: &str, most: usize) -> &str {
    text.char_indices().nth(most).and_then(|(end, _)| text.get(..end)).unwrap_or(text)
}

struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} s", self.0.as_secs_f64())
    }
}
