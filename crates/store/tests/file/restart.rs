//! Everything that was acknowledged is there after a restart.

use std::time::Duration;

use bytes::Bytes;
use tsugite_store::{FileStore, Position, Precondition, Recipient, SpendLimit, Store, Write};

use super::{Folder, TTL, append, set, value};

#[tokio::test]
async fn records_logs_and_messages_survive_a_restart() {
    let folder = Folder::new();
    let store = FileStore::open(folder.file()).unwrap();
    let send = |message: &'static str| Write::Send {
        to: Recipient::Replica("old"),
        message: Bytes::from_static(message.as_bytes()),
        ttl: TTL,
    };
    let first = store
        .commit(&[set("k", "a", "1"), set("k", "b", "2"), append("log", 1, "event"), send("one")])
        .await
        .unwrap()
        .unwrap();
    store.commit(&[send("two")]).await.unwrap().unwrap();
    let position = store.receive("old", &Position::default()).await.unwrap().position;
    drop(store);

    let store = FileStore::open(folder.file()).unwrap();
    let fields = store.read("k", &["a", "b"]).await.unwrap().unwrap();
    let fields: Vec<_> = fields.into_iter().flatten().map(|field| (field.value, field.version)).collect();
    assert_eq!(fields, [(Bytes::from("1"), first.version), (Bytes::from("2"), first.version)]);
    let log = store.read_log("log", 0).await.unwrap().unwrap();
    assert_eq!((log.last, log.batches[0].data.as_ref(), log.owner.as_str()), (1, &b"event"[..], "owner"));
    assert_eq!(store.inbox("old").await.unwrap(), ["one", "two"]);
    store.commit(&[append("log", 2, "later"), send("three")]).await.unwrap().unwrap();
    let received = store.receive("old", &position).await.unwrap();
    assert_eq!((received.messages, received.missed), (vec![Bytes::from("three")], false));
}

#[tokio::test]
async fn versions_are_not_used_again_after_a_restart() {
    let folder = Folder::new();
    let mut versions = Vec::new();
    for _ in 0..3 {
        let store = FileStore::open(folder.file()).unwrap();
        for _ in 0..2 {
            versions.push(store.commit(&[set("k", "a", "same")]).await.unwrap().unwrap().version);
            store.commit(&[Write::Delete { key: "k" }]).await.unwrap().unwrap();
        }
    }
    let store = FileStore::open(folder.file()).unwrap();
    versions.push(store.commit(&[set("k", "a", "same")]).await.unwrap().unwrap().version);
    for old in &versions[..versions.len() - 1] {
        let precondition = Precondition::FieldVersion(*old);
        let write = Write::Set { key: "k", field: "a", value: Bytes::new(), precondition, ttl: TTL };
        store.commit(&[write]).await.unwrap().unwrap_err();
    }
    assert!(versions.is_sorted_by(|a, b| a < b), "{versions:?}");
}

#[tokio::test]
async fn leases_and_rate_limits_end_with_the_process() {
    let folder = Folder::new();
    let limit = SpendLimit { burst: 1, per_second: 0.001 };
    let store = FileStore::open(folder.file()).unwrap();
    store.renew_lease("replica", TTL, &Position::default()).await.unwrap();
    store.spend("k", 1, limit).await.unwrap().unwrap();
    assert!(store.has_lease("replica").await.unwrap());
    assert!(store.spend("k", 1, limit).await.unwrap().is_err());
    drop(store);
    let store = FileStore::open(folder.file()).unwrap();
    assert!(!store.has_lease("replica").await.unwrap());
    assert!(store.spend("k", 1, limit).await.unwrap().is_ok());
}

#[tokio::test]
async fn records_expire_while_no_process_runs() {
    let folder = Folder::new();
    let store = FileStore::open(folder.file()).unwrap();
    let short = Write::Set {
        key: "short",
        field: "a",
        value: Bytes::new(),
        precondition: Precondition::None,
        ttl: Duration::from_millis(1),
    };
    store.commit(&[short, set("long", "a", "1")]).await.unwrap().unwrap();
    drop(store);
    // Closing and opening flush the disk, so that more than a millisecond passes; the loop is for a disk that is faster.
    for _ in 0..1_000 {
        let store = FileStore::open(folder.file()).unwrap();
        assert_eq!(value(&store, "long", "a").await.as_deref(), Some("1"));
        if store.read("short", &["a"]).await.unwrap().is_none() {
            return;
        }
    }
    panic!("the record has not expired");
}

#[tokio::test]
async fn writes_that_wait_are_finished_before_the_file_closes() {
    let folder = Folder::new();
    let store = FileStore::open(folder.file()).unwrap();
    let mut commits = Vec::new();
    for number in 0..50 {
        let commit = store.commit(&[set("k", &number.to_string(), "1")]);
        commits.push(tokio::spawn(async move { commit.await.map_err(|error| error.to_string()) }));
    }
    // Polls all of them once, which queues the writes.
    tokio::task::yield_now().await;
    drop(store);
    for commit in commits {
        commit.await.unwrap().unwrap().unwrap();
    }
    let store = FileStore::open(folder.file()).unwrap();
    assert_eq!(store.list("k", "", 100).await.unwrap().len(), 50);
}
