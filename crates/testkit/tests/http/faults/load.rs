//! Large numbers of sessions, streams, connections and plain requests.

use std::time::Duration;

use serde_json::json;
use tsugite::prelude::*;
use tsugite::transport::http::Http;
use tsugite_testkit::http::{Connection, Request, TestServer, initialize_request, open_session};

use super::{Client, HANDSHAKE, Stage, is_echo, later, live_tasks, run, run_alone, until};

#[test]
fn idle_sessions_have_no_tasks_and_expire() {
    // On one thread, where the clock can be advanced.
    run_alone(async || {
        let (idle, long) = (Duration::from_secs(600), Duration::from_secs(3_600));
        let http = Http::new()
            .session_idle_timeout(idle)
            .header_read_timeout(long)
            .body_read_timeout(long)
            .write_timeout(long);
        let stage = Stage::new(http.max_sessions(SESSIONS).max_sessions_per_caller(SESSIONS));
        let serving = stage.serve().await;
        let mut connections = Vec::new();
        for _ in 0..4 {
            connections.push(serving.connect().await);
        }
        let hello = Request::post(&initialize_request(HANDSHAKE, json!({})));
        let mut ids = Vec::new();
        let mut tasks = 0;
        for number in 0..SESSIONS {
            let connection = &mut connections[number % 4];
            let opened = connection.send(hello.clone()).await;
            assert_eq!(opened.status, 200);
            ids.push(opened.header("mcp-session-id").unwrap().to_owned());
            connection.read_body().await;
            if number == 100 {
                tasks = live_tasks();
            }
        }
        assert_eq!(live_tasks(), tasks, "an idle session has a task");
        let full = connections[0].send(hello.clone()).await;
        assert_eq!(full.status, 503);
        connections[0].read_body().await;
        // All sessions still exist.
        for number in [0, 1, SESSIONS / 2, SESSIONS - 1] {
            let client = Client::Session(ids[number].clone());
            assert!(is_echo(&serving.send(client.echo()).await));
        }

        // Sessions can be opened again after enough sweeps.
        loop {
            let opened = connections[0].send(hello.clone()).await;
            connections[0].read_body().await;
            if opened.status == 200 {
                break;
            }
            assert_eq!(opened.status, 503);
            later(idle / 10).await;
        }
        // Some were used a little later than others, and expire later.
        for _ in 0..2 {
            later(idle / 10).await;
            assert!(is_echo(&serving.send(Client::Stateless.echo()).await));
        }
        for (number, id) in ids.iter().enumerate() {
            let connection = &mut connections[number % 4];
            let unknown = connection.send(Client::Session(id.clone()).echo()).await;
            assert_eq!(unknown.status, 404, "session {number}");
            connection.read_body().await;
        }
        serving.stop().await.unwrap();
    });
}

const SESSIONS: usize = 10_000;

#[test]
fn thousand_streams_get_each_change_once() {
    run(async || {
        let stage = Stage::new(Http::new());
        let serving = stage.serve().await;
        let streams = max_streams();
        let mut clients = Vec::new();
        for number in 0..streams {
            // The streams alternate between the eras.
            let mut connection = serving.connect().await;
            let status = match number % 2 {
                0 => connection.send(listen(number)).await.status,
                _ => {
                    let id = open_session(&serving, HANDSHAKE, json!({})).await;
                    connection.send(Request::get_stream(&id)).await.status
                }
            };
            assert_eq!(status, 200);
            // The acknowledgement, or the event that begins a stream.
            connection.next_event().await.unwrap();
            clients.push(connection);
        }
        // The listener, the session sweeper, and the connections: no stream has its own task.
        until(|| live_tasks() == streams + 2).await;
        for change in ["one", "two"] {
            stage.server.add(Tool::new(change).handler(|| async { "x" })).unwrap();
            for client in &mut clients {
                assert_eq!(
                    client.next_message().await.unwrap()["method"],
                    "notifications/tools/list_changed"
                );
            }
        }
        // The next message is the end: no stream got a change twice.
        let stopping = tokio::spawn(serving.stop());
        for (number, client) in clients.iter_mut().enumerate() {
            if number % 2 == 0 {
                assert_eq!(client.next_message().await.unwrap()["id"], number);
            }
            assert_eq!(client.next_message().await, None);
        }
        stopping.await.unwrap().unwrap();
        until(|| live_tasks() <= 1).await;
    });
}

fn listen(id: usize) -> Request {
    let params = json!({"notifications": {"toolsListChanged": true}});
    Request::stateless(
        json!({"jsonrpc": "2.0", "id": id, "method": "subscriptions/listen", "params": params}),
    )
}

/// A thousand, or as many as the open file limit allows: each stream has a socket on both sides.
fn max_streams() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let files = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let most = files.and_then(|rest| rest.split_whitespace().next()?.parse::<usize>().ok());
    most.map_or(1_000, |most| (most.saturating_sub(200) / 2).min(1_000))
}

#[test]
fn plain_requests_spawn_no_task() {
    run(async || {
        let stage = Stage::new(Http::new());
        let serving = stage.serve().await;
        let clients = Client::both(&serving).await;
        let mut connection = serving.connect().await;
        // The connection exists once it has answered; those that opened sessions may still be closing.
        whole(&mut connection, clients[0].echo()).await;
        // The listener, the session sweeper, and the connection.
        until(|| live_tasks() == 3).await;
        for client in &clients {
            for _ in 0..1_000 {
                let answer = whole(&mut connection, client.echo()).await;
                assert!(answer.contains("hello"), "{answer}");
                assert_eq!(live_tasks(), 3);
            }
            // Nor does a request that sends messages first.
            for id in 0..100 {
                let said = whole(&mut connection, client.call(id, "burst", super::talk(3, 1))).await;
                assert!(said.contains("burst"), "{said}");
                assert_eq!(live_tasks(), 3);
            }
        }
        serving.stop().await.unwrap();
    });
}

#[test]
fn pending_request_spawns_no_task() {
    run(async || {
        let mut stage = Stage::new(Http::new());
        let serving = stage.serve().await;
        let clients = Client::both(&serving).await;
        for client in &clients {
            for tool in ["wait", "talk"] {
                until(|| live_tasks() == 2).await;
                let mut connection = serving.connect().await;
                connection.write_request(&client.call(1, tool, super::talk(0, 1))).await;
                stage.step(0).await;
                assert_eq!(live_tasks(), 3);
                stage.let_go(1);
                assert!(stage.end().await);
                connection.read_head().await.unwrap();
                connection.read_body().await;
            }
        }
        serving.stop().await.unwrap();
    });
}

async fn whole(connection: &mut Connection, request: Request) -> String {
    assert_eq!(connection.send(request).await.status, 200);
    connection.read_body().await
}

#[test]
fn connections_over_the_limit_wait_their_turn() {
    run(async || {
        let mut stage = Stage::new(Http::new().max_connections(2).caller_share_percent(100));
        let serving = stage.serve().await;
        let held = [waiting(&serving).await, waiting(&serving).await];
        stage.step(0).await;
        stage.step(0).await;
        let mut late = serving.connect().await;
        late.write_request(&Client::Stateless.echo()).await;
        drop(held);
        assert_eq!(late.read_head().await.unwrap().status, 200);
        serving.stop().await.unwrap();
    });
}

async fn waiting(serving: &TestServer) -> Connection {
    let mut connection = serving.connect().await;
    connection.write_request(&Client::Stateless.wait(1)).await;
    connection
}
