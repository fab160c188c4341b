//! Goes on with tasks whose process has ended, and leaves those of this process when it ends.

use std::borrow::Cow;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::task::JoinSet;
use tsugite_core::jsonrpc::code::INTERNAL_ERROR;
use tsugite_core::jsonrpc::{ErrorObject, Id, Raw, Request};
use tsugite_core::protocol::Method;
use tsugite_core::protocol::tools::Call;
use tsugite_core::revision::{Revision, RpcError};
use tsugite_core::session::request_meta::RequestMeta;

use crate::error::Chain;
use crate::server::connection::ServerConnection;
use crate::server::incoming_request::{IncomingRequest, Tracking};
use crate::server::principal::Caller;
use crate::server::purge;
use crate::server::registry::ToolEntry;
use crate::server::response_writer::ResponseWriter;
use crate::server::serving::ServingGuard;
use crate::server::task_run;
use crate::server::task_state::{
    ChangeError, IndexEntry, RunningTask, StoredTask, TaskCall, TaskState, TaskTable, is_unreadable,
};
use crate::server::{Server, ServerShared};
use crate::shared::boxed::boxed;
use crate::shared::log;
use crate::store::{StoreError, StoreScope};

/// Takes over the tasks of processes that have ended, until the server is dropped, except while it is stopped. Started once.
/// Nothing happens outside of a runtime.
pub(crate) fn start_taking_over(server: &Server) {
    let table = server.shared.tasks();
    let (Some(replica), Ok(runtime)) = (&table.hub.store.replica, tokio::runtime::Handle::try_current())
    else {
        return;
    };
    if !server.shared.registry().has_task_tools() || !table.begin_taking_over() {
        return;
    }
    let (shared, every) = (Arc::downgrade(&server.shared), replica.lease() / 2);
    runtime.spawn(boxed(async move {
        while let Some(server) = upgrade(&shared) {
            if !server.shared.tasks().is_stopping()
                && let Err(error) = take_over_all(&server).await
                && log::is_first("take over", &error.to_string())
            {
                log::warn!(error = %Chain(&*error), "tasks of other processes were not looked for");
            }
            drop(server);
            tokio::time::sleep(every).await;
        }
    }));
}

fn upgrade(shared: &Weak<ServerShared>) -> Option<Server> {
    Some(Server { shared: shared.upgrade()? })
}

async fn take_over_all(server: &Server) -> Result<(), StoreError> {
    let table = server.shared.tasks();
    let Some(replica) = &table.hub.store.replica else { return Ok(()) };
    take_over_from(server, table, replica.name()).await?;
    for runner in table.hub.store.runners().await? {
        if runner == replica.name() || !replica.is_dead(&runner).await? {
            continue;
        }
        if take_over_from(server, table, &runner).await? {
            table.hub.store.forget(&runner, None).await?;
        }
    }
    Ok(())
}

/// Takes over the tasks of a process that has ended. If it is this process, those that do not run here although the store
/// says so: it made a change that it reported as failed. Returns false if some tasks are left as they are.
async fn take_over_from(server: &Server, table: &Arc<TaskTable>, runner: &str) -> Result<bool, StoreError> {
    let (mut after, mut is_complete) = (String::new(), true);
    loop {
        let tasks = table.hub.store.tasks_of_runner(runner, &after).await?;
        let Some(last) = tasks.last() else { return Ok(is_complete) };
        after.clone_from(&last.position);
        for entry in &tasks {
            is_complete &= match take_over(server, table, runner, entry).await {
                Err(error) if is_unreadable(&error) => {
                    if log::is_first("take over", &error.to_string()) {
                        log::warn!(error = %Chain(&*error), "a task is left to other processes");
                    }
                    false
                }
                taken => taken?,
            };
        }
    }
}

