//! Clients that send or read too slowly.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tsugite::server::Tool;
use tsugite::transport::http::Http;
use tsugite_testkit::http::TestServer;

use super::{Client, Stage, is_echo, later, live_tasks, run, run_alone, talk, text_of, until};

const LONG: Duration = Duration::from_secs(600);
const SHORT: Duration = Duration::from_millis(50);

#[test]
fn stalled_body_times_out() {
    run(async || {
        let stage =
            Stage::new(Http::new().header_read_timeout(LONG).body_read_timeout(SHORT).write_timeout(LONG));
        let serving = stage.serve().await;
        for client in Client::both(&serving).await {
            let request = client.echo();
            let bytes = request.to_bytes();
            for missing in [1, request.body.len()] {
                let mut connection = serving.connect().await;
                connection.socket().write_all(&bytes[..bytes.len() - missing]).await.unwrap();
                let refused = connection.read_head().await.unwrap();
                assert_eq!(refused.status, 408);
                assert!(connection.read_body().await.contains("took too long"));
                // A next request could not be told from the rest of the body.
                assert_eq!(connection.socket().read(&mut [0]).await.unwrap_or(0), 0);
            }
            assert!(is_echo(&serving.send(client.echo()).await));
        }
        serving.stop().await.unwrap();
    });
}

#[test]
fn stalled_or_trickling_head_closes_the_connection() {
    run(async || {
        let stage =
            Stage::new(Http::new().header_read_timeout(SHORT).body_read_timeout(LONG).write_timeout(LONG));
        let serving = stage.serve().await;
        let bytes = Client::Stateless.echo().to_bytes();
        for sent in [0, 1, 40] {
            let mut connection = serving.connect().await;
            connection.socket().write_all(&bytes[..sent]).await.unwrap();
            let mut rest = Vec::new();
            let _ = connection.socket().read_to_end(&mut rest).await;
            assert!(!String::from_utf8_lossy(&rest).contains("200 OK"));
        }
        // A hundred endless heads, and one request that is served meanwhile.
        let mut dripping = Vec::new();
        for _ in 0..100 {
            let mut connection = serving.connect().await;
            connection.socket().write_all(b"POST /mcp HTTP/1.1\r\nX: ").await.unwrap();
            dripping.push(connection);
        }
        assert!(is_echo(&serving.send(Client::Stateless.echo()).await));
        while !dripping.is_empty() {
            let mut open = Vec::new();
            for mut connection in dripping {
                let socket = connection.socket();
                let written = socket.write_all(b"x").await.is_ok();
                let ended = matches!(socket.try_read(&mut [0; 512]), Ok(0));
                if written && !ended {
                    open.push(connection);
                }
            }
            dripping = open;
            tokio::task::yield_now().await;
        }
        until(|| live_tasks() == 1).await;
        serving.stop().await.unwrap();
    });
}

#[test]
fn idle_connection_is_closed_after_its_timeout() {
    // On one thread, where the clock can be advanced.
    run_alone(async || {
        let (short, limit) = (Duration::from_secs(20), Duration::from_secs(30));
        let mut stage =
            Stage::new(Http::new().header_read_timeout(limit).body_read_timeout(limit).write_timeout(limit));
        let serving = stage.serve().await;
        for client in Client::both(&serving).await {
            let mut connection = serving.connect().await;
            let mut idle = serving.connect().await;
            for _ in 0..5 {
                assert!(is_echo(&connection.send_and_read(client.echo()).await));
                later(short).await;
            }
            assert_eq!(
                idle.socket().read(&mut [0]).await.unwrap(),
                0,
                "the connection was idle for a hundred seconds"
            );
            // While a call runs or a stream is open, the client need not send anything.
            for tool in ["wait", "talk"] {
                connection.write_request(&client.call(1, tool, talk(0, 1))).await;
                stage.step(0).await;
                for _ in 0..5 {
                    later(limit * 2).await;
                    assert!(is_echo(&serving.send(client.echo()).await));
                }
                stage.let_go(1);
                connection.read_head().await.unwrap();
                assert!(connection.read_body().await.contains("ed\"}]"));
                assert!(stage.end().await);
                later(short).await;
            }
            assert!(is_echo(&connection.send_and_read(client.echo()).await));
            // Half a head is not a request.
            connection.socket().write_all(b"POST /mcp HTTP/1.1\r\nHost:").await.unwrap();
            for _ in 0..4 {
                later(short).await;
            }
            assert_eq!(connection.socket().read(&mut [0]).await.unwrap_or(0), 0);
        }
        serving.stop().await.unwrap();
    });
}

