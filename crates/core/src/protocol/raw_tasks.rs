//! Tasks that are passed on from one revision to another: their payload stays raw, and capabilities change their form.

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::meta::{CLIENT_CAPABILITIES, ClientMeta, Meta, RELATED_TASK};
use super::mrtr::RawInputRequest;
use super::result::require_object;
use super::tasks::{EXTENSION, TaskRequest, TaskStatus};
use super::{
    ClientCapabilities, Object, OrderedMap, ServerCapabilities, TaskSupport, TasksCapability, ToolExecution,
};
use crate::jsonrpc::{ErrorObject, JsonError, Raw, RawJson};

/// The status of a task with its payload left raw.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RawTaskDetails {
    /// The status.
    pub status: TaskStatus,
    /// A description of the status.
    pub status_message: Option<String>,
    /// How many milliseconds the receiver keeps the task (extension).
    #[serde(default, with = "super::number::maybe_count")]
    pub ttl_ms: Option<u64>,
    /// The interval for polling in milliseconds (extension).
    #[serde(default, with = "super::number::maybe_count")]
    pub poll_interval_ms: Option<u64>,
    /// The same on 2025-11-25.
    #[serde(default, with = "super::number::maybe_count")]
    ttl: Option<u64>,
    #[serde(default, with = "super::number::maybe_count")]
    poll_interval: Option<u64>,
    /// The input requests (extension).
    pub input_requests: Option<OrderedMap<RawInputRequest>>,
    /// The result (extension).
    pub result: Option<RawJson>,
    /// The error (extension).
    pub error: Option<ErrorObject>,
}

impl RawTaskDetails {
    /// Reads a result of `tasks/get`, in either format.
    pub fn read(result: &RawJson) -> Result<Self, JsonError> {
        let mut details: Self = require_object(Raw::from(result))?.read()?;
        details.ttl_ms = details.ttl_ms.or(details.ttl);
        details.poll_interval_ms = details.poll_interval_ms.or(details.poll_interval);
        Ok(details)
    }
}

/// The members that the extension adds to a task by its status, left raw.
#[derive(Debug, Clone)]
pub enum RawTaskPayload {
    /// Nothing.
    None,
    /// The open input requests.
    InputRequests(OrderedMap<RawInputRequest>),
    /// The result of the call.
    Result(RawJson),
    /// The error of the call.
    Error(ErrorObject),
}

/// Sets the status of a task in a raw result, and the payload that the extension has for it.
pub fn set_task_payload(
    task: &mut OrderedMap<RawJson>,
    status: TaskStatus,
    payload: &RawTaskPayload,
) -> Result<(), JsonError> {
    task.insert("status", RawJson::from_value(&status)?);
    match payload {
        RawTaskPayload::None => {}
        RawTaskPayload::InputRequests(requests) => {
            task.insert("inputRequests", RawJson::from_value(requests)?);
        }
        RawTaskPayload::Result(result) => drop(task.insert("result", result.clone())),
        RawTaskPayload::Error(error) => drop(task.insert("error", RawJson::from_value(error)?)),
    }
    Ok(())
}

/// Sets the id of a task in raw params about it, or in a raw result that describes it.
pub fn set_task_id(message: &RawJson, id: &str) -> Result<RawJson, JsonError> {
    let mut members: OrderedMap<RawJson> = message.read()?;
    members.insert("taskId", RawJson::from_value(id)?);
    RawJson::from_value(&members)
}

/// Adds a request for a task to raw params (2025-11-25).
pub fn set_task_request(params: &mut OrderedMap<RawJson>, request: TaskRequest) -> Result<(), JsonError> {
    params.insert(TASK, RawJson::from_value(&request)?);
    Ok(())
}

/// Whether raw params request a task (2025-11-25).
pub fn has_task_request(params: &RawJson) -> bool {
    #[derive(Deserialize)]
    struct TaskMember {
        task: Option<IgnoredAny>,
    }
    // Most calls do not, and need not be read.
    params.text().contains(TASK) && params.read::<TaskMember>().is_ok_and(|params| params.task.is_some())
}

/// Removes from raw params what lets a call become a task: the request of 2025-11-25, and the extension among the
/// capabilities of the client.
pub fn withdraw_tasks(params: &mut OrderedMap<RawJson>) -> Result<(), JsonError> {
    params.remove(TASK);
    let Some(meta) = params.get("_meta").filter(|meta| meta.text().contains(EXTENSION)) else {
        return Ok(());
    };
    let mut meta: Meta = meta.read()?;
    if let Some(declared) = meta.get(CLIENT_CAPABILITIES) {
        let declared: ClientCapabilities = declared.read()?;
        meta.insert(CLIENT_CAPABILITIES, &declared.without_task_extension());
        params.insert("_meta", RawJson::from_value(&meta)?);
    }
    Ok(())
}

