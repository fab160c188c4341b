//! The table of requests in flight: those whose handler is still pending after its first poll.
//!
//! A request that is answered on its first poll never enters the table. The rules (one response per request, none after a
//! cancellation, no duplicate ids) are core's; this file adds what stops a running handler.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};

use tokio::task::AbortHandle;
use tokio::time::Instant;
use tsugite_core::jsonrpc::Id;
use tsugite_core::revision::RpcError;
use tsugite_core::session::InboundRequests;
use tsugite_core::session::inbound::{BeginError, CancelAction, ResponseAction};

use super::cancellation::CancellationToken;
use super::early_cancellations::{EarlyCancellation, EarlyCancellations};
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
    /// Whether messages arrive on several connections, so that a cancellation can overtake its request.
    remembers_early_cancellations: bool,
    /// Cancellations that came before their requests. Created with the first, since most sessions have none.
    early: Option<Box<EarlyCancellations>>,
}

impl InFlightTable {
    /// The cancellation of a request that came before the request was registered.
    fn take_early_cancellation(&mut self, id: &Id<'_>) -> Option<EarlyCancellation> {
        match &mut self.early {
            Some(early) if !early.is_empty() => early.take(id, Instant::now()),
            _ => None,
        }
    }
}

/// Why a request is not accepted.
pub(super) enum AdmissionError {
    /// Its sender has cancelled it, so it gets no response.
    Cancelled,
    /// It is answered with this error.
    Error(RpcError),
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
    /// An empty table. A session whose messages arrive on several connections remembers early cancellations.
    pub(super) fn new(max_requests: usize, remembers_early_cancellations: bool) -> Self {
        let requests = InboundRequests::new(max_requests);
        let table = InFlightTable { requests, last_serial: 0, remembers_early_cancellations, early: None };
        Self { table: Mutex::new(table), unanswered: AtomicU32::new(0) }
    }

    /// Returns why a request must not be dispatched.
    pub(super) fn check(&self, id: &Id<'_>, admission: Admission) -> Result<(), AdmissionError> {
        if admission == Admission::Always {
            return Ok(());
        }
        let mut table = self.lock();
        let limit = table.requests.max_requests();
        if admission == Admission::IfRoom && table.requests.is_full() {
            return Err(AdmissionError::Error(too_many_requests(limit)));
        }
        if !table.requests.is_empty() && table.requests.contains(id) {
            return Err(AdmissionError::Error(duplicate_id(id)));
        }
        if admission == Admission::IfRoom
            && let Some(early) = table.take_early_cancellation(id)
        {
            log_cancellation(id, early.reason.as_deref());
            return Err(AdmissionError::Cancelled);
        }
        Ok(())
    }

    /// Registers a pending request and returns its serial number. Refuses one that was cancelled during its first poll.
    pub(super) fn begin(
        &self,
        id: &Id<'static>,
        method: &str,
        cancellation: CancellationToken,
    ) -> Result<u64, AdmissionError> {
        let mut table = self.lock();
        if let Some(early) = table.take_early_cancellation(id) {
            drop(table);
            log_cancellation(id, early.reason.as_deref());
            cancellation.cancel_for(early.reason);
            return Err(AdmissionError::Cancelled);
        }
        let (serial, limit) = (table.last_serial + 1, table.requests.max_requests());
        let running = RunningRequest { serial, cancellation, task: None };
        table.requests.begin_with(id, method, running).map_err(|error| match error {
            BeginError::DuplicateId => AdmissionError::Error(duplicate_id(id)),
            _ => AdmissionError::Error(too_many_requests(limit)),
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

    /// Stops a request that its sender cancelled, now or when it arrives, for the reason it gave.
    pub(super) fn cancel(&self, id: &Id<'static>, reason: Option<String>) {
        let mut table = self.lock();
        if table.requests.cancel(id) == CancelAction::Ignore {
            if table.remembers_early_cancellations && !table.requests.contains(id) {
                table.early.get_or_insert_default().insert(id.clone(), reason, Instant::now());
            }
            return;
        }
        // Its future is dropped with the task, so nothing else removes its entry.
        let running = table.requests.remove(id);
        drop(table);
        if let Some(running) = running {
            log_cancellation(id, reason.as_deref());
            running.stop(reason);
        }
    }

    /// Whether a request with this id is in the table.
    pub(super) fn contains(&self, id: &Id<'_>) -> bool {
        self.lock().requests.contains(id)
    }

    /// Stops all requests; their responses are dropped.
    pub(super) fn stop_all(&self) {
        let running = self.lock().requests.drain();
        running.for_each(|request| request.stop(None));
    }

    /// Counts a request as unanswered.
    pub(super) fn add_unanswered(&self) {
        self.unanswered.fetch_add(1, Ordering::AcqRel);
    }

    /// Uncounts a request whose response is written, or whose future was dropped.
    pub(super) fn remove_unanswered(&self) {
        self.unanswered.fetch_sub(1, Ordering::AcqRel);
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
    fn stop(self, reason: Option<String>) {
        self.cancellation.cancel_for(reason);
        if let Some(task) = self.task {
            task.abort();
        }
    }
}

fn log_cancellation(id: &Id<'_>, reason: Option<&str>) {
    tracing::debug!(%id, reason, "the client cancelled a request");
}

fn too_many_requests(limit: usize) -> RpcError {
    RpcError::InvalidRequest(TOO_MANY_REQUESTS.into()).with("limit", limit)
}

pub(super) const TOO_MANY_REQUESTS: &str = "Too many requests are waiting";

pub(crate) fn duplicate_id(id: &Id<'_>) -> RpcError {
    let id = serde_json::to_value(id).unwrap_or_default();
    RpcError::InvalidRequest("Invalid request: the id is already in use".into()).with("id", id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn early_cancellation_keeps_its_reason() {
        let requests = InFlightRequests::new(4, true);
        let (id, cancellation) = (Id::from(1), CancellationToken::default());
        requests.cancel(&id, Some("the user left".to_owned()));
        let begun = requests.begin(&id, "tools/call", cancellation.clone());
        assert!(matches!(begun, Err(AdmissionError::Cancelled)));
        assert_eq!((cancellation.is_cancelled(), cancellation.reason()), (true, Some("the user left")));
    }
}
