//! The reason a question to the client was not answered.

use std::fmt;

use tsugite_core::jsonrpc::{ErrorObject, JsonError, RawJson};
use tsugite_core::protocol::ClientCapabilities;
use tsugite_core::revision::{Revision, RpcError, UnsupportedByRevisionError};

use crate::era::Era;

/// The reason a question to the client was not answered.
///
/// With `?` in a handler the peer learns the reason: as an error on 2026-07-28 if a capability is missing, otherwise as a
/// result with `isError`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
#[doc(alias("ElicitationError", "SamplingError"))]
pub enum AskError {
    /// The client did not declare the capability, or its revision lacks it.
    Unavailable {
        /// The capability the client would have to declare.
        required: Box<ClientCapabilities>,
    },
    /// The user declined.
    Declined,
    /// The user dismissed the question without a choice.
    Cancelled,
    /// The client did not answer in time.
    TimedOut,
    /// The client answered with an error.
    ErrorResponse(ErrorObject),
    /// The answer does not match the question.
    Malformed(String),
    /// The client's revision cannot express the question.
    UnsupportedByRevision(UnsupportedByRevisionError),
    /// The round has ended: the handler runs again with the answer. Only tasks spawned by the handler see this.
    Suspended,
    /// The connection is closed.
    Closed,
    /// The question must not be asked this way. The text is for the log, not for the peer.
    Misused(String),
}

impl AskError {
    pub(crate) fn misused(text: impl Into<String>) -> Self {
        let text = text.into();
        // The error that the handler returns is logged with its name; this is for handlers that ignore it.
        tracing::debug!("{text}");
        AskError::Misused(text)
    }

    /// The JSON-RPC error for the peer, if it is one.
    pub(crate) fn rpc_error(&self, to: Revision) -> Option<RpcError> {
        match self {
            AskError::Unavailable { .. } if Era::from(to).reports_missing_capability() => {
                self.missing_capability()
            }
            AskError::Misused(_) | AskError::Suspended | AskError::Closed => Some(RpcError::Internal),
            _ => None,
        }
    }

    /// The error for a missing capability.
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
                // Capabilities always serialize.
                let required = RawJson::from_value(required).unwrap_or_else(|_| RawJson::empty_object());
                write!(f, "the client lacks a capability; it would have to declare {}", required.text())
            }
            AskError::Declined => f.write_str("the user declined"),
            AskError::Cancelled => f.write_str("the user dismissed the question"),
            AskError::TimedOut => f.write_str("the client did not answer in time"),
            AskError::ErrorResponse(error) => {
                write!(f, "the client answered with an error: {}", error.message)
            }
            AskError::Malformed(text) => write!(f, "the answer does not match the question: {text}"),
            AskError::UnsupportedByRevision(error) => error.fmt(f),
            AskError::Suspended => f.write_str("the round has ended"),
            AskError::Closed => f.write_str("the connection is closed"),
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
    fn from(error: UnsupportedByRevisionError) -> Self {
        AskError::UnsupportedByRevision(error)
    }
}
