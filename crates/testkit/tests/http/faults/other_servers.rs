//! Failures that were found in other servers.

use std::io::{Read, Write};
use std::time::Duration;

use serde_json::json;
use tsugite::transport::http::Http;
use tsugite_testkit::http::Request;

use super::{Client, Stage, is_echo, later, live_tasks, run, run_alone, talk, text_of, until};

#[test]
fn unread_stream_does_not_stall_its_session() {
    run(async || {
        let mut stage = Stage::new(Http::new());
        let serving = stage.serve().await;
        for client in Client::both(&serving).await {
            let mut unread = serving.connect().await;
            unread.write_request(&client.call(1, "flood", talk(0, 64 << 10))).await;
            // By now the handler waits for its reader, or soon will.
            stage.step(32).await;
            let mut stream = None;
            if let Client::Session(id) = &client {
                let mut news = serving.connect().await;
                assert_eq!(news.send(Request::get_stream(id)).await.status, 200);
                stream = Some(news);
            }
            for _ in 0..50 {
                assert!(is_echo(&serving.send(client.echo()).await));
            }
            let answer = serving.send(client.call(2, "burst", talk(20, 10))).await;
            assert_eq!(text_of(&answer.events().last().unwrap().json()), "burst");
            if let Some(mut stream) = stream {
                let tool = tsugite::prelude::Tool::new("more").handler(|| async { "more" });
                stage.server.add(tool).unwrap();
                let news = stream.next_message().await.unwrap();
                assert_eq!(news["method"], "notifications/tools/list_changed");
            }
            // The call still runs, and ends when it is stopped.
            stage.let_go(1);
            let head = unread.read_head().await.unwrap();
            assert_eq!(head.status, 200);
            let mut last = None;
            while let Some(message) = unread.next_message().await {
                last = Some(message);
            }
            assert_eq!(text_of(&last.unwrap()), "flooded");
            assert!(stage.end().await);
        }
        serving.stop().await.unwrap();
    });
}

#[test]
fn long_call_keeps_its_session_alive() {
    // On one thread, where the clock can be advanced.
    run_alone(async || {
        let idle = Duration::from_secs(600);
        let http = Http::new().session_idle_timeout(idle);
        let mut stage = Stage::new(http);
        let serving = stage.serve().await;
        let mut connections = Vec::new();
        let unused = Client::session(&serving).await;
        // An open stream counts as use, and so does a call: silent, streaming, or disconnected.
        let watched = Client::session(&serving).await;
        let mut stream = serving.connect().await;
        stream.send(Request::get_stream(watched.id())).await;
        for tool in ["wait", "talk"] {
            let client = Client::session(&serving).await;
            let mut connection = serving.connect().await;
            connection.write_request(&client.call(1, tool, talk(0, 1))).await;
            stage.step(0).await;
            connections.push((client, connection));
        }
        let lonely = Client::session(&serving).await;
        let mut lost = serving.connect().await;
        lost.send(lonely.call(1, "talk", talk(0, 1))).await;
        let primed = lost.next_event().await.unwrap().id.unwrap();
        stage.step(0).await;
        drop(lost);
        // Twice the timeout; sessions are swept each minute, or a moment later, since timers are rounded up.
        for _ in 0..20 {
            later(idle / 10 + Duration::from_secs(1)).await;
            assert!(is_echo(&serving.send(Client::Stateless.echo()).await));
        }
        assert_eq!(serving.send(unused.echo()).await.status, 404);
        assert!(is_echo(&serving.send(watched.echo()).await));
        for (client, _) in &connections {
            assert!(is_echo(&serving.send(client.echo()).await));
        }
        assert!(is_echo(&serving.send(lonely.echo()).await));
        let mut again = serving.connect().await;
        assert_eq!(again.send(lonely.after(&primed)).await.status, 200);
        stage.let_go(3);
        let (_, mut talked) = connections.pop().unwrap();
        let (_, mut waited) = connections.pop().unwrap();
        waited.read_head().await.unwrap();
        assert_eq!(text_of(&serde_json::from_str(&waited.read_body().await).unwrap()), "waited");
        talked.read_head().await.unwrap();
        for stream in [&mut talked, &mut again] {
            assert_eq!(stream.next_message().await.unwrap()["method"], "notifications/progress");
            assert_eq!(text_of(&stream.next_message().await.unwrap()), "talked");
        }
        for _ in 0..3 {
            assert!(stage.end().await);
        }
        serving.stop().await.unwrap();
    });
}

#[test]
fn missed_response_is_replayed_once_without_repeats() {
    run(async || {
        let mut stage = Stage::new(Http::new());
        let serving = stage.serve().await;
        let client = Client::session(&serving).await;
        let mut connection = serving.connect().await;
        connection.send(client.call(1, "talk", talk(2, 1))).await;
        connection.next_event().await.unwrap();
        let seen = connection.next_event().await.unwrap();
        assert_eq!(seen.json()["params"]["progress"], 0);
        drop(connection);
        stage.let_go(3);
        assert!(stage.end().await);
        let rest = serving.send(client.after(seen.id.as_deref().unwrap())).await;
        assert_eq!((rest.status, rest.header("content-type")), (200, Some("text/event-stream")));
        let said: Vec<_> = rest.events().into_iter().filter(|event| !event.data.is_empty()).collect();
        assert_eq!(said.len(), 3, "{said:?}");
        assert_eq!(said[0].json()["params"]["progress"], 1);
        assert_eq!(said[1].json()["params"]["progress"], 2);
        assert_eq!(text_of(&said[2].json()), "talked");
        assert!(said.iter().all(|event| event.id.is_some() && event.id != seen.id));
        // A client that has seen the response gets no more messages, and the stream ends.
        let nothing = serving.send(client.after(said[2].id.as_deref().unwrap())).await;
        assert_eq!(nothing.status, 200);
        assert!(nothing.events().iter().all(|event| event.data.is_empty()), "{nothing:?}");
        // The same for a stream that was read to its end.
        let mut connection = serving.connect().await;
        let mut said = connection.send(client.call(2, "talk", talk(0, 1))).await;
        stage.let_go(1);
        said.body = connection.read_body().await;
        let said = said.events();
        let rest = serving.send(client.after(said[0].id.as_deref().unwrap())).await.events();
        assert_eq!(rest.last(), said.last());
        assert_eq!(rest.iter().filter(|event| !event.data.is_empty()).count(), 2);
        serving.stop().await.unwrap();
    });
}

