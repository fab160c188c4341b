//! What a handler may fail with, and what of it the peer hears.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use tsugite_core::protocol::tools::CallResult;
use tsugite_core::revision::{RpcError, Revision};

use super::ask::AskError;
use crate::error::Chain;

/// A handler's own failure. A tool's is told to the model as a result with `isError`, a prompt's or a resource's as an
/// error.
///
/// `?` on any error makes one: the peer then hears only "tool failed" and a number that stands in the log beside the
/// error. What the peer may read is said with [`ToolError::new`]. An [`AskError`] and a
/// [`RpcError`] keep their meaning, also as the source of another error.
///
/// ```
/// use tsugite::prelude::*;
///
/// async fn half(n: i64) -> Result<i64, ToolError> {
///     if n % 2 != 0 {
///         return Err(ToolError::new(format!("{n} is odd")));
///     }
///     Ok(n / 2)
/// }
/// # let _ = half(2);
/// ```
#[derive(Clone)]
pub struct ToolError(Said);

#[derive(Clone)]
enum Said {
    Words(String),
    Result(Box<CallResult>),
    Refused(Box<RpcError>),
    Asked(Box<AskError>),
}

impl ToolError {
    /// A failure whose text the peer may read.
    pub fn new(text: impl Into<String>) -> Self {
        Self(Said::Words(text.into()))
    }

    /// A failure told with more than a text. It is marked as one.
    pub fn of(result: CallResult) -> Self {
        Self(Said::Result(Box::new(result.is_error(true))))
    }

    /// A failure of the protocol rather than of the tool: the peer gets an error instead of a result.
    pub fn refuse(refusal: RpcError) -> Self {
        Self(Said::Refused(Box::new(refusal)))
    }

    /// The question that got no answer, if that is why.
    pub fn as_ask(&self) -> Option<&AskError> {
        match &self.0 {
            Said::Asked(error) => Some(error),
            _ => None,
        }
    }
}

impl fmt::Debug for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ToolError({self})")
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Said::Words(text) => f.write_str(text),
            Said::Result(result) => write!(f, "{:?}", result.content),
            Said::Refused(refusal) => refusal.fmt(f),
            Said::Asked(error) => error.fmt(f),
        }
    }
}

// `ToolError` itself is no `std::error::Error`, so that this can take everything that is.
impl<E: std::error::Error + 'static> From<E> for ToolError {
    fn from(error: E) -> Self {
        Self::hidden_from(&error)
    }
}

impl ToolError {
    /// A failure of any kind: the peer hears only "tool failed" and a number that stands in the log beside the error.
    /// For errors that `?` cannot take, such as a `Box<dyn Error>`.
    pub fn hidden(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::hidden_from(&*error.into())
    }

    fn hidden_from(error: &(dyn std::error::Error + 'static)) -> Self {
        let mut cause = Some(error);
        while let Some(error) = cause {
            if let Some(ask) = error.downcast_ref::<AskError>() {
                return Self(Said::Asked(Box::new(ask.clone())));
            }
            if let Some(refusal) = error.downcast_ref::<RpcError>() {
                return Self::refuse(refusal.clone());
            }
            cause = error.source();
        }
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        tracing::error!(number, error = %Chain(error), "tool failed");
        Self::new(format!("tool failed (number {number} in the server's log)"))
    }
}

static NUMBER: AtomicU64 = AtomicU64::new(1);

/// How a handler ended without a result.
#[derive(Debug)]
#[non_exhaustive]
pub enum Failure {
    /// Told to the model, or to the client where there is no model to tell.
    Tool(ToolError),
    /// Told to the client as an error.
    Refused(RpcError),
    /// What was asked for is not there.
    NotFound,
}

impl Failure {
    pub(crate) fn internal() -> Self {
        Failure::Refused(RpcError::Internal)
    }

    pub(crate) fn invalid_params(text: &str) -> Self {
        Failure::Refused(RpcError::InvalidParams(format!("Invalid params: {text}").into()))
    }

    /// As the result of a tool, or as the refusal it is.
    pub(crate) fn into_result(self, to: Revision) -> Result<CallResult, RpcError> {
        match self {
            Failure::Refused(refusal) => Err(refusal),
            Failure::NotFound => Err(RpcError::Internal),
            Failure::Tool(ToolError(said)) => match said {
                Said::Words(text) => Ok(CallResult::error(text)),
                Said::Result(result) => Ok(*result),
                Said::Refused(refusal) => Err(*refusal),
                Said::Asked(error) => match error.refusal(to) {
                    Some(refusal) => Err(refusal),
                    None => Ok(CallResult::error(error.to_string())),
                },
            },
        }
    }

    /// As an error: prompts and resources have no other way to fail.
    pub(crate) fn into_refusal(self, to: Revision) -> RpcError {
        match self {
            Failure::Refused(refusal) => refusal,
            Failure::NotFound => RpcError::Internal,
            Failure::Tool(ToolError(said)) => match said {
                Said::Words(text) => RpcError::internal_with_message(text),
                Said::Result(result) => {
                    let text = result.content.iter().find_map(|block| match block {
                        tsugite_core::protocol::ContentBlock::Text(text) => Some(text.text.clone()),
                        _ => None,
                    });
                    text.map_or(RpcError::Internal, RpcError::internal_with_message)
                }
                Said::Refused(refusal) => *refusal,
                Said::Asked(error) => error
                    .refusal(to)
                    .or_else(|| error.missing())
                    .unwrap_or_else(|| RpcError::internal_with_message(error.to_string())),
            },
        }
    }
}

impl From<ToolError> for Failure {
    fn from(error: ToolError) -> Self {
        Failure::Tool(error)
    }
}
