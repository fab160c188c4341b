//! Tasks whose store reports a failure of a change that it makes nevertheless, at once or later.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use tsugite::store::{
    Committed, Conflict, Field, LogRead, MemoryStore, Position, Precondition, Received, SpendLimit, Store,
    StoreFuture, StoreResult, StoreScope, Write,
};
use tsugite_testkit::raw_client::RawClient;

use super::{EXTENSION, declared, endless, error_code, server, start};

const UNAVAILABLE: i64 = -32803;
/// Only a moment: the clock moves on when the server has nothing left to do.
const MOMENT: Duration = Duration::from_millis(1);

/// What happens to the next change of a task.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// It is made, and reported as failed.
    Unconfirmed,
    /// It is reported as failed, and made when the test says so.
    Late,
}

/// A store that fails as a test says, and counts how often tasks are read.
#[derive(Clone)]
struct FaultyStore {
    store: Arc<MemoryStore>,
    fault: Arc<Mutex<Fault>>,
    late: Arc<Mutex<Option<LateChange>>>,
    task_reads: Arc<AtomicUsize>,
}

struct LateChange {
    key: String,
    field: String,
    value: Bytes,
    ttl: Duration,
}

impl FaultyStore {
    fn new() -> Self {
        Self {
            store: Arc::new(MemoryStore::new()),
            fault: Arc::new(Mutex::new(Fault::None)),
            late: Arc::default(),
            task_reads: Arc::default(),
        }
    }

    fn fail_next(&self, fault: Fault) {
        *self.fault.lock().unwrap() = fault;
    }

    async fn make_late_change(&self) {
        let LateChange { key, field, value, ttl } = self.late.lock().unwrap().take().unwrap();
        let precondition = Precondition::None;
        let write = Write::Set { key: &key, field: &field, value, precondition, ttl };
        self.store.commit(&[write]).await.unwrap().unwrap();
    }
}

impl Store for FaultyStore {
    fn scope(&self) -> StoreScope {
        self.store.scope()
    }

    fn read(&self, key: &str, fields: &[&str]) -> StoreResult<Option<Vec<Option<Field>>>> {
        if key.starts_with("task/") {
            self.task_reads.fetch_add(1, Ordering::SeqCst);
        }
        self.store.read(key, fields)
    }

    fn list(&self, key: &str, after: &str, max: usize) -> StoreResult<Vec<(String, Field)>> {
        self.store.list(key, after, max)
    }

