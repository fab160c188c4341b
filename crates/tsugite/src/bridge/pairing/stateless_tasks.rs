//! Tasks of a server of 2025-11-25 for a client of 2026-07-28 that declared the extension.
//!
//! - A call of a tool that can run as a task asks for one; the result that creates the task is translated.
//! - `tasks/get` becomes `tasks/get`, and `tasks/result` once the task has ended: its result or error is part of the
//!   answer. The questions of the task arrive while `tasks/result` waits, and are part of the answer too.
//! - `tasks/update` answers these questions. `tasks/cancel` is forwarded, and also acknowledged after the end.
//! - `notifications/tasks` on listen streams is made from polls, at the interval of the server.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tsugite_core::jsonrpc::code::{INVALID_PARAMS, METHOD_NOT_FOUND};
use tsugite_core::jsonrpc::{Raw, RawJson};
use tsugite_core::protocol::raw_tasks::{
    RawTaskDetails, RawTaskPayload, set_related_task, set_task_id, set_task_payload, set_task_request,
};
use tsugite_core::protocol::tasks::{Cancel, CreateTaskResult, Get, Payload, TaskChanged, Update};
use tsugite_core::protocol::tools::Call;
use tsugite_core::protocol::{
    ClientCapabilities, Method, NotificationMethod, OrderedMap, ResultType, Task, TaskParams, TaskRequest,
    TaskStatus, TaskSupport,
};
use tsugite_core::revision::{Revision, RpcError, read_params, translate_raw_params};

use super::{LeasedRequest, translate_result};
use crate::bridge::bridge_errors::{malformed_task_error, passing_failure, unsupported_error};
use crate::bridge::bridged_tasks::{BridgedTask, BridgedTasks, TaskForm, TaskRoom, check_task_id};
use crate::bridge::client_request::{ReplyTarget, parse_request_meta};
use crate::bridge::core_task::CoreTask;
use crate::bridge::in_flight::InFlightCall;
use crate::bridge::notification_encoding::{encode_notification, set_subscription_id};
use crate::bridge::suspendable_call::SuspendableCall;
use crate::bridge::suspension_slots::SuspensionClaim;
use crate::bridge::task_poll::{is_final, poll_interval};
use crate::bridge::upstream::Upstream;
use crate::client::forwarded_request::ForwardedRequest;
use crate::server::layer::RequestParts;
use crate::server::limits::CallerKey;
use crate::server::task_offer::missing_extension;
use crate::server::tasks::unknown_task;
use crate::shared::seal::random_id;

/// Whether the method is about a task.
pub(super) fn is_about_a_task(method: &str) -> bool {
    [Get::NAME, Update::NAME, Cancel::NAME].contains(&method)
}

/// The params of a call with a request for a task, the revision they are written in, and room for the task. `None` if the call
/// is an ordinary one: the server has no tasks, the tool never runs as one, or it need not and there is no room for a task.
pub(super) async fn request_task<'a>(
    upstream: &Upstream,
    params: &RawJson,
    from: Revision,
    reserve: impl FnOnce() -> Result<TaskRoom<'a>, RpcError>,
) -> Result<Option<(RawJson, Revision, TaskRoom<'a>)>, RpcError> {
    if !offers_tasks(upstream).await? {
        return Ok(None);
    }
    let support = tool_support(upstream, params).await?;
    if support == TaskSupport::Forbidden {
        return Ok(None);
    }
    let room = match reserve() {
        Ok(room) => room,
        Err(_) if support == TaskSupport::Optional => return Ok(None),
        Err(error) => return Err(error),
    };
    let to = upstream.connected_client().await?.revision();
    let params = translate_raw_params(Call::NAME, Raw::from(params), from, to)
        .map_err(|error| unsupported_error(&error, Call::NAME))?;
    let mut members: OrderedMap<RawJson> = params.read().map_err(|error| RpcError::invalid_params(&error))?;
    set_task_request(&mut members, TaskRequest::default()).map_err(|_| RpcError::Internal)?;
    Ok(Some((RawJson::from_value(&members).map_err(|_| RpcError::Internal)?, to, room)))
}

/// Whether calls of tools can be tasks. Several servers behind one bridge have none.
async fn offers_tasks(upstream: &Upstream) -> Result<bool, RpcError> {
    let offered = upstream.connected_client().await?.server_capabilities();
    Ok(upstream.target.prefix.is_none() && offered.is_some_and(|offered| offered.has_task_calls()))
}

