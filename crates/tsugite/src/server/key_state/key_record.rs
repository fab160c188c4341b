//! The record of a key: the call that it belongs to, and how far that call has come.

use serde::{Deserialize, Serialize};

use crate::replica::OtherMembers;

/// The record of a key. The outcome of the call is a field of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeyRecord {
    pub(crate) tool: String,
    /// A digest of what the key is bound to besides the tool.
    pub(crate) payload: String,
    /// The round of the first request.
    pub(crate) first_round: String,
    /// The round that runs, or that the outcome belongs to.
    pub(crate) round: String,
    pub(crate) state: KeyState,
    #[serde(flatten)]
    pub(crate) other: OtherMembers,
}

/// How far a call has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum KeyState {
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