    fn commit(&self, writes: &[Write<'_>]) -> StoreResult<Result<Committed, Conflict>> {
        let [Write::Set { key, field, value, precondition: Precondition::FieldVersion(_), ttl }, ..] = writes
        else {
            return self.store.commit(writes);
        };
        match std::mem::replace(&mut *self.fault.lock().unwrap(), Fault::None) {
            Fault::None => self.store.commit(writes),
            Fault::Unconfirmed => {
                let committed = self.store.commit(writes);
                StoreFuture::pending(async move {
                    drop(committed.await);
                    Err("the store went down".into())
                })
            }
            Fault::Late => {
                let (key, field) = ((*key).to_owned(), (*field).to_owned());
                let change = LateChange { key, field, value: value.clone(), ttl: *ttl };
                *self.late.lock().unwrap() = Some(change);
                StoreFuture::Ready(Err("the store did not answer in time".into()))
            }
        }
    }

    fn take(&self, key: &str) -> StoreResult<Option<Vec<(String, Bytes)>>> {
        self.store.take(key)
    }

    fn spend(&self, key: &str, cost: u32, limit: SpendLimit) -> StoreResult<Result<(), Duration>> {
        self.store.spend(key, cost, limit)
    }

    fn read_log(&self, log: &str, after: u64) -> StoreResult<Option<LogRead>> {
        self.store.read_log(log, after)
    }

    fn receive(&self, replica: &str, position: &Position) -> StoreResult<Received> {
        self.store.receive(replica, position)
    }

    fn inbox(&self, replica: &str) -> StoreResult<Vec<Bytes>> {
        self.store.inbox(replica)
    }

    fn renew_lease(&self, replica: &str, ttl: Duration, handled: &Position) -> StoreResult<()> {
        self.store.renew_lease(replica, ttl, handled)
    }

    fn has_lease(&self, replica: &str) -> StoreResult<bool> {
        self.store.has_lease(replica)
    }

    fn end_lease(&self, replica: &str) -> StoreResult<()> {
        self.store.end_lease(replica)
    }

    fn purge_expired(&self) {
        self.store.purge_expired();
    }
}

#[tokio::test(start_paused = true)]
async fn cancellation_reported_as_failed_drops_the_handler() {
    let (store, (server, is_dropped)) = (FaultyStore::new(), endless());
    let mut client = RawClient::connect(&server.store(store.clone()), EXTENSION, declared()).await;
    let id = start(&mut client, "waits").await;
    store.fail_next(Fault::Unconfirmed);
    assert_eq!(error_code(&mut client, "tasks/cancel", json!({"taskId": id})).await, UNAVAILABLE);
    tokio::time::sleep(MOMENT).await;
    assert!(is_dropped.load(Ordering::SeqCst));
    let got = client.request_once("tasks/get", json!({"taskId": id})).await;
    assert_eq!(got["result"]["status"], "cancelled", "{got}");
}

#[tokio::test(start_paused = true)]
async fn answer_reported_as_failed_reaches_the_handler() {
    let store = FaultyStore::new();
    let mut client = RawClient::connect(&server().store(store.clone()), EXTENSION, declared()).await;
    let id = start(&mut client, "greets").await;
    tokio::time::sleep(MOMENT).await;
    store.fail_next(Fault::Unconfirmed);
    let answers = json!({"name": {"action": "accept", "content": {"name": "Ada"}}});
    let update = json!({"taskId": id, "inputResponses": answers});
    assert_eq!(error_code(&mut client, "tasks/update", update).await, UNAVAILABLE);
    tokio::time::sleep(MOMENT).await;
    let got = client.request_once("tasks/get", json!({"taskId": id})).await;
    assert_eq!(got["result"]["result"]["content"][0]["text"], "Hello, Ada!", "{got}");
}

#[tokio::test(start_paused = true)]
async fn change_made_after_its_failure_is_found() {
    let (store, (server, is_dropped)) = (FaultyStore::new(), endless());
    let mut client = RawClient::connect(&server.store(store.clone()), EXTENSION, declared()).await;
    let id = start(&mut client, "waits").await;
    store.fail_next(Fault::Late);
    assert_eq!(error_code(&mut client, "tasks/cancel", json!({"taskId": id})).await, UNAVAILABLE);
    tokio::time::sleep(MOMENT).await;
    store.make_late_change().await;
    tokio::time::sleep(MOMENT).await;
    assert!(!is_dropped.load(Ordering::SeqCst), "nothing announces it");
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert!(is_dropped.load(Ordering::SeqCst));
}

#[tokio::test(start_paused = true)]
async fn request_that_changes_nothing_wakes_no_handler() {
    let store = FaultyStore::new();
    let mut client = RawClient::connect(&server().store(store.clone()), EXTENSION, declared()).await;
    let id = start(&mut client, "greets").await;
    tokio::time::sleep(MOMENT).await;
    let before = store.task_reads.load(Ordering::SeqCst);
    let update = json!({"taskId": id, "inputResponses": {"other": {"action": "decline"}}});
    let answered = client.request_once("tasks/update", update).await;
    assert!(answered["error"].is_null(), "{answered}");
    tokio::time::sleep(MOMENT).await;
    // Only the request itself reads the task.
    assert_eq!(store.task_reads.load(Ordering::SeqCst), before + 1);
}