/// Whether the tool of a call runs as a task.
async fn tool_support(upstream: &Upstream, params: &RawJson) -> Result<TaskSupport, RpcError> {
    let meta = parse_request_meta(params)?;
    match meta.mcp_name(Call::NAME) {
        Some(Some(name)) => Ok(upstream.connected_client().await?.task_support(name).await),
        _ => Ok(TaskSupport::Forbidden),
    }
}

/// The error of a call as its client knows it: it is told which extension it lacks if the tool runs only as a task.
pub(super) async fn explain_error(
    upstream: &Upstream,
    params: &RawJson,
    declared: &ClientCapabilities,
    error: RpcError,
) -> RpcError {
    let is_refusal = matches!(&error, RpcError::Forwarded(error) if error.code == METHOD_NOT_FOUND);
    if !is_refusal || declared.has_task_extension() || !offers_tasks(upstream).await.unwrap_or(false) {
        return error;
    }
    match tool_support(upstream, params).await {
        Ok(TaskSupport::Required) => missing_extension(),
        _ => error,
    }
}

/// A call that may have become a task.
pub(super) struct CreatedTask<'a> {
    pub(super) room: TaskRoom<'a>,
    pub(super) upstream: &'a Arc<Upstream>,
    pub(super) capabilities: ClientCapabilities,
    pub(super) revision: Revision,
    pub(super) claim: Option<SuspensionClaim>,
    /// How long the task holds its connection for a client that does not poll.
    pub(super) ttl: Duration,
}

impl CreatedTask<'_> {
    /// Registers the task for the caller that gets this result, if it is one, and returns the result with the id of the
    /// bridge. Fails if the id of the server is too long; the task is cancelled then.
    pub(super) async fn register(self, result: RawJson) -> Result<RawJson, RpcError> {
        if !matches!(ResultType::from_result(Raw::from(&result)), Ok(ResultType::Task)) {
            return Ok(result);
        }
        let Ok(CreateTaskResult { task, .. }) = result.read() else { return Ok(result) };
        let (upstream, id) = (Arc::clone(self.upstream), task.task_id.clone());
        let registered = self.register_task(task, &result);
        if registered.is_err()
            && let Ok(client) = upstream.connected_client().await
            && let Err(error) = client.cancel_task(id).await
        {
            tracing::debug!(%error, "a task that its client cannot have was not cancelled");
        }
        registered
    }

    fn register_task(self, task: Task, result: &RawJson) -> Result<RawJson, RpcError> {
        check_task_id(&task.task_id, &self.upstream.target)?;
        let questions = Arc::new(SuspendableCall::new(self.capabilities, self.revision));
        let id = random_id().ok_or(RpcError::Internal)?;
        let named = set_task_id(result, &id).map_err(|_| malformed_task_error(&self.upstream.target))?;
        let core = CoreTask::new(task.task_id, self.upstream, questions, self.claim, self.ttl);
        let ttl = task.ttl_ms.map(Duration::from_millis);
        self.room.insert(BridgedTask::new(id, TaskForm::Core(core), ttl));
        Ok(named)
    }
}

/// Answers a request about a task.
pub(super) async fn forward(request: LeasedRequest<'_>) -> Result<RawJson, RpcError> {
    let LeasedRequest { tasks, lease, method, params, job, reply_target, .. } = request;
    if !offers_tasks(&lease.upstream).await? {
        return Err(RpcError::MethodNotFound { method: method.to_owned() });
    }
    let declared = parse_request_meta(&job.params)?.declared_client()?.capabilities;
    if !declared.has_task_extension() {
        return Err(missing_extension());
    }
    let id = read_params::<Get>(Raw::from(&*params), job.revision)?.task_id;
    let task = tasks.find(CallerKey::of_caller(&job.caller).as_ref(), &id)?;
    let TaskForm::Core(core) = &task.form else { return Err(unknown_task()) };
    let upstream = core.upstream(&lease.upstream);
    let params = set_task_id(&params, &core.id).map_err(|error| RpcError::invalid_params(&error))?;
    let call = InFlightCall::new(job.revision, reply_target);
    let reader = TaskReader { id: &id, core, upstream: &upstream, call };
    match method {
        Update::NAME => {
            let answers = read_params::<Update>(Raw::from(&params), job.revision)?.input_responses;
            core.questions.resolve_inputs(&answers);
            let from = upstream.connected_client().await?.revision();
            translate_result(&upstream, method, &RawJson::empty_object(), from, job.revision)
        }
        Cancel::NAME => reader.cancel(&params, job.revision).await,
        _ => {
            let (details, from) = reader.read(&params, job.revision).await?;
            translate_result(&upstream, method, &details, from, job.revision)
        }
    }
}

