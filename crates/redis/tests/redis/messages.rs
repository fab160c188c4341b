//! Messages that are lost, and receivers that wait.

use bytes::Bytes;
use tsugite_redis::Redis;
use tsugite_store::{Position, Recipient, Store, Write};

use crate::server::{Server, TTL, commit, set, within};

async fn send(store: &Redis, to: Recipient<'_>, message: &'static str) {
    let message = Bytes::from_static(message.as_bytes());
    commit(store, &[Write::Send { to, message, ttl: TTL }]).await.unwrap();
}

/// Receives messages, and says whether some are missing.
async fn receive(store: &Redis, position: &mut Position) -> (Vec<Bytes>, bool) {
    let received = within(store.receive("me", position)).await.unwrap();
    *position = received.position;
    (received.messages, received.missed)
}

#[tokio::test]
async fn waiting_receiver_does_not_block_other_operations() {
    let server = Server::start();
    let store = server.store();
    let position = store.receive("me", &Position::default()).await.unwrap().position;
    let waiting = within(store.receive("me", &position));
    let others = async {
        server.until_a_client_waits().await;
        commit(&store, &[set("k", "a", "1")]).await.unwrap();
        assert!(store.read("k", &["a"]).await.unwrap().is_some());
        send(&store, Recipient::All, "news").await;
    };
    let (received, ()) = tokio::join!(waiting, others);
    assert_eq!(received.unwrap().messages, ["news"]);
}

#[tokio::test]
async fn receiver_that_is_dropped_stops_waiting() {
    let server = Server::start();
    let store = server.store();
    let mut position = store.receive("me", &Position::default()).await.unwrap().position;
    let start = position.clone();
    tokio::select! {
        _ = within(store.receive("me", &start)) => panic!("there is no message"),
        () = server.until_a_client_waits() => {}
    }
    send(&store, Recipient::Replica("me"), "later").await;
    assert_eq!(receive(&store, &mut position).await, (vec![Bytes::from_static(b"later")], false));
}

#[tokio::test]
async fn wait_without_messages_ends_and_misses_nothing() {
    let server = Server::start();
    let store = server.store();
    let mut position = Position::default();
    for _ in 0..2 {
        assert_eq!(receive(&store, &mut position).await, (Vec::new(), false));
    }
    send(&store, Recipient::All, "1").await;
    send(&store, Recipient::Replica("me"), "2").await;
    let expected = vec![Bytes::from_static(b"1"), Bytes::from_static(b"2")];
    assert_eq!(receive(&store, &mut position).await, (expected, false));
}

#[tokio::test]
async fn messages_that_redis_dropped_are_reported() {
    let server = Server::start();
    let store = server.store();
    let mut position = Position::default();
    receive(&store, &mut position).await;
    for _ in 0..11 {
        let message = || Write::Send { to: Recipient::All, message: Bytes::from_static(b"m"), ttl: TTL };
        let writes: Vec<_> = (0..1_000).map(|_| message()).collect();
        commit(&store, &writes).await.unwrap();
    }
    assert!(receive(&store, &mut position).await.1);
    send(&store, Recipient::All, "next").await;
    assert_eq!(receive(&store, &mut position).await, (vec![Bytes::from_static(b"next")], false));
}

#[tokio::test]
async fn messages_lost_with_the_data_are_reported() {
    let server = Server::start();
    let store = server.store();
    let mut position = Position::default();
    send(&store, Recipient::Replica("me"), "1").await;
    assert_eq!(receive(&store, &mut position).await.0.len(), 1);
    send(&store, Recipient::Replica("me"), "2").await;
    assert_eq!(receive(&store, &mut position).await, (vec![Bytes::from_static(b"2")], false));
    server.run::<()>(&["FLUSHALL"]);
    // The stream that replaces the lost one has another name in its ids.
    send(&store, Recipient::All, "3").await;
    let (_, missed) = receive(&store, &mut position).await;
    assert!(missed);
    send(&store, Recipient::Replica("me"), "4").await;
    let mut messages = Vec::new();
    while messages.is_empty() {
        messages = receive(&store, &mut position).await.0;
    }
    assert_eq!(messages, ["4"]);
}

#[tokio::test]
async fn lost_broadcasts_do_not_repeat_own_messages() {
    let server = Server::start();
    let store = server.store();
    let mut position = Position::default();
    receive(&store, &mut position).await;
    send(&store, Recipient::All, "news").await;
    send(&store, Recipient::Replica("me"), "1").await;
    assert_eq!(receive(&store, &mut position).await.0.len(), 2);
    // The receiver checks its position after a wait without messages.
    assert_eq!(receive(&store, &mut position).await, (Vec::new(), false));
    server.run::<()>(&["DEL", "tsugite:broadcast"]);
    send(&store, Recipient::Replica("me"), "2").await;
    assert_eq!(receive(&store, &mut position).await, (vec![Bytes::from_static(b"2")], true));
}

#[tokio::test]
async fn unknown_position_starts_again() {
    let server = Server::start();
    let store = server.store();
    send(&store, Recipient::Replica("me"), "1").await;
    let mut position = Position("of another store".to_owned());
    assert_eq!(receive(&store, &mut position).await, (vec![Bytes::from_static(b"1")], true));
    send(&store, Recipient::Replica("me"), "2").await;
    assert_eq!(receive(&store, &mut position).await, (vec![Bytes::from_static(b"2")], false));
}
