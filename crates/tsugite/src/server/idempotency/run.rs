//! Runs the handler of a call with a key, and stores its outcome.
//!
//! The run is a task of its own: a client that loses its connection and calls again finds the run or its outcome. Only
//! a cancellation stops it.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;
use tsugite_core::revision::RpcError;

use super::held_task::HeldTask;
use super::key_error;
use super::keyed_call::KeyedCall;
use super::outcome::Outcome;
use crate::error::Chain;
use crate::lock::lock;
use crate::server::handler::HandlerFuture;
use crate::server::key_state::{
    DetachedRun, KeyConflict, KeyGuard, KeyRecord, KeyState, KeyTable, KeyWrite, KeyedRun, OutcomeChange,
    REFRESH_INTERVAL, StoredKey,
};
use crate::server::layer::{self, LayerRequest};
use crate::server::limits::{CallerKey, LimitPermit, Resource};
use crate::server::pending::params_bytes;
use crate::server::response_writer::RpcResult;
use crate::shared::boxed::boxed;
use crate::shared::log;
use crate::store::StoreError;

/// A handler that records its first poll.
pub(crate) fn observe_begin<O: 'static>(run: &KeyedRun, handler: HandlerFuture<O>) -> HandlerFuture<O> {
    let run = run.clone();
    Box::pin(async move {
        run.mark_begun();
        handler.await
    })
}

/// How a run ended.
pub(super) enum RunEnd {
    /// Another process was faster.
    Conflict,
    /// The response; `None` if the call was cancelled, or another process answers it.
    Ended(Option<RpcResult>),
}

/// The request that waits for a run. If it is dropped without a cancellation, because its connection was lost, the run goes
/// on without it.
struct Waiting {
    table: Arc<KeyTable>,
    request: Arc<LayerRequest>,
    detached: Arc<Mutex<Option<(LimitPermit, DetachedRun)>>>,
    is_done: bool,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let parts = &self.request.parts;
        if self.is_done || parts.cancellation.is_cancelled() {
            return;
        }
        let caller = CallerKey::of_caller(&parts.caller);
        let bytes = params_bytes(parts.params.text());
        match parts.connection.limits.acquire(caller, Some(Resource::DetachedRequest), bytes) {
            Ok(permit) => {
                let counted = self.table.detached.begin(parts.cancellation.clone());
                *lock(&self.detached) = Some((permit, counted));
                // Nothing reads the messages of a single request any more.
                if !Arc::ptr_eq(&parts.outbox, parts.connection.outbox()) {
                    parts.outbox.close();
                }
            }
            Err(_) => parts.cancellation.cancel(),
        }
    }
}

/// A call that runs.
pub(super) struct Run {
    pub(super) table: Arc<KeyTable>,
    pub(super) call: Arc<KeyedCall>,
    pub(super) request: Arc<LayerRequest>,
    /// The task that the call becomes.
    pub(super) task: Arc<HeldTask>,
}

impl Run {
    /// Runs the call, and returns its outcome when that is stored. Dropping the future does not stop the run, unless too many
    /// run like this already.
    pub(super) async fn spawn(self, stored: Option<StoredKey>, guard: KeyGuard) -> RunEnd {
        let (done, ended) = oneshot::channel();
        let detached = Arc::new(Mutex::new(None));
        let mut waiting = Waiting {
            table: self.table.clone(),
            request: self.request.clone(),
            detached: detached.clone(),
            is_done: false,
        };
        tokio::spawn(boxed(async move {
            let end = self.run(stored).await;
            drop(guard);
            drop(lock(&detached).take());
            // The client may be gone.
            drop(done.send(end));
        }));
        let end = ended.await;
        waiting.is_done = true;
        end.unwrap_or(RunEnd::Ended(Some(Err(RpcError::Internal))))
    }

