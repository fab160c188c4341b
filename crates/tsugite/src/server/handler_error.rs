//! Errors that a handler returns, and how much of them the peer sees.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use tsugite_core::protocol::tools::CallResult;
use tsugite_core::revision::{Revision, RpcError};

use super::ask::AskError;
use crate::error::Chain;

/// The error of a handler. A tool's error becomes a result with `isError`, a prompt's or a resource's a JSON-RPC error.
///
/// `?` converts any error: the peer then sees only "tool failed" and a number, under which the log has the error. Use
/// [`HandlerError::new`] for a message the peer may read. An [`AskError`] and a [`RpcError`] keep their meaning, also as
/// the source of another error.
///
/// ```
/// use tsugite::prelude::*;
///
/// async fn half(n: i64) -> Result<i64, HandlerError> {
///     if n % 2 != 0 {
///         return Err(HandlerError::new(format!("{n} is odd")));
///     }
///     Ok(n / 2)
/// }
/// # let _ = half(2);
/// ```
#[derive(Clone)]
pub struct HandlerError(HandlerErrorKind);

#[derive(Clone)]
enum HandlerErrorKind {
    Message(String),
    ToolResult(Box<CallResult>),
    Rpc(Box<RpcError>),
    Ask(Box<AskError>),
}

impl HandlerError {
    /// Creates an error whose message the peer may read.
    pub fn new(text: impl Into<String>) -> Self {
        Self(HandlerErrorKind::Message(text.into()))
    }

    /// Creates an error with a whole result, for example with several content blocks. The result is marked as an error.
    pub fn from_result(result: CallResult) -> Self {
        Self(HandlerErrorKind::ToolResult(Box::new(result.is_error(true))))
    }

    /// Creates a protocol error: the peer receives a JSON-RPC error instead of a result.
    pub fn from_rpc_error(error: RpcError) -> Self {
        Self(HandlerErrorKind::Rpc(Box::new(error)))
    }

    /// The elicitation or sampling error that caused this error, if any.
    pub fn as_ask(&self) -> Option<&AskError> {
        match &self.0 {
            HandlerErrorKind::Ask(error) => Some(error),
            _ => None,
        }
    }
}

impl fmt::Debug for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HandlerError({self})")
    }
}

impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            HandlerErrorKind::Message(text) => f.write_str(text),
            HandlerErrorKind::ToolResult(result) => write!(f, "{:?}", result.content),
            HandlerErrorKind::Rpc(error) => error.fmt(f),
            HandlerErrorKind::Ask(error) => error.fmt(f),
        }
    }
}

// `HandlerError` does not implement `std::error::Error`, so that this conversion can accept every type that does.
impl<E: std::error::Error + 'static> From<E> for HandlerError {
    fn from(error: E) -> Self {
        Self::hidden_from(&error)
    }
}

impl HandlerError {
    /// Creates an error from any error: the peer sees only "tool failed" and a number, under which the log has the error.
    /// For errors that `?` cannot convert, such as a `Box<dyn Error>`.
    pub fn hidden(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::hidden_from(&*error.into())
    }

    fn hidden_from(error: &(dyn std::error::Error + 'static)) -> Self {
        let mut cause = Some(error);
        while let Some(error) = cause {
            if let Some(ask) = error.downcast_ref::<AskError>() {
                return Self(HandlerErrorKind::Ask(Box::new(ask.clone())));
            }
            if let Some(rpc_error) = error.downcast_ref::<RpcError>() {
                return Self::from_rpc_error(rpc_error.clone());
            }
            cause = error.source();
        }
        let number = NEXT_ERROR_NUMBER.fetch_add(1, Ordering::Relaxed);
        tracing::error!(number, error = %Chain(error), "tool failed");
        Self::new(format!("tool failed (number {number} in the server's log)"))
    }
}

static NEXT_ERROR_NUMBER: AtomicU64 = AtomicU64::new(1);

/// The reason a handler did not return a result.
#[derive(Debug)]
#[non_exhaustive]
pub enum InvocationError {
    /// Shown to the model, or to the client where there is no model.
    Handler(HandlerError),
    /// Sent to the client as a JSON-RPC error.
    Rpc(RpcError),
    /// The requested item does not exist.
    NotFound,
}

impl InvocationError {
    pub(crate) fn internal() -> Self {
        InvocationError::Rpc(RpcError::Internal)
    }

    pub(crate) fn invalid_params(text: &str) -> Self {
        InvocationError::Rpc(RpcError::InvalidParams(format!("Invalid params: {text}").into()))
    }

    /// Converts into the result of a tool, or into a protocol error.
    pub(crate) fn into_result(self, to: Revision) -> Result<CallResult, RpcError> {
        match self {
            InvocationError::Rpc(error) => Err(error),
            InvocationError::NotFound => Err(RpcError::Internal),
            InvocationError::Handler(HandlerError(kind)) => match kind {
                HandlerErrorKind::Message(text) => Ok(CallResult::error(text)),
                HandlerErrorKind::ToolResult(result) => Ok(*result),
                HandlerErrorKind::Rpc(error) => Err(*error),
                HandlerErrorKind::Ask(error) => match error.rpc_error(to) {
                    Some(rpc_error) => Err(rpc_error),
                    None => Ok(CallResult::error(error.to_string())),
                },
            },
        }
    }

    /// Converts into a JSON-RPC error: prompts and resources have no other way to report a failure.
    pub(crate) fn into_rpc_error(self, to: Revision) -> RpcError {
        match self {
            InvocationError::Rpc(error) => error,
            InvocationError::NotFound => RpcError::Internal,
            InvocationError::Handler(HandlerError(kind)) => match kind {
                HandlerErrorKind::Message(text) => RpcError::internal_with_message(text),
                HandlerErrorKind::ToolResult(result) => {
                    let text = result.content.iter().find_map(|block| match block {
                        tsugite_core::protocol::ContentBlock::Text(text) => Some(text.text.clone()),
                        _ => None,
                    });
                    text.map_or(RpcError::Internal, RpcError::internal_with_message)
                }
                HandlerErrorKind::Rpc(error) => *error,
                HandlerErrorKind::Ask(error) => error
                    .rpc_error(to)
                    .or_else(|| error.missing_capability())
                    .unwrap_or_else(|| RpcError::internal_with_message(error.to_string())),
            },
        }
    }
}

impl From<HandlerError> for InvocationError {
    fn from(error: HandlerError) -> Self {
        InvocationError::Handler(error)
    }
}
