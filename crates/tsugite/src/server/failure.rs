//! What a handler may fail with, and what of it the peer hears.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use tsugite_core::protocol::tools::CallResult;
use tsugite_core::revision::Refusal;

/// A tool's own failure, told to the model as a result with `isError`.
///
/// `?` on any error makes one: the peer then hears only "tool failed" and a number that stands in the log beside the
/// error. What the peer may read is said with [`ToolError::new`].
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
    Refused(Box<Refusal>),
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
    pub fn refuse(refusal: Refusal) -> Self {
        Self(Said::Refused(Box::new(refusal)))
    }
}

impl fmt::Debug for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Said::Words(text) => write!(f, "ToolError({text:?})"),
            Said::Result(result) => write!(f, "ToolError({:?})", result.content),
            Said::Refused(refusal) => write!(f, "ToolError({refusal})"),
        }
    }
}

impl<E: std::error::Error + 'static> From<E> for ToolError {
    fn from(error: E) -> Self {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        tracing::error!(number, error = &error as &dyn std::error::Error, "tool failed");
        Self::new(format!("tool failed (number {number} in the server's log)"))
    }
}

static NUMBER: AtomicU64 = AtomicU64::new(1);

/// How a handler ended without a result.
#[derive(Debug)]
pub enum Failure {
    /// Told to the model.
    Tool(ToolError),
    /// Told to the client as an error.
    Refused(Refusal),
}

impl Failure {
    pub(crate) fn internal() -> Self {
        Failure::Refused(Refusal::Internal)
    }

    /// As a result, or as the refusal it is.
    pub(crate) fn into_result(self) -> Result<CallResult, Refusal> {
        match self {
            Failure::Refused(refusal) => Err(refusal),
            Failure::Tool(ToolError(Said::Words(text))) => Ok(CallResult::error(text)),
            Failure::Tool(ToolError(Said::Result(result))) => Ok(*result),
            Failure::Tool(ToolError(Said::Refused(refusal))) => Err(*refusal),
        }
    }
}

impl From<ToolError> for Failure {
    fn from(error: ToolError) -> Self {
        Failure::Tool(error)
    }
}
