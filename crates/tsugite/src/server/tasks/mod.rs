//! The methods of tasks. They read and write the records of tasks, wherever the tasks run.

mod list;
mod listen;
mod result;
mod take_over;

use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tsugite_core::jsonrpc::RawJson;
use tsugite_core::protocol::mrtr::INPUT_RESPONSES;
use tsugite_core::protocol::result::EmptyResult;
use tsugite_core::protocol::tasks::{Cancel, CancelResult, Get, Update, UpdateParams};
use tsugite_core::protocol::{Method, Task};
use tsugite_core::revision::{Revision, RpcError, Translate, read_params};

pub(crate) use list::list;
pub(crate) use listen::subscribe;
pub(crate) use result::result;
pub(crate) use take_over::{start_taking_over, stop};

use super::ServerShared;
use super::ask::check_answer;
use super::config::Config;
use super::connection::ServerConnection;
use super::incoming_request::IncomingRequest;
use super::kept_call::KeptAnswer;
use super::pending::PendingRequest;
use super::principal::Principal;
use super::registry::ToolEntry;
use super::task_offer::{missing_extension, supports_extension};
use super::task_run;
use super::task_state::{ChangeError, StoredTask, TaskState, TaskTable};
use crate::error::Chain;
use crate::shared::log;
use crate::shared::principal::is_same_caller;
use crate::store::StoreError;

/// Returns the status of a task, on 2026-07-28 with its result, error or questions.
pub(crate) fn get(
    connection: &Arc<ServerConnection>,
    request: IncomingRequest<'_>,
) -> Result<Option<PendingRequest>, RpcError> {
    let access = TaskAccess::new(connection, request)?;
    let id = read_params::<Get>(request.request.params(), request.revision)?.task_id;
    Ok(answer::<Get>(connection, request, async move { Ok(access.find_to_read(&id).await?.details()) }))
}

/// Takes answers to the questions of a task (2026-07-28). Answers to other questions are ignored.
pub(crate) fn update(
    connection: &Arc<ServerConnection>,
    request: IncomingRequest<'_>,
) -> Result<Option<PendingRequest>, RpcError> {
    let access = TaskAccess::new(connection, request)?;
    let params = read_params::<Update>(request.request.params(), request.revision)?;
    Ok(answer::<Update>(connection, request, async move {
        access.update(params).await?;
        Ok(EmptyResult::new())
    }))
}

/// Cancels a task.
pub(crate) fn cancel(
    connection: &Arc<ServerConnection>,
    request: IncomingRequest<'_>,
) -> Result<Option<PendingRequest>, RpcError> {
    let access = TaskAccess::new(connection, request)?;
    let id = read_params::<Cancel>(request.request.params(), request.revision)?.task_id;
    Ok(answer::<Cancel>(connection, request, async move {
        let mut result = CancelResult::default();
        result.task = Some(access.summary(&access.cancel(&id).await?));
        Ok(result)
    }))
}

/// Answers a request when `work` is done; at once if the store has its records in memory.
fn answer<M: Method>(
    connection: &Arc<ServerConnection>,
    request: IncomingRequest<'_>,
    work: impl Future<Output = Result<M::Output, RpcError>> + Send + 'static,
) -> Option<PendingRequest>
where
    M::Output: Translate + Send,
{
    let mut work = Box::pin(work);
    let (revision, writer) = (request.revision, request.writer.clone());
    let (id, stamp) = (request.request.id.clone().into_owned(), connection.config.stamp.clone());
    let send = move |outcome: Result<M::Output, RpcError>| match outcome {
        Ok(mut output) => writer.send_result::<M>(&id, &mut output, revision, &stamp),
        Err(error) => writer.send_error(Some(&id), &error, revision),
    };
    if let Poll::Ready(outcome) = work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        send(outcome);
        return None;
    }
    let cancellation = request.tracking.cancellation_token();
    connection.register_pending(request, cancellation, async move {
        let outcome = work.await;
        move || send(outcome)
    })
}

/// The tasks that a request may see.
pub(crate) struct TaskAccess {
    table: Arc<TaskTable>,
    shared: Arc<ServerShared>,
    config: Arc<Config>,
    principal: Option<Principal>,
    revision: Revision,
}

impl TaskAccess {
    /// Fails if the client did not declare the extension, where tasks are one.
    fn new(connection: &ServerConnection, request: IncomingRequest<'_>) -> Result<Self, RpcError> {
        if request.revision.has_task_extension() && !supports_extension(request) {
            return Err(missing_extension());
        }
        let (shared, config) = (connection.server.shared.clone(), connection.config.clone());
        let (table, principal) = (shared.tasks().clone(), request.principal().cloned());
        Ok(Self { table, shared, config, principal, revision: request.revision })
    }

    /// Finds a task of the caller. Without a caller its id is enough, which cannot be guessed.
    async fn find(&self, id: &str) -> Result<StoredTask, RpcError> {
        self.read(id).await.map_err(|error| unavailable(&error))?.ok_or_else(unknown_task)
    }

    /// Reads a task; `None` if it is no task of the caller.
    async fn read(&self, id: &str) -> Result<Option<StoredTask>, StoreError> {
        Ok(self.table.hub.store.read(id).await?.filter(|stored| self.may_see(stored)))
    }

