//! Whether a call of a tool is a task, may become one, or is refused.

use std::time::Duration;

use tsugite_core::protocol::tasks::EXTENSION;
use tsugite_core::protocol::tools::Call;
use tsugite_core::protocol::{ClientCapabilities, Object, TaskRequest, TaskSupport};
use tsugite_core::revision::{RpcError, read_params};

use super::caller_key::CallerKey;
use super::connection::ServerConnection;
use super::incoming_request::IncomingRequest;
use super::lazy_context::TaskRole;
use super::task_slot::TaskOffer;
use super::task_state::StoredCaller;
use super::tool::Tool;

/// The decision about a call.
pub(super) struct TaskDecision {
    pub(super) role: TaskRole,
    /// The record of the call, if it is or becomes a task.
    pub(super) offer: Option<TaskOffer>,
}

/// Decides whether a call is a task: by the wish of the client up to 2025-11-25, by the tool from 2026-07-28 on.
pub(super) fn decide(
    connection: &ServerConnection,
    request: IncomingRequest<'_>,
    name: &str,
    tool: &Tool,
) -> Result<TaskDecision, RpcError> {
    let offer = |ttl, after| offer(connection, request, (name, tool), ttl, after);
    let name = || tool.definition.name.clone();
    let required = || RpcError::TaskRequired { name: name() };
    let decision = |role, offer| Ok(TaskDecision { role, offer });
    if request.caller.resumed_task.is_some() {
        return decision(TaskRole::Task, Some(offer(None, None)));
    }
    if request.revision.has_core_tasks() && request.declared.tasks {
        let wish = read_params::<Call>(request.request.params(), request.revision)?.task;
        return match (tool.task, wish) {
            (TaskSupport::Forbidden, Some(_)) => Err(RpcError::TaskForbidden { name: name() }),
            (TaskSupport::Forbidden, None) => decision(TaskRole::Forbidden, None),
            (TaskSupport::Required, None) => Err(required()),
            (TaskSupport::Optional, None) => decision(TaskRole::Optional, None),
            (TaskSupport::Optional | TaskSupport::Required, Some(TaskRequest { ttl, .. })) => {
                decision(TaskRole::Task, Some(offer(ttl.map(Duration::from_millis), None)))
            }
        };
    }
    match (tool.task, supports_extension(request)) {
        (TaskSupport::Forbidden, _) => decision(TaskRole::Forbidden, None),
        (TaskSupport::Required, false) => Err(required()),
        (TaskSupport::Required, true) => decision(TaskRole::Task, Some(offer(None, None))),
        (TaskSupport::Optional, false) => decision(TaskRole::Optional, None),
        (TaskSupport::Optional, true) => {
            decision(TaskRole::Optional, Some(offer(None, connection.config.tasks.after)))
        }
    }
}

/// Whether the client declared the extension for tasks in this request.
pub(super) fn supports_extension(request: IncomingRequest<'_>) -> bool {
    request.revision.has_task_extension()
        && request.meta.declared_client().is_ok_and(|client| {
            client.capabilities.extensions.is_some_and(|extensions| extensions.contains_key(EXTENSION))
        })
}

/// The error for a request about tasks of a client that did not declare the extension.
pub(crate) fn missing_extension() -> RpcError {
    let extensions = Object::from_iter([(EXTENSION.to_owned(), Object::new().into())]);
    RpcError::MissingCapability { required: Box::new(ClientCapabilities::new().extensions(extensions)) }
}

fn offer(
    connection: &ServerConnection,
    request: IncomingRequest<'_>,
    (name, tool): (&str, &Tool),
    requested_ttl: Option<Duration>,
    after: Option<Duration>,
) -> TaskOffer {
    let snapshot = connection.snapshot().filter(|_| request.revision.has_core_tasks());
    TaskOffer {
        tool: name.to_owned(),
        scopes: tool.scopes.clone(),
        params: request.request.params().to_owned(),
        caller: request.principal().map(StoredCaller::new),
        counted_for: CallerKey::of_caller(request.caller),
        handshake: snapshot.map(|(_, params, level)| (params, level)),
        requested_ttl,
        is_restartable: tool.restartable,
        keeps_questions: tool.keeps_questions,
        after,
    }
}