/// The tasks that a client wants to hear of and may see. Fails if it did not declare the extension.
pub(in crate::bridge) fn subscribed_tasks(
    tasks: &BridgedTasks,
    upstream: &Upstream,
    ids: &[String],
    job: &RequestParts,
) -> Result<Vec<Arc<BridgedTask>>, RpcError> {
    if !parse_request_meta(&job.params)?.declared_client()?.capabilities.has_task_extension() {
        return Err(missing_extension());
    }
    if upstream.target.prefix.is_some() {
        return Ok(Vec::new());
    }
    let caller = CallerKey::of_caller(&job.caller);
    let mut found: Vec<_> = ids.iter().filter_map(|id| tasks.find(caller.as_ref(), id).ok()).collect();
    found.sort_by(|one, other| one.id.cmp(&other.id));
    found.dedup_by(|one, other| one.id == other.id);
    Ok(found)
}

/// Sends the status of a task to a subscriber whenever it has changed, until the task has ended.
pub(in crate::bridge) async fn push_changes(
    task: Arc<BridgedTask>,
    leased: Arc<Upstream>,
    target: &ReplyTarget,
    revision: Revision,
) {
    let TaskForm::Core(core) = &task.form else { return };
    let Ok(params) = RawJson::from_value(&TaskParams::new(core.id.clone())) else { return };
    let (mut sent, mut failures) = (None, 0);
    loop {
        let upstream = core.upstream(&leased);
        let call = InFlightCall::of_task(revision, None);
        let reader = TaskReader { id: &task.id, core, upstream: &upstream, call };
        let interval = match reader.read(&params, revision).await {
            Ok((details, from)) => {
                failures = 0;
                let Ok(read) = RawTaskDetails::read(&details) else { return };
                if sent.as_ref() != Some(&details) {
                    let marked = set_subscription_id(Raw::from(&details), target);
                    let params = marked.as_ref().map_or(Raw::from(&details), Raw::from);
                    if let Some(bytes) = encode_notification(TaskChanged::NAME, params, false, from, revision)
                    {
                        target.outbox.wait_for_capacity().await;
                        target.outbox.push_coalesced(bytes);
                    }
                    sent = Some(details);
                }
                if is_final(read.status) {
                    return;
                }
                poll_interval(&read)
            }
            // The server does not know the task any more, or does not recover.
            Err(RpcError::Forwarded(error)) if error.code == INVALID_PARAMS || failures >= MAX_FAILURES => {
                return;
            }
            Err(error) => {
                failures += 1;
                tracing::debug!(%error, "a task could not be read for its subscriber");
                RETRY_INTERVAL
            }
        };
        drop(upstream);
        tokio::select! {
            () = core.questions.changed() => {}
            () = tokio::time::sleep(interval) => {}
        }
    }
}

/// Reads a task on its connection.
struct TaskReader<'a> {
    /// The id of the task, as the client knows it.
    id: &'a str,
    core: &'a CoreTask,
    upstream: &'a Arc<Upstream>,
    call: Arc<InFlightCall>,
}