/// Takes over one task: runs it again, or ends it. Returns false if it is left as it is.
async fn take_over(
    server: &Server,
    table: &Arc<TaskTable>,
    runner: &str,
    IndexEntry { position, id }: &IndexEntry,
) -> Result<bool, StoreError> {
    let (store, is_own) = (&table.hub.store, runner == table.hub.store.runner());
    // Sealed with other keys.
    let Some(id) = id else { return Ok(false) };
    if is_own && table.is_here(position) {
        return Ok(true);
    }
    let stored = store.read(id).await?.filter(|stored| stored.state.runner == runner);
    // It may have begun since.
    if is_own && table.is_here(position) {
        return Ok(true);
    }
    let Some(stored) = stored.filter(|stored| !stored.state.is_final()) else {
        store.forget(runner, Some(position)).await?;
        return Ok(true);
    };
    if stored.state.can_run_again && must_be_left(server, table, &stored.call) {
        return Ok(false);
    }
    // Those that do not fit are taken over later. The caller was told already that the task runs, so its share does not count.
    let Ok(_slot) = table.reserve(id, None) else { return Ok(false) };
    let claim = |state: &mut TaskState, fits: bool| {
        if state.is_final() || state.runner != runner {
            return Err(());
        }
        match state.can_run_again {
            true if fits => store.runner().clone_into(&mut state.runner),
            true => state.fail(ErrorObject::new(INTERNAL_ERROR, STATE_TOO_LARGE)),
            // Its creation was reported as failed: no client has its id, and nothing ran.
            false if is_own => drop(task_run::cancel(state)),
            false => state.fail(ErrorObject::new(INTERNAL_ERROR, PROCESS_ENDED)),
        }
        Ok(true)
    };
    let mut claimed = table.change(stored.clone(), &mut |state| claim(state, true)).await;
    if let Err(ChangeError::TooLarge(_)) = claimed {
        // Without questions and answers it has room for the reason.
        claimed = table.change(stored, &mut |state| claim(state, false)).await;
    }
    match claimed {
        Ok(claimed) if claimed.state.is_final() => task_run::log_end(&claimed),
        Ok(claimed) => run_again(server, table, claimed).await,
        // Another process was faster, or the task has expired.
        Err(ChangeError::Refused(()) | ChangeError::Gone | ChangeError::TooLarge(_)) => {}
        Err(ChangeError::Store(error)) => return Err(error),
    }
    Ok(true)
}

/// Whether this process does not offer the tool of a task, and another one may.
fn must_be_left(server: &Server, table: &TaskTable, call: &TaskCall) -> bool {
    let store = table.hub.store.replica.as_ref().map(|replica| replica.store.scope());
    if store != Some(StoreScope::Replicas) {
        return false;
    }
    let caller = call.caller.as_ref().map(|caller| caller.principal());
    server.shared.find::<ToolEntry>(&server.shared.config(), caller.as_ref(), &call.tool).is_none()
}

/// Runs the handler of a task again from the start, with the answers so far.
async fn run_again(server: &Server, table: &Arc<TaskTable>, stored: StoredTask) {
    let task = RunningTask::new(&table.hub, stored.clone());
    table.begin(&task);
    purge::start(&server.shared);
    let call = &stored.call;
    let principal = call.caller.as_ref().map(|caller| caller.principal());
    let connection = ServerConnection::new(server, principal.clone());
    let routed = stored.revision().ok_or(NOT_SERVED).and_then(|revision| {
        if let Some((params, level)) = &call.handshake {
            connection.restore(revision, params.clone(), *level);
        }
        try_route(&connection, &task, &stored, revision, principal)
    });
    if let Err(reason) = routed {
        fail(table, &task, reason).await;
        task_run::log_end(&task.snapshot());
    }
}

/// Routes the call of a task to its tool. Fails with the reason why it did not begin to run.
fn try_route(
    connection: &Arc<ServerConnection>,
    task: &Arc<RunningTask>,
    stored: &StoredTask,
    revision: Revision,
    principal: Option<crate::server::Principal>,
) -> Result<(), &'static str> {
    let params = stored.call.params.clone();
    let request =
        Request { id: Id::from(0), method: Cow::Borrowed(Call::NAME), params: Some(Raw::from(&params)) };
    let meta = RequestMeta::from_params(request.params()).map_err(|_| NOT_SERVED)?;
    let caller = Caller { principal, resumed_task: Some(task.clone()), ..Caller::default() };
    let writer = ResponseWriter::discard();
    let declared = connection.complete_handshake(revision);
    drop(connection.route_request(IncomingRequest {
        request: &request,
        meta: &meta,
        revision,
        writer: &writer,
        caller: &caller,
        declared,
        tracking: Tracking::Untracked,
    }));
    match writer.take_captured() {
        None => Ok(()),
        Some(Err(RpcError::InsufficientScope(_))) => Err(SCOPE_MISSING),
        // The tool is not there any more, or is another one now.
        Some(_) => Err(NOT_SERVED),
    }
}

