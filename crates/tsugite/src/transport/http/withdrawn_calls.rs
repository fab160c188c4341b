//! Waiting calls that must not go on: their clients have cancelled them, or their sessions have ended.
//!
//! The record of such a call is removed before the log of its stream ends, so that no replica runs its handler again. All
//! removals name versions: a call that another replica has claimed stays as it is.

use std::sync::Arc;
use std::time::Duration;

use tsugite_core::jsonrpc::Id;
use tsugite_core::protocol::cancellation::{Cancelled, CancelledParams};
use tsugite_core::revision::{Revision, write_notification};

use super::event_stream::log_key;
use super::http_state::HttpState;
use super::log_writer::end_without_writer;
use super::shared_session::RequestRecord;
use super::waiting_record::{
    ClaimedCall, LONGEST_BACKOFF, RegisteredRequest, WaitingRecord, waiting_field, waiting_key,
};
use crate::error::Chain;
use crate::lock::lock;
use crate::replica::Replica;
use crate::shared::boxed::boxed;
use crate::shared::log;
use crate::store::{Precondition, StoreError, Write};

/// The stored state of a waiting call, as far as its replica knows it.
#[derive(Clone, Copy)]
pub(super) struct KnownState {
    /// The version of the record of the waiting call; 0 if it is unknown.
    pub(super) waiting_version: u64,
    /// Whether it may be stored that the call runs again.
    pub(super) may_run: bool,
}

/// Removes a waiting call of this replica from the store, until the store takes it or this process stops. Returns false if
/// the call goes on.
pub(super) async fn withdraw(state: &HttpState, registered: &RegisteredRequest, call: KnownState) -> bool {
    let Some(replica) = &state.replica else { return false };
    let mut attempt = 0;
    loop {
        match remove(state, replica, registered, call).await {
            Ok(is_removed) => return is_removed,
            Err(error) if state.is_aborting() => {
                log::warn!(error = %Chain(&*error), "a call that was cancelled stays stored: the store failed");
                return false;
            }
            Err(error) => {
                if log::is_first("withdraw", &error.to_string()) {
                    log::warn!(error = %Chain(&*error), "a call that was cancelled is not removed yet: the store failed");
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(100 << attempt)).await;
        attempt = (attempt + 1).min(LONGEST_BACKOFF);
    }
}

async fn remove(
    state: &HttpState,
    replica: &Replica,
    registered: &RegisteredRequest,
    call: KnownState,
) -> Result<bool, StoreError> {
    let (session, request) = (registered.key.as_str(), registered.field.as_str());
    let (key, field) = (waiting_key(replica.name()), waiting_field(session, request));
    let removal =
        |key, field, version| Write::Remove { key, field, precondition: Precondition::FieldVersion(version) };
    let mut versions = (registered.version(), call.waiting_version);
    for _ in 0..2 {
        let mut writes = vec![removal(session, request, versions.0)];
        if versions.1 != 0 {
            writes.push(removal(&key, &field, versions.1));
        }
        if state.store.commit(&writes).await?.is_ok() {
            return Ok(true);
        }
        // An attempt that failed may have been made nevertheless: to store the call as waiting, as running, or to remove it.
        let known = state.store.read(session, &[request]).await?;
        let known = known.and_then(|fields| fields.into_iter().next().flatten());
        let record = known.as_ref().and_then(|known| RequestRecord::open(replica, session, request, known));
        versions = match (known, record) {
            (Some(known), Some(RequestRecord::Running(running))) if running.replica == replica.name() => {
                match running.waiting {
                    true if call.waiting_version == 0 => (known.version, known.version),
                    false if call.may_run => (known.version, 0),
                    // This replica has lost the call and taken it back: it has another handler.
                    _ => return Ok(false),
                }
            }
            (_, Some(RequestRecord::Running(_) | RequestRecord::Unreadable)) => return Ok(false),
            // The session has ended, and with it the record of the request.
            (_, Some(RequestRecord::Cancelled { .. }) | None) => {
                let waiting = state.store.read(&key, &[&field]).await?;
                if let Some(waiting) = waiting.and_then(|fields| fields.into_iter().next().flatten()) {
                    drop(state.store.commit(&[removal(&key, &field, waiting.version)]).await?);
                }
                return Ok(true);
            }
        };
    }
    Ok(false)
}

impl HttpState {
    /// Cancels a call that this replica has claimed and that still waits. `request` is its id as JSON. Returns false if there
    /// is none.
    pub(super) fn cancel_claimed(self: &Arc<Self>, session: &str, request: &str) -> bool {
        let Some(call) = self.claimed.remove(session, request) else { return false };
        let Some(record) = lock(&call.record).take() else { return false };
        let state = self.clone();
        tokio::spawn(boxed(async move { state.end_claimed(&call, &record).await }));
        true
    }

    /// Removes a claimed call, and ends its stream without a response.
    async fn end_claimed(&self, call: &ClaimedCall, record: &WaitingRecord) {
        let known = KnownState { waiting_version: call.waiting_version, may_run: false };
        if withdraw(self, &call.registered, known).await {
            let log = log_key(&call.session, call.registered.stream);
            end_without_writer(&self.logs, &log, cancelled_questions(record)).await;
        }
    }
}

/// A cancellation of each open question, one per line.
fn cancelled_questions(record: &WaitingRecord) -> Vec<u8> {
    let revision = record.revision.parse().unwrap_or(Revision::NEWEST);
    let mut lines = Vec::new();
    for question in &record.history.questions {
        let params = CancelledParams::default().request_id(Id::from(question.id.clone()));
        if write_notification::<Cancelled>(&mut lines, params, revision).is_ok() {
            lines.push(b'\n');
        }
    }
    lines
}
