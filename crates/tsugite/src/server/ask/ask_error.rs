//! Why a question got no answer.

use std::fmt;

use tsugite_core::jsonrpc::{ErrorObject, JsonError, RawJson};
use tsugite_core::protocol::ClientCapabilities;
use tsugite_core::revision::{Revision, RpcError, UnsupportedByRevisionError};

use crate::era::Era;

/// Why a question got no answer.
///
/// A handler that does not care uses `?`: the peer then hears what happened, as an error on 2026-07-28 when it lacks the
/// capability, and as a result with `isError` otherwise.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum AskError {
    /// The client has not said that it can do this, or its revision does not know it.
    Unavailable {
        /// What it would have to declare.
        required: Box<ClientCapabilities>,
    },
    /// The user said no.
    Declined,
    /// The user went away without a choice.
    Cancelled,
    /// There was no answer in time.
    TimedOut,
    /// The client answered with an error.
    ErrorResponse(ErrorObject),
    /// The answer does not fit the question.
    Malformed(String),
    /// The client's revision has no way to put the question.
    UnsupportedByRevision(UnsupportedByRevisionError),
    /// The round has ended: the handler will run again with the answer. Only tasks of one's own ever see this.
    Suspended,
    /// The connection is gone.
    Closed,
    /// The question should not have been asked this way. The text is for the log, not for the peer.
    Misused(String),
}

impl AskError {
    pub(crate) fn misused(text: impl Into<String>) -> Self {
        let text = text.into();
        tracing::error!("{text}");
        AskError::Misused(text)
    }

    /// The error the peer gets, where it is one.
    pub(crate) fn rpc_error(&self, to: Revision) -> Option<RpcError> {
        match self {
            AskError::Unavailable { .. } if Era::from(to).reports_missing_capability() => {
                self.missing_capability()
            }
            AskError::Misused(_) | AskError::Suspended | AskError::Closed => Some(RpcError::Internal),
            _ => None,
        }
    }

    /// The error for a capability that is missing.
    pub(crate) fn missing_capability(&self) -> Option<RpcError> {
        match self {
            AskError::Unavailable { required } => {
                Some(RpcError::MissingCapability { required: required.clone() })
            }
            _ => None,
        }
    }
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AskError::Unavailable { required } => {
                // Capabilities always have a text.
                let required = RawJson::from_value(required).unwrap_or_else(|_| RawJson::empty_object());
                write!(f, "the client cannot be asked this: it would have to declare {}", required.text())
            }
            AskError::Declined => f.write_str("the user declined"),
            AskError::Cancelled => f.write_str("the user dismissed the question"),
            AskError::TimedOut => f.write_str("there was no answer in time"),
            AskError::ErrorResponse(error) => {
                write!(f, "the client answered with an error: {}", error.message)
            }
            AskError::Malformed(text) => write!(f, "the answer does not fit the question: {text}"),
            AskError::UnsupportedByRevision(unsayable) => unsayable.fmt(f),
            AskError::Suspended => f.write_str("the round has ended"),
            AskError::Closed => f.write_str("the connection is gone"),
            AskError::Misused(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for AskError {}

impl From<JsonError> for AskError {
    fn from(error: JsonError) -> Self {
        AskError::Malformed(error.to_string())
    }
}

impl From<UnsupportedByRevisionError> for AskError {
    fn from(unsayable: UnsupportedByRevisionError) -> Self {
        AskError::UnsupportedByRevision(unsayable)
    }
}
