//! Tasks of a server of 2026-07-28 for a client of 2025-11-25.
//!
//! - A call with `task` declares the extension to the server, which alone decides. If it does not create a task, the bridge
//!   keeps the result under an id of its own, since the client expects a task.
//! - `tasks/get` is forwarded. `tasks/result` polls the server until the task has ended; meanwhile it puts the questions of
//!   the task to the client, and sends the answers with `tasks/update`.
//! - `tasks/cancel` is forwarded. The client sees the task as cancelled from then on, whatever the server makes of it.
//! - `tasks/list` has no counterpart and is not declared. Changes of a status are not announced: the client polls.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tsugite_core::jsonrpc::{Raw, RawJson};
use tsugite_core::protocol::mrtr::{InputResponses, RawInputRequest};
use tsugite_core::protocol::raw_tasks::{
    RawTaskDetails, RawTaskPayload, declare_tasks, has_task_request, offer_tasks, set_related_task,
    set_task_id, set_task_payload,
};
use tsugite_core::protocol::tasks::{Cancel, CreateTaskResult, Get, GetResult, Payload, Update};
use tsugite_core::protocol::tools::{Call, CallResult, List};
use tsugite_core::protocol::{
    CallOutput, ClientMeta, Method, OrderedMap, ResultType, ServerCapabilities, Task, TaskParams, TaskStatus,
    UpdateParams,
};
use tsugite_core::revision::{Revision, RpcError, Translate, read_params, translate_raw_error};

use super::handshake_to_stateless::{request_input, send_rounds};
use super::{SessionRequest, handshake_to_stateless, translate_result};
use crate::bridge::bridge_errors::{limit_error, malformed_task_error, passing_failure, unsupported_error};
use crate::bridge::bridged_tasks::{BridgedTask, ExtensionTask, TaskForm, TaskRoom, check_task_id};
use crate::bridge::client_request::reply_target;
use crate::bridge::in_flight::InFlightCall;
use crate::bridge::task_poll::{DEFAULT_INTERVAL, MIN_INTERVAL, is_final, poll_interval};
use crate::bridge::upstream::Upstream;
use crate::client::answered_keys::{AnsweredKeys, MAX_QUESTIONS};
use crate::client::forwarded_request::ForwardedRequest;
use crate::client::task_failures::TaskFailures;
use crate::server::encode_result;
use crate::server::limits::CallerKey;
use crate::server::task_state::timestamp::{iso_8601, now_millis};
use crate::server::tasks::unknown_task;
use crate::shared::seal::random_id;

/// Whether this file answers the request.
pub(super) fn is_about_a_task(request: &SessionRequest<'_>) -> bool {
    request.job.revision.has_core_tasks()
        && match request.method {
            Call::NAME => has_task_request(&request.params) && offers_tasks(request.upstream),
            Get::NAME | Cancel::NAME | Payload::NAME | List::NAME => offers_tasks(request.upstream),
            _ => false,
        }
}

/// Whether the server has the extension. Several servers behind one bridge have no tasks.
fn offers_tasks(upstream: &Upstream) -> bool {
    let declares = |offered: &ServerCapabilities| offered.has_task_extension();
    // A connection may have been opened without asking the server.
    let described = || upstream.target.description(upstream.declared).flatten();
    upstream.target.prefix.is_none()
        && match upstream.client_if_connected().and_then(|client| client.server_capabilities()) {
            Some(offered) => declares(&offered),
            None => described().is_some_and(|known| known.capabilities.as_ref().is_some_and(declares)),
        }
}

/// Answers a request about a task, or one that asks for a task, or the list of tools.
pub(super) async fn forward(request: SessionRequest<'_>) -> Result<RawJson, RpcError> {
    match request.method {
        Call::NAME => return create(request).await,
        List::NAME => {
            // Any tool may become a task, since the server decides.
            let list = handshake_to_stateless::forward(request).await?;
            return Ok(offer_tasks(&list).unwrap_or(list));
        }
        _ => {}
    }
    let id = read_params::<Get>(Raw::from(&*request.params), request.job.revision)?.task_id;
    let task = request.tasks.find(CallerKey::of_caller(&request.job.caller).as_ref(), &id)?;
    let extension = match &task.form {
        TaskForm::Core(_) => return Err(unknown_task()),
        TaskForm::Kept { task: kept, result } => {
            if request.method == Payload::NAME {
                task.mark_delivered();
            }
            return answer_kept(&request, kept, result);
        }
        TaskForm::Extension(extension) => extension,
    };
    let call = InFlightCall::new(request.job.revision, reply_target(request.job)?);
    let reader = TaskReader { request: &request, id: &id, task: &task, extension, call };
    match request.method {
        Cancel::NAME => reader.cancel().await,
        Payload::NAME => reader.wait_for_result().await,
        _ => reader.get().await,
    }
}

