//! Calls with an idempotency key: the second call with a key gets the outcome of the first one, and runs nothing.
//!
//! `tools/call` comes here if the tool is `once` and the call has a key. The record of the key is read from the store, and
//! [`decide`] says what follows: the stored outcome, an error, or that the handler runs. A call that runs is stored as running
//! before its handler begins; then the request is routed again from the start, with its response captured, and the outcome is
//! stored before it is sent. `docs/idempotency.md` is the specification.

mod decide;
mod held_task;
mod key_error;
mod keyed_call;
mod outcome;
mod run;

use std::sync::Arc;

use tokio::time::{Instant, timeout_at};

pub(crate) use keyed_call::KeyedCall;
pub(crate) use run::observe_begin;

use decide::{Decision, decide};
use held_task::HeldTask;
use run::{Run, RunEnd};

use super::connection::ServerConnection;
use super::incoming_request::IncomingRequest;
use super::key_state::KeyTable;
use super::layer::LayerRequest;
use super::pending::PendingRequest;
use super::purge;
use super::response_writer::RpcResult;

/// Answers a call with a key.
pub(crate) fn serve(
    connection: &Arc<ServerConnection>,
    incoming: IncomingRequest<'_>,
    call: KeyedCall,
) -> Option<PendingRequest> {
    purge::start(&connection.server.shared);
    let cancellation = incoming.tracking.cancellation_token();
    let request = LayerRequest::from_incoming(connection, incoming, cancellation.clone());
    let task = Arc::<HeldTask>::default();
    let table = connection.server.shared.keys().clone();
    let answer = answer(table, Arc::new(call), Arc::new(request), task.clone());
    let (id, revision, writer) =
        (incoming.request.id.clone().into_owned(), incoming.revision, incoming.writer.clone());
    connection.register_pending(incoming, cancellation, async move {
        let outcome = answer.await;
        move || {
            match outcome {
                Some(Ok(result)) => writer.send_raw_result(&id, &result, revision),
                Some(Err(error)) => writer.send_error(Some(&id), &error, revision),
                // The call was cancelled, or another process answers it.
                None => {}
            }
            // No message about the task precedes the response.
            drop(task);
        }
    })
}

/// Waits for the outcome of a call, or runs it.
async fn answer(
    table: Arc<KeyTable>,
    call: Arc<KeyedCall>,
    request: Arc<LayerRequest>,
    task: Arc<HeldTask>,
) -> Option<RpcResult> {
    let deadline = Instant::now() + table.settings.wait;
    loop {
        let guard = match table.enter(&call.name) {
            Ok(guard) => guard,
            Err(mut busy) => match timeout_at(deadline, busy.changed()).await {
                Ok(_) => continue,
                Err(_) => return Some(Err(key_error::running(table.settings.wait))),
            },
        };
        let stored = match table.store.read(&call.name).await {
            Ok(stored) => stored,
            Err(error) => return Some(Err(key_error::unavailable(&*error))),
        };
        match decide(&call, stored.as_ref().map(|stored| &stored.record)) {
            Decision::Run => {}
            Decision::Answer => return Some(outcome::stored_outcome(stored)),
            Decision::Refuse(refusal) => return Some(Err(refusal.to_rpc_error())),
            Decision::RunsIn(process) => match table.has_ended(&process).await {
                Err(error) => return Some(Err(key_error::unavailable(&*error))),
                Ok(true) if call.is_restartable || table.never_ran(&call.name, &process) => {}
                Ok(true) => return Some(Err(key_error::may_have_run())),
                Ok(false) if Instant::now() >= deadline => {
                    return Some(Err(key_error::running(table.settings.wait)));
                }
                Ok(false) => {
                    drop(guard);
                    tokio::time::sleep(POLL_INTERVAL.min(table.settings.wait)).await;
                    continue;
                }
            },
        }
        let run =
            Run { table: table.clone(), call: call.clone(), request: request.clone(), task: task.clone() };
        match run.spawn(stored, guard).await {
            RunEnd::Conflict => {}
            RunEnd::Ended(outcome) => return outcome,
        }
    }
}

/// How often a call looks whether the same call in another process has ended.
const POLL_INTERVAL: std::time::Duration = std::time::Duration::from_millis(100);
