//! Runs a call as a task: creates its record, runs its handler, and stores how it ended.
//!
//! The record is stored before the client gets the id of the task. From then on the handler belongs to no request and no
//! connection.

mod driver;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tsugite_core::jsonrpc::{ErrorObject, Id, RawJson};
use tsugite_core::protocol::TaskStatus;
use tsugite_core::protocol::tasks::{StatusChanged, StatusParams};
use tsugite_core::protocol::tools::CallResult;
use tsugite_core::revision::{Revision, RpcError, write_notification};

use super::ask::BoxedHandler;
use super::call_state::{CallState, EndGuard};
use super::connection::ServerConnection;
use super::kept_call::KeptHistory;
use super::purge;
use super::response_writer::ResponseWriter;
use super::round::Round;
use super::task_slot::TaskOffer;
use super::task_state::{
    CreateError, OnceStep, RunningTask, StoredTask, TaskCall, TaskOutcome, TaskState, TaskTable, now_millis,
};
use crate::error::Chain;
use crate::replica::digest;
use crate::shared::boxed::boxed;
use crate::shared::log;
use crate::shared::outbound_queue::OutboundQueue;
use crate::shared::seal::random_id;

/// Writes the response for a handler that has ended.
pub(crate) type SendOutcomeFn = Box<dyn FnOnce(&ServerConnection, Revision, &Id<'_>, &ResponseWriter) + Send>;

/// A call that becomes a task.
pub(crate) struct TaskRun {
    pub(crate) connection: Arc<ServerConnection>,
    pub(crate) call: Arc<CallState>,
    /// The id of the request that made the call.
    pub(crate) id: Id<'static>,
    pub(crate) handler: BoxedHandler<SendOutcomeFn>,
    pub(crate) end_guard: EndGuard,
}

/// A call that did not become a task, and why.
pub(crate) struct StartError {
    /// To go on with as an ordinary call.
    pub(crate) run: TaskRun,
    pub(crate) error: RpcError,
}

/// A task whose record is stored and whose handler waits for [`CreatedTask::announced`]. Dropping it cancels the task: its
/// request was cancelled before the client got the id.
pub(crate) struct CreatedTask {
    pub(crate) stored: StoredTask,
    begin: oneshot::Sender<()>,
}

impl CreatedTask {
    /// Begins to run the task: the response with its id is written, so that no message about it precedes that.
    pub(crate) fn announced(self) {
        let _ = self.begin.send(());
    }
}

/// Creates the task of a call. Returns when the record is stored. Dropping the future cancels the task.
pub(crate) async fn start(table: Arc<TaskTable>, run: TaskRun) -> Result<CreatedTask, StartError> {
    purge::start(&run.connection.server.shared);
    let (announce, announced) = oneshot::channel();
    tokio::spawn(boxed(async move {
        let created = match run.call.task.offer() {
            Some(offer) => create(&table, offer, &run.call).await,
            None => Err(RpcError::Internal),
        };
        let (task, stored) = match created {
            Ok(created) => created,
            Err(error) => return drop(announce.send(Err(Box::new(StartError { run, error })))),
        };
        run.call.task.set_running(task.clone());
        // Only now another process may run the task: a record whose creation is not certain never runs.
        let can_run_again = run.call.task.can_run_again(false);
        // The handler's own tasks may have begun or ended a step since the record was made.
        let (before, now) = (stored.state.once.clone(), steps_of(&run.call));
        if can_run_again || now != before {
            let confirm = move |state: &mut TaskState| {
                state.can_run_again = can_run_again;
                update_steps(state, &before, &now);
                true
            };
            drop(task.change(confirm).await);
        }
        let (begin, begun) = oneshot::channel();
        let is_wanted = announce.send(Ok(CreatedTask { stored, begin })).is_ok();
        if !is_wanted || begun.await.is_err() {
            drop(task.change(cancel).await);
            table.finish(&task);
            log_end(&task.snapshot());
            // Nothing waits for the call, and a key that it had is free again, so its handler does not go on.
            return;
        }
        run_task(table, task, run).await;
    }));
    match announced.await {
        Ok(Ok(created)) => Ok(created),
        Ok(Err(error)) => Err(*error),
        // The runtime shuts down.
        Err(_) => std::future::pending().await,
    }
}

/// Cancels a task. Returns whether there is something to write.
pub(crate) fn cancel(state: &mut TaskState) -> bool {
    if state.is_final() {
        return false;
    }
    state.end(TaskStatus::Cancelled, None, None);
    true
}

async fn create(
    table: &Arc<TaskTable>,
    offer: &TaskOffer,
    call: &CallState,
) -> Result<(Arc<RunningTask>, StoredTask), RpcError> {
    let revision = call.revision();
    let limited = |error| limit_error(&CreateError::Limit(error));
    let id = random_id().ok_or(RpcError::Internal)?;
    let _slot = table.reserve(&id, offer.counted_for.clone()).map_err(limited)?;
    if table.is_stopping() {
        return Err(unavailable("the server is stopping"));
    }
    let settings = &table.hub.settings;
    let requested = |ttl: Duration| ttl.max(MIN_REQUESTED_TTL).min(settings.max_ttl);
    let ttl = offer.requested_ttl.map_or(settings.ttl, requested);
    let stored_call = TaskCall {
        id,
        tool: offer.tool.clone(),
        scopes: offer.scopes.clone(),
        params: offer.params.clone(),
        revision: revision.as_str().to_owned(),
        caller: offer.caller.clone(),
        handshake: offer.handshake.clone(),
        created_millis: now_millis(),
        ttl_millis: millis(ttl).max(1),
        poll_interval_millis: millis(settings.poll_interval),
    };
    let mut state = TaskState::new(table.hub.store.runner(), stored_call.created_millis);
    if let Some(round) = call.current_round() {
        let history = round.task_history().0;
        (state.answers, state.fingerprints) = (history.answers, history.fingerprints);
    }
    state.once = steps_of(call);
    let stored = table
        .hub
        .create(stored_call, state, revision.has_core_tasks(), offer.counted_for.clone())
        .await
        .map_err(|error| limit_error(&error))?;
    let task = RunningTask::new(&table.hub, stored.clone());
    table.begin(&task);
    Ok((task, stored))
}

/// The steps of `once` so far.
fn steps_of(call: &CallState) -> HashMap<String, OnceStep> {
    let history = call.current_round().map(|round| round.task_history());
    let (history, running) = history.unwrap_or_default();
    let values = history.once_results.into_iter().map(|(key, value)| (key, OnceStep::Value(value)));
    values.chain(running.into_iter().map(|key| (key, OnceStep::Begun))).collect()
}

/// Brings the steps of a record up to date that had those of `before` when it was made, unless it knows how they ended.
fn update_steps(state: &mut TaskState, before: &HashMap<String, OnceStep>, now: &HashMap<String, OnceStep>) {
    for (key, step) in now {
        if state.once.get(key) == before.get(key) {
            state.once.insert(key.clone(), step.clone());
        }
    }
    // A step that has failed may run again.
    state.once.retain(|key, step| now.contains_key(key) || before.get(key) != Some(step));
}

/// Runs a task until it ends here, and stores its outcome.
pub(crate) async fn run_task(table: Arc<TaskTable>, task: Arc<RunningTask>, run: TaskRun) {
    let TaskRun { connection, call, id, handler, end_guard } = run;
    notify_session(&connection, &call, &task);
    let ttl = task.snapshot().call.remaining_ttl().unwrap_or_default();
    let driven = tokio::time::timeout(ttl, driver::drive(handler, &call, &task)).await;
    let outcome = match driven {
        Ok(Some(send)) => {
            let captured = ResponseWriter::capture(Arc::new(OutboundQueue::new(0)));
            send(&connection, call.revision(), &id, &captured);
            Some(captured.take_captured().unwrap_or(Err(RpcError::Internal)))
        }
        Ok(None) => None,
        Err(_) => {
            log::warn!(task = task.name(), "a task ran longer than it is kept, and was dropped");
            // Its record has expired, and the index of this process has not.
            let store = &task.hub().store;
            drop(store.forget(store.runner(), Some(task.name())).await);
            None
        }
    };
    if let Some(outcome) = outcome {
        call.complete();
        let (status, message, outcome) = final_state(&task, outcome, call.revision());
        let end = move |state: &mut TaskState| {
            state.end(status, message.clone(), Some(outcome.clone()));
            true
        };
        drop(task.change(end).await);
    }
    // Tasks that the handler started can stop, too, unless it has completed.
    drop(end_guard);
    table.finish(&task);
    // Otherwise another process goes on with it.
    let ended = task.snapshot();
    if ended.state.is_final() || ended.call.remaining_ttl().is_none() {
        log_end(&ended);
    }
}

/// The final state for the outcome of a handler.
fn final_state(
    task: &RunningTask,
    outcome: Result<RawJson, RpcError>,
    revision: Revision,
) -> (TaskStatus, Option<String>, TaskOutcome) {
    let failed =
        |error: ErrorObject| (TaskStatus::Failed, Some(error.message.to_string()), TaskOutcome::Error(error));
    let result = match outcome {
        Ok(result) => result,
        Err(error) => return failed(error.to_error_object(revision)),
    };
    if let Err(limit) = task.hub().count_result(&task.snapshot().call, result.text().len()) {
        return failed(limit_error(&CreateError::Limit(limit)).to_error_object(revision));
    }
    let is_error = tool_error_text(&result);
    match is_error {
        Some(text) if revision.tool_error_fails_task() => {
            (TaskStatus::Failed, Some(text), TaskOutcome::Result(result))
        }
        text => (TaskStatus::Completed, text, TaskOutcome::Result(result)),
    }
}

/// The text of a result that is an error of the tool.
fn tool_error_text(result: &RawJson) -> Option<String> {
    let result: CallResult = result.read().ok()?;
    let text = || result.content.iter().find_map(|block| block.as_text().map(str::to_owned));
    (result.is_error == Some(true)).then(|| text().unwrap_or_else(|| "The tool failed".to_owned()))
}

/// Sends each status to the session that made the call, where the revision has such messages.
fn notify_session(connection: &Arc<ServerConnection>, call: &CallState, task: &RunningTask) {
    let revision = call.revision();
    if !revision.has_core_tasks() || !connection.can_push() {
        return;
    }
    let connection = Arc::downgrade(connection);
    task.observe(Box::new(move |stored| {
        let Some(connection) = connection.upgrade().filter(|connection| !connection.is_closing()) else {
            return;
        };
        // A client that does not read has to ask.
        if connection.outbox().is_full() {
            return;
        }
        let params = StatusParams::new(stored.task());
        connection.outbox().push(|out| drop(write_notification::<StatusChanged>(out, params, revision)));
    }));
}

/// Records the end of a task. Its id is not shown, only the digest: the id gives access to the task.
pub(crate) fn log_end(task: &StoredTask) {
    let status = match task.state.is_final() {
        true => task.state.status.as_str(),
        false => "expired",
    };
    if log::has_subscriber() {
        tracing::info!(
            tool = task.call.tool,
            task = digest(task.call.id.as_bytes()),
            status,
            "a task has ended"
        );
    }
}

/// The error of a task that was not created.
fn limit_error(error: &CreateError) -> RpcError {
    match error {
        CreateError::Limit(limit) => {
            let text = format!(
                "too many tasks: the limit `{}` is {}; try again when others have ended or expired",
                limit.setting, limit.value
            );
            unavailable(&text)
        }
        CreateError::Store(error) => {
            log::error!(error = %Chain(&**error), "a task could not be stored");
            unavailable("the state of the task cannot be stored now; try again later")
        }
    }
}

/// An error for a request that may succeed later.
pub(crate) fn unavailable(reason: &str) -> RpcError {
    RpcError::Other(ErrorObject::new(
        tsugite_core::jsonrpc::code::UNAVAILABLE,
        format!("Service unavailable: {reason}"),
    ))
}

/// The round of a handler that runs again: it gets the stored answers and the values of `once`.
pub(crate) fn restored_round(state: &TaskState) -> Round {
    let values = state.once.iter().filter_map(|(key, step)| match step {
        OnceStep::Value(value) => Some((key.clone(), value.clone())),
        OnceStep::Begun => None,
    });
    Round::with_kept_history(KeptHistory {
        answers: state.answers.clone(),
        fingerprints: state.fingerprints.clone(),
        once_results: values.collect(),
        ..KeptHistory::default()
    })
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// A client that asks for less could not fetch the result.
const MIN_REQUESTED_TTL: Duration = Duration::from_secs(1);