    async fn run(&self, previous: Option<StoredKey>) -> RunEnd {
        let (table, call) = (&*self.table, &*self.call);
        let is_counted = match table.count(&call.name, call.counted_for.clone(), previous.is_none()) {
            Ok(is_counted) => is_counted,
            // The call began long ago, and could not be sent again.
            Err(_) if call.is_taken_over => false,
            Err(limit) => return RunEnd::Ended(Some(Err(key_error::limit(limit)))),
        };
        let uncount = || {
            if is_counted {
                table.uncount(&call.name);
            }
        };
        let known = previous.as_ref().map(|stored| &stored.record);
        let record = call.record(known, table.store.process());
        let write = KeyWrite {
            record: &record,
            outcome: OutcomeChange::Keep,
            replaces: previous.as_ref().map(|stored| stored.version),
            ttl: table.settings.running_ttl(),
        };
        let version = match table.store.write(&call.name, write).await {
            Ok(Ok(version)) => version,
            Ok(Err(_)) => {
                uncount();
                return RunEnd::Conflict;
            }
            Err(error) => {
                // It may be stored now or later.
                table.mark_not_run(&call.name);
                uncount();
                tokio::spawn(boxed(release_unbegun(self.table.clone(), call.name.clone(), record, previous)));
                return RunEnd::Ended(Some(Err(key_error::unavailable(&*error))));
            }
        };
        let begun = KeyedRun::default();
        let response = self.call_handler(&begun, &record).await;
        // Taken in any case: the handler of the task has `begun`, too.
        let task = begun.take_task();
        let outcome = response.as_ref().and_then(|response| Outcome::from_response(response, call.revision));
        match (response, outcome) {
            // A task begins to run after its creation was answered, so a result without a handler is a task.
            (response @ (None | Some(Err(_))), _) if !begun.has_begun() => {
                uncount();
                self.release(version, previous).await;
                RunEnd::Ended(response)
            }
            (Some(response), None) => {
                uncount();
                self.release(version, previous).await;
                RunEnd::Ended(Some(response))
            }
            (Some(response), Some(outcome)) => {
                table.mark_run(&call.name);
                let stored = self.store_outcome(record, version, &outcome).await;
                if let (Ok(()), Some(task)) = (&stored, task) {
                    self.task.set(task);
                }
                RunEnd::Ended(Some(stored.map_or_else(Err, |()| response)))
            }
            (None, _) if self.request.parts.cancellation.is_cancelled() => {
                table.mark_run(&call.name);
                self.store_stopped(record, version).await;
                RunEnd::Ended(None)
            }
            // Another process has taken the call over, with its record.
            (None, _) => RunEnd::Ended(None),
        }
    }

