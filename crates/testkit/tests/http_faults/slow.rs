//! Clients that send or read too slowly.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tsugite::transport::http::Http;

use crate::{Client, Stage, is_hello, live_tasks, run, talk, text_of, until};

const LONG: Duration = Duration::from_secs(600);
const SHORT: Duration = Duration::from_millis(50);

#[test]
fn a_body_that_stalls_is_refused_in_its_time() {
    run(async || {
        let stage = Stage::new(Http::new().time_limits(LONG, SHORT, LONG));
        let serving = stage.serve().await;
        for client in Client::both(&serving).await {
            let request = client.echo();
            let bytes = request.bytes();
            for missing in [1, request.body.len()] {
                let mut connection = serving.connect().await;
                connection.socket().write_all(&bytes[..bytes.len() - missing]).await.unwrap();
                let refused = connection.head().await.unwrap();
                assert_eq!(refused.status, 408);
                assert!(connection.body().await.contains("took too long"));
                // What would follow can no longer be told from the rest of the body.
                assert_eq!(connection.socket().read(&mut [0]).await.unwrap_or(0), 0);
            }
            assert!(is_hello(&serving.send(client.echo()).await));
        }
        serving.stop().await.unwrap();
    });
}

#[test]
fn a_head_that_stalls_or_comes_byte_by_byte_ends_its_connection() {
    run(async || {
        let stage = Stage::new(Http::new().time_limits(SHORT, LONG, LONG));
        let serving = stage.serve().await;
        let bytes = Client::Stateless.echo().bytes();
        for sent in [0, 1, 40] {
            let mut connection = serving.connect().await;
            connection.socket().write_all(&bytes[..sent]).await.unwrap();
            let mut rest = Vec::new();
            let _ = connection.socket().read_to_end(&mut rest).await;
            assert!(!String::from_utf8_lossy(&rest).contains("200 OK"));
        }
        // A hundred that go on without an end, and one that is served meanwhile.
        let mut dripping = Vec::new();
        for _ in 0..100 {
            let mut connection = serving.connect().await;
            connection.socket().write_all(b"POST /mcp HTTP/1.1\r\nX: ").await.unwrap();
            dripping.push(connection);
        }
        assert!(is_hello(&serving.send(Client::Stateless.echo()).await));
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
fn a_reader_that_stops_loses_its_connection_and_nobody_else_does() {
    run(async || {
        let mut stage =
            Stage::new(Http::new().time_limits(LONG, LONG, SHORT).event_log(1_000, 1 << 20, LONG));
        let serving = stage.serve().await;
        let [stateless, session] = Client::both(&serving).await;
        let mut unread = serving.connect().await;
        unread.begin(&stateless.call(1, "flood", talk(0, 64 << 10))).await;
        stage.step(32).await;
        assert!(is_hello(&serving.send(stateless.echo()).await));
        assert!(!stage.end().await, "its connection is gone, and with it the call");
        while unread.message().await.is_some() {}

        let mut unread = serving.connect().await;
        unread.begin(&session.call(1, "flood", talk(0, 64 << 10))).await;
        assert!(is_hello(&serving.send(session.echo()).await));
        // 64 MB, which no socket holds: it goes on without its connection, and of what it says the log keeps 1 MiB.
        stage.step(1_000).await;
        stage.let_go(1);
        assert!(stage.end().await);
        unread.head().await.unwrap();
        let mut last = None;
        while let Some(event) = unread.event().await {
            assert!(!event.data.contains(r#""result""#), "the connection was gone by then");
            last = event.id;
        }
        // Far too late, and told so.
        let refused = serving.send(session.after(&last.unwrap())).await;
        assert_eq!((refused.status, refused.code()), (400, Some(-32600)));
        assert!(is_hello(&serving.send(session.echo()).await));
        until(|| live_tasks() == 2).await;
        serving.stop().await.unwrap();
    });
}

#[test]
fn a_reader_that_is_slow_but_reads_on_gets_everything() {
    run(async || {
        let mut stage = Stage::new(Http::new());
        let serving = stage.serve().await;
        for client in Client::both(&serving).await {
            let mut connection = serving.connect().await;
            connection.begin(&client.call(1, "flood", talk(0, 64 << 10))).await;
            stage.step(32).await;
            connection.head().await.unwrap();
            let mut next = 1;
            let answer = loop {
                let message = connection.message().await.unwrap();
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
