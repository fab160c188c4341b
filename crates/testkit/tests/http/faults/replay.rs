//! Resumed streams: within the limits of the log nothing is lost or repeated, beyond them the client gets an error.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use tokio::sync::{Semaphore, watch};
use tsugite::prelude::*;
use tsugite::store::{
    Committed, Conflict, Field, LogRead, MemoryStore, Position, Received, SpendLimit, Store, StoreFuture,
    StoreResult, StoreScope, Write,
};
use tsugite::transport::http::Http;
use tsugite_testkit::http::{Request, SseEvent};

use super::{Client, Stage, run, talk, text_of};

const AGE: Duration = Duration::from_secs(600);

#[test]
fn timely_resumption_loses_and_repeats_nothing() {
    run(async || {
        let mut stage = Stage::new(Http::new().max_log_events(8).log_ttl(AGE));
        let serving = stage.serve().await;
        let client = Client::session(&serving).await;
        let mut connection = serving.connect().await;
        connection.send(client.call(1, "talk", talk(100, 1))).await;
        stage.step(0).await;
        let (mut heard, mut last) = (Vec::new(), String::new());
        let mut said = 0;
        while said < 100 {
            // One event is read, and the rest is sent without a reader: as many as the log holds, and fewer.
            let event = connection.next_event().await.unwrap();
            last.clone_from(event.id.as_ref().unwrap());
            heard.push(event);
            if heard.last().unwrap().data.is_empty() {
                continue;
            }
            drop(connection);
            let more = (1 + said % 8).min(100 - said);
            stage.let_go(more);
            stage.step(said + more).await;
            said += more;
            connection = serving.connect().await;
            assert_eq!(connection.send(client.after(&last)).await.status, 200);
            // All but the last are read at once.
            for _ in 1..more {
                read_events(&mut connection, &mut heard).await;
            }
            last.clone_from(heard.last().unwrap().id.as_ref().unwrap());
        }
        stage.let_go(1);
        while heard.last().is_some_and(|event| !event.data.contains(r#""result""#)) {
            heard.push(connection.next_event().await.unwrap());
        }
        assert_eq!(connection.next_event().await, None);
        heard.retain(|event| !event.data.is_empty());
        let progress: Vec<_> =
            heard.iter().filter_map(|event| event.json()["params"]["progress"].as_u64()).collect();
        assert_eq!(progress, (0..=100).collect::<Vec<_>>());
        assert_eq!(text_of(&heard.last().unwrap().json()), "talked");
        assert_eq!(heard.len(), 102);
        serving.stop().await.unwrap();
    });
}

async fn read_events(connection: &mut tsugite_testkit::http::Connection, heard: &mut Vec<SseEvent>) {
    loop {
        let event = connection.next_event().await.unwrap();
        if !event.data.is_empty() {
            return heard.push(event);
        }
    }
}

#[test]
fn late_resumption_is_refused() {
    run(async || {
        // One server limits events, the other bytes.
        for (http, size) in [
            (Http::new().max_log_events(8).log_ttl(AGE), 1),
            (Http::new().max_log_bytes(4_000).log_ttl(AGE), 1_000),
        ] {
            let (store, mut seen) = Watched::new();
            let mut stage = Stage::new(http);
            stage.server = stage.server.store(store);
            let serving = stage.serve().await;
            let client = Client::session(&serving).await;
            let mut connection = serving.connect().await;
            connection.send(client.call(1, "talk", talk(20, size))).await;
            let primed = connection.next_event().await.unwrap().id.unwrap();
            drop(connection);
            stage.let_go(21);
            assert!(stage.end().await);
            // The priming event, 21 progress notifications, and the response.
            seen.wait_for(|logs| logs.values().any(|last| *last == 23)).await.unwrap();
            let refused = serving.send(client.after(&primed)).await;
            assert_eq!((refused.status, refused.error_code()), (400, Some(-32600)), "{refused:?}");
            assert!(refused.body.contains("Last-Event-ID"), "{refused:?}");
            // The end is still kept for a client that has seen the rest.
            let near = primed.replace("-1", "-21");
            let rest = serving.send(client.after(&near)).await;
            assert_eq!(rest.status, 200, "{rest:?}");
            let said: Vec<_> = rest.events().into_iter().filter(|event| !event.data.is_empty()).collect();
            assert_eq!(said.len(), 2, "{said:?}");
            assert_eq!(text_of(&said[1].json()), "talked");
            // Ending the session deletes its logs.
            let end = Request::new("DELETE").session(client.id());
            assert_eq!(serving.send(end).await.status, 200);
            assert!(seen.borrow().is_empty(), "{:?}", seen.borrow());
            serving.stop().await.unwrap();
        }
    });
}

#[test]
fn end_of_an_oversized_burst_is_kept() {
    run(async || {
        let stage = Stage::new(Http::new().max_log_events(8).log_ttl(AGE));
        let serving = stage.serve().await;
        let client = Client::session(&serving).await;
        let said = serving.send(client.call(1, "burst", talk(30, 1))).await.events();
        assert_eq!(text_of(&said.last().unwrap().json()), "burst");
        // The client has seen all but the last five events.
        let seen = &said[said.len() - 6];
        let rest = serving.send(client.after(seen.id.as_deref().unwrap())).await;
        assert_eq!(rest.status, 200, "{rest:?}");
        let rest: Vec<_> = rest.events().into_iter().filter(|event| !event.data.is_empty()).collect();
        assert_eq!(rest, said[said.len() - 5..]);
        let late = &said[said.len() - 12];
        assert_eq!(serving.send(client.after(late.id.as_deref().unwrap())).await.status, 400);
        serving.stop().await.unwrap();
    });
}

#[test]
fn response_survives_the_ttl_of_its_log() {
    run(async || {
        let mut stage = Stage::new(Http::new().max_log_events(8).log_ttl(Duration::from_millis(1)));
        let (store, mut seen) = Watched::new();
        stage.server = stage.server.store(store);
        let serving = stage.serve().await;
        let client = Client::session(&serving).await;
        let mut connection = serving.connect().await;
        connection.send(client.call(1, "talk", talk(0, 1))).await;
        connection.next_event().await.unwrap();
        let heard = connection.next_event().await.unwrap();
        drop(connection);
        stage.step(0).await;
        // The logged events have expired.
        seen.wait_for(|logs| logs.get(SWEPT).is_some_and(|swept| *swept >= 2)).await.unwrap();
        let mut again = serving.connect().await;
        let resumed = again.send(client.after(heard.id.as_deref().unwrap())).await;
        assert_eq!(resumed.status, 200, "the client had seen every event: {resumed:?}");
        stage.let_go(1);
        assert_eq!(text_of(&again.next_message().await.unwrap()), "talked");
        serving.stop().await.unwrap();
    });
}

#[test]
fn resumed_session_stream_loses_and_repeats_nothing() {
    run(async || {
        let stage = Stage::new(Http::new());
        let resources =
            (0..200).map(|number| Resource::new(format!("test://{number}")).handler(|| async { "text" }));
        let server = resources.fold(stage.server.clone(), Server::resource);
        let serving = tsugite_testkit::http::TestServer::start(&server).await;
        let client = Client::session(&serving).await;
        for number in 0..200 {
            let params = json!({"uri": format!("test://{number}")});
            let subscribe =
                json!({"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": params});
            assert_eq!(serving.send(client.request(subscribe)).await.status, 200);
        }
        let mut connection = serving.connect().await;
        assert_eq!(connection.send(Request::get_stream(client.id())).await.status, 200);
        let mut last = connection.next_event().await.unwrap().id.unwrap();
        let mut heard = Vec::new();
        // Changes come from another thread, at any time.
        let told = tokio::spawn(async move {
            for number in 0..200 {
                server.notify_resource_updated(&format!("test://{number}"));
                tokio::task::yield_now().await;
            }
        });
        while heard.len() < 200 {
            let event = connection.next_event().await.unwrap();
            last.clone_from(event.id.as_ref().unwrap());
            if event.data.is_empty() {
                continue;
            }
            heard.push(event.json()["params"]["uri"].as_str().unwrap().to_owned());
            if heard.len() % 7 == 0 {
                // The previous stream may still be open when the next one opens.
                let before = std::mem::replace(&mut connection, serving.connect().await);
                assert_eq!(connection.send(client.after(&last)).await.status, 200);
                drop(before);
            }
        }
        told.await.unwrap();
        assert_eq!(heard, (0..200).map(|number| format!("test://{number}")).collect::<Vec<_>>());
        serving.stop().await.unwrap();
    });
}

#[test]
fn events_taken_by_the_old_stream_reach_the_new() {
    run(async || {
        let (store, mut seen) = Watched::new();
        let gate = store.gate.clone();
        let mut stage = Stage::new(Http::new());
        let one = |uri: &str| Resource::new(uri).handler(|| async { "text" });
        stage.server = stage.server.resource(one("test://1")).resource(one("test://2")).store(store);
        let serving = stage.serve().await;
        let client = Client::session(&serving).await;
        for uri in ["test://1", "test://2"] {
            let params = json!({"uri": uri});
            let subscribe =
                json!({"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": params});
            assert_eq!(serving.send(client.request(subscribe)).await.status, 200);
        }
        let mut before = serving.connect().await;
        before.send(Request::get_stream(client.id())).await;
        let primed = before.next_event().await.unwrap().id.unwrap();
        // The log is read now, and the result arrives when the gate opens.
        *gate.lock().unwrap() = Some(Arc::new(Semaphore::new(0)));
        let mut next = serving.connect().await;
        next.write_request(&client.after(&primed)).await;
        seen.wait_for(|logs| logs.contains_key(READ)).await.unwrap();
        stage.server.notify_resource_updated("test://1");
        assert_eq!(before.next_message().await.unwrap()["params"]["uri"], "test://1");
        gate.lock().unwrap().take().unwrap().add_permits(1);
        assert_eq!(next.read_head().await.unwrap().status, 200);
        assert_eq!(next.next_message().await.unwrap()["params"]["uri"], "test://1");
        stage.server.notify_resource_updated("test://2");
        assert_eq!(next.next_message().await.unwrap()["params"]["uri"], "test://2");
        assert_eq!(before.next_message().await, None);
        serving.stop().await.unwrap();
    });
}

/// A store that reports its logs: the number of the last event of each, and how often it was purged.
struct Watched {
    store: MemoryStore,
    logs: Arc<watch::Sender<BTreeMap<String, u64>>>,
    /// If present, reads wait for this.
    gate: Gate,
}

type Gate = Arc<Mutex<Option<Arc<Semaphore>>>>;

/// The key of the number of purges.
const SWEPT: &str = "swept";
/// The key that is present when a read waits at the gate.
const READ: &str = "read";

impl Watched {
    fn new() -> (Self, watch::Receiver<BTreeMap<String, u64>>) {
        let (logs, seen) = watch::channel(BTreeMap::new());
        (Self { store: MemoryStore::new(), logs: Arc::new(logs), gate: Gate::default() }, seen)
    }
}

impl Store for Watched {
    fn scope(&self) -> StoreScope {
        self.store.scope()
    }

    fn read(&self, key: &str, fields: &[&str]) -> StoreResult<Option<Vec<Option<Field>>>> {
        self.store.read(key, fields)
    }

    fn list(&self, key: &str, after: &str, max: usize) -> StoreResult<Vec<(String, Field)>> {
        self.store.list(key, after, max)
    }

    fn commit(&self, writes: &[Write<'_>]) -> StoreResult<Result<Committed, Conflict>> {
        let committed = self.store.commit(writes);
        self.logs.send_modify(|logs| {
            for write in writes {
                match write {
                    Write::Append(append) => {
                        let last = append.first.unwrap_or_default() + append.count - 1;
                        logs.insert(append.log.to_owned(), last);
                    }
                    Write::DeleteLog { log } => drop(logs.remove(*log)),
                    _ => {}
                }
            }
        });
        committed
    }

    fn take(&self, key: &str) -> StoreResult<Option<Vec<(String, Bytes)>>> {
        self.store.take(key)
    }

    fn spend(&self, key: &str, cost: u32, limit: SpendLimit) -> StoreResult<Result<(), Duration>> {
        self.store.spend(key, cost, limit)
    }

    fn read_log(&self, log: &str, after: u64) -> StoreResult<Option<LogRead>> {
        let read = self.store.read_log(log, after);
        let Some(gate) = self.gate.lock().unwrap().clone() else { return read };
        self.logs.send_modify(|logs| {
            logs.insert(READ.to_owned(), after);
        });
        StoreFuture::Pending(Box::pin(async move {
            drop(gate.acquire().await);
            read.await
        }))
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
        self.logs.send_modify(|logs| *logs.entry(SWEPT.to_owned()).or_default() += 1);
    }
}