/// Calls a tool as a task.
async fn create(request: SessionRequest<'_>) -> Result<RawJson, RpcError> {
    let room = request.tasks.reserve(CallerKey::of_caller(&request.job.caller))?;
    let params = Cow::Owned(with_extension(&request, &request.params)?);
    let (upstream, to) = (request.upstream, request.job.revision);
    let request = SessionRequest { params, ..request };
    let call = InFlightCall::new(to, reply_target(request.job)?);
    let (result, from) = send_rounds(&request, &call).await?;
    let is_task = matches!(ResultType::from_result(Raw::from(&result)), Ok(ResultType::Task));
    let created = result.read::<CreateTaskResult>().ok().filter(|_| is_task);
    if let Some(CreateTaskResult { task, .. }) = created {
        let server_id = task.task_id.clone();
        let registered = register(upstream, room, task, &result, (from, to));
        if registered.is_err()
            && let Err(error) = send(&request, Cancel::NAME, &TaskParams::new(server_id), &call).await
        {
            tracing::debug!(%error, "a task that its client cannot have was not cancelled");
        }
        return registered;
    }
    let result = translate_result(upstream, Call::NAME, &result, from, to)?;
    keep_result(&request, room, result)
}

/// Registers a task of the server, and returns its result with the id of the bridge.
fn register(
    upstream: &Upstream,
    room: TaskRoom<'_>,
    task: Task,
    result: &RawJson,
    (from, to): (Revision, Revision),
) -> Result<RawJson, RpcError> {
    check_task_id(&task.task_id, &upstream.target)?;
    let id = random_id().ok_or(RpcError::Internal)?;
    let result = set_task_id(result, &id).map_err(|_| malformed_task_error(&upstream.target))?;
    let result = translate_result(upstream, Call::NAME, &result, from, to)?;
    let ttl = task.ttl_ms.map(Duration::from_millis);
    let form = TaskForm::Extension(ExtensionTask::new(task.task_id));
    room.insert(BridgedTask::new(id, form, ttl));
    Ok(result)
}

/// Keeps the result of a call that the server did not make a task, and returns a task for it.
fn keep_result(
    request: &SessionRequest<'_>,
    room: TaskRoom<'_>,
    result: RawJson,
) -> Result<RawJson, RpcError> {
    let failed = result.read::<CallResult>().is_ok_and(|result| result.is_error == Some(true));
    let (id, now) = (random_id().ok_or(RpcError::Internal)?, iso_8601(now_millis()));
    let mut task = Task::new(id.clone(), TaskStatus::Working, now.clone(), now);
    task.ttl_ms = u64::try_from(KEPT_TTL.as_millis()).ok();
    let created = encode::<Call>(request, CallOutput::Task(CreateTaskResult::new(task.clone())))?;
    task.status = if failed { TaskStatus::Failed } else { TaskStatus::Completed };
    room.insert(BridgedTask::new(id, TaskForm::Kept { task, result }, Some(KEPT_TTL)));
    Ok(created)
}

/// Answers a request about a task whose result is kept here.
fn answer_kept(request: &SessionRequest<'_>, task: &Task, result: &RawJson) -> Result<RawJson, RpcError> {
    match request.method {
        Cancel::NAME => Err(ended_error(task.status)),
        Payload::NAME => set_related_task(result, Some(&task.task_id)).map_err(|_| RpcError::Internal),
        _ => encode::<Get>(request, GetResult::new(task.clone())),
    }
}

