//! The store of one replica in a test: it counts operations, and fails, loses or stalls them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Semaphore, watch};
use tsugite::store::{
    Append, Committed, Conflict, Field, LogRead, MemoryStore, Position, Received, Recipient, SpendLimit,
    Store, StoreFuture, StoreResult, StoreScope, Write,
};

/// What a replica does with its store.
pub(super) enum Operation<'a> {
    Read,
    List,
    Commit(&'a [Write<'a>]),
    ReadLog,
    /// Messages, leases and the rest.
    Other,
}

impl Operation<'_> {
    pub(super) fn sends(&self) -> bool {
        matches!(self, Operation::Commit(writes) if writes.iter().any(|write| matches!(write, Write::Send { .. })))
    }

    pub(super) fn appends(&self) -> bool {
        matches!(self, Operation::Commit(writes) if writes.iter().any(|write| matches!(write, Write::Append(_))))
    }

    /// Sets or removes a field whose name begins like this.
    pub(super) fn writes_field(&self, start: &str) -> bool {
        let Operation::Commit(writes) = self else { return false };
        writes.iter().any(|write| match write {
            Write::Set { field, .. } | Write::Remove { field, .. } => field.starts_with(start),
            _ => false,
        })
    }
}

type Predicate = Box<dyn Fn(&Operation<'_>) -> bool + Send + Sync>;

/// The faults and the observations of a [`ReplicaStore`].
pub(super) struct Faults {
    cut_off: watch::Sender<bool>,
    seen: watch::Sender<Seen>,
    refused: Mutex<Option<Predicate>>,
    unconfirmed: Mutex<Option<Predicate>>,
    delays_append: Mutex<bool>,
    delayed: Mutex<Option<Vec<Write<'static>>>>,
    drops_messages: Mutex<bool>,
    /// Whether received messages are lost, with notice.
    misses_messages: Mutex<bool>,
    /// Whether received messages are received twice.
    repeats_messages: Mutex<bool>,
    /// Whether the inboxes of other replicas seem empty.
    hides_inboxes: Mutex<bool>,
    /// If present, reads of records wait for a permit.
    gate: Mutex<Option<Arc<Semaphore>>>,
    /// If present, lists of a session's fields wait for a permit.
    list_gate: Mutex<Option<Arc<Semaphore>>>,
    /// All keys, fields, values and messages that were written.
    written: Mutex<Vec<Vec<u8>>>,
    times_to_live: Mutex<Vec<Duration>>,
}

/// The number of operations so far, without messages and leases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) reads: usize,
    pub(super) lists: usize,
    /// Lists of the tasks of one process.
    pub(super) task_lists: usize,
    pub(super) commits: usize,
    pub(super) log_reads: usize,
    /// Operations that failed, of any kind.
    pub(super) failures: usize,
    pub(super) purges: usize,
}

impl Faults {
    /// Fails every operation from now on, as if the replica were stopped or its network cut.
    pub(super) fn cut_off(&self) {
        self.cut_off.send_replace(true);
    }

    pub(super) fn connect(&self) {
        self.cut_off.send_replace(false);
        *self.refused.lock().unwrap() = None;
    }

