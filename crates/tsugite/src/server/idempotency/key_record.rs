//! The record of a key: the call that it belongs to, and how far that call has come.

use serde::{Deserialize, Serialize};

use super::keyed_call::KeyedCall;
use crate::replica::OtherMembers;

/// The record of a key. The outcome of the call is a field of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KeyRecord {
    pub(super) tool: String,
    pub(super) payload: String,
    /// The revision in which the outcome is written.
    pub(super) revision: String,
    /// The round of the first request.
    pub(super) first_round: String,
    /// The round that runs, or that the outcome belongs to.
    pub(super) round: String,
    pub(super) state: KeyState,
    #[serde(flatten)]
    pub(super) other: OtherMembers,
}

/// How far a call has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum KeyState {
    /// Its handler runs in a process, or ran when that ended.
    Running { process: String },
    /// Its handler was stopped before it had an outcome.
    Stopped,
    /// It waits for the next round, whose `requestState` has this digest.
    InputRequired { next: String },
    /// It has a result.
    Done,
    /// It ended with an error of the protocol.
    Failed,
}

impl KeyRecord {
    /// The record of a call that `process` is about to run.
    pub(super) fn running(call: &KeyedCall, previous: Option<&KeyRecord>, process: &str) -> Self {
        Self {
            tool: call.tool.clone(),
            payload: call.payload.clone(),
            revision: call.revision.as_str().to_owned(),
            first_round: previous.map_or_else(|| call.round.clone(), |record| record.first_round.clone()),
            round: call.round.clone(),
            state: KeyState::Running { process: process.to_owned() },
            other: previous.map(|record| record.other.clone()).unwrap_or_default(),
        }
    }
}
