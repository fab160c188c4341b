//! The record of a task: the call, which never changes, and the state.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tsugite_core::jsonrpc::{ErrorObject, RawJson};
use tsugite_core::protocol::TaskStatus;
use tsugite_core::protocol::logging::Level;
use tsugite_core::protocol::mrtr::{InputRequest, InputRequests};
use tsugite_core::protocol::tasks::{GetResult, Task};
use tsugite_core::revision::Revision;

use super::super::kept_call::KeptAnswer;
use super::timestamp::{iso_8601, now_millis};
use crate::replica::OtherMembers;
use crate::shared::principal::{CallerIdentity, Principal};

/// The call that became a task. Written once.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct TaskCall {
    /// The id of the task.
    pub(crate) id: String,
    /// The name that the client called.
    pub(crate) tool: String,
    /// The scopes that the tool needed.
    pub(crate) scopes: Vec<String>,
    /// The params as the client sent them.
    pub(crate) params: RawJson,
    /// The revision of the request, as its name.
    pub(crate) revision: String,
    pub(crate) caller: Option<StoredCaller>,
    /// The params of the handshake, and the log level, where there is a handshake.
    pub(crate) handshake: Option<(RawJson, Level)>,
    pub(crate) created_millis: u64,
    pub(crate) ttl_millis: u64,
    pub(crate) poll_interval_millis: u64,
}

/// A caller without its token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredCaller {
    #[serde(flatten)]
    pub(crate) identity: CallerIdentity,
    scopes: Vec<String>,
}

impl StoredCaller {
    pub(crate) fn new(principal: &Principal) -> Self {
        Self { identity: principal.identity(), scopes: principal.scopes().to_vec() }
    }

    /// The caller as it was when the task was created.
    pub(crate) fn principal(&self) -> Principal {
        self.identity.to_principal().with_scopes(self.scopes.clone())
    }
}

/// The part of a task that changes. Each write replaces the version that its writer has read.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct TaskState {
    pub(crate) status: TaskStatus,
    pub(crate) message: Option<String>,
    pub(crate) updated_millis: u64,
    /// The process that runs the task.
    pub(crate) runner: String,
    /// Whether another process may run the handler again.
    pub(crate) can_run_again: bool,
    /// Open questions, in the order in which they were asked.
    pub(crate) questions: Vec<TaskQuestion>,
    pub(crate) answers: HashMap<String, KeptAnswer>,
    /// Fingerprints of the questions that were first asked under keys of the handler.
    pub(crate) fingerprints: HashMap<String, String>,
    /// How many of the answers the handler had when it last asked.
    pub(crate) delivered_answers: usize,
    /// The steps of `once`, by key.
    pub(crate) once: HashMap<String, OnceStep>,
    pub(crate) outcome: Option<TaskOutcome>,
    /// Members of a later version, which are kept.
    #[serde(flatten)]
    pub(crate) other: OtherMembers,
}

/// A question without an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct TaskQuestion {
    pub(crate) key: String,
    pub(crate) request: InputRequest,
}

/// How far a step of `once` has come.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OnceStep {
    /// Its work was started. It may have run, in part or as a whole.
    Begun,
    /// Its work returned this value.
    Value(RawJson),
}

/// How a task ended, unless it was cancelled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TaskOutcome {
    /// The result of the call, as its revision writes it.
    Result(RawJson),
    Error(ErrorObject),
}

impl TaskState {
    /// The state of a new task that `runner` is about to run.
    pub(crate) fn new(runner: &str, created_millis: u64) -> Self {
        Self {
            status: TaskStatus::Working,
            message: None,
            updated_millis: created_millis,
            runner: runner.to_owned(),
            can_run_again: false,
            questions: Vec::new(),
            answers: HashMap::new(),
            fingerprints: HashMap::new(),
            delivered_answers: 0,
            once: HashMap::new(),
            outcome: None,
            other: OtherMembers::default(),
        }
    }

    /// Whether the status never changes again.
    pub(crate) fn is_final(&self) -> bool {
        match self.status {
            TaskStatus::Completed | TaskStatus::Failed | TaskStatus::Cancelled => true,
            TaskStatus::Working | TaskStatus::InputRequired => false,
        }
    }

