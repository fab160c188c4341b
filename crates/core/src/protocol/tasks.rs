//! Tasks: requests whose result is fetched later.
//!
//! 2025-11-25 has them in its core, 2026-07-28 as the extension [`EXTENSION`], in other shapes. The types here are the
//! extension's; [`crate::revision`] selects the format for an older peer, and both formats are accepted.

use serde::de::Error as _;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::mrtr::{InputRequests, InputResponses};
use super::pagination::PaginatedParams;
use super::result::{EmptyResult, complete, require_complete, require_object};
use super::wire::{has_meta, method, notification, string_enum, wire};
use super::{HasMeta, Meta, OrderedMap, Output, ResultType, map_only};
use crate::jsonrpc::{ErrorObject, JsonError, Raw, RawJson};

method! {
    /// Gets the status of a task, and its result once there is one.
    Get = "tasks/get", TaskParams => GetResult {
        fn subject(params: &TaskParams) -> Option<&str> {
            Some(&params.task_id)
        }
    }
}

method! {
    /// Cancels a task.
    Cancel = "tasks/cancel", TaskParams => CancelResult {
        fn subject(params: &TaskParams) -> Option<&str> {
            Some(&params.task_id)
        }
    }
}

method! {
    /// Responds to the input requests of a task (extension).
    Update = "tasks/update", UpdateParams => EmptyResult {
        fn subject(params: &UpdateParams) -> Option<&str> {
            Some(&params.task_id)
        }
    }
}

method! {
    /// Waits for the result of a task (2025-11-25 only).
    Payload = "tasks/result", TaskParams => PayloadResult {
        fn subject(params: &TaskParams) -> Option<&str> {
            Some(&params.task_id)
        }
    }
}

method! {
    /// Lists the tasks (2025-11-25 only).
    List = "tasks/list", PaginatedParams => ListResult
}

notification! {
    /// The status of a task has changed (2025-11-25 only).
    StatusChanged = "notifications/tasks/status", StatusParams
}

notification! {
    /// The status of a task has changed (extension, on a subscription that names it).
    TaskChanged = "notifications/tasks", GetResult
}

/// The identifier of the extension.
pub const EXTENSION: &str = "io.modelcontextprotocol/tasks";

string_enum! {
    /// The status of a task.
    pub enum TaskStatus {
        /// The task is running.
        Working = "working",
        /// The task waits for input.
        InputRequired = "input_required",
        /// The task has its result.
        Completed = "completed",
        /// The task has an error.
        Failed = "failed",
        /// The task was cancelled.
        Cancelled = "cancelled",
    }
}

/// A task.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Task {
    /// The id.
    pub task_id: String,
    /// The status.
    pub status: TaskStatus,
    /// A description of the status.
    pub status_message: Option<String>,
    /// The time of creation, ISO 8601.
    pub created_at: String,
    /// The time of the last change of its status, ISO 8601.
    pub last_updated_at: String,
    /// How many milliseconds after its creation it is kept; `None` is forever.
    pub ttl_ms: Option<u64>,
    /// The interval for polling, in milliseconds.
    pub poll_interval_ms: Option<u64>,
    pub(crate) format: TaskFormat,
}

/// The format a task is written in: the one it was read in, until [`crate::revision`] sets another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum TaskFormat {
    /// `ttlMs`, `pollIntervalMs`; the result that creates a task is flat.
    #[default]
    Extension,
    /// `ttl`, `pollInterval`; the result that creates a task nests it.
    Core,
}

impl Task {
    /// A task that is kept forever, unless `ttl_ms` is set.
    pub fn new(
        task_id: impl Into<String>,
        status: TaskStatus,
        created_at: impl Into<String>,
        last_updated_at: impl Into<String>,
    ) -> Self {
        Self {
            task_id: task_id.into(),
            status,
            status_message: None,
            created_at: created_at.into(),
            last_updated_at: last_updated_at.into(),
            ttl_ms: None,
            poll_interval_ms: None,
            format: TaskFormat::default(),
        }
    }
}

/// The status of a task, with its result, error or input requests.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct GetResult {
    /// The task.
    pub task: Task,
    /// The result, if completed (extension).
    pub result: Option<RawJson>,
    /// The error, if failed (extension).
    pub error: Option<ErrorObject>,
    /// The input requests, if it waits for input (extension).
    pub input_requests: Option<InputRequests>,
    /// Metadata, `_meta`.
    pub meta: Option<Meta>,
}

impl GetResult {
    /// A task without a result yet.
    pub fn new(task: Task) -> Self {
        Self { task, result: None, error: None, input_requests: None, meta: None }
    }
}

/// The result of a request that has become a task.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct CreateTaskResult {
    /// The task.
    pub task: Task,
    /// Metadata, `_meta`.
    pub meta: Option<Meta>,
}

