//! Round trips to Redis, as Redis counts them itself.
//!
//! The blocking `XREAD` that each replica always has open is not counted, and neither are commands that a script runs: no
//! request waits for the first, and the others are part of one trip.

use std::net::SocketAddr;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tsugite_testkit::http::{Connection, Request, Response};
use tsugite_testkit::replicas::{RedisServer, Replicas};

const CALLS: u64 = 200;

/// Three replicas of a fixture server.
struct Setup {
    replicas: Replicas,
    folder: &'static str,
}

impl Setup {
    fn start(folder: &'static str) -> Self {
        let replicas = Replicas::start(3, |redis| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_replica"));
            command.args(["--redis", redis]).stderr(Stdio::null());
            command
        });
        Self { replicas: replicas.unwrap(), folder }
    }

    async fn connect(&self, request: Request) -> (Connection, Response) {
        let address: SocketAddr = self.replicas.address();
        let mut connection = Connection::connect(address).await;
        let path = format!("{}{}", self.folder, request.path);
        let head = connection.send(request.path(&path)).await;
        (connection, head)
    }

    async fn send(&self, request: Request) -> Response {
        let (mut connection, mut response) = self.connect(request).await;
        response.body = connection.read_body().await;
        response
    }

    /// Opens a session whose client can answer, and visits every replica with it.
    async fn open_session(&self) -> String {
        let capabilities = json!({"elicitation": {}, "roots": {}, "sampling": {}});
        let opened = self.send(Request::post(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": capabilities, "clientInfo": {"name": "c", "version": "1"},
        }})));
        let opened = opened.await;
        let session = opened.header("mcp-session-id").unwrap().to_owned();
        for _ in 0..6 {
            let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
            assert_eq!(self.send(in_session(&session, &ready)).await.status, 202);
        }
        session
    }
}

fn in_session(session: &str, message: &Value) -> Request {
    Request::post(message).session(session).header("MCP-Protocol-Version", "2025-06-18")
}

fn call(id: u64, tool: &str, arguments: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}})
}

/// The commands so far that reads and commits are made of (`INFO commandstats`).
fn trips(redis: &RedisServer) -> (u64, u64) {
    let counts = redis.command_counts().unwrap();
    let count = |name: &str| counts.get(name).copied().unwrap_or_default();
    (count("hmget"), count("evalsha"))
}

/// The reads and the commits of one call. Leases and idle receivers cost a few commits each second; so many calls are made
/// that these do not change the rounded number.
async fn trips_per_call(setup: &Setup, mut make: impl AsyncFnMut(u64)) -> (u64, u64) {
    // The first call at each replica loads scripts.
    for id in 1..=9 {
        make(id).await;
    }
    let before = trips(setup.replicas.redis());
    for id in 10..10 + CALLS {
        make(id).await;
    }
    let after = trips(setup.replicas.redis());
    let rounded = |trips: u64| (trips + CALLS / 2) / CALLS;
    (rounded(after.0 - before.0), rounded(after.1 - before.1))
}

#[tokio::test(flavor = "current_thread")]
async fn stateless_call_costs_no_trip() {
    let setup = Setup::start("/trips/basic");
    let trips = trips_per_call(&setup, async |id| {
        let request = Request::stateless(call(id, "add", json!({"a": 1, "b": 2})));
        assert_eq!(setup.send(request).await.status, 200);
    });
    assert_eq!(trips.await, (0, 0));
}

#[tokio::test(flavor = "current_thread")]
async fn session_call_costs_one_read() {
    let setup = Setup::start("/trips/basic");
    let session = setup.open_session().await;
    let trips = trips_per_call(&setup, async |id| {
        let message = call(id, "add", json!({"a": 1, "b": 2}));
        assert_eq!(setup.send(in_session(&session, &message)).await.status, 200);
    });
    assert_eq!(trips.await, (1, 0));
}

#[tokio::test(flavor = "current_thread")]
async fn call_that_waits_costs_two_trips_more() {
    let setup = Setup::start("/trips/basic");
    let session = setup.open_session().await;
    let trips = trips_per_call(&setup, async |id| {
        let message = call(id, "later", json!({}));
        assert_eq!(setup.send(in_session(&session, &message)).await.status, 200);
    });
    assert_eq!(trips.await, (1, 2));
}

#[tokio::test(flavor = "current_thread")]
async fn each_write_to_a_stream_costs_one_trip() {
    let setup = Setup::start("/trips/basic");
    let session = setup.open_session().await;
    let steps = |id| in_session(&session, &call(id, "steps", json!({})));
    let monitor = setup.replicas.redis().monitor().unwrap();
    for id in 1..=6 {
        let response = setup.send(steps(id)).await;
        // The log message and the response are written together.
        assert_eq!(response.events().len(), 2, "{response:?}");
    }
    assert_eq!(monitor.commands(12).unwrap(), ["HMGET", "EVALSHA"].repeat(6));
}

#[tokio::test(flavor = "current_thread")]
async fn question_and_answer_cost_at_most_four_trips() {
    let setup = Setup::start("/trips/asking");
    let session = setup.open_session().await;
    let ask = async |id: u64| {
        let (mut stream, head) = setup.connect(in_session(&session, &call(id, "roots", json!({})))).await;
        assert_eq!(head.header("content-type"), Some("text/event-stream"));
        let question = stream.next_message().await.unwrap();
        let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": []}});
        // The next replica gets it.
        assert_eq!(setup.send(in_session(&session, &answer)).await.status, 202);
        assert_eq!(stream.next_message().await.unwrap()["id"], id);
        assert_eq!(stream.next_message().await, None);
    };
    let monitor = setup.replicas.redis().monitor().unwrap();
    for id in 1..=6 {
        ask(id).await;
    }
    // A read, and the begin and the end of a call that waits; the question and the result in its stream.
    let (call, stream) = (["HMGET", "EVALSHA", "EVALSHA"], ["EVALSHA", "EVALSHA"]);
    // The call is waiting; the answer is read, and stored for the replica that asked; the call runs again.
    let question = ["EVALSHA", "HMGET", "EVALSHA", "EVALSHA"];
    let mut expected = [&call[..], &stream, &question].concat().repeat(6);
    // The end of a call is stored after its response.
    let mut commands = monitor.commands(expected.len()).unwrap();
    commands.sort();
    expected.sort_unstable();
    assert_eq!(commands, expected);
}
