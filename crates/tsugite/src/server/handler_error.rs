//! Errors that a handler returns, and how much of them the peer sees.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use tsugite_core::protocol::tools::CallResult;
use tsugite_core::revision::{Revision, RpcError};

use super::ask_error::AskError;
use crate::error::Chain;
use crate::shared::failure_causes::FailureCause;

/// The error of a handler. A tool's error becomes a result with `isError`, a prompt's or a resource's a JSON-RPC error.
///
/// `?` converts everything that converts into a `Box<dyn Error + Send + Sync>`, `anyhow::Error` included. The peer reads a
/// `String` or a `&'static str`. Of any other error it sees only "tool failed" (or "resource failed", and so on) and a
/// number, under which the log has the error; [`HandlerError::shown`] shows it. An [`AskError`] and a [`RpcError`] keep
/// their meaning, also as the source of another error.
///
/// A handler may also return such an error itself: `Result<T, String>`, `anyhow::Result<T>`.
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
#[doc(alias("ToolError", "McpError", "isError"))]
pub struct HandlerError(HandlerErrorKind);

#[derive(Clone)]
enum HandlerErrorKind {
    Message(String),
    /// The peer does not see it.
    Hidden(FailureCause),
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
    #[doc(alias("McpError", "ErrorData"))]
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

    /// Whether it is hidden, and its message or that of a source is `text`.
    pub(super) fn mentions(&self, text: &str) -> bool {
        let hidden = self.hidden_cause().map(|cause| &**cause as &(dyn std::error::Error + 'static));
        std::iter::successors(hidden, |error| error.source()).any(|error| error.to_string() == text)
    }

    /// The error that the peer does not see.
    pub(crate) fn hidden_cause(&self) -> Option<&FailureCause> {
        match &self.0 {
            HandlerErrorKind::Hidden(cause) => Some(cause),
            _ => None,
        }
    }
}

impl fmt::Debug for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.hidden_cause() {
            Some(cause) => write!(f, "HandlerError({})", Chain(&**cause)),
            None => write!(f, "HandlerError({self})"),
        }
    }
}

/// The message for the peer. Only `Debug` shows an error that the peer does not see.
impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            HandlerErrorKind::Message(text) => f.write_str(text),
            HandlerErrorKind::Hidden(_) => f.write_str("the handler failed"),
            HandlerErrorKind::ToolResult(result) => write!(f, "{:?}", result.content),
            HandlerErrorKind::Rpc(error) => error.fmt(f),
            HandlerErrorKind::Ask(error) => error.fmt(f),
        }
    }
}

/// Text is shown to the peer, and any other error is hidden.
// `HandlerError` does not implement `std::error::Error`, so that this conversion can accept every type that does.
impl<E: Into<Box<dyn std::error::Error + Send + Sync>> + 'static> From<E> for HandlerError {
    fn from(error: E) -> Self {
        let any: &dyn Any = &error;
        let text = any.downcast_ref::<String>().map(String::as_str);
        match text.or_else(|| any.downcast_ref::<&'static str>().copied()) {
            Some(text) => Self::new(text),
            None => Self::hidden(error),
        }
    }
}

impl HandlerError {
    /// Creates an error whose message, with those of its sources, the peer may read. For an error of a library whose text
    /// is fit for the model: `.map_err(HandlerError::shown)?`.
    pub fn shown(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::new(Chain(&*error.into()).to_string())
    }

    /// Creates an error that the peer does not see: it receives only "tool failed" and a number, under which the log has
    /// the error. `?` does the same for every error that is not text.
    #[doc(alias("internal", "anyhow"))]
    pub fn hidden(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        let hidden = error.into();
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&*hidden);
        while let Some(error) = cause {
            if let Some(ask) = error.downcast_ref::<AskError>() {
                return Self(HandlerErrorKind::Ask(Box::new(ask.clone())));
            }
            if let Some(rpc_error) = error.downcast_ref::<RpcError>() {
                return Self::from_rpc_error(rpc_error.clone());
            }
            cause = error.source();
        }
        Self(HandlerErrorKind::Hidden(Arc::from(hidden)))
    }
}

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
    /// A mistake in the server. The log has the error; the client receives "Internal error".
    Internal(Arc<dyn std::error::Error + Send + Sync>),
}

impl InvocationError {
    pub(crate) fn internal(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        InvocationError::Internal(Arc::from(error.into()))
    }

    pub(crate) fn invalid_params(text: &str) -> Self {
        InvocationError::Rpc(RpcError::InvalidParams(format!("Invalid params: {text}").into()))
    }

    /// Converts into the result of a tool, or into a protocol error.
    pub(crate) fn into_result(self, to: Revision) -> Result<CallResult, RpcError> {
        match self {
            InvocationError::Rpc(error) => Err(error),
            InvocationError::NotFound | InvocationError::Internal(_) => Err(RpcError::Internal),
            InvocationError::Handler(HandlerError(kind)) => match kind {
                HandlerErrorKind::Message(text) => Ok(CallResult::error(text)),
                HandlerErrorKind::Hidden(_) => Err(RpcError::Internal),
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
            InvocationError::NotFound | InvocationError::Internal(_) => RpcError::Internal,
            InvocationError::Handler(HandlerError(kind)) => match kind {
                HandlerErrorKind::Message(text) => RpcError::internal_with_message(text),
                HandlerErrorKind::Hidden(_) => RpcError::Internal,
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