#[test]
fn head_timeout_does_not_limit_response_reading() {
    run_alone(async || {
        let (short, limit) = (Duration::from_secs(20), Duration::from_secs(30));
        let stage =
            Stage::new(Http::new().header_read_timeout(limit).body_read_timeout(limit).write_timeout(limit));
        // More than any socket buffers.
        let large = Tool::new("large").handler(|| async { "x".repeat(24 << 20) });
        let serving = TestServer::start(&stage.server.clone().tool(large)).await;
        for client in Client::both(&serving).await {
            let mut connection = serving.connect().await;
            connection.send(client.call(1, "large", json!({}))).await;
            for _ in 0..4 {
                later(short).await;
                assert!(connection.read_part(4 << 20).await.ends_with(b"xxx"));
            }
            assert!(connection.read_body().await.contains("xxx\"}]"));
            later(short).await;
            assert!(is_echo(&connection.send_and_read(client.echo()).await));
            for _ in 0..4 {
                later(short).await;
            }
            assert_eq!(connection.socket().read(&mut [0]).await.unwrap_or(0), 0);
        }
        serving.stop().await.unwrap();
    });
}

#[test]
fn dropping_the_listener_ends_its_connections() {
    run(async || {
        let mut stage = Stage::new(Http::new());
        let serving = stage.serve().await;
        let mut idle = serving.connect().await;
        idle.send_and_read(Client::Stateless.echo()).await;
        let mut silent = serving.connect().await;
        let mut busy = serving.connect().await;
        busy.write_request(&Client::Stateless.wait(1)).await;
        stage.step(0).await;
        drop(serving);
        assert!(!stage.end().await);
        for connection in [&mut idle, &mut silent, &mut busy] {
            assert_eq!(connection.socket().read(&mut [0]).await.unwrap_or(0), 0);
        }
        until(|| live_tasks() == 0).await;
    });
}

#[test]
fn stalled_reader_loses_only_its_own_connection() {
    run(async || {
        let mut stage = Stage::new(
            Http::new().header_read_timeout(LONG).body_read_timeout(LONG).write_timeout(SHORT).log_ttl(LONG),
        );
        let serving = stage.serve().await;
        let [stateless, session] = Client::both(&serving).await;
        let mut unread = serving.connect().await;
        unread.write_request(&stateless.call(1, "flood", talk(0, 64 << 10))).await;
        stage.step(32).await;
        assert!(is_echo(&serving.send(stateless.echo()).await));
        assert!(!stage.end().await, "the call must end with its connection");
        while unread.next_message().await.is_some() {}

        let mut unread = serving.connect().await;
        unread.write_request(&session.call(1, "flood", talk(0, 64 << 10))).await;
        assert!(is_echo(&serving.send(session.echo()).await));
        // 64 MB, which no socket buffers: the call continues without its connection, and the log keeps 1 MiB of it.
        stage.step(1_000).await;
        stage.let_go(1);
        assert!(stage.end().await);
        unread.read_head().await.unwrap();
        let mut last = None;
        while let Some(event) = unread.next_event().await {
            assert!(!event.data.contains(r#""result""#), "the connection was still open");
            last = event.id;
        }
        // The client resumes far too late, and gets an error.
        let refused = serving.send(session.after(&last.unwrap())).await;
        assert_eq!((refused.status, refused.error_code()), (400, Some(-32600)));
        assert!(is_echo(&serving.send(session.echo()).await));
        until(|| live_tasks() == 2).await;
        serving.stop().await.unwrap();
    });
}

#[test]
fn slow_reader_gets_everything() {
    run(async || {
        let mut stage = Stage::new(Http::new());
        let serving = stage.serve().await;
        for client in Client::both(&serving).await {
            let mut connection = serving.connect().await;
            connection.write_request(&client.call(1, "flood", talk(0, 64 << 10))).await;
            stage.step(32).await;
            connection.read_head().await.unwrap();
            let mut next = 1;
            let answer = loop {
                let message = connection.next_message().await.unwrap();
                match message["params"]["progress"].as_u64() {
                    Some(step) => assert_eq!(step, next),
                    None => break message,
                }
                next += 1;
                if next == 200 {
                    stage.let_go(1);
                }
            };
            assert_eq!(text_of(&answer), "flooded");
            assert!(next >= 200);
            assert!(stage.end().await);
        }
        serving.stop().await.unwrap();
    });
}
