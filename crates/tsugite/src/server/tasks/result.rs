//! `tasks/result` (2025-11-25): waits for the end of a task, and puts its questions to the client meanwhile.
//!
//! The process that runs the task needs no connection to the client for that: it finds the answers in the record.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tsugite_core::protocol::mrtr::InputRequest;
use tsugite_core::protocol::tasks::{Payload, PayloadResult};
use tsugite_core::protocol::{HasMeta, Meta};
use tsugite_core::revision::{RpcError, read_params};

use super::{TaskAccess, answer};
use crate::replica::digest;
use crate::server::ask::missing_capability;
use crate::server::connection::ServerConnection;
use crate::server::incoming_request::IncomingRequest;
use crate::server::kept_call::KeptAnswer;
use crate::server::outgoing_requests::OpenRequest;
use crate::server::pending::PendingRequest;
use crate::server::task_state::{StoredTask, TaskOutcome, TaskQuestion, TaskWatch};
use crate::shared::outbound_queue::OutboundQueue;

/// Returns what the call of a task would have returned.
pub(crate) fn result(
    connection: &Arc<ServerConnection>,
    request: IncomingRequest<'_>,
) -> Result<Option<PendingRequest>, RpcError> {
    let access = TaskAccess::new(connection, request)?;
    let id = read_params::<Payload>(request.request.params(), request.revision)?.task_id;
    let (outbox, asking) = (request.writer.outbox.clone(), connection.clone());
    Ok(answer::<Payload>(connection, request, async move {
        let watch = access.table.hub.watch([digest(id.as_bytes())]);
        let mut questions = Questions { connection: asking, outbox, open: HashMap::new() };
        loop {
            let stored = access.find_to_read(&id).await?;
            if stored.state.is_final() {
                return payload(&stored);
            }
            questions.update(&stored);
            // An expired task does not announce its end.
            let look_again = stored.call.remaining_ttl().unwrap_or_default().min(LOOK_AGAIN);
            let answers = questions.next_answers(&watch, look_again).await;
            if !answers.is_empty() {
                access.answer(stored, answers).await?;
            }
        }
    }))
}

/// The questions of a task that the client sees through this request.
struct Questions {
    connection: Arc<ServerConnection>,
    outbox: Arc<OutboundQueue>,
    open: HashMap<String, OpenRequest>,
}

impl Questions {
    /// Sends the questions that are new, and cancels those that are no longer open.
    fn update(&mut self, stored: &StoredTask) {
        let asked = &stored.state.questions;
        self.open.retain(|key, _| asked.iter().any(|question| question.key == *key));
        // A client that takes nothing but the result gets no request before it.
        let Some(revision) = stored.revision().filter(|_| !self.outbox.is_discarding()) else { return };
        for TaskQuestion { key, request } in asked {
            if self.open.contains_key(key) {
                continue;
            }
            // Another session of the caller can answer it.
            if missing_capability(request, revision, &self.connection.session_info().1).is_some() {
                continue;
            }
            let opened = self.connection.outgoing_requests().open(&self.outbox, revision, None);
            let Some(mut opened) = opened else { continue };
            drop(opened.send(with_related_task(request.clone(), &stored.call.id)));
            self.open.insert(key.clone(), opened);
        }
    }

    /// Waits for answers. Returns without any if the task has changed, or is to be read again after `look_again`.
    async fn next_answers(&mut self, watch: &TaskWatch, look_again: Duration) -> Vec<(String, KeptAnswer)> {
        let mut changed = pin!(watch.changed());
        let mut timer = pin!(tokio::time::sleep(look_again));
        poll_fn(|cx| {
            let mut answers = Vec::new();
            for (key, request) in &mut self.open {
                match request.poll_response(cx) {
                    Poll::Ready(Some(Ok(result))) => answers.push((key.clone(), KeptAnswer::Result(result))),
                    Poll::Ready(Some(Err(error))) => answers.push((key.clone(), KeptAnswer::Error(error))),
                    // The connection is closed: the question stays open for another one.
                    Poll::Ready(None) | Poll::Pending => {}
                }
            }
            let is_woken = changed.as_mut().poll(cx).is_ready() || timer.as_mut().poll(cx).is_ready();
            match answers.is_empty() && !is_woken {
                true => Poll::Pending,
                false => Poll::Ready(answers),
            }
        })
        .await
    }
}

fn with_related_task(mut request: InputRequest, id: &str) -> InputRequest {
    let meta = match &mut request {
        InputRequest::Elicit(params) => params.meta_mut(),
        InputRequest::Sample(params) => params.meta_mut(),
        InputRequest::Roots(params) => params.meta_mut(),
        _ => return request,
    };
    meta.get_or_insert_with(Meta::new).set_related_task(id);
    request
}

/// The outcome of a task that has ended.
fn payload(stored: &StoredTask) -> Result<PayloadResult, RpcError> {
    let result = match &stored.state.outcome {
        Some(TaskOutcome::Result(result)) => result,
        Some(TaskOutcome::Error(error)) => return Err(RpcError::Forwarded(error.clone())),
        None => return Err(RpcError::InvalidRequest("The task was cancelled".into())),
    };
    let mut payload: PayloadResult = result.read().map_err(|_| RpcError::Internal)?;
    payload.meta.get_or_insert_with(Meta::new).set_related_task(&stored.call.id);
    Ok(payload)
}

/// How often the record is read again although no change was announced.
const LOOK_AGAIN: Duration = Duration::from_secs(10);
