//! A question survives the replica that asked it: the call waits in the store, and another replica finishes it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tsugite::prelude::*;
use tsugite::server::SealKey;
use tsugite::store::{
    Committed, Conflict, Field, LogRead, MemoryStore, Position, Received, SpendLimit, Store, StoreFuture,
    StoreResult, StoreScope, Write,
};
use tsugite_testkit::http::{Connection, Request, TestServer, open_session};

#[derive(Form)]
struct Name {
    /// Your name.
    name: String,
}

/// The store as one replica sees it. A replica that is cut off from it stands for one that was killed or stopped.
struct Link {
    store: Arc<MemoryStore>,
    is_cut: Arc<AtomicBool>,
}

impl Link {
    fn pass<T: Send + 'static>(&self, result: StoreResult<T>) -> StoreResult<T> {
        match self.is_cut.load(Ordering::SeqCst) {
            true => StoreFuture::Ready(Err("cut off".into())),
            false => result,
        }
    }
}

impl Store for Link {
    fn scope(&self) -> StoreScope {
        self.store.scope()
    }

    fn read(&self, key: &str, fields: &[&str]) -> StoreResult<Option<Vec<Option<Field>>>> {
        self.pass(self.store.read(key, fields))
    }

    fn list(&self, key: &str, after: &str, max: usize) -> StoreResult<Vec<(String, Field)>> {
        self.pass(self.store.list(key, after, max))
    }

    fn commit(&self, writes: &[Write<'_>]) -> StoreResult<Result<Committed, Conflict>> {
        match self.is_cut.load(Ordering::SeqCst) {
            true => StoreFuture::Ready(Err("cut off".into())),
            false => self.store.commit(writes),
        }
    }

    fn take(&self, key: &str) -> StoreResult<Option<Vec<(String, Bytes)>>> {
        self.pass(self.store.take(key))
    }

    fn spend(&self, key: &str, cost: u32, limit: SpendLimit) -> StoreResult<Result<(), Duration>> {
        self.pass(self.store.spend(key, cost, limit))
    }

    fn read_log(&self, log: &str, after: u64) -> StoreResult<Option<LogRead>> {
        self.pass(self.store.read_log(log, after))
    }

    fn receive(&self, replica: &str, position: &Position) -> StoreResult<Received> {
        self.pass(self.store.receive(replica, position))
    }

    fn inbox(&self, replica: &str) -> StoreResult<Vec<Bytes>> {
        self.pass(self.store.inbox(replica))
    }

    fn renew_lease(&self, replica: &str, ttl: Duration, handled: &Position) -> StoreResult<()> {
        match self.is_cut.load(Ordering::SeqCst) {
            true => StoreFuture::Ready(Err("cut off".into())),
            false => self.store.renew_lease(replica, ttl, handled),
        }
    }

    fn has_lease(&self, replica: &str) -> StoreResult<bool> {
        self.pass(self.store.has_lease(replica))
    }

    fn end_lease(&self, replica: &str) -> StoreResult<()> {
        self.pass(self.store.end_lease(replica))
    }

    fn purge_expired(&self) {
        self.store.purge_expired();
    }
}

/// Replicas of a server, and what its handlers did.
struct Stage {
    store: Arc<MemoryStore>,
    /// How often the work inside `once` ran.
    paid: Arc<AtomicUsize>,
    /// How often a handler came to its end.
    ended: Arc<AtomicUsize>,
}

struct Replica {
    server: TestServer,
    is_cut: Arc<AtomicBool>,
}

impl Stage {
    /// Waits until another replica has claimed the calls of the one that asked a question.
    async fn wait_for_claim(&self, question: &Value) {
        self.wait_for_claim_of(asker(question)).await;
    }

    async fn wait_for_claim_of(&self, replica: &str) {
        let key = format!("waiting/{replica}");
        while !self.store.list(&key, "", 1).await.unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    }

    /// The replica other than `known` that has had a waiting call.
    async fn other_replica(&self, known: &str) -> String {
        let names = self.store.list("replicas", "", 10).await.unwrap();
        names.into_iter().map(|(name, _)| name).find(|name| name != known).unwrap()
    }

    fn new() -> Self {
        Self { store: Arc::new(MemoryStore::new().shared()), paid: Arc::default(), ended: Arc::default() }
    }