impl CreateTaskResult {
    /// The result for `task`.
    pub fn new(task: Task) -> Self {
        Self { task, meta: None }
    }
}

/// The result of a cancellation.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct CancelResult {
    /// The task after the cancellation (2025-11-25 only, and required there).
    pub task: Option<Task>,
    /// Metadata, `_meta`.
    pub meta: Option<Meta>,
}

/// The status of a task (2025-11-25 only).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct StatusParams {
    /// The task.
    pub task: Task,
    /// Metadata, `_meta`.
    pub meta: Option<Meta>,
}

impl StatusParams {
    /// The status of `task`.
    pub fn new(task: Task) -> Self {
        Self { task, meta: None }
    }
}

wire! {
    /// Requests that a request becomes a task (2025-11-25 only).
    #[derive(Default, Copy, Eq)]
    pub struct TaskRequest {
    }
    optional {
        /// How many milliseconds to keep it.
        #[serde(with = "super::number::maybe_count")]
        ttl: u64,
    }
}

wire! {
    /// The id of a task.
    pub struct TaskParams {
        /// The id.
        task_id: String,
    }
    optional {
        /// Metadata, `_meta`.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

wire! {
    /// Responses to the input requests of a task.
    pub struct UpdateParams {
        /// The id of the task.
        task_id: String,
        /// The responses.
        input_responses: InputResponses,
    }
    optional {
        /// Metadata, `_meta`.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

wire! {
    /// One page of tasks (2025-11-25 only).
    pub struct ListResult {
        /// The tasks.
        tasks: Vec<Task>,
    }
    optional {
        /// The cursor of the next page; absent on the last page.
        next_cursor: String,
        /// Metadata, `_meta`.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

/// The result of the request that became a task, as the peer's revision writes it (2025-11-25 only).
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct PayloadResult {
    /// The members.
    pub members: OrderedMap<RawJson>,
    /// Metadata, `_meta`; contains the task under [`RELATED_TASK`](super::meta::RELATED_TASK).
    pub meta: Option<Meta>,
}

impl Serialize for PayloadResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in self.members.iter() {
            map.serialize_entry(name, value)?;
        }
        if let Some(meta) = &self.meta {
            map.serialize_entry("_meta", meta)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for PayloadResult {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut members = OrderedMap::<RawJson>::deserialize(deserializer)?;
        let meta = members.remove("_meta").map(|meta| meta.read()).transpose();
        Ok(Self { members, meta: meta.map_err(D::Error::custom)? })
    }
}

/// The members of all these types, in both formats.
#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TaskWire {
    // Raw, so that tasks do not nest.
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<RawJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<TaskStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status_message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    created_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_updated_at: Option<String>,
    // `null` is forever and must be written; absent means the other format.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "deserialize_nullable")]
    ttl_ms: Option<Option<u64>>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "deserialize_nullable")]
    ttl: Option<Option<u64>>,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "super::number::maybe_count")]
    poll_interval_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "super::number::maybe_count")]
    poll_interval: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<RawJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorObject>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_requests: Option<InputRequests>,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<Meta>,
}

fn deserialize_nullable<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<u64>>, D::Error> {
    super::number::maybe_count::deserialize(deserializer).map(Some)
}

impl TaskWire {
    fn from_task(task: &Task) -> Self {
        let mut wire = Self {
            task_id: Some(task.task_id.clone()),
            status: Some(task.status),
            status_message: task.status_message.clone(),
            created_at: Some(task.created_at.clone()),
            last_updated_at: Some(task.last_updated_at.clone()),
            ..Self::default()
        };
        match task.format {
            TaskFormat::Extension => {
                (wire.ttl_ms, wire.poll_interval_ms) = (Some(task.ttl_ms), task.poll_interval_ms)
            }
            TaskFormat::Core => (wire.ttl, wire.poll_interval) = (Some(task.ttl_ms), task.poll_interval_ms),
        }
        wire
    }

    /// Takes the members of the task out.
    fn task<E: serde::de::Error>(&mut self) -> Result<Task, E> {
        let need = |name| move || E::missing_field(name);
        let spelling = match (self.ttl_ms, self.ttl) {
            (None, Some(_)) => TaskFormat::Core,
            _ => TaskFormat::Extension,
        };
        Ok(Task {
            task_id: self.task_id.take().ok_or_else(need("taskId"))?,
            status: self.status.ok_or_else(need("status"))?,
            status_message: self.status_message.take(),
            created_at: self.created_at.take().ok_or_else(need("createdAt"))?,
            last_updated_at: self.last_updated_at.take().ok_or_else(need("lastUpdatedAt"))?,
            ttl_ms: self.ttl_ms.or(self.ttl).flatten(),
            poll_interval_ms: self.poll_interval_ms.or(self.poll_interval),
            format: spelling,
        })
    }
}

