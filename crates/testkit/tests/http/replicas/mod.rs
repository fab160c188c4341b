//! Replicas that share a store: a client may reach any of them with any request, and any of them may fail.

mod basics;
mod changed_questions;
mod costs;
mod http_sse;
mod keys;
mod outages;
mod push;
mod questions;
mod requests;
mod restart;
mod scopes;
mod secrecy;
mod sessions;
mod store;
mod streams;
mod tasks;
mod timing;
mod withdrawn;

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{Semaphore, watch};
use tsugite::prelude::*;
use tsugite::server::{SealKey, UrlElicitation};
use tsugite::store::{MemoryStore, StoreScope};
use tsugite::transport::http::Http;
use tsugite_testkit::http::{Connection, Request, Response, SseEvent, TestServer};

use store::{Faults, ReplicaStore};

/// A lease that ends soon after a replica is cut off.
const LEASE: Duration = Duration::from_millis(200);

#[derive(Form)]
struct Name {
    /// Your name.
    name: String,
}

/// Replicas with the same tools, and what their handlers share with the test.
struct Cluster {
    store: Arc<MemoryStore>,
    scope: StoreScope,
    stage: Stage,
    lease: Duration,
    http: Http,
}

/// What handlers share with the test.
#[derive(Clone)]
struct Stage {
    /// Lets `slow` and `silent` end, one each.
    go: Arc<Semaphore>,
    /// The number of handlers of `slow` and `silent` that were started, dropped or done.
    started: watch::Sender<usize>,
    ended: watch::Sender<usize>,
    visits: Arc<Mutex<Vec<UrlElicitation>>>,
}

/// Counts a handler as ended when it is dropped.
struct Ended(watch::Sender<usize>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.send_modify(|ended| *ended += 1);
    }
}

impl Stage {
    /// Counts the handler and waits until the test lets it end.
    async fn wait(&self) {
        let _ended = Ended(self.ended.clone());
        self.started.send_modify(|started| *started += 1);
        self.go.acquire().await.unwrap().forget();
    }
}

struct Replica {
    server: Server,
    at: TestServer,
    faults: Arc<Faults>,
}

impl Cluster {
    fn new() -> Self {
        Self {
            store: Arc::new(MemoryStore::new().shared()),
            scope: StoreScope::Replicas,
            stage: Stage {
                go: Arc::new(Semaphore::new(0)),
                started: watch::Sender::default(),
                ended: watch::Sender::default(),
                visits: Arc::default(),
            },
            lease: LEASE,
            http: Http::new().http_sse(),
        }
    }

    /// With leases that do not end while a test runs.
    fn with_long_leases() -> Self {
        Self { lease: Duration::from_secs(600), ..Self::new() }
    }

    /// A server and the faults of its store.
    fn server(&self) -> (Server, Arc<Faults>) {
        let store = ReplicaStore::new(&self.store, self.scope);
        let faults = store.faults.clone();
        let stage = self.stage.clone();
        let slow = {
            let stage = stage.clone();
            Tool::new("slow").handler(move |cx: Context| {
                let stage = stage.clone();
                async move {
                    cx.progress(1).await;
                    stage.wait().await;
                    "done"
                }
            })
        };
        let silent = |name: &str| {
            let stage = stage.clone();
            Tool::new(name).handler(move || {
                let stage = stage.clone();
                async move {
                    stage.wait().await;
                    "done"
                }
            })
        };
        let silent =
            [silent("silent"), silent("charge").once(true), silent("recharge").once(true).restartable(true)];
        let login = Tool::new("login").handler(move |cx: Context| {
            let stage = stage.clone();
            async move {
                let visit = cx.url_elicitation("https://example.com/login")?;
                stage.visits.lock().unwrap().push(visit.clone());
                Err::<(), _>(visit.required_error())
            }
        });
        let greet = |name: &str| {
            Tool::new(name).handler(|cx: Context| async move {
                let name = cx.ask::<Name>("Who are you?").await?.name;
                Ok::<_, AskError>(format!("Hello, {name}!"))
            })
        };
        let echo = Tool::new("echo").handler(|| async { "echo" });
        let log = Tool::new("log").handler(|cx: Context| async move {
            cx.log(Level::Debug, "details").await;
            "logged"
        });
        let page = |uri: &str| Resource::new(uri).handler(|| async { "text" });
        let server = silent
            .into_iter()
            .fold(Server::new("s", "1"), Server::tool)
            .tool(slow)
            .tool(login)
            .tool(greet("greet"))
            .tool(greet("greet_once").once(true))
            .tool(echo)
            .tool(log)
            .resource(page("test://secret-page"))
            .resource(page("test://other"))
            .store(store)
            .seal_keys(SealKey::new([7; 32]))
            .replica_lease(self.lease)
            .http(self.http.clone());
        (server, faults)
    }

