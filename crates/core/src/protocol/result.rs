//! The results of requests: their types, and which of them a request may have.

use serde::{Deserialize, Serialize};

use super::wire::{has_meta, wire};
use super::{HasMeta, Meta};
use crate::jsonrpc::{JsonError, Raw};

/// The result of a request, in the newest shape.
///
/// Its JSON does not contain `resultType`: the type is known, and written where a revision requires it.
pub trait Output: Serialize + HasMeta + Sized {
    /// The type of this result.
    fn result_type(&self) -> ResultType {
        ResultType::Complete
    }

    /// Deserializes a result of a known type. Fails if this request cannot have that type of result.
    // `#[inline]` on every implementation, so that only crates that read results generate the code; a server reads
    // none.
    fn read(kind: ResultType, result: Raw<'_>) -> Result<Self, JsonError>;
}

/// The types of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResultType {
    /// A complete result.
    Complete,
    /// A request for input; the client sends the request again with the responses.
    InputRequired,
    /// A task, under which the result will be available (extension `io.modelcontextprotocol/tasks`).
    Task,
}

impl ResultType {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            ResultType::Complete => "complete",
            ResultType::InputRequired => "input_required",
            ResultType::Task => "task",
        }
    }

    /// The type a result names. An absent one is complete, as on older servers; an unknown one makes the response
    /// invalid.
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
    /// A result without members except `_meta`.
    #[derive(Default)]
    pub struct EmptyResult {
    }
    optional {
        /// Metadata, `_meta`.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

/// Implements `Output` for results that are always complete.
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

/// Fails unless the type is complete, for requests that allow no other.
pub(super) fn require_complete(kind: ResultType) -> Result<(), JsonError> {
    match kind {
        ResultType::Complete => Ok(()),
        other => {
            Err(JsonError::new(format!("this request cannot have a result of type `{}`", other.as_str())))
        }
    }
}

/// Fails unless the result is an object; `null` is not an empty object.
pub(super) fn require_object(result: Raw<'_>) -> Result<Raw<'_>, JsonError> {
    if result.is_object() { Ok(result) } else { Err(JsonError::new("the result is not an object")) }
}

complete!(EmptyResult);
has_meta!(EmptyResult);