    async fn replica(&self) -> Replica {
        let is_cut = Arc::new(AtomicBool::new(false));
        let link = Link { store: self.store.clone(), is_cut: is_cut.clone() };
        let (paid, ended) = (self.paid.clone(), self.ended.clone());
        let order = Tool::new("order").description("Orders.").handler(move |cx: Context| {
            let (paid, ended) = (paid.clone(), ended.clone());
            async move {
                cx.progress(1).await;
                let receipt: usize = cx
                    .once("pay", async { Ok::<_, HandlerError>(paid.fetch_add(1, Ordering::SeqCst) + 1) })
                    .await?;
                let first = cx.ask::<Name>("Who are you?").await?.name;
                cx.progress(2).await;
                let second = cx.ask::<Name>("And who else?").await?.name;
                cx.progress(3).await;
                ended.fetch_add(1, Ordering::SeqCst);
                Ok::<_, HandlerError>(format!("{first} and {second}, receipt {receipt}"))
            }
        });
        let tied = Tool::new("tied").description("Reads headers.").handler(|cx: Context| async move {
            let _ = cx.headers();
            Ok::<_, HandlerError>(cx.ask::<Name>("Who are you?").await?.name)
        });
        let refused = Tool::new("refused").description("Is not kept.").keep_questions(false);
        let refused = refused.handler(|cx: Context| async move {
            Ok::<_, HandlerError>(cx.ask::<Name>("Who are you?").await?.name)
        });
        let server = Server::new("shop", "1")
            .tool(refused)
            .tool(order)
            .tool(tied)
            .seal_keys(SealKey::new([7; 32]))
            .replica_lease(Duration::from_millis(200))
            .store(link);
        Replica { server: TestServer::start(&server).await, is_cut }
    }
}

fn call(id: u32, tool: &str) -> Value {
    let params = json!({"name": tool, "arguments": {}, "_meta": {"progressToken": "p"}});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

fn answer(question: &Value, name: &str) -> Value {
    let result = json!({"action": "accept", "content": {"name": name}});
    json!({"jsonrpc": "2.0", "id": question["id"], "result": result})
}

/// The name of the replica that asked a question.
fn asker(question: &Value) -> &str {
    &question["id"].as_str().unwrap()[..16]
}

fn resume(session: &str, after: &str) -> Request {
    Request::get_stream(session).header("Last-Event-ID", after)
}

#[tokio::test]
async fn question_survives_the_replica_that_asked() {
    let stage = Stage::new();
    let (first, second) = (stage.replica().await, stage.replica().await);
    let session = open_session(&first.server, "2025-11-25", json!({"elicitation": {}})).await;
    let mut stream = first.server.connect().await;
    stream.send(Request::post(&call(1, "order")).session(&session)).await;
    let (mut last, mut question) = (String::new(), Value::Null);
    while question["method"] != "elicitation/create" {
        let event = stream.next_event().await.unwrap();
        last.clone_from(event.id.as_ref().unwrap());
        question = if event.data.is_empty() { Value::Null } else { event.json() };
    }
    first.is_cut.store(true, Ordering::SeqCst);
    drop(stream);
    let mut resumed = second.server.connect().await;
    assert_eq!(resumed.send(resume(&session, &last)).await.status, 200);
    assert_eq!(
        second.server.send(Request::post(&answer(&question, "Ann")).session(&session)).await.status,
        202
    );
    // The second replica runs the handler again: notifications up to the answer are not repeated.
    let progress = resumed.next_message().await.unwrap();
    assert_eq!(progress["params"]["progress"], 2, "{progress}");
    let next = resumed.next_message().await.unwrap();
    assert_eq!(next["params"]["message"], "And who else?", "{next}");
    assert_eq!(second.server.send(Request::post(&answer(&next, "Bob")).session(&session)).await.status, 202);
    assert_eq!(resumed.next_message().await.unwrap()["params"]["progress"], 3);
    let result = resumed.next_message().await.unwrap();
    assert_eq!(result["id"], 1);
    assert_eq!(result["result"]["content"][0]["text"], "Ann and Bob, receipt 1");
    assert_eq!(resumed.next_message().await, None);
    assert_eq!((stage.paid.load(Ordering::SeqCst), stage.ended.load(Ordering::SeqCst)), (1, 1));
}

#[tokio::test]
async fn replica_that_comes_back_does_not_continue() {
    let stage = Stage::new();
    let (first, second) = (stage.replica().await, stage.replica().await);
    let session = open_session(&first.server, "2025-11-25", json!({"elicitation": {}})).await;
    let mut stream = first.server.connect().await;
    stream.send(Request::post(&call(1, "order")).session(&session)).await;
    let (mut last, mut question) = (String::new(), Value::Null);
    while question["method"] != "elicitation/create" {
        let event = stream.next_event().await.unwrap();
        last.clone_from(event.id.as_ref().unwrap());
        question = if event.data.is_empty() { Value::Null } else { event.json() };
    }
    first.is_cut.store(true, Ordering::SeqCst);
    let mut resumed = second.server.connect().await;
    resumed.send(resume(&session, &last)).await;
    second.server.send(Request::post(&answer(&question, "Ann")).session(&session)).await;
    assert_eq!(resumed.next_message().await.unwrap()["params"]["progress"], 2);
    let next = resumed.next_message().await.unwrap();
    first.is_cut.store(false, Ordering::SeqCst);
    // The same answer at the first replica: the call is no longer its own.
    first.server.send(Request::post(&answer(&question, "Eve")).session(&session)).await;
    second.server.send(Request::post(&answer(&next, "Bob")).session(&session)).await;
    assert_eq!(resumed.next_message().await.unwrap()["params"]["progress"], 3);
    let result = resumed.next_message().await.unwrap();
    assert_eq!(result["result"]["content"][0]["text"], "Ann and Bob, receipt 1");
    assert_eq!(resumed.next_message().await, None);
    assert_eq!((stage.paid.load(Ordering::SeqCst), stage.ended.load(Ordering::SeqCst)), (1, 1));
}

/// Reads a stream up to its question. Returns the question and the id of its event.
async fn read_question(stream: &mut Connection) -> (Value, String) {
    loop {
        let event = stream.next_event().await.unwrap();
        if !event.data.is_empty() && event.json()["method"] == "elicitation/create" {
            return (event.json(), event.id.unwrap());
        }
    }
}

#[tokio::test]
async fn replica_that_lost_its_call_ends_the_stream() {
    let stage = Stage::new();
    let (first, second) = (stage.replica().await, stage.replica().await);
    let session = open_session(&first.server, "2025-11-25", json!({"elicitation": {}})).await;
    let mut stream = first.server.connect().await;
    stream.send(Request::post(&call(1, "order")).session(&session)).await;
    let (question, _) = read_question(&mut stream).await;
    first.is_cut.store(true, Ordering::SeqCst);
    second.server.connect().await.send(Request::get_stream(&session)).await;
    stage.wait_for_claim(&question).await;
    let answered = second.server.send(Request::post(&answer(&question, "Ann")).session(&session)).await;
    assert_eq!(answered.status, 202);
    first.is_cut.store(false, Ordering::SeqCst);
    // The client resumes then, and gets the rest.
    assert_eq!(stream.next_message().await, None);
}

#[tokio::test]
async fn replica_that_comes_back_gets_later_answers() {
    let stage = Stage::new();
    let (first, second) = (stage.replica().await, stage.replica().await);
    let session = open_session(&first.server, "2025-11-25", json!({"elicitation": {}})).await;
    let mut stream = first.server.connect().await;
    stream.send(Request::post(&call(1, "order")).session(&session)).await;
    let (question, _) = read_question(&mut stream).await;
    first.is_cut.store(true, Ordering::SeqCst);
    second.server.connect().await.send(Request::get_stream(&session)).await;
    stage.wait_for_claim(&question).await;
    first.is_cut.store(false, Ordering::SeqCst);
    let mut stream = first.server.connect().await;
    stream.send(Request::post(&call(2, "refused")).session(&session)).await;
    let (question, _) = read_question(&mut stream).await;
    let answered = second.server.send(Request::post(&answer(&question, "Bob")).session(&session)).await;
    assert_eq!(answered.status, 202);
    let result = stream.next_message().await.unwrap();
    assert_eq!((&result["id"], &result["result"]["content"][0]["text"]), (&json!(2), &json!("Bob")));
}

#[tokio::test]
async fn call_that_was_claimed_twice_is_continued() {
    let stage = Stage::new();
    let (first, second) = (stage.replica().await, stage.replica().await);
    let session = open_session(&first.server, "2025-11-25", json!({"elicitation": {}})).await;
    let mut stream = first.server.connect().await;
    stream.send(Request::post(&call(1, "order")).session(&session)).await;
    let (question, last) = read_question(&mut stream).await;
    first.is_cut.store(true, Ordering::SeqCst);
    second.server.connect().await.send(Request::get_stream(&session)).await;
    stage.wait_for_claim(&question).await;
    // It dies before it has written anything.
    let claimer = stage.other_replica(asker(&question)).await;
    second.is_cut.store(true, Ordering::SeqCst);
    let third = stage.replica().await;
    let mut resumed = third.server.connect().await;
    resumed.send(resume(&session, &last)).await;
    stage.wait_for_claim_of(&claimer).await;
    third.server.send(Request::post(&answer(&question, "Ann")).session(&session)).await;
    assert_eq!(resumed.next_message().await.unwrap()["params"]["progress"], 2);
    assert_eq!(resumed.next_message().await.unwrap()["params"]["message"], "And who else?");
}

#[tokio::test]
async fn answer_stored_for_a_dead_replica_is_used() {
    let stage = Stage::new();
    let (first, second) = (stage.replica().await, stage.replica().await);
    let session = open_session(&first.server, "2025-11-25", json!({"elicitation": {}})).await;
    let mut stream = first.server.connect().await;
    stream.send(Request::post(&call(1, "order")).session(&session)).await;
    let (mut last, mut question) = (String::new(), Value::Null);
    while question["method"] != "elicitation/create" {
        let event = stream.next_event().await.unwrap();
        last.clone_from(event.id.as_ref().unwrap());
        question = if event.data.is_empty() { Value::Null } else { event.json() };
    }
    first.is_cut.store(true, Ordering::SeqCst);
    // Accepted before anyone knows that the first replica is dead.
    assert_eq!(
        second.server.send(Request::post(&answer(&question, "Ann")).session(&session)).await.status,
        202
    );
    let mut resumed = second.server.connect().await;
    resumed.send(resume(&session, &last)).await;
    assert_eq!(resumed.next_message().await.unwrap()["params"]["progress"], 2);
    assert_eq!(resumed.next_message().await.unwrap()["params"]["message"], "And who else?");
}

#[tokio::test]
async fn handlers_that_cannot_run_again_are_not_continued() {
    for tool in ["tied", "refused"] {
        lose_call(tool).await;
    }
}

/// Loses a call with its replica, and expects an error at another one.
async fn lose_call(tool: &str) {
    let stage = Stage::new();
    let (first, second) = (stage.replica().await, stage.replica().await);
    let session = open_session(&first.server, "2025-11-25", json!({"elicitation": {}})).await;
    let mut stream = first.server.connect().await;
    stream.send(Request::post(&call(1, tool)).session(&session)).await;
    let last = loop {
        let event = stream.next_event().await.unwrap();
        if !event.data.is_empty() {
            break event.id.unwrap();
        }
    };
    first.is_cut.store(true, Ordering::SeqCst);
    drop(stream);
    let mut resumed = second.server.connect().await;
    resumed.send(resume(&session, &last)).await;
    let lost = resumed.next_message().await.unwrap();
    assert_eq!((&lost["id"], &lost["error"]["code"]), (&json!(1), &json!(-32603)), "{lost}");
    assert!(lost["error"]["message"].as_str().unwrap().contains("may have run"), "{lost}");
    assert_eq!(resumed.next_message().await, None);
}

#[tokio::test]
async fn claimed_call_takes_no_answer_of_another_session() {
    // S-17
    let stage = Stage::new();
    let (first, second) = (stage.replica().await, stage.replica().await);
    let session = open_session(&first.server, "2025-11-25", json!({"elicitation": {}})).await;
    let stranger = open_session(&second.server, "2025-11-25", json!({"elicitation": {}})).await;
    let mut stream = first.server.connect().await;
    stream.send(Request::post(&call(1, "order")).session(&session)).await;
    let (question, last) = read_question(&mut stream).await;
    first.is_cut.store(true, Ordering::SeqCst);
    stage.wait_for_claim(&question).await;
    for (session, name) in [(&stranger, "Mallory"), (&session, "Ann")] {
        let answer = Request::post(&answer(&question, name)).session(session);
        assert_eq!(second.server.send(answer).await.status, 202);
    }
    let mut resumed = second.server.connect().await;
    assert_eq!(resumed.send(resume(&session, &last)).await.status, 200);
    let (next, _) = read_question(&mut resumed).await;
    let answer = Request::post(&answer(&next, "Bob")).session(&session);
    assert_eq!(second.server.send(answer).await.status, 202);
    assert_eq!(resumed.next_message().await.unwrap()["params"]["progress"], 3);
    let result = resumed.next_message().await.unwrap();
    assert_eq!(result["result"]["content"][0]["text"], "Ann and Bob, receipt 1");
}