    async fn start(&self) -> Replica {
        let (server, faults) = self.server();
        let at = TestServer::start(&server).await;
        Replica { server, at, faults }
    }

    async fn start_three(&self) -> [Replica; 3] {
        [self.start().await, self.start().await, self.start().await]
    }

    /// Waits until so many handlers run or ran.
    async fn started(&self, handlers: usize) {
        within(self.stage.started.subscribe().wait_for(|started| *started >= handlers)).await.unwrap();
    }

    /// Waits until so many handlers were done or dropped.
    async fn ended(&self, handlers: usize) {
        within(self.stage.ended.subscribe().wait_for(|ended| *ended >= handlers)).await.unwrap();
    }

    fn let_go(&self, handlers: usize) {
        self.stage.go.add_permits(handlers);
    }
}

impl Replica {
    async fn send(&self, request: Request) -> Response {
        within(self.at.send(request)).await
    }

    async fn post(&self, session: &str, message: &Value) -> Response {
        self.send(Request::post(message).session(session)).await
    }

    /// Sends a request whose response is a stream.
    async fn stream(&self, request: Request) -> Connection {
        let mut stream = self.at.connect().await;
        let head = within(stream.send(request)).await;
        assert_eq!(head.status, 200, "{head:?}");
        stream
    }

    async fn call_stream(&self, session: &str, message: &Value) -> Connection {
        self.stream(Request::post(message).session(session)).await
    }

    async fn get_stream(&self, session: &str) -> Connection {
        self.stream(Request::get_stream(session)).await
    }

    async fn resume(&self, session: &str, after: &str) -> Connection {
        self.stream(Request::get_stream(session).header("Last-Event-ID", after)).await
    }
}

/// Fails a test that hangs.
async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), what).await.unwrap_or_else(|_| panic!("timed out"))
}

async fn next(stream: &mut Connection) -> Option<Value> {
    within(stream.next_message()).await
}

/// The next event with data.
async fn next_event(stream: &mut Connection) -> SseEvent {
    loop {
        let event = within(stream.next_event()).await.unwrap();
        if !event.data.is_empty() {
            return event;
        }
    }
}

fn request(id: impl Into<Value>, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params})
}

fn call(id: impl Into<Value>, tool: &str) -> Value {
    let params = json!({"name": tool, "arguments": {}, "_meta": {"progressToken": "p"}});
    request(id, "tools/call", params)
}

fn list(id: u32) -> Value {
    request(id, "tools/list", json!({}))
}

fn cancelled(id: impl Into<Value>) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id.into()}})
}

/// The answer to a question.
fn answer(question: &Value, name: &str) -> Value {
    let result = json!({"action": "accept", "content": {"name": name}});
    json!({"jsonrpc": "2.0", "id": question["id"], "result": result})
}

fn text(message: &Value) -> &str {
    message["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {message}"))
}

fn assert_unavailable(response: &Response) {
    assert_eq!(response.status, 503, "{response:?}");
    assert!(response.header("retry-after").is_some(), "{response:?}");
}
