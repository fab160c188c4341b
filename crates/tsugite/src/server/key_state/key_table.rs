//! The keys of one server, as this process knows them: their store, their number, and the calls that are handled now.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::sync::watch;
use tokio::time::Instant;

use super::detached_runs::DetachedRuns;
use super::key_store::KeyStore;
use super::settings::OnceSettings;
use crate::lock::lock;
use crate::replica::Replica;
use crate::server::caller_key::CallerKey;
use crate::server::record_limits::{RecordCounts, RecordLimit};
use crate::store::{Store, StoreError};

/// The keys of one server.
pub(crate) struct KeyTable {
    pub(crate) store: KeyStore,
    pub(crate) settings: OnceSettings,
    pub(crate) detached: Arc<DetachedRuns>,
    counts: Mutex<RecordCounts>,
    /// The keys whose calls are handled here, and the ends of that.
    busy: Mutex<HashMap<String, watch::Receiver<()>>>,
    /// Keys that may be stored as running here although nothing ran: the store failed meanwhile. Each with the time at which
    /// that record has expired.
    not_run: Mutex<HashMap<String, Instant>>,
}

/// The right to handle the calls with one key in this process. Dropping it wakes the others.
pub(crate) struct KeyGuard {
    table: Arc<KeyTable>,
    name: String,
    _end: watch::Sender<()>,
}

impl Drop for KeyGuard {
    fn drop(&mut self) {
        lock(&self.table.busy).remove(&self.name);
    }
}

impl KeyTable {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        replica: Option<Arc<Replica>>,
        settings: OnceSettings,
    ) -> Arc<Self> {
        Arc::new(Self {
            store: KeyStore::new(store, replica),
            settings,
            detached: Arc::default(),
            counts: Mutex::default(),
            busy: Mutex::default(),
            not_run: Mutex::default(),
        })
    }

    /// Begins to handle a call with this key. While another call has it, returns what changes at the end of that.
    pub(crate) fn enter(self: &Arc<Self>, name: &str) -> Result<KeyGuard, watch::Receiver<()>> {
        let mut busy = lock(&self.busy);
        if let Some(end) = busy.get(name) {
            return Err(end.clone());
        }
        let (sender, end) = watch::channel(());
        busy.insert(name.to_owned(), end);
        Ok(KeyGuard { table: self.clone(), name: name.to_owned(), _end: sender })
    }

    /// Whether a call that was stored as running in `process` runs no longer. The caller has the guard of its key.
    pub(crate) async fn has_ended(&self, process: &str) -> Result<bool, StoreError> {
        match &self.store.replica {
            // A call that runs here has the guard.
            _ if process == self.store.process() => Ok(true),
            Some(replica) => replica.is_dead(process).await,
            None => Ok(true),
        }
    }

    /// Whether a call that is stored as running in `process` is known not to have begun.
    pub(crate) fn never_ran(&self, name: &str, process: &str) -> bool {
        let is_marked = |expires: &Instant| *expires > Instant::now();
        process == self.store.process() && lock(&self.not_run).get(name).is_some_and(is_marked)
    }

    /// Remembers that no call with this key ran, whatever the store says.
    pub(crate) fn mark_not_run(&self, name: &str) {
        let (mut not_run, now) = (lock(&self.not_run), Instant::now());
        if not_run.len() >= MAX_NOT_RUN {
            not_run.retain(|_, expires| *expires > now);
        }
        // Beyond the limit a call is taken for one that may have run.
        if not_run.len() < MAX_NOT_RUN {
            not_run.insert(name.to_owned(), now + self.settings.running_ttl());
        }
    }

    pub(crate) fn mark_run(&self, name: &str) {
        lock(&self.not_run).remove(name);
    }

    /// Counts the record of a call that is to run here, or fails with the limit that is reached. Returns whether it was not
    /// counted before, which is also so for the first round here of a call from another process.
    pub(crate) fn count(
        &self,
        name: &str,
        caller: Option<CallerKey>,
        is_new: bool,
    ) -> Result<bool, RecordLimit> {
        let mut counts = lock(&self.counts);
        if !is_new && counts.contains(name) {
            return Ok(false);
        }
        let ttl = self.settings.running_ttl();
        counts.add(name, caller, RECORD_BYTES, ttl, &self.settings.limits())?;
        Ok(true)
    }

    /// Counts the bytes of an outcome in place of those of the last round, or fails with the limit that is reached.
    pub(crate) fn count_outcome(&self, name: &str, bytes: usize) -> Result<(), RecordLimit> {
        let mut counts = lock(&self.counts);
        counts.set_ttl(name, self.settings.retention);
        counts.set_bytes(name, RECORD_BYTES);
        let too_large = bytes > self.settings.max_result_bytes;
        let limit = RecordLimit::new("max_once_result_bytes", self.settings.max_result_bytes);
        if too_large { Err(limit) } else { counts.grow(name, bytes, &self.settings.limits()) }
    }

    pub(crate) fn uncount(&self, name: &str) {
        lock(&self.counts).remove(name);
    }
}

/// The bytes of a record besides its outcome.
const RECORD_BYTES: usize = 1 << 10;
const MAX_NOT_RUN: usize = 10_000;