impl Serialize for Task {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        TaskWire::from_task(self).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Task {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        map_only::deserialize_map::<TaskWire, D>(deserializer)?.task()
    }
}

impl Serialize for GetResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut wire = TaskWire::from_task(&self.task);
        wire.result = self.result.clone();
        wire.error = self.error.clone();
        wire.input_requests = self.input_requests.clone();
        wire.meta = self.meta.clone();
        wire.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for GetResult {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut wire = map_only::deserialize_map::<TaskWire, D>(deserializer)?;
        Ok(Self {
            task: wire.task()?,
            result: wire.result,
            error: wire.error,
            input_requests: wire.input_requests,
            meta: wire.meta,
        })
    }
}

impl Serialize for CreateTaskResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut wire = match self.task.format {
            TaskFormat::Extension => TaskWire::from_task(&self.task),
            TaskFormat::Core => {
                let task = RawJson::from_value(&self.task).map_err(serde::ser::Error::custom)?;
                TaskWire { task: Some(task), ..TaskWire::default() }
            }
        };
        wire.meta = self.meta.clone();
        wire.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for CreateTaskResult {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut wire = map_only::deserialize_map::<TaskWire, D>(deserializer)?;
        let task = match wire.task.take() {
            Some(task) => Task { format: TaskFormat::Core, ..task.read().map_err(D::Error::custom)? },
            None => wire.task()?,
        };
        Ok(Self { task, meta: wire.meta })
    }
}

impl Serialize for CancelResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut wire = self.task.as_ref().map(TaskWire::from_task).unwrap_or_default();
        wire.meta = self.meta.clone();
        wire.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for CancelResult {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut wire = map_only::deserialize_map::<TaskWire, D>(deserializer)?;
        let task = if wire.task_id.is_some() { Some(wire.task()?) } else { None };
        Ok(Self { task, meta: wire.meta })
    }
}

impl Serialize for StatusParams {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut wire = TaskWire::from_task(&self.task);
        wire.meta = self.meta.clone();
        wire.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for StatusParams {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut wire = map_only::deserialize_map::<TaskWire, D>(deserializer)?;
        if wire.status.is_none() {
            return Err(D::Error::missing_field("status"));
        }
        Ok(Self { task: wire.task()?, meta: wire.meta })
    }
}

/// The extension's own examples have the type `task` here too, although its text requires `complete`.
impl Output for GetResult {
    #[inline]
    fn read(kind: ResultType, result: Raw<'_>) -> Result<Self, JsonError> {
        match kind {
            ResultType::Complete | ResultType::Task => require_object(result)?.read(),
            other => require_complete(other).and(Err(JsonError::new("not a task"))),
        }
    }
}

/// A result, or a task: a request of the server can become a task of the client (2025-11-25).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum MaybeTask<T> {
    /// The complete result.
    Complete(T),
    /// A task under which the result will be available.
    Task(CreateTaskResult),
}

impl<T> From<T> for MaybeTask<T> {
    fn from(answer: T) -> Self {
        MaybeTask::Complete(answer)
    }
}

impl<T: Output> Output for MaybeTask<T> {
    fn result_type(&self) -> ResultType {
        match self {
            MaybeTask::Complete(answer) => answer.result_type(),
            MaybeTask::Task(_) => ResultType::Task,
        }
    }

    #[inline]
    fn read(kind: ResultType, result: Raw<'_>) -> Result<Self, JsonError> {
        match kind {
            ResultType::Task => require_object(result)?.read().map(MaybeTask::Task),
            other => T::read(other, result).map(MaybeTask::Complete),
        }
    }
}

impl<T: Serialize> Serialize for MaybeTask<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            MaybeTask::Complete(answer) => answer.serialize(serializer),
            MaybeTask::Task(task) => task.serialize(serializer),
        }
    }
}

impl<T: HasMeta> HasMeta for MaybeTask<T> {
    fn meta(&self) -> Option<&Meta> {
        match self {
            MaybeTask::Complete(answer) => answer.meta(),
            MaybeTask::Task(task) => task.meta.as_ref(),
        }
    }

    fn meta_mut(&mut self) -> &mut Option<Meta> {
        match self {
            MaybeTask::Complete(answer) => answer.meta_mut(),
            MaybeTask::Task(task) => &mut task.meta,
        }
    }
}

complete!(CancelResult, PayloadResult, ListResult);
has_meta!(GetResult, CancelResult, StatusParams, TaskParams, UpdateParams, PayloadResult, ListResult);