/// Puts the description of the client into the `_meta` of raw params, with the tasks extension.
pub fn declare_tasks(params: &mut OrderedMap<RawJson>, mut client: ClientMeta) -> Result<(), JsonError> {
    client.client_capabilities = client.client_capabilities.with_task_extension();
    let mut meta: Meta = params.get("_meta").map(RawJson::read).transpose()?.unwrap_or_default();
    meta.set_client_meta(&client);
    params.insert("_meta", RawJson::from_value(&meta)?);
    Ok(())
}

/// The task that a raw message belongs to (2025-11-25).
pub fn related_task(message: Raw<'_>) -> Option<String> {
    #[derive(Deserialize)]
    struct MetaMember {
        #[serde(rename = "_meta")]
        meta: Meta,
    }
    if !message.text().contains(RELATED_TASK) {
        return None;
    }
    message.read::<MetaMember>().ok()?.meta.related_task()
}

/// Says in a raw message to which task it belongs (2025-11-25); with `None`, that it belongs to none.
pub fn set_related_task(message: &RawJson, task_id: Option<&str>) -> Result<RawJson, JsonError> {
    let mut members: OrderedMap<RawJson> = message.read()?;
    let mut meta: Meta = members.get("_meta").map(RawJson::read).transpose()?.unwrap_or_default();
    match task_id {
        Some(id) => meta.set_related_task(id),
        None if meta.remove(RELATED_TASK).is_none() => return Ok(message.clone()),
        None => {}
    }
    match meta.is_empty() {
        true => drop(members.remove("_meta")),
        false => drop(members.insert("_meta", RawJson::from_value(&meta)?)),
    }
    RawJson::from_value(&members)
}

/// The member of params that requests a task, and of the result that has it.
const TASK: &str = "task";

impl ServerCapabilities {
    /// Whether calls of tools can be tasks, as 2025-11-25 declares it.
    pub fn has_task_calls(&self) -> bool {
        let requests = self.tasks.as_ref().and_then(|tasks| tasks.requests.as_ref());
        requests.and_then(|requests| requests.get("tools")).is_some_and(|tools| tools.get("call").is_some())
    }

    /// Whether the tasks extension is declared.
    pub fn has_task_extension(&self) -> bool {
        self.extensions.as_ref().is_some_and(|known| known.contains_key(EXTENSION))
    }

    /// Declares the tasks extension.
    #[must_use]
    pub fn with_task_extension(mut self) -> Self {
        self.extensions.get_or_insert_default().insert(EXTENSION.to_owned(), Object::new().into());
        self
    }

    /// Declares that calls of tools can be tasks, as 2025-11-25 has it: with cancellation and without a list.
    #[must_use]
    pub fn with_task_calls(mut self) -> Self {
        let call = Object::from_iter([("call".to_owned(), Object::new().into())]);
        let requests = Object::from_iter([("tools".to_owned(), call.into())]);
        self.tasks = Some(TasksCapability::new().cancel(Object::new()).requests(requests));
        self
    }
}

impl ClientCapabilities {
    /// Whether the tasks extension is declared.
    pub fn has_task_extension(&self) -> bool {
        self.extensions.as_ref().is_some_and(|known| known.contains_key(EXTENSION))
    }

    /// Declares the tasks extension.
    #[must_use]
    pub fn with_task_extension(mut self) -> Self {
        self.extensions.get_or_insert_default().insert(EXTENSION.to_owned(), Object::new().into());
        self
    }

    /// Declares no tasks extension.
    #[must_use]
    pub fn without_task_extension(mut self) -> Self {
        if let Some(known) = &mut self.extensions {
            known.shift_remove(EXTENSION);
        }
        self
    }
}

/// Marks each tool of a raw list as one whose calls can be tasks (2025-11-25), unless the tool says itself. `None` if the
/// list cannot be read.
pub fn offer_tasks(list: &RawJson) -> Option<RawJson> {
    let mut members: OrderedMap<RawJson> = list.read().ok()?;
    let mut tools: Vec<OrderedMap<RawJson>> = members.get("tools")?.read().ok()?;
    let execution = ToolExecution::new().task_support(TaskSupport::Optional);
    for tool in tools.iter_mut().filter(|tool| tool.get("execution").is_none()) {
        tool.insert("execution", RawJson::from_value(&execution).ok()?);
    }
    members.insert("tools", RawJson::from_value(&tools).ok()?);
    RawJson::from_value(&members).ok()
}