impl TaskReader<'_> {
    /// The task as its server writes it, with the id, result, error or questions as the client reads them.
    async fn read(&self, params: &RawJson, written_in: Revision) -> Result<(RawJson, Revision), RpcError> {
        let deadline = Instant::now() + QUESTION_TIMEOUT;
        loop {
            let (found, from) = self.send(Get::NAME, params, written_in).await?;
            let malformed = |_| malformed_task_error(&self.upstream.target);
            let details = RawTaskDetails::read(&found).map_err(malformed)?;
            let (status, payload) = match details.status {
                TaskStatus::Completed | TaskStatus::Failed => {
                    self.fetch_outcome(params, written_in, details.status).await?
                }
                TaskStatus::Working | TaskStatus::InputRequired => {
                    let open = self.core.questions.open_requests();
                    if open.is_empty() {
                        let needs_input = details.status == TaskStatus::InputRequired;
                        if !needs_input {
                            self.core.close_result();
                        } else if Instant::now() < deadline && self.wait_for_question(from).await? {
                            continue;
                        }
                    }
                    match open.is_empty() {
                        true => (TaskStatus::Working, RawTaskPayload::None),
                        false => (TaskStatus::InputRequired, RawTaskPayload::InputRequests(open)),
                    }
                }
                TaskStatus::Cancelled => (TaskStatus::Cancelled, RawTaskPayload::None),
            };
            if is_final(status) {
                self.core.end();
            }
            let named = set_task_id(&found, self.id).map_err(malformed)?;
            let mut members: OrderedMap<RawJson> = named.read().map_err(malformed)?;
            set_task_payload(&mut members, status, &payload).map_err(malformed)?;
            return Ok((RawJson::from_value(&members).map_err(malformed)?, from));
        }
    }

    /// The outcome of a task that has ended. A tool that failed completes its task here.
    async fn fetch_outcome(
        &self,
        params: &RawJson,
        written_in: Revision,
        status: TaskStatus,
    ) -> Result<(TaskStatus, RawTaskPayload), RpcError> {
        match self.send(Payload::NAME, params, written_in).await {
            Ok((result, from)) => {
                let result = set_related_task(&result, None).unwrap_or(result);
                let result = translate_result(self.upstream, Call::NAME, &result, from, self.call.revision)?;
                Ok((TaskStatus::Completed, RawTaskPayload::Result(result)))
            }
            // The error of a task that has failed is its outcome, unless its data says that it may pass.
            Err(error) if has_data(&error) && passing_failure(&error).is_some() => Err(error),
            Err(RpcError::Forwarded(error)) if status == TaskStatus::Failed => {
                Ok((TaskStatus::Failed, RawTaskPayload::Error(error)))
            }
            Err(error) => Err(error),
        }
    }

    /// Has the server send the questions of the task, and waits a while for the first. False if too many calls are suspended.
    async fn wait_for_question(&self, to: Revision) -> Result<bool, RpcError> {
        let params = TaskParams::new(self.core.id.clone());
        let params = RawJson::from_value(&params).map_err(|_| RpcError::Internal)?;
        if !self.core.request_questions(self.upstream, params, to) {
            return Ok(false);
        }
        // The question may have arrived meanwhile: then the pause is all that is lost.
        let _ = tokio::time::timeout(QUESTION_PAUSE, self.core.questions.changed()).await;
        Ok(true)
    }

    /// Cancels the task. One that has ended stays as it is.
    async fn cancel(&self, params: &RawJson, written_in: Revision) -> Result<RawJson, RpcError> {
        let (result, from) = match self.send(Cancel::NAME, params, written_in).await {
            Ok(cancelled) => {
                self.core.end();
                cancelled
            }
            Err(RpcError::Forwarded(error)) if error.code == INVALID_PARAMS => {
                // 2025-11-25 refuses to cancel a task that has ended, and one that it does not know.
                self.send(Get::NAME, params, written_in).await?
            }
            Err(error) => return Err(error),
        };
        let result =
            set_task_id(&result, self.id).map_err(|_| malformed_task_error(&self.upstream.target))?;
        translate_result(self.upstream, Cancel::NAME, &result, from, written_in)
    }

    /// Sends a request about the task, whose params are those of `tasks/get`.
    async fn send(
        &self,
        method: &str,
        params: &RawJson,
        written_in: Revision,
    ) -> Result<(RawJson, Revision), RpcError> {
        // Only the server's revision has all of these methods.
        let to = self.upstream.connected_client().await?.revision();
        let params = translate_raw_params(Get::NAME, Raw::from(params), written_in, to)
            .map_err(|error| unsupported_error(&error, method))?;
        self.upstream.send(ForwardedRequest::new(method, &params, to), &self.call).await
    }
}

fn has_data(error: &RpcError) -> bool {
    matches!(error, RpcError::Other(error) | RpcError::Forwarded(error) if error.data.is_some())
}

/// How long `tasks/get` waits for the questions of a task that needs input.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(5);
/// When the task is read again meanwhile.
const QUESTION_PAUSE: Duration = Duration::from_millis(250);
/// How often a server may answer with an error in a row before its task is no longer read for a subscriber.
const MAX_FAILURES: u32 = 60;
/// When a task is read again for its subscriber after a failure.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);