async fn fail(table: &TaskTable, task: &Arc<RunningTask>, reason: &'static str) {
    let failed = task.change(move |state| {
        state.fail(ErrorObject::new(INTERNAL_ERROR, reason));
        true
    });
    drop(failed.await);
    table.finish(task);
}

/// Ends the tasks of this process before it stops, with the last transport that serves. Those that can run again are left
/// for another process, all others fail. Gives up after a few seconds if the store fails.
pub(crate) async fn stop(serving: ServingGuard) {
    let Some(server) = serving.end() else { return };
    let table = server.shared.tasks();
    if !table.begin_stopping() {
        return;
    }
    let (movable, others): (Vec<_>, Vec<_>) = table
        .running()
        .into_iter()
        .partition(|task| table.hub.store.replica.is_some() && task.snapshot().state.can_run_again);
    // First, because it needs no store.
    movable.iter().for_each(|task| task.release());
    let mut stopping = JoinSet::new();
    for task in others {
        let table = table.clone();
        stopping.spawn(boxed(async move {
            fail(&table, &task, SERVER_STOPPED).await;
            task.release();
        }));
    }
    let all_ended = async { while stopping.join_next().await.is_some() {} };
    if tokio::time::timeout(STORE_GRACE, all_ended).await.is_err() {
        log::warn!("the store did not take the end of all tasks in time");
    }
}

const PROCESS_ENDED: &str = "The process that ran this task has ended, and the task cannot run again; it may have done a part of its work";
const STATE_TOO_LARGE: &str = "The process that ran this task has ended, and the state of the task is too large to be stored for another one";
const SERVER_STOPPED: &str = "The server was stopped while this task ran, and the task cannot run again; it may have done a part of its work";
const SCOPE_MISSING: &str = "The process that took this task over requires a scope for its tool that the caller of the task did not have";
const NOT_SERVED: &str = "The process that took this task over does not offer its tool";
/// How long the end of tasks may take.
const STORE_GRACE: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    use tsugite_core::jsonrpc::RawJson;
    use tsugite_core::protocol::TaskSupport;

    use super::*;
    use crate::replica::digest;
    use crate::server::kept_call::KeptAnswer;
    use crate::server::task_state::now_millis;
    use crate::server::{SealKey, SealKeys, Tool};
    use crate::store::{MAX_VALUE_BYTES, MemoryStore, Store};

    /// A task of the process `gone` that can run again, with an answer of so many bytes.
    fn task_with_answer(id: &str, bytes: usize) -> (TaskCall, TaskState) {
        let created_millis = now_millis();
        let call = TaskCall {
            id: id.to_owned(),
            tool: "tool".to_owned(),
            scopes: Vec::new(),
            params: RawJson::parse("{}").unwrap(),
            revision: Revision::NEWEST.as_str().to_owned(),
            caller: None,
            handshake: None,
            created_millis,
            ttl_millis: 60_000,
            poll_interval_millis: 1_000,
        };
        let mut state = TaskState::new("gone", created_millis);
        state.can_run_again = true;
        let answer = RawJson::parse(format!("\"{}\"", "x".repeat(bytes))).unwrap();
        state.answers.insert("key".to_owned(), KeptAnswer::Result(answer));
        (call, state)
    }

    #[tokio::test]
    async fn task_too_large_to_be_taken_over_fails() {
        let store = Arc::new(MemoryStore::new().shared());
        let keys = SealKeys::new(SealKey::new([7; 32]));
        let tool = Tool::new("tool").task(TaskSupport::Required).handler(|| async { "done" });
        let server = Server::new("s", "1").tool(tool).store(store.clone()).seal_keys(keys);
        let table = server.shared.tasks();
        let (call, state) = task_with_answer("small", 0);
        table.hub.store.create(call, state, None).await.unwrap();
        let key = format!("task/{}", digest(b"small"));
        let small = store.read(&key, &["state"]).await.unwrap().unwrap()[0].clone().unwrap();
        // As large as the store takes. The name of this process is longer than that of the other one.
        let (call, state) = task_with_answer("large", MAX_VALUE_BYTES - small.value.len());
        table.hub.store.create(call, state, None).await.unwrap();
        assert!(take_over_from(&server, table, "gone").await.unwrap());
        let ended = table.hub.store.read("large").await.unwrap().unwrap();
        assert_eq!(ended.state.message.as_deref(), Some(STATE_TOO_LARGE));
    }
}
