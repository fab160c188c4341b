//! Shutdown while the server is in use.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tsugite::transport::http::Http;
use tsugite_testkit::http::{Connection, Request};

use super::{Client, Stage, is_echo, live_tasks, run, talk, text_of, until};

#[test]
fn shutdown_finishes_requests_and_accepts_none() {
    run(async || {
        let mut stage = Stage::new(Http::new());
        stage.server = stage.server.shutdown_grace(Duration::from_secs(600));
        let mut serving = stage.serve().await;
        let clients = Client::both(&serving).await;
        let (mut waiting, mut talking, mut streams) = (Vec::new(), Vec::new(), Vec::new());
        for client in &clients {
            for id in 0..20 {
                let mut connection = serving.connect().await;
                connection.write_request(&client.wait(id)).await;
                waiting.push(connection);
                let mut connection = serving.connect().await;
                connection.write_request(&client.call(100 + id, "talk", talk(1, 1))).await;
                talking.push(connection);
            }
        }
        for _ in 0..80 {
            stage.step(0).await;
        }
        // A call whose client has disconnected.
        let mut lost = serving.connect().await;
        lost.write_request(&clients[1].wait(200)).await;
        stage.step(0).await;
        drop(lost);
        for _ in 0..5 {
            let id = Client::session(&serving).await;
            let mut stream = serving.connect().await;
            assert_eq!(stream.send(Request::get_stream(id.id())).await.status, 200);
            streams.push(stream);
        }
        let params = json!({"notifications": {"toolsListChanged": true}});
        let listen = json!({"jsonrpc": "2.0", "id": "l", "method": "subscriptions/listen", "params": params});
        let mut listening = serving.connect().await;
        assert_eq!(listening.send(Request::stateless(listen)).await.status, 200);
        listening.next_message().await.unwrap();
        let mut idle = serving.connect().await;
        assert_eq!(idle.send(Client::Stateless.echo()).await.status, 200);
        idle.read_body().await;
        let mut fresh = serving.connect().await;

        serving.request_stop();
        for stream in &mut streams {
            assert_eq!(stream.next_message().await, None);
        }
        let ended = listening.next_message().await.unwrap();
        assert_eq!((&ended["id"], ended.get("result").is_some()), (&json!("l"), true));
        assert_eq!(listening.next_message().await, None);
        assert!(idle.read_head().await.is_none());
        assert!(fresh.read_head().await.is_none());
        assert!(TcpStream::connect(serving.address).await.is_err());

        stage.let_go(20 * 2 + 20 * 2 * 2 + 1);
        for connection in &mut waiting {
            assert_eq!(connection.read_head().await.unwrap().status, 200);
            assert_eq!(text_of(&serde_json::from_str(&connection.read_body().await).unwrap()), "waited");
        }
        for connection in &mut talking {
            assert_eq!(connection.read_head().await.unwrap().status, 200);
            for step in 0..2 {
                assert_eq!(connection.next_message().await.unwrap()["params"]["progress"], step);
            }
            assert_eq!(text_of(&connection.next_message().await.unwrap()), "talked");
            assert_eq!(connection.next_message().await, None);
        }
        serving.stop().await.unwrap();
        for _ in 0..81 {
            assert!(stage.end().await);
        }
    });
}

#[test]
fn idle_connections_do_not_delay_shutdown() {
    run(async || {
        let long = Duration::from_secs(600);
        let mut stage =
            Stage::new(Http::new().header_read_timeout(long).body_read_timeout(long).write_timeout(long));
        stage.server = stage.server.shutdown_grace(long);
        let serving = stage.serve().await;
        let mut silent = serving.connect().await;
        // The server has accepted both once it has answered the second.
        assert!(is_echo(&serving.send(Client::Stateless.echo()).await));
        serving.stop().await.unwrap();
        assert_eq!(silent.socket().read(&mut [0]).await.unwrap_or(0), 0);
    });
}

#[test]
fn requests_are_dropped_after_the_shutdown_grace() {
    run(async || {
        let mut stage = Stage::new(Http::new());
        stage.server = stage.server.shutdown_grace(Duration::from_millis(50));
        let serving = stage.serve().await;
        let clients = Client::both(&serving).await;
        let mut connections = Vec::new();
        for client in &clients {
            for (id, tool) in [(1, "wait"), (2, "talk"), (3, "flood")] {
                let mut connection = serving.connect().await;
                connection.write_request(&client.call(id, tool, talk(1, 64 << 10))).await;
                stage.step(0).await;
                connections.push(connection);
            }
        }
        // A call whose client has disconnected.
        let mut lost = serving.connect().await;
        lost.write_request(&clients[1].wait(200)).await;
        stage.step(0).await;
        drop(lost);
        // Half a head, half a body.
        let bytes = clients[0].echo().to_bytes();
        for sent in [20, bytes.len() - 5] {
            let mut connection = serving.connect().await;
            connection.socket().write_all(&bytes[..sent]).await.unwrap();
            connections.push(connection);
        }
        serving.stop().await.unwrap();
        for _ in 0..7 {
            assert!(!stage.end().await, "the handler was not dropped");
        }
        // The session sweeper ends when it wakes.
        until(|| live_tasks() <= 1).await;
    });
}

#[cfg(unix)]
#[test]
fn second_signal_ends_the_server_at_once() {
    run(async || {
        for (first, second) in [("TERM", "INT"), ("INT", "TERM")] {
            // Calls have ten minutes to finish.
            let mut child = tokio::process::Command::new(env!("CARGO_BIN_EXE_fixture"))
                .args(["--http", "600000"])
                .stdout(std::process::Stdio::piped())
                .stderr(std::process::Stdio::null())
                .kill_on_drop(true)
                .spawn()
                .unwrap();
            let mut address = String::new();
            BufReader::new(child.stdout.take().unwrap()).read_line(&mut address).await.unwrap();
            let address = address.trim().parse().unwrap();
            let send = async |method: &str, params: serde_json::Value| {
                let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
                let mut connection = Connection::connect(address).await;
                assert_eq!(connection.send(Request::stateless(message)).await.status, 200);
                // The first message says that the request is running.
                assert!(connection.next_message().await.unwrap().get("method").is_some());
                connection
            };
            let slow = json!({"name": "slow", "arguments": {}, "_meta": {"progressToken": 1}});
            let mut slow = send("tools/call", slow).await;
            let mut listening = send("subscriptions/listen", json!({"notifications": {}})).await;
            let id = child.id().unwrap();
            let signal = async |name: &str| {
                let kill = format!("kill -{name} {id}");
                let mut shell = tokio::process::Command::new("sh");
                assert!(shell.args(["-c", &kill]).status().await.unwrap().success());
            };
            signal(first).await;
            // The subscription ends with the first signal, the call does not.
            assert!(listening.next_message().await.unwrap().get("result").is_some());
            signal(second).await;
            assert!(child.wait().await.unwrap().success(), "{first} {second}");
            assert_eq!(slow.next_message().await, None);
        }
    });
}
