//! What a request gives back: a result says of which kind it is, and the request knows which kinds it may get.

use serde::{Deserialize, Serialize};

use super::wire::{has_meta, wire};
use super::{HasMeta, Meta};
use crate::jsonrpc::{JsonError, Raw};

/// The answer to a request, in the newest shape.
///
/// Its JSON does not hold `resultType`: the kind is known from the type and is written beside it where a revision
/// wants it.
pub trait Output: Serialize + HasMeta + Sized {
    /// The kind of this result.
    fn result_type(&self) -> ResultType {
        ResultType::Complete
    }

    /// Reads a result of a known kind. Fails when this request cannot be answered with that kind.
    // `#[inline]` wherever it is written: whoever reads a result builds that, and a server reads none.
    fn read(kind: ResultType, result: Raw<'_>) -> Result<Self, JsonError>;
}

/// The kinds of result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResultType {
    /// The answer itself.
    Complete,
    /// A question back; the request is to be sent again with the answers.
    InputRequired,
    /// A promise: the answer will be found under a task (extension `io.modelcontextprotocol/tasks`).
    Task,
}

impl ResultType {
    /// As it stands on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            ResultType::Complete => "complete",
            ResultType::InputRequired => "input_required",
            ResultType::Task => "task",
        }
    }

    /// The kind a result names. Absent is complete, as older servers leave it; an unknown kind is an invalid answer.
    pub fn from_result(result: Raw<'_>) -> Result<Self, JsonError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct ResultTypeMember {
            result_type: Option<String>,
        }
        match require_object(result)?.read::<ResultTypeMember>()?.result_type.as_deref() {
            None | Some("complete") => Ok(ResultType::Complete),
            Some("input_required") => Ok(ResultType::InputRequired),
            Some("task") => Ok(ResultType::Task),
            Some(other) => {
                let shown: String = other.chars().take(40).collect();
                Err(JsonError::new(format!("unknown `resultType` {shown:?}")))
            }
        }
    }
}

wire! {
    /// A result that says nothing but `_meta`.
    #[derive(Default)]
    pub struct EmptyResult {
    }
    optional {
        /// Data beside the protocol.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

/// Says of result types that they are always the answer itself.
macro_rules! complete {
    ($($name:ty),* $(,)?) => {$(
        impl $crate::protocol::Output for $name {
            #[inline]
            fn read(
                kind: $crate::protocol::ResultType,
                result: $crate::jsonrpc::Raw<'_>,
            ) -> Result<Self, $crate::jsonrpc::JsonError> {
                $crate::protocol::result::require_complete(kind)?;
                $crate::protocol::result::require_object(result)?.read()
            }
        }
    )*};
}

pub(super) use complete;

/// The error every request gives that can only be answered at once.
pub(super) fn require_complete(kind: ResultType) -> Result<(), JsonError> {
    match kind {
        ResultType::Complete => Ok(()),
        other => Err(JsonError::new(format!("this request cannot be answered with `{}`", other.as_str()))),
    }
}

/// Results are objects; `null` in particular is not an empty one.
pub(super) fn require_object(result: Raw<'_>) -> Result<Raw<'_>, JsonError> {
    if result.is_object() { Ok(result) } else { Err(JsonError::new("the result is not an object")) }
}

complete!(EmptyResult);
has_meta!(EmptyResult);
