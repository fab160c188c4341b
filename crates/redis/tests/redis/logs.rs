//! Event logs beyond the contract: evicted events and numbers at the limits.

use bytes::Bytes;
use tsugite_store::{Append, LogLimits, Store, Write};

use crate::server::{Server, TTL, commit};

fn append(first: Option<u64>) -> Append<'static> {
    let limits = LogLimits { max_events: 10, max_bytes: 1_000, ttl: TTL };
    let (owner, replaces, ends) = ("me", None, false);
    Append { log: "log", owner, replaces, first, count: 1, data: Bytes::from_static(b"x"), ends, limits }
}

#[tokio::test]
async fn evicted_events_count_as_trimmed() {
    let server = Server::start();
    let store = server.store();
    commit(&store, &[Write::Append(append(Some(1)))]).await.unwrap();
    assert_eq!(server.run::<u64>(&["DEL", "tsugite:events:log"]), 1);
    let read = store.read_log("log", 0).await.unwrap().unwrap();
    assert!(read.trimmed && read.batches.is_empty());
    commit(&store, &[Write::Append(append(Some(2)))]).await.unwrap();
    assert!(store.read_log("log", 0).await.unwrap().unwrap().trimmed);
    assert_eq!(server.run::<u64>(&["DEL", "tsugite:log:log"]), 1);
    commit(&store, &[Write::Append(append(Some(1)))]).await.unwrap();
    let read = store.read_log("log", 0).await.unwrap().unwrap();
    assert_eq!((read.trimmed, read.batches.len(), read.last), (false, 1, 1));
}

#[tokio::test]
async fn event_numbers_at_the_limits_are_safe() {
    let server = Server::start();
    let store = server.store();
    let error = store.commit(&[Write::Append(append(Some(u64::MAX)))]).await.unwrap_err();
    assert!(error.to_string().contains("2^52"), "{error}");
    let error = store.commit(&[Write::Append(append(Some(0)))]).await.unwrap_err();
    assert!(error.to_string().contains("number 0"), "{error}");
    commit(&store, &[Write::Append(append(Some(1)))]).await.unwrap();
    let read = store.read_log("log", u64::MAX).await.unwrap().unwrap();
    assert_eq!((read.last, read.trimmed, read.batches.len()), (1, false, 0));
    let large = 1 << 51;
    commit(&store, &[Write::DeleteLog { log: "log" }]).await.unwrap();
    assert_eq!(commit(&store, &[Write::Append(append(Some(large)))]).await.unwrap().last_event, large);
    assert_eq!(store.read_log("log", large - 1).await.unwrap().unwrap().batches[0].last, large);
}

#[tokio::test]
async fn one_commit_can_replace_a_log() {
    let server = Server::start();
    let store = server.store();
    commit(&store, &[Write::Append(append(None))]).await.unwrap();
    let replace = [Write::DeleteLog { log: "log" }, Write::Append(append(None))];
    assert_eq!(commit(&store, &replace).await.unwrap().last_event, 1);
    let twice = [Write::Append(append(None)), Write::Append(append(None))];
    let error = store.commit(&twice).await.unwrap_err();
    assert!(error.to_string().contains("more than one append"), "{error}");
}
