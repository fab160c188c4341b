//! Servers that are absent, restarted, frozen or out of memory.

use std::time::Duration;

use bytes::Bytes;
use tsugite_redis::Redis;
use tsugite_store::{Append, LogLimits, Position, Recipient, Store, Write};

use crate::proxy::Proxy;
use crate::server::{Server, TTL, commit, eventually, free_port, set, within};

#[tokio::test]
async fn absent_server_is_an_error_until_it_comes() {
    let (store, server) = loop {
        let port = free_port();
        let store = Redis::at(&format!("redis://127.0.0.1:{port}")).unwrap();
        let error = within(store.read("k", &["a"])).await.unwrap_err();
        assert!(error.to_string().contains(&format!("127.0.0.1:{port}")), "{error}");
        // Known to be down by now.
        let error = within(store.receive("me", &Position("1-1 1-1".to_owned()))).await.unwrap_err();
        assert!(error.to_string().contains("tried again"), "{error}");
        if let Some(server) = Server::at_port(port, &[]) {
            break (store, server);
        }
    };
    eventually(|| async { commit(&store, &[set("k", "a", "1")]).await.ok() }).await;
    drop(server);
}

#[tokio::test]
async fn restart_without_data_heals() {
    let server = Server::start();
    let store = server.store();
    commit(&store, &[set("k", "a", "1")]).await.unwrap();
    let position = store.receive("me", &Position::default()).await.unwrap().position;
    let server = server.restart();
    let read = eventually(|| async { store.read("k", &["a"]).await.ok() }).await;
    assert!(read.is_none());
    // The scripts are gone too.
    commit(&store, &[set("k", "a", "2")]).await.unwrap();
    assert!(store.take("k").await.unwrap().is_some());
    let received = eventually(|| async { store.receive("me", &position).await.ok() }).await;
    assert!(received.missed);
    drop(server);
}

#[tokio::test]
async fn restart_while_waiting_heals() {
    let server = Server::start();
    let store = server.store();
    let position = store.receive("me", &Position::default()).await.unwrap().position;
    let waiting = within(store.receive("me", &position));
    let restart = async {
        server.until_a_client_waits().await;
        server.restart()
    };
    let (received, server) = tokio::join!(waiting, restart);
    received.unwrap_err();
    let received = eventually(|| async { store.receive("me", &position).await.ok() }).await;
    assert!(received.missed);
    drop(server);
}

#[tokio::test]
async fn frozen_server_gives_errors_and_heals() {
    let server = Server::start();
    let store = server.store().timeout(Duration::from_secs(1));
    commit(&store, &[set("k", "a", "1")]).await.unwrap();
    let position = store.receive("me", &Position::default()).await.unwrap().position;
    let waiting = within(store.receive("me", &position));
    let freeze = async {
        server.until_a_client_waits().await;
        server.freeze();
        for _ in 0..5 {
            within(store.read("k", &["a"])).await.unwrap_err();
            within(commit(&store, &[set("k", "b", "2")])).await.unwrap_err();
        }
    };
    let (received, ()) = tokio::join!(waiting, freeze);
    let error = received.unwrap_err().to_string();
    assert!(error.contains("did not answer within 1s"), "{error}");
    server.unfreeze();
    let read = eventually(|| async { store.read("k", &["a"]).await.ok() }).await;
    assert!(read.unwrap()[0].is_some());
    let news = Write::Send { to: Recipient::All, message: Bytes::from_static(b"news"), ttl: TTL };
    eventually(|| async { commit(&store, std::slice::from_ref(&news)).await.ok() }).await;
    let received = eventually(|| async { store.receive("me", &position).await.ok() }).await;
    assert!(!received.missed);
    assert_eq!(received.messages.first().unwrap(), "news");
}

#[tokio::test]
async fn silent_connections_are_replaced() {
    let server = Server::start();
    let proxy = Proxy::to(server.port);
    let store = Redis::at(&format!("redis://127.0.0.1:{}", proxy.port)).unwrap();
    let store = store.timeout(Duration::from_secs(1));
    commit(&store, &[set("k", "a", "1")]).await.unwrap();
    let position = store.receive("me", &Position::default()).await.unwrap().position;
    let waiting = within(store.receive("me", &position));
    let silence = async {
        server.until_a_client_waits().await;
        proxy.silence();
        within(store.read("k", &["a"])).await.unwrap_err();
        let read = eventually(|| async { store.read("k", &["a"]).await.ok() }).await;
        assert!(read.unwrap()[0].is_some());
    };
    let (received, ()) = tokio::join!(waiting, silence);
    received.unwrap_err();
    let news = Write::Send { to: Recipient::All, message: Bytes::from_static(b"news"), ttl: TTL };
    commit(&store, &[news]).await.unwrap();
    let received = within(store.receive("me", &position)).await.unwrap();
    assert_eq!((received.messages, received.missed), (vec![Bytes::from_static(b"news")], false));
}

#[tokio::test]
async fn dropped_store_closes_its_connections() {
    let server = Server::start();
    let store = server.store();
    let position = store.receive("me", &Position::default()).await.unwrap().position;
    let news = Write::Send { to: Recipient::All, message: Bytes::new(), ttl: TTL };
    commit(&store, &[news]).await.unwrap();
    store.receive("me", &position).await.unwrap();
    let connected = || server.run::<String>(&["CLIENT", "LIST"]).lines().count();
    // The third is the one that asks.
    eventually(|| async { (connected() == 3).then_some(()) }).await;
    drop(store);
    eventually(|| async { (connected() == 1).then_some(()) }).await;
}

#[tokio::test]
async fn commit_without_memory_writes_nothing() {
    let server = Server::start();
    let store = server.store();
    commit(&store, &[set("k", "a", "1")]).await.unwrap();
    store.renew_lease("me", TTL, &Position::default()).await.unwrap();
    server.run::<()>(&["CONFIG", "SET", "maxmemory", "1"]);
    let limits = LogLimits { max_events: 10, max_bytes: 1_000, ttl: TTL };
    let (owner, replaces, first, count, ends) = ("me", None, Some(1), 1, false);
    let append = || {
        let data = Bytes::from_static(b"x");
        Write::Append(Append { log: "log", owner, replaces, first, count, data, ends, limits })
    };
    let message = || Write::Send { to: Recipient::Replica("me"), message: Bytes::new(), ttl: TTL };
    let all = [Write::Touch { key: "absent", ttl: TTL }, set("k", "b", "2"), append(), message()];
    for writes in [&all[1..], &[append()], &[message()]] {
        let error = commit(&store, writes).await.unwrap_err();
        assert!(error.to_string().contains("maxmemory"), "{error}");
    }
    assert!(store.read("k", &["b"]).await.unwrap().unwrap()[0].is_none());
    assert!(store.read_log("log", 0).await.unwrap().is_none());
    assert!(store.inbox("me").await.unwrap().is_empty());
    // Neither a lease that exists nor a deletion needs memory.
    store.renew_lease("me", TTL, &Position::default()).await.unwrap();
    commit(&store, &[Write::Delete { key: "k" }]).await.unwrap();
    server.run::<()>(&["CONFIG", "SET", "maxmemory", "0"]);
    commit(&store, &all).await.unwrap();
    assert_eq!(store.read_log("log", 0).await.unwrap().unwrap().last, 1);
}
