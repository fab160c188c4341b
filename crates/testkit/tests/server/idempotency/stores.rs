//! Stores that fail, and servers that share one or use it after each other.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use tokio::sync::Semaphore;
use tsugite::prelude::*;
use tsugite::protocol::TaskSupport;
use tsugite::server::{SealKey, SealKeys};
use tsugite::store::{
    Committed, Conflict, Field, LogRead, MemoryStore, Position, Precondition, Received, SpendLimit, Store,
    StoreFuture, StoreResult, StoreScope, Write,
};
use tsugite_core::revision::Revision;
use tsugite_testkit::raw_client::RawClient;

use super::{FIRST, NEWEST, Stage, call, connect, fault, params, text};

const UNAVAILABLE: i64 = -32803;
/// More writes than a server makes.
const MANY: usize = 1_000;

/// A store that counts what reaches it, and fails as often as a test says.
#[derive(Clone)]
struct FaultyStore {
    store: Arc<MemoryStore>,
    operations: Arc<AtomicUsize>,
    /// Writes that are done before some fail.
    good_writes: Arc<AtomicUsize>,
    failing_writes: Arc<AtomicUsize>,
    /// Whether a write that fails is done nevertheless.
    writes_anyway: bool,
    /// Writes of tasks wait for a permit here, if a test wants that.
    task_writes: Option<Arc<Semaphore>>,
    /// A permit for each of these writes that has come so far.
    waiting_task_writes: Arc<Semaphore>,
    /// The record of a key that was written last.
    last_key: Arc<Mutex<String>>,
}

impl FaultyStore {
    fn new(store: MemoryStore) -> Self {
        let (good_writes, failing_writes) = (Arc::new(AtomicUsize::new(MANY)), Arc::default());
        Self {
            store: Arc::new(store),
            operations: Arc::default(),
            good_writes,
            failing_writes,
            writes_anyway: false,
            task_writes: None,
            waiting_task_writes: Arc::new(Semaphore::new(0)),
            last_key: Arc::default(),
        }
    }

    /// Loses the record of the key that was written last.
    async fn lose_record(&self) {
        let key = self.last_key.lock().unwrap().clone();
        let fields = ["state", "outcome"];
        let lost = fields.map(|field| Write::Remove { key: &key, field, precondition: Precondition::None });
        self.store.commit(&lost).await.unwrap().unwrap();
    }

    /// After `good` more writes, `failing` writes fail.
    fn fail_after(&self, good: usize, failing: usize) {
        self.failing_writes.store(failing, Ordering::SeqCst);
        self.good_writes.store(good, Ordering::SeqCst);
    }
}

fn take_one(counter: &AtomicUsize) -> bool {
    counter.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
}

impl Store for FaultyStore {
    fn scope(&self) -> StoreScope {
        self.store.scope()
    }

    fn read(&self, key: &str, fields: &[&str]) -> StoreResult<Option<Vec<Option<Field>>>> {
        self.operations.fetch_add(1, Ordering::SeqCst);
        self.store.read(key, fields)
    }

    fn list(&self, key: &str, after: &str, max: usize) -> StoreResult<Vec<(String, Field)>> {
        self.store.list(key, after, max)
    }

