//! A task at a server of 2025-11-25 for a client of 2026-07-28: its connection, and its open questions.
//!
//! Such a server sends the questions of a task while `tasks/result` waits. So the bridge keeps that request open as long as
//! the task needs input and its client polls.

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::task::AbortHandle;
use tsugite_core::jsonrpc::RawJson;
use tsugite_core::protocol::Method;
use tsugite_core::protocol::tasks::Payload;
use tsugite_core::revision::Revision;

use super::in_flight::InFlightCall;
use super::suspendable_call::SuspendableCall;
use super::suspension_slots::SuspensionClaim;
use super::task_use::TaskUse;
use super::upstream::Upstream;
use crate::client::forwarded_request::ForwardedRequest;
use crate::lock::lock;

/// A task at a server of 2025-11-25.
pub(super) struct CoreTask {
    /// As the server knows it.
    pub(super) id: String,
    /// The connection that created it. A server may know the task on no other.
    upstream: Mutex<Weak<Upstream>>,
    /// Its questions.
    pub(super) questions: Arc<SuspendableCall>,
    /// The right to keep `tasks/result` open.
    claim: Option<SuspensionClaim>,
    open_result: Mutex<Option<OpenResult>>,
    /// Keeps the connection open.
    pub(super) in_use: Arc<TaskUse>,
}

/// The request `tasks/result` of the bridge.
struct OpenResult(AbortHandle);

impl Drop for OpenResult {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl CoreTask {
    /// A task that was created on this connection, whose client polls it within `ttl`.
    pub(super) fn new(
        id: String,
        upstream: &Arc<Upstream>,
        questions: Arc<SuspendableCall>,
        claim: Option<SuspensionClaim>,
        ttl: Duration,
    ) -> Self {
        let in_use = Arc::new(TaskUse::new(ttl));
        upstream.task_questions.register(&id, &questions, &in_use);
        Self {
            id,
            upstream: Mutex::new(Arc::downgrade(upstream)),
            questions,
            claim,
            open_result: Mutex::default(),
            in_use,
        }
    }

    /// The connection that the task was created on. If it was closed, `leased` takes its place.
    pub(super) fn upstream(&self, leased: &Arc<Upstream>) -> Arc<Upstream> {
        self.in_use.renew();
        let mut upstream = lock(&self.upstream);
        if let Some(known) = upstream.upgrade() {
            return known;
        }
        *upstream = Arc::downgrade(leased);
        leased.task_questions.register(&self.id, &self.questions, &self.in_use);
        Arc::clone(leased)
    }

    /// Closes `tasks/result`, since the task asks nothing now. Its slot is free for another call.
    pub(super) fn close_result(&self) {
        let closed = lock(&self.open_result).take();
        drop(closed);
    }

    /// Records that the task has ended.
    pub(super) fn end(&self) {
        self.in_use.end();
        self.close_result();
    }

    /// Keeps `tasks/result` open, so that the server sends its questions, until its client does not poll. False if too many
    /// calls are suspended.
    pub(super) fn request_questions(
        &self,
        upstream: &Arc<Upstream>,
        params: RawJson,
        from: Revision,
    ) -> bool {
        let mut open = lock(&self.open_result);
        if open.as_ref().is_some_and(|open| !open.0.is_finished()) {
            return true;
        }
        let Ok(permit) = self.claim.as_ref().map(SuspensionClaim::acquire).transpose() else { return false };
        let (upstream, questions) = (Arc::clone(upstream), Arc::clone(&self.questions));
        let in_use = Arc::clone(&self.in_use);
        let task = tokio::spawn(async move {
            let _permit = permit;
            let call = InFlightCall::of_task(from, Some(Arc::clone(&questions)));
            let request = ForwardedRequest::new(Payload::NAME, &params, from);
            tokio::select! {
                // The result is fetched again when the client asks for it.
                ended = upstream.send(request, &call) => drop(ended),
                () = in_use.wait_until_over() => {
                    tracing::debug!("the questions of a task are no longer waited for: its client does not poll");
                }
            }
            questions.wake();
        });
        *open = Some(OpenResult(task.abort_handle()));
        true
    }
}
