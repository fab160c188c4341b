//! The table of requests in flight: those whose handler is still pending after its first poll.
//!
//! A request that is answered on its first poll never enters the table. The rules (one response per request, none after a
//! cancellation, no duplicate ids) are core's; this file adds what stops a running handler.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::task::AbortHandle;
use tsugite_core::jsonrpc::Id;
use tsugite_core::revision::RpcError;
use tsugite_core::session::InboundRequests;
use tsugite_core::session::inbound::{BeginError, CancelAction, ResponseAction};

use super::connection::ServerConnection;
use super::context::CancellationToken;
use crate::lock::lock;

/// The requests of one connection that are in flight.
pub(super) struct InFlightRequests {
    table: Mutex<InFlightTable>,
    /// Requests whose response is not written yet: their entry in the table is removed just before that.
    unanswered: AtomicU32,
}

struct InFlightTable {
    requests: InboundRequests<RunningRequest>,
    last_serial: u64,
}

/// A running request, with the means to stop it.
struct RunningRequest {
    /// Tells apart two requests that used the same id one after the other.
    serial: u64,
    cancellation: CancellationToken,
    task: Option<AbortHandle>,
}

/// Which checks a request must pass before it is dispatched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Its id must be unused and the table must have room. Checked before the handler starts, so that no started handler is
    /// refused.
    IfRoom,
    /// Its id must be unused. `initialize` is accepted also when the table is full.
    IfIdUnused,
    /// None, for requests that are answered at once or never enter the table.
    Always,
}

impl InFlightRequests {
    pub(super) fn new(max_requests: usize) -> Self {
        let table = InFlightTable { requests: InboundRequests::new(max_requests), last_serial: 0 };
        Self { table: Mutex::new(table), unanswered: AtomicU32::new(0) }
    }

    /// Returns the error for a request that must not be dispatched.
    pub(super) fn check(&self, id: &Id<'_>, admission: Admission) -> Result<(), RpcError> {
        if admission == Admission::Always {
            return Ok(());
        }
        let table = self.lock();
        if admission == Admission::IfRoom && table.requests.is_full() {
            return Err(too_many_requests());
        }
        match !table.requests.is_empty() && table.requests.contains(id) {
            true => Err(duplicate_id()),
            false => Ok(()),
        }
    }

    /// Registers a pending request and returns its serial number.
    pub(super) fn begin(
        &self,
        id: &Id<'static>,
        method: &str,
        cancellation: CancellationToken,
    ) -> Result<u64, RpcError> {
        let mut table = self.lock();
        let serial = table.last_serial + 1;
        let running = RunningRequest { serial, cancellation, task: None };
        table.requests.begin_with(id, method, running).map_err(|error| match error {
            BeginError::DuplicateId => duplicate_id(),
            _ => too_many_requests(),
        })?;
        table.last_serial = serial;
        Ok(serial)
    }

    /// Remembers the task that runs a request, so that a cancellation can abort it.
    pub(super) fn set_task(&self, id: &Id<'static>, serial: u64, task: AbortHandle) {
        let mut table = self.lock();
        let running = table.requests.payload_mut(id).filter(|running| running.serial == serial);
        if let Some(running) = running {
            running.task = Some(task);
            return;
        }
        // The request was cancelled or completed before its task was known.
        drop(table);
        task.abort();
    }

    /// Removes a request whose response is ready; says whether to send it.
    pub(super) fn complete(&self, id: &Id<'static>, serial: u64) -> ResponseAction {
        let mut table = self.lock();
        // An id may have been cancelled and used again: the entry then belongs to the later request.
        match table.requests.payload(id) {
            Some(running) if running.serial == serial => table.requests.complete(id),
            _ => ResponseAction::Drop,
        }
    }

    /// Stops a request that its sender cancelled.
    pub(super) fn cancel(&self, id: &Id<'static>) {
        let mut table = self.lock();
        if table.requests.cancel(id) == CancelAction::Ignore {
            return;
        }
        // Its future is dropped with the task, so nothing else removes its entry.
        let running = table.requests.remove(id);
        drop(table);
        if let Some(running) = running {
            running.stop();
        }
    }

    /// Stops all requests; their responses are dropped.
    pub(super) fn stop_all(&self) {
        let running = self.lock().requests.drain();
        running.for_each(RunningRequest::stop);
    }

    /// Whether a response is not written yet.
    pub(super) fn has_unanswered(&self) -> bool {
        self.unanswered.load(Ordering::Acquire) > 0
    }

    fn lock(&self) -> MutexGuard<'_, InFlightTable> {
        lock(&self.table)
    }
}

impl RunningRequest {
    fn stop(self) {
        self.cancellation.cancel();
        if let Some(task) = self.task {
            task.abort();
        }
    }
}

/// Counts a request as unanswered until its response is written or its future is dropped.
pub(super) struct UnansweredGuard(pub(super) Arc<ServerConnection>);

impl UnansweredGuard {
    pub(super) fn new(connection: &Arc<ServerConnection>) -> Self {
        connection.in_flight.unanswered.fetch_add(1, Ordering::AcqRel);
        Self(connection.clone())
    }
}

impl Drop for UnansweredGuard {
    fn drop(&mut self) {
        self.0.in_flight.unanswered.fetch_sub(1, Ordering::AcqRel);
        self.0.push.notify_idle();
    }
}

fn too_many_requests() -> RpcError {
    RpcError::InvalidRequest("Too many requests are waiting".into())
}

fn duplicate_id() -> RpcError {
    RpcError::InvalidRequest("Invalid request: the id is already in use".into())
}