    /// Fails the operations for which `predicate` holds; nothing happens then.
    pub(super) fn refuse(&self, predicate: impl Fn(&Operation<'_>) -> bool + Send + Sync + 'static) {
        *self.refused.lock().unwrap() = Some(Box::new(predicate));
    }

    /// Lets the next operation for which `predicate` holds happen, and reports a failure.
    pub(super) fn lose_confirmation(
        &self,
        predicate: impl Fn(&Operation<'_>) -> bool + Send + Sync + 'static,
    ) {
        *self.unconfirmed.lock().unwrap() = Some(Box::new(predicate));
    }

    /// Reports a failure of the next commit that appends, and lets it happen after the commit that follows it.
    pub(super) fn delay_append(&self) {
        *self.delays_append.lock().unwrap() = true;
    }

    /// Whether a delayed commit has not happened yet.
    pub(super) fn has_delayed(&self) -> bool {
        *self.delays_append.lock().unwrap() || self.delayed.lock().unwrap().is_some()
    }

    /// Loses the messages of this replica from now on.
    pub(super) fn drop_messages(&self) {
        *self.drops_messages.lock().unwrap() = true;
    }

    /// Loses the messages that this replica receives next, with the notice that some are lost.
    pub(super) fn miss_messages(&self) {
        *self.misses_messages.lock().unwrap() = true;
    }

    /// Delivers each message to this replica twice from now on.
    pub(super) fn repeat_messages(&self) {
        *self.repeats_messages.lock().unwrap() = true;
    }

    /// Shows no message in the inboxes of other replicas from now on, as if those had handled all.
    pub(super) fn hide_inboxes(&self) {
        *self.hides_inboxes.lock().unwrap() = true;
    }

    /// Lets reads of records wait until the returned semaphore has permits.
    pub(super) fn stall_reads(&self) -> Arc<Semaphore> {
        let gate = Arc::new(Semaphore::new(0));
        *self.gate.lock().unwrap() = Some(gate.clone());
        gate
    }

    /// Lets lists of a session's fields wait until the returned semaphore has permits.
    pub(super) fn stall_lists(&self) -> Arc<Semaphore> {
        let gate = Arc::new(Semaphore::new(0));
        *self.list_gate.lock().unwrap() = Some(gate.clone());
        gate
    }

    pub(super) fn seen(&self) -> Seen {
        *self.seen.borrow()
    }

    pub(super) async fn wait_for(&self, condition: impl FnMut(&Seen) -> bool) {
        self.seen.subscribe().wait_for(condition).await.unwrap();
    }

    pub(super) fn written(&self) -> Vec<Vec<u8>> {
        self.written.lock().unwrap().clone()
    }

    pub(super) fn times_to_live(&self) -> Vec<Duration> {
        self.times_to_live.lock().unwrap().clone()
    }

    fn check(&self, operation: &Operation<'_>) -> Result<(), &'static str> {
        let refuses = |predicate: &Mutex<Option<Predicate>>| {
            predicate.lock().unwrap().as_ref().is_some_and(|p| p(operation))
        };
        self.seen.send_modify(|seen| match operation {
            Operation::Read => seen.reads += 1,
            Operation::List => seen.lists += 1,
            Operation::Commit(_) => seen.commits += 1,
            Operation::ReadLog => seen.log_reads += 1,
            Operation::Other => {}
        });
        if *self.cut_off.borrow() || refuses(&self.refused) {
            self.seen.send_modify(|seen| seen.failures += 1);
            return Err("the store is cut off");
        }
        Ok(())
    }

    fn confirms(&self, operation: &Operation<'_>) -> bool {
        let mut unconfirmed = self.unconfirmed.lock().unwrap();
        let is_lost = unconfirmed.as_ref().is_some_and(|predicate| predicate(operation));
        if is_lost {
            *unconfirmed = None;
        }
        !is_lost
    }

    fn note(&self, write: &Write<'_>) {
        let mut written = self.written.lock().unwrap();
        let mut times = self.times_to_live.lock().unwrap();
        match write {
            Write::Set { key, field, value, ttl, .. } => {
                written.extend([key.as_bytes().to_vec(), field.as_bytes().to_vec(), value.to_vec()]);
                times.push(*ttl);
            }
            Write::Append(append) => {
                written.extend([append.log.as_bytes().to_vec(), append.data.to_vec()]);
                times.push(append.limits.ttl);
            }
            Write::Send { message, ttl, .. } => {
                written.push(message.to_vec());
                times.push(*ttl);
            }
            Write::Touch { ttl, .. } => times.push(*ttl),
            Write::Remove { .. } | Write::Delete { .. } | Write::DeleteLog { .. } => {}
        }
    }
}

/// A store in memory as one replica sees it.
pub(super) struct ReplicaStore {
    pub(super) store: Arc<MemoryStore>,
    pub(super) scope: StoreScope,
    pub(super) faults: Arc<Faults>,
}

impl ReplicaStore {
    pub(super) fn new(store: &Arc<MemoryStore>, scope: StoreScope) -> Self {
        let faults = Faults {
            cut_off: watch::Sender::new(false),
            seen: watch::Sender::default(),
            refused: Mutex::default(),
            unconfirmed: Mutex::default(),
            delays_append: Mutex::default(),
            delayed: Mutex::default(),
            drops_messages: Mutex::default(),
            misses_messages: Mutex::default(),
            repeats_messages: Mutex::default(),
            hides_inboxes: Mutex::default(),
            gate: Mutex::default(),
            list_gate: Mutex::default(),
            written: Mutex::default(),
            times_to_live: Mutex::default(),
        };
        Self { store: store.clone(), scope, faults: Arc::new(faults) }
    }

    fn run<T: Send + 'static>(
        &self,
        operation: &Operation<'_>,
        run: impl FnOnce() -> StoreResult<T>,
    ) -> StoreResult<T> {
        if let Err(refused) = self.faults.check(operation) {
            return StoreFuture::Ready(Err(refused.into()));
        }
        let done = run();
        match self.faults.confirms(operation) {
            true => done,
            false => StoreFuture::Ready(Err("the confirmation is lost".into())),
        }
    }
}

impl Store for ReplicaStore {
    fn scope(&self) -> StoreScope {
        self.scope
    }

    fn read(&self, key: &str, fields: &[&str]) -> StoreResult<Option<Vec<Option<Field>>>> {
        let read = self.run(&Operation::Read, || self.store.read(key, fields));
        let Some(gate) = self.faults.gate.lock().unwrap().clone() else { return read };
        StoreFuture::pending(async move {
            drop(gate.acquire().await);
            read.await
        })
    }

    fn list(&self, key: &str, after: &str, max: usize) -> StoreResult<Vec<(String, Field)>> {
        // What replicas look for in the background costs no request anything.
        let operation = if key.starts_with("session/") { Operation::List } else { Operation::Other };
        if key.starts_with("tasks/at/") {
            self.faults.seen.send_modify(|seen| seen.task_lists += 1);
        }
        let listed = self.run(&operation, || self.store.list(key, after, max));
        let gate = self.faults.list_gate.lock().unwrap().clone();
        match gate.filter(|_| matches!(operation, Operation::List)) {
            None => listed,
            Some(gate) => StoreFuture::pending(async move {
                drop(gate.acquire().await);
                listed.await
            }),
        }
    }

    fn commit(&self, writes: &[Write<'_>]) -> StoreResult<Result<Committed, Conflict>> {
        let faults = &self.faults;
        if Operation::Commit(writes).appends() && std::mem::take(&mut *faults.delays_append.lock().unwrap()) {
            *faults.delayed.lock().unwrap() = Some(writes.iter().map(to_static).collect());
            return StoreFuture::Ready(Err("the store did not answer in time".into()));
        }
        let delayed = faults.delayed.lock().unwrap().take();
        let committed = self.run(&Operation::Commit(writes), || {
            let mut writes = writes.to_vec();
            if *self.faults.drops_messages.lock().unwrap() {
                writes.retain(|write| !matches!(write, Write::Send { .. }));
            }
            writes.iter().for_each(|write| self.faults.note(write));
            self.store.commit(&writes)
        });
        if let Some(delayed) = delayed {
            drop(self.store.commit(&delayed));
        }
        committed
    }

    fn take(&self, key: &str) -> StoreResult<Option<Vec<(String, Bytes)>>> {
        self.run(&Operation::Other, || self.store.take(key))
    }

    fn spend(&self, key: &str, cost: u32, limit: SpendLimit) -> StoreResult<Result<(), Duration>> {
        self.run(&Operation::Other, || self.store.spend(key, cost, limit))
    }

    fn read_log(&self, log: &str, after: u64) -> StoreResult<Option<LogRead>> {
        self.run(&Operation::ReadLog, || self.store.read_log(log, after))
    }

    fn receive(&self, replica: &str, position: &Position) -> StoreResult<Received> {
        if let Err(refused) = self.faults.check(&Operation::Other) {
            return StoreFuture::Ready(Err(refused.into()));
        }
        let (received, faults) = (self.store.receive(replica, position), self.faults.clone());
        StoreFuture::pending(async move {
            let mut cut_off = faults.cut_off.subscribe();
            let mut received = tokio::select! {
                biased;
                _ = cut_off.wait_for(|cut_off| *cut_off) => return Err("the store is cut off".into()),
                received = received => received?,
            };
            if !received.messages.is_empty() && std::mem::take(&mut *faults.misses_messages.lock().unwrap()) {
                received.messages.clear();
                received.missed = true;
            }
            if *faults.repeats_messages.lock().unwrap() {
                received.messages.extend_from_within(..);
            }
            Ok(received)
        })
    }

    fn inbox(&self, replica: &str) -> StoreResult<Vec<Bytes>> {
        if *self.faults.hides_inboxes.lock().unwrap() {
            return StoreFuture::Ready(Ok(Vec::new()));
        }
        self.run(&Operation::Other, || self.store.inbox(replica))
    }

    fn renew_lease(&self, replica: &str, ttl: Duration, handled: &Position) -> StoreResult<()> {
        self.run(&Operation::Other, || self.store.renew_lease(replica, ttl, handled))
    }

    fn has_lease(&self, replica: &str) -> StoreResult<bool> {
        self.run(&Operation::Other, || self.store.has_lease(replica))
    }

    fn end_lease(&self, replica: &str) -> StoreResult<()> {
        self.run(&Operation::Other, || self.store.end_lease(replica))
    }

    fn purge_expired(&self) {
        self.store.purge_expired();
        self.faults.seen.send_modify(|seen| seen.purges += 1);
    }
}

/// A copy of a write that lives as long as the test.
fn to_static(write: &Write<'_>) -> Write<'static> {
    let keep = |text: &str| -> &'static str { Box::leak(text.into()) };
    match write.clone() {
        Write::Set { key, field, value, precondition, ttl } => {
            Write::Set { key: keep(key), field: keep(field), value, precondition, ttl }
        }
        Write::Append(append) => Write::Append(Append {
            log: keep(append.log),
            owner: keep(append.owner),
            replaces: append.replaces.map(keep),
            ..append
        }),
        Write::Send { to: Recipient::Replica(to), message, ttl } => {
            Write::Send { to: Recipient::Replica(keep(to)), message, ttl }
        }
        other => panic!("{other:?} is not delayed"),
    }
}
