//! Tests: records that a later version of the library has written are read and written back, or are clear errors.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body::Body;
use serde_json::{Value, json};
use tower_service::Service;
use tsugite_core::protocol::form::FormSchema;
use tsugite_core::revision::Revision;

use super::shared_session::{http_sse_key, request_field, session_key};
use super::{Http, HttpBody, HttpService};
use crate::replica::{Replica, digest};
use crate::server::{AskError, Context, Resource, SealKey, SealKeys, Server, Tool};
use crate::shared::seal::LazyKeyRing;
use crate::store::{MemoryStore, Precondition, Store, Write};

/// A store with a replica of this version, and the keys to write records as a later version would.
struct Stage {
    store: Arc<MemoryStore>,
    service: HttpService,
    session: String,
    /// The key of the session's record.
    key: String,
    later: Arc<Replica>,
}

impl Stage {
    async fn new() -> Self {
        let store = Arc::new(MemoryStore::new().shared());
        let keys = Arc::new(LazyKeyRing::from_keys(SealKeys::new(SealKey::new([7; 32]))));
        let later = Replica::new(store.clone(), keys, LEASE).unwrap();
        let service = replica(&store);
        let initialize = json!({"protocolVersion": Revision::NEWEST_HANDSHAKE.as_str(), "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "t", "version": "1"}});
        let opened = send(&service, "POST", "/mcp", "", request(0, "initialize", initialize)).await;
        let session = opened.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        let key = session_key(&digest(session.as_bytes()));
        Self { store, service, session, key, later }
    }

    async fn post(&self, message: Value) -> Response<HttpBody> {
        send(&self.service, "POST", "/mcp", &self.session, message).await
    }

    async fn status(&self, message: Value) -> u16 {
        self.post(message).await.status().as_u16()
    }

    async fn get(&self) -> Response<HttpBody> {
        send(&self.service, "GET", "/mcp", &self.session, Value::Null).await
    }

    /// Reads a record. That of the stream is not sealed.
    async fn read(&self, key: &str, field: &str) -> (Value, u64) {
        let found = self.store.read(key, &[field]).await.unwrap().unwrap().remove(0).unwrap();
        let plain = match field {
            "push" => found.value.to_vec(),
            _ => self.later.open(key, field, &found.value).unwrap(),
        };
        (serde_json::from_slice(&plain).unwrap(), found.version)
    }

    fn seal(&self, key: &str, field: &str, record: &Value) -> Bytes {
        let plain = serde_json::to_vec(record).unwrap();
        if field == "push" { plain.into() } else { self.later.seal(key, field, &plain).unwrap() }
    }

    async fn write(&self, key: &str, field: &str, record: &Value) {
        let value = self.seal(key, field, record);
        let write = Write::Set { key, field, value, precondition: Precondition::None, ttl: TTL };
        self.store.commit(&[write]).await.unwrap().unwrap();
    }

    /// Adds a member, as a later version would.
    async fn add_member(&self, key: &str, field: &str) {
        let (mut record, _) = self.read(key, field).await;
        record["later"] = json!({"since": [2]});
        self.write(key, field, &record).await;
    }

    async fn set_version(&self, key: &str, field: &str, version: u32) {
        let (mut record, _) = self.read(key, field).await;
        record["version"] = json!(version);
        self.write(key, field, &record).await;
    }

    async fn assert_member(&self, key: &str, field: &str) -> Value {
        let (record, _) = self.read(key, field).await;
        assert_eq!(record["later"], json!({"since": [2]}), "{field}: {record}");
        record
    }

    /// The name of the field that begins like this, in the record of the session.
    async fn field(&self, key: &str, start: &str) -> Option<String> {
        let fields = self.store.list(key, "", 100).await.unwrap();
        fields.into_iter().map(|(field, _)| field).find(|field| field.starts_with(start))
    }
}

fn replica(store: &Arc<MemoryStore>) -> HttpService {
    let greet = Tool::new("greet").handler(|cx: Context| async move {
        cx.ask_form(FormSchema::new(), "first").await?;
        cx.ask_form(FormSchema::new(), "second").await?;
        Ok::<_, AskError>("done")
    });
    let server = Server::new("s", "1")
        .tool(greet)
        .resource(Resource::new(PAGE).handler(|| async { "text" }))
        .store(store.clone())
        .seal_keys(SealKey::new([7; 32]))
        .replica_lease(LEASE)
        .http(Http::new().http_sse());
    server.http_service().unwrap()
}

async fn send(
    service: &HttpService,
    method: &str,
    path: &str,
    session: &str,
    body: Value,
) -> Response<HttpBody> {
    let mut request = http::Request::builder().method(method).uri(path).header("Host", "localhost");
    let accept = if method == "GET" { "text/event-stream" } else { "application/json, text/event-stream" };
    request = request.header("Accept", accept).header("Content-Type", "application/json");
    if !session.is_empty() {
        request = request
            .header("Mcp-Session-Id", session)
            .header("MCP-Protocol-Version", Revision::NEWEST_HANDSHAKE.as_str());
    }
    let body = if body.is_null() { String::new() } else { body.to_string() };
    service.clone().call(request.body(body).unwrap()).await.unwrap()
}

/// Reads a body until it contains `text`, and returns the line with it.
async fn read_until(response: &mut Response<HttpBody>, text: &str) -> String {
    let mut read = String::new();
    loop {
        if let Some(line) = read.lines().find(|line| line.contains(text)) {
            return line.to_owned();
        }
        let frame = poll_fn(|cx| Pin::new(response.body_mut()).poll_frame(cx)).await.unwrap().unwrap();
        read.push_str(std::str::from_utf8(&frame.into_data().unwrap()).unwrap());
    }
}

fn request(id: u32, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn subscribe(id: u32) -> Value {
    request(id, "resources/subscribe", json!({"uri": PAGE}))
}

#[tokio::test(start_paused = true)]
async fn members_of_later_versions_survive_in_a_session() {
    let stage = Stage::new().await;
    stage.add_member(&stage.key, "session").await;
    let level = request(1, "logging/setLevel", json!({"level": "error"}));
    assert_eq!(stage.status(level).await, 200);
    assert_eq!(stage.assert_member(&stage.key, "session").await["level"], "error");

    assert_eq!(stage.status(subscribe(2)).await, 200);
    let subscription = stage.field(&stage.key, "subscription/").await.unwrap();
    stage.add_member(&stage.key, &subscription).await;
    assert_eq!(stage.status(subscribe(3)).await, 200);
    stage.assert_member(&stage.key, &subscription).await;

    stage.add_member(&stage.key, "push").await;
    let before = stage.read(&stage.key, "push").await.0["replica"].clone();
    let other = replica(&stage.store);
    assert_eq!(send(&other, "GET", "/mcp", &stage.session, Value::Null).await.status(), 200);
    assert_ne!(stage.assert_member(&stage.key, "push").await["replica"], before);
}

#[tokio::test(start_paused = true)]
async fn members_of_later_versions_survive_in_http_sse() {
    let stage = Stage::new().await;
    let mut stream = send(&stage.service, "GET", "/sse", "", Value::Null).await;
    let endpoint = read_until(&mut stream, "sessionId=").await;
    let (path, id) = endpoint.strip_prefix("data: ").unwrap().split_once("sessionId=").unwrap();
    let (path, key) = (format!("{path}sessionId={id}"), http_sse_key(&digest(id.as_bytes())));
    let other = replica(&stage.store);
    stage.add_member(&key, "session").await;
    let ping = || request(1, "ping", json!({}));
    assert_eq!(send(&other, "POST", &path, "", ping()).await.status(), 202);
    stage.set_version(&key, "session", 2).await;
    assert_eq!(send(&other, "POST", &path, "", ping()).await.status(), 503);
    stage.assert_member(&key, "session").await;
}

#[tokio::test(start_paused = true)]
async fn members_of_later_versions_survive_in_a_waiting_call() {
    let stage = Stage::new().await;
    let mut stream = stage.post(request(1, "tools/call", json!({"name": "greet", "arguments": {}}))).await;
    let question = read_until(&mut stream, "elicitation/create").await;
    let question: Value = serde_json::from_str(question.strip_prefix("data: ").unwrap()).unwrap();
    let waiting = format!("waiting/{}", &question["id"].as_str().unwrap()[..16]);
    let (field, in_session) = (stage.field(&waiting, "").await.unwrap(), request_field("1"));

    // A replica of a later version has claimed the call, and died.
    let (mut call, call_version) = stage.read(&waiting, &field).await;
    let (mut registered, version) = stage.read(&stage.key, &in_session).await;
    let mark = json!({"since": [2]});
    for record in [&mut call, &mut registered] {
        record["later"] = mark.clone();
    }
    call["history"]["later"] = mark.clone();
    call["history"]["questions"][0]["later"] = mark.clone();
    registered["replica"] = json!(stage.later.name());
    let dead = format!("waiting/{}", stage.later.name());
    let set = |key, field, value, precondition| Write::Set { key, field, value, precondition, ttl: TTL };
    let writes = [
        Write::Remove {
            key: &waiting,
            field: &field,
            precondition: Precondition::FieldVersion(call_version),
        },
        set(&dead, &field, stage.seal(&dead, &field, &call), Precondition::None),
        set("replicas", stage.later.name(), Bytes::new(), Precondition::None),
        set(
            &stage.key,
            &in_session,
            stage.seal(&stage.key, &in_session, &registered),
            Precondition::FieldVersion(version),
        ),
    ];
    stage.store.commit(&writes).await.unwrap().unwrap();
    tokio::time::sleep(10 * LEASE).await;

    let claimed = stage.assert_member(&waiting, &field).await;
    assert_eq!(claimed["history"]["later"], mark);
    assert_eq!(claimed["history"]["questions"][0]["later"], mark);
    stage.assert_member(&stage.key, &in_session).await;
    let answer = json!({"jsonrpc": "2.0", "id": question["id"],
        "result": {"action": "accept", "content": {}}});
    assert_eq!(stage.status(answer).await, 202);
    tokio::time::sleep(10 * LEASE).await;
    // The handler has run again, and asks its second question.
    let again = stage.assert_member(&waiting, &field).await;
    assert_ne!(again["history"]["questions"][0]["id"], question["id"]);
    assert_eq!(again["history"]["later"], mark);
    stage.assert_member(&stage.key, &in_session).await;
}

#[tokio::test(start_paused = true)]
async fn newer_record_is_an_error_and_stays() {
    let stage = Stage::new().await;
    assert_eq!(stage.status(subscribe(1)).await, 200);
    let subscription = stage.field(&stage.key, "subscription/").await.unwrap();
    stage.set_version(&stage.key, &subscription, 2).await;
    assert_eq!(stage.status(subscribe(2)).await, 503);

    stage.set_version(&stage.key, "push", 2).await;
    assert_eq!(stage.get().await.status(), 503);

    let newer = json!({"version": 2, "state": "suspended"});
    let in_session = request_field("5");
    stage.write(&stage.key, &in_session, &newer).await;
    let mut refused = stage.post(request(5, "tools/list", json!({}))).await;
    read_until(&mut refused, "-32600").await;
    let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
        "params": {"requestId": 5}});
    assert_eq!(stage.status(cancelled).await, 503);

    let waiting = format!("waiting/{}", stage.later.name());
    stage.write(&waiting, "call", &newer).await;
    stage.write("replicas", stage.later.name(), &Value::Null).await;
    tokio::time::sleep(10 * LEASE).await;
    assert_eq!(stage.read(&waiting, "call").await.0, newer);
    assert_eq!(stage.read(&stage.key, &in_session).await.0, newer);

    let list = || request(6, "tools/list", json!({}));
    stage.set_version(&stage.key, "session", 2).await;
    let unavailable = stage.post(list()).await;
    assert_eq!(unavailable.status(), 503);
    assert!(unavailable.headers().contains_key("retry-after"));
    stage.set_version(&stage.key, "session", 1).await;
    assert_eq!(stage.status(list()).await, 200);
}

const LEASE: Duration = Duration::from_secs(1);
const TTL: Duration = Duration::from_secs(600);
const PAGE: &str = "test://page";