/// Encodes a result of the bridge itself.
fn encode<M: Method>(request: &SessionRequest<'_>, result: M::Output) -> Result<RawJson, RpcError>
where
    M::Output: Translate,
{
    encode_result::<M>(result, request.job.revision, &request.job.connection.config.stamp)
        .map_err(|error| unsupported_error(&error, M::NAME))
}

/// Params that describe the client to the server, with the extension.
fn with_extension(request: &SessionRequest<'_>, params: &RawJson) -> Result<RawJson, RpcError> {
    let (_, capabilities, _) = request.job.connection.session_info();
    let mut members: OrderedMap<RawJson> = params.read().map_err(|error| RpcError::invalid_params(&error))?;
    declare_tasks(&mut members, ClientMeta::for_revision(Revision::NEWEST, capabilities))
        .map_err(|error| RpcError::invalid_params(&error))?;
    RawJson::from_value(&members).map_err(|_| RpcError::Internal)
}

/// Sends a request about a task to the server.
async fn send(
    request: &SessionRequest<'_>,
    method: &str,
    params: &impl Serialize,
    call: &Arc<InFlightCall>,
) -> Result<(RawJson, Revision), RpcError> {
    let params = RawJson::from_value(params).map_err(|_| RpcError::Internal)?;
    let params = with_extension(request, &params)?;
    let from = request.upstream.connected_client().await?.revision();
    request.upstream.send(ForwardedRequest::new(method, &params, from), call).await
}

/// The questions of a task while its client waits for the result.
#[derive(Default)]
struct Questions {
    answered: AnsweredKeys,
    /// An answer that the server has not acknowledged, and the key of its question.
    unsent: Option<(String, RawJson)>,
    /// Answers in a row that did not reach the server.
    failures: TaskFailures,
}

/// A request about a task of the server.
struct TaskReader<'a> {
    request: &'a SessionRequest<'a>,
    /// The id of the task, as the client knows it.
    id: &'a str,
    task: &'a BridgedTask,
    extension: &'a ExtensionTask,
    call: Arc<InFlightCall>,
}