    fn commit(&self, writes: &[Write<'_>]) -> StoreResult<Result<Committed, Conflict>> {
        self.operations.fetch_add(1, Ordering::SeqCst);
        let writes_key = |prefix: &str| {
            writes.iter().any(|write| match write {
                Write::Set { key, .. } | Write::Remove { key, .. } => key.starts_with(prefix),
                _ => false,
            })
        };
        if let Some(permits) = self.task_writes.clone().filter(|_| writes_key("task/")) {
            let committed = self.store.commit(writes);
            self.waiting_task_writes.add_permits(1);
            return StoreFuture::pending(async move {
                permits.acquire().await?.forget();
                committed.await
            });
        }
        if let [Write::Set { key, .. }, ..] = writes
            && key.starts_with("once/")
        {
            (*key).clone_into(&mut self.last_key.lock().unwrap());
        }
        let fails = writes_key("once/") && !take_one(&self.good_writes) && take_one(&self.failing_writes);
        if fails && !self.writes_anyway {
            return StoreFuture::Ready(Err("the store is down".into()));
        }
        let committed = self.store.commit(writes);
        match fails {
            true => StoreFuture::pending(async move {
                drop(committed.await);
                Err("the store went down".into())
            }),
            false => committed,
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
}

fn faulty() -> FaultyStore {
    FaultyStore::new(MemoryStore::new())
}

/// A server whose store outlives it.
fn replica(stage: &Stage, store: impl Store) -> Server {
    stage
        .server()
        .store(store)
        .seal_keys(SealKeys::new(SealKey::new([7; 32])))
        .replica_lease(Duration::from_millis(200))
}

#[tokio::test]
async fn call_without_a_key_does_not_touch_the_store() {
    let (stage, store) = (Stage::new(), faulty());
    let mut client = connect(&stage.server().store(store.clone())).await;
    client.call("pay", json!({})).await;
    client.request_once("tools/list", json!({})).await;
    assert_eq!(store.operations.load(Ordering::SeqCst), 0);
    call(&mut client, "pay", FIRST).await;
    // It reads the record, stores that the call begins, and its outcome.
    assert_eq!(store.operations.load(Ordering::SeqCst), 3);
    call(&mut client, "pay", FIRST).await;
    assert_eq!(store.operations.load(Ordering::SeqCst), 4);
}

#[tokio::test]
async fn call_does_not_run_if_its_beginning_is_not_stored() {
    for writes_anyway in [false, true] {
        let (stage, store) = (Stage::new(), FaultyStore { writes_anyway, ..faulty() });
        let mut client = connect(&stage.server().store(store.clone())).await;
        store.fail_after(0, 1);
        assert_eq!(call(&mut client, "pay", FIRST).await["error"]["code"], UNAVAILABLE);
        assert_eq!(stage.runs(), 0);
        store.fail_after(MANY, 0);
        assert_eq!(text(&call(&mut client, "pay", FIRST).await), "run 1 with {}", "{writes_anyway}");
    }
}

#[tokio::test]
async fn call_that_did_not_begin_runs_at_another_replica() {
    let (stage, shared) = (Stage::new(), MemoryStore::new().shared());
    let store = FaultyStore { writes_anyway: true, ..FaultyStore::new(shared) };
    let mut one = connect(&replica(&stage, store.clone())).await;
    let mut other = connect(&replica(&stage, store.store.clone())).await;
    store.fail_after(0, 1);
    assert_eq!(call(&mut one, "pay", FIRST).await["error"]["code"], UNAVAILABLE);
    assert_eq!(text(&call(&mut other, "pay", FIRST).await), "run 1 with {}");
}

#[tokio::test(start_paused = true)]
async fn outcome_is_stored_again_until_the_store_takes_it() {
    for writes_anyway in [false, true] {
        let (stage, store) = (Stage::new(), FaultyStore { writes_anyway, ..faulty() });
        let mut client = connect(&stage.server().store(store.clone())).await;
        store.fail_after(1, 3);
        assert_eq!(text(&call(&mut client, "pay", FIRST).await), "run 1 with {}");
        assert_eq!(text(&call(&mut client, "pay", FIRST).await), "run 1 with {}");
    }
}

#[tokio::test(start_paused = true)]
async fn outcome_that_is_not_stored_is_not_sent() {
    let (stage, store) = (Stage::new(), faulty());
    let mut client = connect(&stage.server().store(store.clone())).await;
    store.fail_after(1, MANY);
    assert_eq!(fault(&call(&mut client, "pay", FIRST).await), "may_have_run");
    store.fail_after(MANY, 0);
    assert_eq!(fault(&call(&mut client, "pay", FIRST).await), "may_have_run");
    assert_eq!(stage.runs(), 1);
}

#[tokio::test]
async fn outcome_is_stored_although_its_record_was_lost() {
    let (stage, store) = (Stage::new(), faulty());
    let mut client = connect(&stage.server().store(store.clone())).await;
    let first = client.send_request("tools/call", params("slow", FIRST));
    stage.started().await;
    store.lose_record().await;
    stage.go.add_permits(2);
    assert_eq!(text(&client.wait_for_response(first).await), "run 1");
    assert_eq!(text(&call(&mut client, "slow", FIRST).await), "run 1");
}

#[tokio::test(start_paused = true)]
async fn lost_record_is_written_again_while_the_call_runs() {
    let (stage, store) = (Stage::new(), faulty());
    let server = stage.server().store(store.clone()).call_timeout(None);
    let mut client = connect(&server).await;
    let first = client.send_request("tools/call", params("slow", FIRST));
    stage.started().await;
    store.lose_record().await;
    // Longer than the interval in which records are refreshed.
    tokio::time::sleep(Duration::from_secs(6 * 60)).await;
    let key = store.last_key.lock().unwrap().clone();
    let record = store.store.read(&key, &["state"]).await.unwrap();
    assert!(matches!(record.as_deref(), Some([Some(_)])), "{record:?}");
    stage.go.add_permits(1);
    assert_eq!(text(&client.wait_for_response(first).await), "run 1");
    assert_eq!(text(&call(&mut client, "slow", FIRST).await), "run 1");
}

#[tokio::test]
async fn call_cancelled_before_it_is_a_task_does_not_run() {
    let permits = Arc::new(Semaphore::new(0));
    let (stage, store) = (Stage::new(), FaultyStore { task_writes: Some(permits.clone()), ..faulty() });
    let task = |tool: Tool| tool.task(TaskSupport::Required);
    let server = Server::new("once", "1").tool(task(stage.pay())).store(store.clone()).max_running_tasks(1);
    let server = server.tool(task(Tool::new("other").handler(|| async { "done" })));
    let capabilities = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let mut client = RawClient::connect(&server, NEWEST, capabilities).await;
    let first = client.send_request("tools/call", params("pay", FIRST));
    store.waiting_task_writes.acquire().await.unwrap().forget();
    client.notify("notifications/cancelled", json!({"requestId": first}));
    // When this is answered the server has read the cancellation.
    client.request_once("tools/list", json!({})).await;
    permits.add_permits(1);
    store.waiting_task_writes.acquire().await.unwrap().forget();
    permits.add_permits(MANY);
    // Another task begins only when the first one has ended.
    let mut other = client.call("other", json!({})).await;
    for _ in 0..MANY {
        if other["error"].is_null() {
            break;
        }
        other = client.call("other", json!({})).await;
    }
    assert_eq!(other["result"]["resultType"], "task", "{other}");
    assert_eq!(stage.runs(), 0);
}

/// A server whose only tool is a task from the start, and a client of 2025-11-25 that has called it with a key.
async fn call_as_task(stage: &Stage, store: &FaultyStore) -> (RawClient, u64) {
    let tool = stage.pay().task(TaskSupport::Required);
    let server = Server::new("once", "1").tool(tool).store(store.clone());
    let mut client = RawClient::connect(&server, Revision::V2025_11_25, json!({})).await;
    let mut wanted = params("pay", FIRST);
    wanted["task"] = json!({});
    let id = client.send_request("tools/call", wanted);
    (client, id)
}

#[tokio::test(start_paused = true)]
async fn task_begins_after_its_id_is_stored_and_sent() {
    let (stage, store) = (Stage::new(), faulty());
    // The outcome is stored at the second attempt.
    store.fail_after(1, 1);
    let (mut client, id) = call_as_task(&stage, &store).await;
    let first = client.next().await;
    assert_eq!(first["id"], id, "{first}");
    let status = client.next().await;
    assert_eq!(status["params"]["taskId"], first["result"]["task"]["taskId"], "{status}");
    assert_eq!((&status["params"]["status"], stage.runs()), (&json!("completed"), 1));
}

#[tokio::test(start_paused = true)]
async fn task_whose_id_is_not_stored_does_not_run() {
    let (stage, store) = (Stage::new(), faulty());
    store.fail_after(1, MANY);
    let (mut client, _) = call_as_task(&stage, &store).await;
    assert_eq!(fault(&client.next().await), "may_have_run");
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(stage.runs(), 0);
}

#[tokio::test]
async fn outcome_is_found_by_another_replica() {
    let (stage, store) = (Stage::new(), Arc::new(MemoryStore::new().shared()));
    let mut one = connect(&replica(&stage, store.clone())).await;
    let mut other = connect(&replica(&stage, store)).await;
    assert_eq!(text(&call(&mut one, "pay", FIRST).await), "run 1 with {}");
    assert_eq!(text(&call(&mut other, "pay", FIRST).await), "run 1 with {}");
}

#[tokio::test]
async fn call_at_another_replica_is_waited_for() {
    let (stage, store) = (Stage::new(), Arc::new(MemoryStore::new().shared()));
    let mut one = connect(&replica(&stage, store.clone())).await;
    let mut other = connect(&replica(&stage, store)).await;
    let first = one.send_request("tools/call", params("slow", FIRST));
    stage.started().await;
    let second = other.send_request("tools/call", params("slow", FIRST));
    stage.go.add_permits(2);
    assert_eq!(text(&one.wait_for_response(first).await), "run 1");
    assert_eq!(text(&other.wait_for_response(second).await), "run 1");
    assert_eq!(stage.runs(), 1);
}