    /// Ends the task.
    pub(crate) fn end(&mut self, status: TaskStatus, message: Option<String>, outcome: Option<TaskOutcome>) {
        self.status = status;
        self.set_message(message);
        self.outcome = outcome;
        self.can_run_again = false;
        // Nothing reads them any more, and the result may need the room.
        self.questions.clear();
        self.answers.clear();
        self.fingerprints.clear();
        self.once.clear();
    }

    /// Sets the text that describes the status.
    pub(crate) fn set_message(&mut self, message: Option<String>) {
        self.message = message.map(|text| shorten(&text));
    }

    /// Ends the task with an error.
    pub(crate) fn fail(&mut self, error: ErrorObject) {
        let message = error.message.to_string();
        self.end(TaskStatus::Failed, Some(message), Some(TaskOutcome::Error(error)));
    }

    /// Sets the status that the open questions imply.
    pub(crate) fn update_status(&mut self) {
        self.status = match self.questions.is_empty() {
            true => TaskStatus::Working,
            false => TaskStatus::InputRequired,
        };
    }

    /// Answers an open question. Returns false if it is not open.
    pub(crate) fn answer(&mut self, key: &str, answer: KeptAnswer) -> bool {
        let Some(at) = self.questions.iter().position(|question| question.key == key) else { return false };
        let question = self.questions.remove(at);
        self.answers.insert(question.key, answer);
        self.update_status();
        true
    }
}

/// A task as it was read from the store.
#[derive(Debug, Clone)]
pub(crate) struct StoredTask {
    pub(crate) call: Arc<TaskCall>,
    pub(crate) state: TaskState,
    /// The version of the state.
    pub(crate) version: u64,
}

/// The part of a task's state that clients can see, to compare two states of one task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VisibleState {
    status: TaskStatus,
    message: Option<String>,
    updated_millis: u64,
    /// The keys of the open questions.
    questions: Vec<String>,
}

impl StoredTask {
    pub(crate) fn revision(&self) -> Option<Revision> {
        self.call.revision.parse().ok()
    }

    /// The task as a client sees it.
    pub(crate) fn task(&self) -> Task {
        let (call, state) = (&self.call, &self.state);
        let (created, updated) = (iso_8601(call.created_millis), iso_8601(state.updated_millis));
        let mut task = Task::new(call.id.clone(), state.status, created, updated);
        task.status_message.clone_from(&state.message);
        task.ttl_ms = Some(call.ttl_millis);
        task.poll_interval_ms = Some(call.poll_interval_millis);
        task
    }

    /// The part of the state that a client can see, apart from the outcome, which comes with a final status.
    pub(crate) fn visible(&self) -> VisibleState {
        let TaskState { status, message, updated_millis, questions, .. } = &self.state;
        let questions = questions.iter().map(|question| question.key.clone()).collect();
        VisibleState { status: *status, message: message.clone(), updated_millis: *updated_millis, questions }
    }

    /// The task with its result, error or input requests.
    pub(crate) fn details(&self) -> GetResult {
        let mut details = GetResult::new(self.task());
        match &self.state.outcome {
            Some(TaskOutcome::Result(result)) => details.result = Some(result.clone()),
            Some(TaskOutcome::Error(error)) => details.error = Some(error.clone()),
            None => {}
        }
        if self.state.status == TaskStatus::InputRequired {
            let requests = self.state.questions.iter();
            let requests: InputRequests =
                requests.map(|question| (question.key.clone(), question.request.clone())).collect();
            details.input_requests = Some(requests);
        }
        details
    }
}

impl TaskCall {
    /// How long the task is kept from now on; `None` if its time is over.
    pub(crate) fn remaining_ttl(&self) -> Option<Duration> {
        let ends = self.created_millis.saturating_add(self.ttl_millis);
        let left = Duration::from_millis(ends.saturating_sub(now_millis()));
        (!left.is_zero()).then_some(left)
    }
}

/// Cuts a text for people to a length that a status needs.
fn shorten(text: &str) -> String {
    match text.char_indices().nth(MAX_MESSAGE_CHARS) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}

const MAX_MESSAGE_CHARS: usize = 500;