    /// Finds a task whose result or questions the caller gets.
    async fn find_to_read(&self, id: &str) -> Result<StoredTask, RpcError> {
        let stored = self.find(id).await?;
        self.check_scopes(&stored)?;
        Ok(stored)
    }

    /// Fails if the caller lacks a scope that the call needed: its token may be another one now.
    fn check_scopes(&self, stored: &StoredTask) -> Result<(), RpcError> {
        self.config.check_scopes(self.principal.as_ref(), &stored.call.scopes)
    }

    /// The task without its result and its questions. The message may hold the text of a result, so it needs the same scopes.
    fn summary(&self, stored: &StoredTask) -> Task {
        let mut task = stored.task();
        if self.check_scopes(stored).is_err() {
            task.status_message = None;
        }
        task
    }

    /// Whether the caller created the task, on the revision of the request, and may see its tool, if that still exists.
    fn may_see(&self, stored: &StoredTask) -> bool {
        let (creator, principal) = (stored.call.caller.as_ref(), self.principal.as_ref());
        let creator = creator.map(|caller| caller.principal());
        let sees_tool = |name: &str| {
            self.shared.find::<ToolEntry>(&self.config, principal, name).is_some()
                || !self.shared.has::<ToolEntry>(name)
        };
        is_same_caller(creator.as_ref(), principal)
            && self.revision.is_named(&stored.call.revision)
            && stored.call.remaining_ttl().is_some()
            && sees_tool(&stored.call.tool)
    }

    async fn update(&self, params: UpdateParams) -> Result<(), RpcError> {
        let stored = self.find_to_read(&params.task_id).await?;
        let mut answers: Vec<(String, RawJson)> = Vec::new();
        for (key, answer) in params.input_responses.iter() {
            let question = stored.state.questions.iter().find(|question| question.key == *key);
            let Some(question) = question else { continue };
            check_answer(&question.request, answer, self.revision).map_err(|text| {
                let key: String = key.chars().take(60).collect();
                RpcError::InvalidParams(format!("Invalid params: `{INPUT_RESPONSES}` {key:?}: {text}").into())
                    .with("path", format!("{INPUT_RESPONSES}.{key}"))
            })?;
            answers.push((key.to_owned(), answer.clone()));
        }
        self.answer(stored, answers.into_iter().map(|(key, raw)| (key, KeptAnswer::Result(raw))).collect())
            .await
    }

    /// Stores answers to open questions.
    async fn answer(&self, stored: StoredTask, answers: Vec<(String, KeptAnswer)>) -> Result<(), RpcError> {
        let open = |key: &str| stored.state.questions.iter().any(|question| question.key == key);
        let bytes = answers.iter().filter(|(key, _)| open(key)).map(|(_, answer)| answer.bytes()).sum();
        let (hub, id) = (&self.table.hub, stored.call.id.clone());
        hub.count_bytes(&stored.call.id, bytes).map_err(|limit| {
            let text = format!(
                "the answer cannot be stored: the limit `{}` on the bytes of tasks is {}; try again when other tasks have \
                 ended or expired",
                limit.setting, limit.value
            );
            task_run::unavailable(&text)
        })?;
        let mut change = |state: &mut TaskState| {
            let mut is_changed = false;
            for (key, answer) in &answers {
                is_changed |= !state.is_final() && state.answer(key, answer.clone());
            }
            Ok::<_, RpcError>(is_changed)
        };
        let changed = self.change(stored, &mut change).await;
        if changed.is_err() {
            hub.give_back_bytes(&id, bytes);
        }
        changed.map(drop)
    }

    async fn cancel(&self, id: &str) -> Result<StoredTask, RpcError> {
        let stored = self.find(id).await?;
        let rejects_ended = self.revision.has_core_tasks();
        let mut change = |state: &mut TaskState| match state.is_final() && rejects_ended {
            true => {
                let text = format!("Invalid params: the task has ended: it is {}", state.status.as_str());
                Err(RpcError::InvalidParams(text.into()).with("path", "taskId"))
            }
            false => Ok(task_run::cancel(state)),
        };
        self.change(stored, &mut change).await
    }

    async fn change(
        &self,
        stored: StoredTask,
        change: &mut (dyn FnMut(&mut TaskState) -> Result<bool, RpcError> + Send),
    ) -> Result<StoredTask, RpcError> {
        self.table.change(stored, change).await.map_err(|error| match error {
            ChangeError::Refused(error) => error,
            ChangeError::Gone => unknown_task(),
            ChangeError::TooLarge(bytes) => RpcError::InvalidParams(
                format!("Invalid params: the state of the task would have {bytes} bytes, which is too much")
                    .into(),
            ),
            ChangeError::Store(error) => unavailable(&error),
        })
    }
}

/// The same for a task that never existed, has expired, or belongs to another caller.
pub(crate) fn unknown_task() -> RpcError {
    RpcError::InvalidParams("Invalid params: there is no task with this id; it may have expired".into())
        .with("path", "taskId")
}

fn unavailable(error: &StoreError) -> RpcError {
    log::error!(error = %Chain(&**error), "a task could not be read or written");
    task_run::unavailable("the state of the task cannot be reached now; try again later")
}
