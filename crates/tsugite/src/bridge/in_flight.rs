//! Requests that were forwarded to a server and have no response yet.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use tsugite_core::jsonrpc::{Raw, RawJson};
use tsugite_core::revision::Revision;

use super::client_request::ReplyTarget;
use super::notification_encoding::encode_progress;
use super::suspendable_call::SuspendableCall;
use crate::lock::lock;
use crate::shared::outbound_queue::OutboundQueue;

/// The requests in flight on one connection, by the id they have there.
#[derive(Default)]
pub(super) struct InFlightCalls(Mutex<HashMap<i64, Arc<InFlightCall>, foldhash::fast::RandomState>>);

impl InFlightCalls {
    /// The request with this id.
    pub(super) fn get(&self, call: Option<i64>) -> Option<Arc<InFlightCall>> {
        lock(&self.0).get(&call?).cloned()
    }

    /// The only request that `fits`, subscriptions aside; `None` if there are several.
    pub(super) fn only(&self, fits: impl Fn(&InFlightCall) -> bool) -> Option<Arc<InFlightCall>> {
        let calls = lock(&self.0);
        let mut fitting = calls.values().filter(|call| !call.is_subscription && fits(call));
        match (fitting.next(), fitting.next()) {
            (Some(call), None) => Some(Arc::clone(call)),
            _ => None,
        }
    }

    /// The queue of a request whose client is too far behind to take more.
    pub(super) fn full_queue(&self) -> Option<Arc<OutboundQueue>> {
        lock(&self.0).values().find_map(|call| {
            let reply_target = lock(&call.reply_target);
            reply_target.as_ref().map(|target| &target.outbox).filter(|outbox| outbox.is_full()).cloned()
        })
    }

    /// Registers a request under the id of its latest attempt, in place of the earlier one.
    pub(super) fn replace(&self, earlier: i64, id: i64, call: &Arc<InFlightCall>) {
        let mut calls = lock(&self.0);
        calls.remove(&earlier);
        calls.insert(id, Arc::clone(call));
    }

    /// Removes the request with this id.
    pub(super) fn remove(&self, id: i64) {
        lock(&self.0).remove(&id);
    }

    /// Whether no request is in flight.
    pub(super) fn is_empty(&self) -> bool {
        lock(&self.0).is_empty()
    }
}

/// A request that was forwarded and has no response yet.
pub(super) struct InFlightCall {
    /// The revision of the client.
    pub(super) revision: Revision,
    /// Where messages before the response go; `None` while the client does not wait for the response.
    pub(super) reply_target: Mutex<Option<ReplyTarget>>,
    /// Progress that arrived while the client did not wait, with the revision it is written in.
    missed_progress: Mutex<VecDeque<(Revision, RawJson)>>,
    /// Takes requests of the server, where the client cannot be sent any.
    pub(super) suspendable: Option<Arc<SuspendableCall>>,
    /// Whether it timed out before there was a response.
    pub(super) timed_out: AtomicBool,
    /// Whether it is a subscription, or waits for a task: it stays open beside other requests.
    is_subscription: bool,
}

impl InFlightCall {
    pub(super) fn new(revision: Revision, reply_target: ReplyTarget) -> Arc<Self> {
        Self::build(revision, Some(reply_target), None, false)
    }

    /// A call during which the server may send requests.
    pub(super) fn suspendable(
        revision: Revision,
        reply_target: ReplyTarget,
        suspendable: Option<Arc<SuspendableCall>>,
    ) -> Arc<Self> {
        Self::build(revision, Some(reply_target), suspendable, false)
    }

    /// A subscription.
    pub(super) fn subscription(revision: Revision, reply_target: ReplyTarget) -> Arc<Self> {
        Self::build(revision, Some(reply_target), None, true)
    }

    /// A request of the bridge itself about a task, whose questions go to `questions`. It runs beside other requests.
    pub(super) fn of_task(revision: Revision, questions: Option<Arc<SuspendableCall>>) -> Arc<Self> {
        Self::build(revision, None, questions, true)
    }

    fn build(
        revision: Revision,
        reply_target: Option<ReplyTarget>,
        suspendable: Option<Arc<SuspendableCall>>,
        is_subscription: bool,
    ) -> Arc<Self> {
        Arc::new(Self {
            revision,
            reply_target: Mutex::new(reply_target),
            missed_progress: Mutex::default(),
            suspendable,
            timed_out: AtomicBool::new(false),
            is_subscription,
        })
    }

    /// Whether it waits for the questions of a task.
    pub(super) fn waits_for_questions(&self) -> bool {
        self.is_subscription && self.suspendable.is_some()
    }

    pub(super) fn reply_target(&self) -> Option<ReplyTarget> {
        lock(&self.reply_target).clone()
    }

    /// Where progress goes. The latest progress is kept for a client that is away to answer a question.
    pub(super) fn progress_target(&self, from: Revision, params: Raw<'_>) -> Option<ReplyTarget> {
        let reply_target = lock(&self.reply_target);
        if reply_target.is_none() && self.suspendable.is_some() {
            let mut missed = lock(&self.missed_progress);
            missed.push_back((from, params.to_owned()));
            while missed.iter().map(|(_, params)| params.text().len()).sum::<usize>()
                > MAX_MISSED_PROGRESS_BYTES
            {
                missed.pop_front();
            }
        }
        reply_target.clone()
    }

    /// Sends later messages to `target`: the client waits for the response again. Missed progress is sent first.
    pub(super) fn reattach(&self, target: ReplyTarget) {
        let mut reply_target = lock(&self.reply_target);
        for (from, params) in std::mem::take(&mut *lock(&self.missed_progress)) {
            if let Some(bytes) = encode_progress(&target, from, self.revision, Raw::from(&params)) {
                target.outbox.push(|out| out.extend_from_slice(&bytes));
            }
        }
        *reply_target = Some(target);
    }
}

/// Bytes of progress that are kept for a client that is away.
const MAX_MISSED_PROGRESS_BYTES: usize = 16 << 10;