#[test]
fn small_writes_do_not_wait_for_each_other() {
    // With Nagle's algorithm the response would wait some 40 ms for the acknowledgement of the previous write: two
    // thousand times that is longer than the time limit of this test.
    run(async || {
        let stage = Stage::new(Http::new());
        let serving = stage.serve().await;
        for client in Client::both(&serving).await {
            let mut connection = serving.connect().await;
            for id in 0..1_000 {
                let head = connection.send(client.call(id, "talk", talk(0, 1))).await;
                assert_eq!(head.header("content-type"), Some("text/event-stream"));
                assert_eq!(connection.next_message().await.unwrap()["method"], "notifications/progress");
                stage.let_go(1);
                assert_eq!(text_of(&connection.next_message().await.unwrap()), "talked");
                assert_eq!(connection.next_message().await, None);
            }
        }
        serving.stop().await.unwrap();
    });
}

#[test]
fn messages_ready_together_share_one_write() {
    run(async || {
        let stage = Stage::new(Http::new());
        let serving = stage.serve().await;
        let clients = Client::both(&serving).await;
        let (address, go) = (serving.address, stage.go.clone());
        // Each write is a segment. A reader on another thread would sometimes see the first one alone.
        let reads = tokio::task::spawn_blocking(move || {
            let mut socket = std::net::TcpStream::connect(address).unwrap();
            socket.set_nodelay(true).unwrap();
            let mut buffer = vec![0; 64 << 10];
            let mut read = |request: Option<Request>, progress: usize, answered: bool| {
                if let Some(request) = request {
                    socket.write_all(&request.to_bytes()).unwrap();
                }
                let read = socket.read(&mut buffer).unwrap();
                let text = String::from_utf8_lossy(&buffer[..read]);
                assert_eq!(text.matches("notifications/progress").count(), progress, "{text}");
                assert_eq!(text.matches(r#""result""#).count(), usize::from(answered), "{text}");
                let whole = text.ends_with("\r\n0\r\n\r\n") || text.contains("content-length");
                assert_eq!(whole, answered, "{text}");
            };
            for id in 0..200 {
                for client in &clients {
                    read(Some(client.echo()), 0, true);
                    read(Some(client.call(id, "burst", talk(20, 10))), 20, true);
                    read(Some(client.call(id, "talk", talk(20, 10))), 1, false);
                    go.add_permits(21);
                    read(None, 20, true);
                }
            }
        });
        reads.await.unwrap();
        serving.stop().await.unwrap();
    });
}

#[test]
fn cancelled_and_finished_calls_leave_nothing() {
    run(async || {
        let mut stage = Stage::new(Http::new());
        let serving = stage.serve().await;
        let client = Client::session(&serving).await;
        let mut other = serving.connect().await;
        other.send(client.echo()).await;
        other.read_body().await;
        // Finished connections are closed; this one stays.
        let mut connection = serving.connect().await;
        connection.send(client.echo()).await;
        connection.read_body().await;
        // The listener, the session sweeper, and two connections.
        let before = 4;
        until(|| live_tasks() == before).await;
        for (id, tool) in [(1, "wait"), (2, "talk"), (1, "talk"), (2, "wait")] {
            connection.write_request(&client.call(id, tool, talk(1, 1))).await;
            stage.step(0).await;
            // The call can be cancelled as soon as its id is in use.
            while other.send(client.call(id, "echo", json!({}))).await.status == 200
                && !other.read_body().await.contains("already in use")
            {}
            let params = json!({"requestId": id});
            let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
            assert_eq!(other.send(client.request(cancel)).await.status, 202);
            other.read_body().await;
            assert!(!stage.end().await, "the handler was not dropped");
            assert_eq!(connection.read_head().await.unwrap().status, 200);
            let said = connection.read_body().await;
            assert!(!said.contains("result") && !said.contains("error"), "{said}");
            until(|| live_tasks() == before).await;
            // Its id is free again, on the same connection.
            connection.write_request(&client.call(id, tool, talk(1, 1))).await;
            stage.step(0).await;
            stage.let_go(2);
            assert!(stage.end().await);
            assert_eq!(connection.read_head().await.unwrap().status, 200);
            connection.read_body().await;
            if tool == "wait" {
                stage.go.acquire().await.unwrap().forget();
            }
            until(|| live_tasks() == before).await;
        }
        drop((connection, other));
        // The listener and the session sweeper.
        until(|| live_tasks() == 2).await;
        serving.stop().await.unwrap();
    });
}