impl TaskReader<'_> {
    /// The status of the task.
    async fn get(&self) -> Result<RawJson, RpcError> {
        let (found, from) = self.read().await?;
        let named = set_task_id(&found, self.id).map_err(|_| self.malformed())?;
        let mut members: OrderedMap<RawJson> = named.read().map_err(|_| self.malformed())?;
        if self.extension.cancellation.is_cancelled() {
            set_task_payload(&mut members, TaskStatus::Cancelled, &RawTaskPayload::None)
                .map_err(|_| RpcError::Internal)?;
        }
        let found = RawJson::from_value(&members).map_err(|_| RpcError::Internal)?;
        translate_result(self.request.upstream, Get::NAME, &found, from, self.request.job.revision)
    }

    /// Cancels the task, and returns it as cancelled.
    async fn cancel(&self) -> Result<RawJson, RpcError> {
        let (found, _) = self.poll(DEFAULT_INTERVAL).await?;
        let status = match self.extension.cancellation.is_cancelled() {
            true => TaskStatus::Cancelled,
            false => RawTaskDetails::read(&found).map_err(|_| self.malformed())?.status,
        };
        match status {
            TaskStatus::Completed | TaskStatus::Failed | TaskStatus::Cancelled => {
                return Err(ended_error(status));
            }
            TaskStatus::Working | TaskStatus::InputRequired => {}
        }
        self.send_named(Cancel::NAME, DEFAULT_INTERVAL).await?;
        self.extension.cancellation.cancel();
        self.task.mark_delivered();
        self.get().await
    }

    /// Waits for the result of the task, and puts its questions to the client meanwhile.
    async fn wait_for_result(&self) -> Result<RawJson, RpcError> {
        let (upstream, to) = (self.request.upstream, self.request.job.revision);
        let mut questions = Questions::default();
        let mut interval = DEFAULT_INTERVAL;
        loop {
            let (found, from) = self.poll(interval).await?;
            let details = RawTaskDetails::read(&found).map_err(|_| self.malformed())?;
            interval = poll_interval(&details);
            if is_final(details.status) {
                self.task.mark_delivered();
            }
            match details.status {
                _ if self.extension.cancellation.is_cancelled() => return Err(cancelled_error()),
                TaskStatus::Cancelled => return Err(cancelled_error()),
                TaskStatus::Completed => {
                    let result = details.result.ok_or_else(|| self.malformed())?;
                    let result = translate_result(upstream, Call::NAME, &result, from, to)?;
                    return set_related_task(&result, Some(self.id)).map_err(|_| self.malformed());
                }
                TaskStatus::Failed => {
                    let error = details.error.ok_or_else(|| self.malformed())?;
                    return Err(RpcError::Forwarded(translate_raw_error(error, Call::NAME, from, to)));
                }
                TaskStatus::Working => self.pause(interval).await,
                TaskStatus::InputRequired => {
                    let open = details.input_requests.unwrap_or_default();
                    let pause = self.answer(open, &mut questions, from, interval).await?;
                    self.pause(pause).await;
                }
            }
        }
    }

    /// Puts the next question to the client, and sends the answer to the server. Returns when to read the task again.
    async fn answer(
        &self,
        open: OrderedMap<RawInputRequest>,
        questions: &mut Questions,
        from: Revision,
        interval: Duration,
    ) -> Result<Duration, RpcError> {
        let mut pause = interval;
        questions.unsent.take_if(|(key, _)| open.get(key).is_none());
        if questions.unsent.is_none() {
            // The server may still show a question whose answer it has.
            let new = open.into_iter().find(|(key, _)| !questions.answered.contains(key));
            let Some((key, question)) = new else { return Ok(pause) };
            if !questions.answered.insert(&key) {
                let name = self.request.upstream.target.display_name();
                let text = format!("a task of {name} asked more than {MAX_QUESTIONS} questions");
                return Err(limit_error(text, MAX_QUESTIONS));
            }
            questions.unsent = self.ask(&key, question, from, interval).await?.map(|answer| (key, answer));
            pause = MIN_INTERVAL;
        }
        if let Some((key, answer)) = &questions.unsent {
            let responses = InputResponses::from_iter([(key, answer.clone())]);
            let update = UpdateParams::new(&*self.extension.id, responses);
            match self.send(Update::NAME, &update).await {
                Ok(_) => {
                    questions.failures.reset();
                    questions.unsent = None;
                    pause = MIN_INTERVAL;
                }
                // It is sent again if the question is still open then: the server ignores an answer that it has.
                Err(error) => {
                    let failure = passing_failure(&error);
                    pause = questions.failures.next_pause(failure, interval).ok_or(error)?;
                }
            }
        }
        Ok(pause)
    }

    /// Puts a question to the client. Returns the answer, or `None` if the question is closed before.
    async fn ask(
        &self,
        key: &str,
        mut question: RawInputRequest,
        from: Revision,
        interval: Duration,
    ) -> Result<Option<RawJson>, RpcError> {
        let params = question.params.take().unwrap_or_else(RawJson::empty_object);
        question.params = Some(set_related_task(&params, Some(self.id)).map_err(|_| self.malformed())?);
        tokio::select! {
            answer = request_input(self.request.job, &self.call, &question, from) => answer.map(Some),
            closed = self.wait_until_closed(key, interval) => closed.map(|()| None),
        }
    }

    /// Waits until the server does not ask the question any more.
    async fn wait_until_closed(&self, key: &str, interval: Duration) -> Result<(), RpcError> {
        loop {
            self.pause(interval).await;
            let (found, _) = self.poll(interval).await?;
            let details = RawTaskDetails::read(&found).map_err(|_| self.malformed())?;
            let is_open = details.input_requests.is_some_and(|open| open.get(key).is_some());
            if !is_open || self.extension.cancellation.is_cancelled() {
                return Ok(());
            }
        }
    }

    /// Waits until the task is to be read again: for the interval, or until its client cancels it.
    async fn pause(&self, interval: Duration) {
        tokio::select! {
            () = self.extension.cancellation.cancelled() => {}
            () = tokio::time::sleep(interval) => {}
        }
    }

    /// Reads the task, and again after failures that may pass.
    async fn poll(&self, interval: Duration) -> Result<(RawJson, Revision), RpcError> {
        self.send_named(Get::NAME, interval).await
    }

    /// Sends a request whose params name the task, and again after failures that may pass.
    async fn send_named(&self, method: &str, interval: Duration) -> Result<(RawJson, Revision), RpcError> {
        let mut failures = TaskFailures::default();
        loop {
            let error = match self.send(method, &TaskParams::new(&*self.extension.id)).await {
                Ok(found) => return Ok(found),
                Err(error) => error,
            };
            let Some(pause) = failures.next_pause(passing_failure(&error), interval) else {
                return Err(error);
            };
            tracing::debug!(method, %error, ?pause, "a request about a task failed and is sent again");
            self.pause(pause).await;
        }
    }

    /// The task as its server writes it.
    async fn read(&self) -> Result<(RawJson, Revision), RpcError> {
        self.send(Get::NAME, &TaskParams::new(&*self.extension.id)).await
    }

    async fn send(&self, method: &str, params: &impl Serialize) -> Result<(RawJson, Revision), RpcError> {
        send(self.request, method, params, &self.call).await
    }

    fn malformed(&self) -> RpcError {
        malformed_task_error(&self.request.upstream.target)
    }
}

fn ended_error(status: TaskStatus) -> RpcError {
    let text = format!("Invalid params: the task has ended: it is {}", status.as_str());
    RpcError::InvalidParams(text.into()).with("path", "taskId")
}

fn cancelled_error() -> RpcError {
    RpcError::InvalidRequest("The task was cancelled".into())
}

/// How long the result of a call is kept that the server did not make a task.
const KEPT_TTL: Duration = Duration::from_secs(60 * 60);
