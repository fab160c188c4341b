//! Clients that disconnect.

use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tsugite::transport::http::Http;
use tsugite_testkit::http::Connection;

use super::{Client, Stage, is_echo, live_tasks, run, run_alone, talk, text_of, until};

#[test]
fn session_client_resumes_after_a_disconnect() {
    run(async || {
        let mut stage = Stage::new(Http::new());
        let serving = stage.serve().await;
        let client = Client::session(&serving).await;
        let mut connection = serving.connect().await;
        connection.send(client.call(1, "talk", talk(3, 1))).await;
        let mut last = connection.next_event().await.unwrap().id.unwrap();
        let mut said = Vec::new();
        stage.step(0).await;
        // Each step is read on a new connection.
        for step in 1..=3 {
            read_events(&mut connection, &mut last, &mut said).await;
            drop(connection);
            stage.let_go(1);
            stage.step(step).await;
            connection = serving.connect().await;
            assert_eq!(connection.send(client.after(&last)).await.status, 200);
        }
        read_events(&mut connection, &mut last, &mut said).await;
        drop(connection);
        stage.let_go(1);
        assert!(stage.end().await, "a lost connection must not cancel the call");
        connection = serving.connect().await;
        assert_eq!(connection.send(client.after(&last)).await.status, 200);
        read_events(&mut connection, &mut last, &mut said).await;
        assert_eq!(connection.next_message().await, None);
        let progress: Vec<_> =
            said.iter().filter_map(|message| message["params"]["progress"].as_u64()).collect();
        assert_eq!((progress, text_of(&said[4])), (vec![0, 1, 2, 3], "talked"));
        drop(connection);
        until(|| live_tasks() == 2).await;
        serving.stop().await.unwrap();
    });
}

/// Reads the next message and the event id to resume after.
async fn read_events(connection: &mut Connection, last: &mut String, said: &mut Vec<Value>) {
    loop {
        let event = connection.next_event().await.unwrap();
        last.clone_from(event.id.as_ref().unwrap());
        if !event.data.is_empty() {
            return said.push(event.json());
        }
    }
}

#[test]
fn disconnect_cancels_a_streaming_stateless_call() {
    run(async || {
        let mut stage = Stage::new(Http::new());
        let serving = stage.serve().await;
        let mut connection = serving.connect().await;
        connection.send(Client::Stateless.call(1, "talk", talk(3, 1))).await;
        assert_eq!(connection.next_message().await.unwrap()["method"], "notifications/progress");
        drop(connection);
        assert!(!stage.end().await, "the client cannot resume it");
        until(|| live_tasks() == 1).await;
        serving.stop().await.unwrap();
    });
}

#[test]
fn disconnect_before_the_response_cancels_only_stateless_calls() {
    run(async || {
        let mut stage = Stage::new(Http::new());
        let serving = stage.serve().await;
        let [stateless, session] = Client::both(&serving).await;
        let mut connection = serving.connect().await;
        connection.write_request(&stateless.wait(1)).await;
        stage.step(0).await;
        drop(connection);
        assert!(!stage.end().await, "the client cannot resume it");
        let mut connection = serving.connect().await;
        connection.write_request(&session.wait(1)).await;
        stage.step(0).await;
        drop(connection);
        // The listener, the session sweeper, and the call without its connection.
        until(|| live_tasks() == 3).await;
        // The call is still running, so its id is in use.
        let again = serving.send(session.wait(1)).await;
        assert_eq!(again.error_code(), Some(-32600), "{again:?}");
        assert!(is_echo(&serving.send(session.echo()).await));
        stage.let_go(1);
        assert!(stage.end().await, "a lost connection must not cancel the call");
        until(|| live_tasks() == 2).await;
        serving.stop().await.unwrap();
    });
}

#[test]
fn disconnect_during_a_request_leaves_no_tasks() {
    run(async || {
        let stage = Stage::new(Http::new());
        let serving = stage.serve().await;
        let session = Client::session(&serving).await;
        until(|| live_tasks() == 2).await;
        for client in [Client::Stateless, session] {
            let request = client.echo();
            let (bytes, body) = (request.to_bytes(), request.body.len());
            // Cut in the first line, in the head, before the body, in the body, before its last byte.
            for sent in [1, 40, bytes.len() - body, bytes.len() - body / 2, bytes.len() - 1] {
                let mut connection = serving.connect().await;
                connection.socket().write_all(&bytes[..sent]).await.unwrap();
                until(|| live_tasks() == 3).await;
                drop(connection);
                until(|| live_tasks() == 2).await;
            }
            assert!(is_echo(&serving.send(client.echo()).await));
            until(|| live_tasks() == 2).await;
        }
        serving.stop().await.unwrap();
    });
}

#[test]
fn endless_detached_call_does_not_starve_others() {
    run_alone(async || {
        let mut stage = Stage::new(Http::new());
        let serving = stage.serve().await;
        let client = Client::session(&serving).await;
        let mut connection = serving.connect().await;
        connection.send(client.call(1, "flood", talk(0, 1))).await;
        drop(connection);
        // The listener, the session sweeper, and the call.
        until(|| live_tasks() == 3).await;
        assert!(is_echo(&serving.send(client.echo()).await));
        stage.let_go(1);
        assert!(stage.end().await);
        serving.stop().await.unwrap();
    });
}
