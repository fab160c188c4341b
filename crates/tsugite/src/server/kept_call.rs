//! A call that outlives its process: while its handler waits for nothing but answers of the client, it is stored, and
//! another process can run the handler again with the answers so far.
//!
//! Only sessions over HTTP with a store that outlives the process have kept calls, up to 2025-11-25. From 2026-07-28 the
//! client carries the state of a call itself.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tsugite_core::jsonrpc::{ErrorObject, RawJson};

use super::ask_error::AskError;

/// Stores a call while it waits.
pub(crate) trait CallKeeper: Send + Sync {
    /// Stores that the handler waits for nothing but answers. Done before the client sees a question.
    fn store_waiting(self: Arc<Self>, call: WaitingCall) -> KeepFuture;

    /// Stores that the handler runs again. Done before it sees the answers, which have the ids of their questions. If
    /// another process has taken the call over, it gets the answers.
    fn store_running(self: Arc<Self>, answers: Vec<(String, KeptAnswer)>) -> KeepFuture;

    /// Whether a waiting call goes on elsewhere when its handler is dropped: this process stops, or has lost the call. If
    /// not, the call ends with its handler.
    fn goes_on_elsewhere(&self) -> bool;
}

/// The outcome of a [`CallKeeper`].
pub(crate) type KeepFuture = Pin<Box<dyn Future<Output = Result<(), KeepError>> + Send>>;

/// The reason why a call was not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeepError {
    /// Another process has taken the call over: it must not continue here.
    TakenOver,
    /// The call cannot be stored. It continues here.
    NotStored,
    /// The store failed: the call may be stored, now or later, and another process may take it over.
    Unknown,
}

/// A request that can be kept.
pub(crate) struct KeptRequest {
    pub(crate) keeper: Arc<dyn CallKeeper>,
    /// The answers so far, if another process began the call.
    pub(crate) resumed: Option<KeptHistory>,
    /// Whether the handler uses something that is not stored, or its author does not want it to run again.
    is_bound_to_request: AtomicBool,
}

impl KeptRequest {
    pub(crate) fn new(keeper: Arc<dyn CallKeeper>, resumed: Option<KeptHistory>) -> Arc<Self> {
        Arc::new(Self { keeper, resumed, is_bound_to_request: AtomicBool::new(false) })
    }

    /// Records that the handler cannot run again elsewhere.
    pub(crate) fn bind_to_request(&self) {
        self.is_bound_to_request.store(true, Ordering::Release);
    }

    pub(crate) fn can_be_kept(&self) -> bool {
        !self.is_bound_to_request.load(Ordering::Acquire)
    }
}

/// The questions, answers and results of `once` of a handler so far.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct KeptHistory {
    /// Answers by the key of their question.
    pub(crate) answers: HashMap<String, KeptAnswer>,
    /// Fingerprints of the questions that were first asked under keys of the handler.
    pub(crate) fingerprints: HashMap<String, String>,
    /// The results of `once`, by key.
    pub(crate) once_results: HashMap<String, RawJson>,
    /// Questions that the client has seen and not answered yet.
    pub(crate) questions: Vec<OpenQuestion>,
    /// Members of a later version, which are kept.
    #[serde(flatten)]
    pub(crate) rest: Map<String, Value>,
}

/// The outcome of a question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum KeptAnswer {
    Result(RawJson),
    Error(ErrorObject),
    TimedOut,
    /// The process stopped while the call was not stored.
    Closed,
}

impl KeptAnswer {
    /// The bytes that it takes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            KeptAnswer::Result(result) => result.text().len(),
            KeptAnswer::Error(error) => {
                error.message.len() + error.data.as_ref().map_or(0, |data| data.text().len())
            }
            KeptAnswer::TimedOut | KeptAnswer::Closed => 0,
        }
    }

    pub(crate) fn into_result(self) -> Result<RawJson, AskError> {
        match self {
            KeptAnswer::Result(result) => Ok(result),
            KeptAnswer::Error(error) => Err(AskError::ErrorResponse(error)),
            KeptAnswer::TimedOut => Err(AskError::TimedOut),
            KeptAnswer::Closed => Err(AskError::Closed),
        }
    }
}

/// A question that the client has not answered yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OpenQuestion {
    pub(crate) key: String,
    /// The id of the request that carries it.
    pub(crate) id: String,
    /// Until when an answer counts, in milliseconds since 1970.
    pub(crate) deadline_millis: u64,
    /// Members of a later version, which are kept.
    #[serde(flatten)]
    pub(crate) rest: Map<String, Value>,
}

/// A call whose handler waits for nothing but answers.
#[derive(Debug, Clone)]
pub(crate) struct WaitingCall {
    pub(crate) method: String,
    pub(crate) params: RawJson,
    pub(crate) history: KeptHistory,
}