    /// Routes the request, with its response captured. `None` if there is no response: the call was cancelled, or another
    /// process has it.
    async fn call_handler(&self, begun: &KeyedRun, record: &KeyRecord) -> Option<RpcResult> {
        let cancellation = &self.request.parts.cancellation;
        if cancellation.is_cancelled() {
            return None;
        }
        let (captured, work) = layer::route_captured(&self.request, Some(begun));
        if let Some(work) = work {
            let (mut handler, mut cancelled) = (pin!(work.future), pin!(cancellation.cancelled()));
            let mut refresh = pin!(self.refresh(record));
            poll_fn(|cx| {
                let has_ended = handler.as_mut().poll(cx).is_ready()
                    || cancelled.as_mut().poll(cx).is_ready()
                    || refresh.as_mut().poll(cx).is_ready();
                if has_ended { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
        }
        captured.take_captured()
    }

    /// Keeps the record while the handler runs, however long that takes.
    async fn refresh(&self, record: &KeyRecord) {
        loop {
            tokio::time::sleep(REFRESH_INTERVAL).await;
            if let Err(error) = self.refresh_once(record).await
                && log::is_first("once", &error.to_string())
            {
                log::warn!(error = %Chain(&*error), "the record of a call that runs was not refreshed");
            }
        }
    }

    /// Prolongs the record, or writes it again if the store has lost it.
    async fn refresh_once(&self, record: &KeyRecord) -> Result<(), StoreError> {
        let (table, name, ttl) = (&self.table, &self.call.name, self.table.settings.running_ttl());
        table.store.touch(name, ttl).await?;
        if table.store.read(name).await?.is_none() {
            let write = KeyWrite { record, outcome: OutcomeChange::Keep, replaces: None, ttl };
            // In a conflict another process was faster.
            drop(table.store.write(name, write).await?);
        }
        Ok(())
    }

    /// Stores the outcome, and tries again while the store fails. In an error the outcome must not be sent.
    async fn store_outcome(
        &self,
        record: KeyRecord,
        version: u64,
        outcome: &Outcome,
    ) -> Result<(), RpcError> {
        let (table, name) = (&self.table, &self.call.name);
        let ended = KeyRecord { state: outcome.state.clone(), ..record.clone() };
        let mut replaces = Some(version);
        let kept = table.count_outcome(name, outcome.json.len());
        if let Err(limit) = kept {
            let (setting, limit, tool) = (limit.setting, limit.value, &self.call.tool);
            log::warn!(tool, setting, limit, "the result of a call with a key is too large to be remembered");
        }
        for attempt in 0..STORE_ATTEMPTS {
            let change = match kept {
                Ok(()) => OutcomeChange::Set(&outcome.json),
                Err(_) => OutcomeChange::Remove,
            };
            let ttl = table.settings.retention;
            let write = KeyWrite { record: &ended, outcome: change, replaces, ttl };
            match table.store.write(name, write).await {
                Ok(Ok(_)) => return Ok(()),
                // An attempt that failed before was stored after all.
                Ok(Err(conflict)) if conflict.0.as_ref() == Some(&ended) => return Ok(()),
                // The store has lost the record.
                Ok(Err(KeyConflict(None))) if replaces.is_some() => {
                    replaces = None;
                    continue;
                }
                // `refresh_once` has written it again.
                Ok(Err(KeyConflict(Some(found)))) if found == record => {
                    if let Ok(Some(stored)) = table.store.read(name).await
                        && stored.record == record
                    {
                        replaces = Some(stored.version);
                    }
                }
                Ok(Err(_)) => {
                    log::warn!(
                        tool = self.call.tool,
                        "another process has the record of a call that ran here"
                    );
                    return Ok(());
                }
                Err(error) => {
                    log::error!(error = %Chain(&*error), "the result of a call with a key was not stored")
                }
            }
            tokio::time::sleep(FIRST_RETRY * (1 << attempt)).await;
        }
        store_stopped_later(self.table.clone(), self.call.name.clone(), record, replaces);
        Err(key_error::not_stored())
    }

    /// Stores that the handler was stopped.
    async fn store_stopped(&self, record: KeyRecord, version: u64) {
        if let Err(error) = store_stopped(&self.table, &self.call.name, &record, Some(version)).await {
            log::warn!(error = %Chain(&*error), "the record of a stopped call is not stored yet");
            store_stopped_later(self.table.clone(), self.call.name.clone(), record, Some(version));
        }
    }

    /// Restores the record as it was before, because nothing ran, or because the client has to call again.
    async fn release(&self, version: u64, previous: Option<StoredKey>) {
        let previous = previous.map(|stored| stored.record);
        release_record(&self.table, &self.call.name, version, previous.as_ref()).await;
    }
}

/// Restores a record of this version as it was before.
async fn release_record(table: &KeyTable, name: &str, version: u64, previous: Option<&KeyRecord>) {
    let released = match previous {
        None => table.store.remove(name, version).await,
        Some(record) => {
            let (outcome, replaces, ttl) = (OutcomeChange::Keep, Some(version), table.settings.retention);
            table.store.write(name, KeyWrite { record, outcome, replaces, ttl }).await.map(drop)
        }
    };
    match released {
        Ok(()) => table.mark_run(name),
        Err(error) => {
            log::warn!(error = %Chain(&*error), "the record of a call that did not run was not removed");
            table.mark_not_run(name);
        }
    }
}

/// Stores that a handler was stopped, unless another writer was faster.
async fn store_stopped(
    table: &KeyTable,
    name: &str,
    record: &KeyRecord,
    replaces: Option<u64>,
) -> Result<(), StoreError> {
    let record = KeyRecord { state: KeyState::Stopped, ..record.clone() };
    let ttl = table.settings.retention;
    let write = KeyWrite { record: &record, outcome: OutcomeChange::Keep, replaces, ttl };
    table.store.write(name, write).await.map(drop)
}

/// Does the same until the store takes it or has forgotten the record: other processes see that this one lives, and would
/// take the call for one that still runs.
fn store_stopped_later(table: Arc<KeyTable>, name: String, record: KeyRecord, replaces: Option<u64>) {
    let until = Instant::now() + table.settings.running_ttl();
    tokio::spawn(boxed(async move {
        let mut attempt = 0;
        while Instant::now() < until {
            tokio::time::sleep(FIRST_RETRY * (1 << attempt)).await;
            attempt = (attempt + 1).min(RELEASE_ATTEMPTS);
            if store_stopped(&table, &name, &record, replaces).await.is_ok() {
                return;
            }
        }
    }));
}

/// Looks for the record of a call that did not begin because the store failed, and releases it: no other process knows that
/// the call did not run.
async fn release_unbegun(table: Arc<KeyTable>, name: String, record: KeyRecord, previous: Option<StoredKey>) {
    let previous = previous.map(|stored| stored.record);
    for attempt in 0..RELEASE_ATTEMPTS {
        tokio::time::sleep(FIRST_RETRY * (1 << attempt)).await;
        // Another call with the key may run here.
        let Ok(_guard) = table.enter(&name) else { continue };
        if !table.never_ran(&name, table.store.process()) {
            return;
        }
        if let Ok(Some(stored)) = table.store.read(&name).await
            && stored.record == record
        {
            release_record(&table, &name, stored.version, previous.as_ref()).await;
        }
    }
}

const STORE_ATTEMPTS: u32 = 6;
/// The last one is about a minute after the first.
const RELEASE_ATTEMPTS: u32 = 10;
const FIRST_RETRY: Duration = Duration::from_millis(50);
