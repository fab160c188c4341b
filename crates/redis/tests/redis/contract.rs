//! The rules of every store, and the commands that each operation costs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tsugite_redis::Redis;
use tsugite_store::{
    Append, LogLimits, MAX_VALUE_BYTES, Position, Precondition, Recipient, SpendLimit, Store, Write, suite,
};

use crate::server::{Server, TTL, commit, set};

#[tokio::test]
async fn redis_keeps_the_contract() {
    let server = Server::start();
    let store: Arc<dyn Store> = Arc::new(server.store());
    suite::run(&store, "suite").await.unwrap();
    let keys: Vec<String> = server.run(&["KEYS", "*"]);
    assert!(!keys.is_empty());
    for key in keys {
        assert!(key.starts_with("tsugite:"), "{key}");
        let ttl: i64 = server.run(&["PTTL", &key]);
        // -2 is a key that has expired by now.
        assert!(ttl > 0 || ttl == -2, "{key} has no time to live: {ttl}");
    }
}

#[tokio::test]
async fn each_operation_is_one_command() {
    let server = Server::start();
    let store = server.store();
    // Loads the scripts.
    every_operation(&store, |_| {}).await;
    let mut costs = BTreeMap::new();
    server.run::<()>(&["CONFIG", "RESETSTAT"]);
    every_operation(&store, |operation| {
        costs.insert(operation, sent_commands(&server));
        server.run::<()>(&["CONFIG", "RESETSTAT"]);
    })
    .await;
    let expected = [
        ("commit", "evalsha 1"),
        ("conflict", "evalsha 1"),
        ("end_lease", "unlink 1"),
        ("has_lease", "exists 1"),
        ("inbox", "xrange 1"),
        ("list", "evalsha 1"),
        ("read", "hmget 1"),
        ("read_log", "evalsha 1"),
        ("receive", "evalsha 1"),
        ("receive after a message", "xread 1"),
        ("receive at another position", "evalsha 1, xread 1"),
        ("renew_lease", "evalsha 1"),
        ("spend", "evalsha 1"),
        ("take", "evalsha 1"),
    ];
    let expected: BTreeMap<_, _> = expected.into_iter().map(|(name, sent)| (name, sent.to_owned())).collect();
    assert_eq!(costs, expected);
}

/// Runs every operation, and names each one after it.
async fn every_operation(store: &Redis, mut done: impl FnMut(&'static str)) {
    let mut position = store.receive("me", &Position::default()).await.unwrap().position;
    done("receive");
    let limits = LogLimits { max_events: 1, max_bytes: 100, ttl: TTL };
    let data = Bytes::from_static(b"ab");
    let (owner, replaces, first, count, ends) = ("me", None, None, 1, false);
    let append = Append { log: "log", owner, replaces, first, count, data, ends, limits };
    let message = Bytes::from_static(b"hello");
    let writes = [
        set("k", "a", "1"),
        set("k", "b", "2"),
        Write::Touch { key: "k", ttl: TTL },
        Write::Append(append),
        Write::Send { to: Recipient::Replica("me"), message: message.clone(), ttl: TTL },
        Write::Send { to: Recipient::All, message, ttl: TTL },
    ];
    commit(store, &writes).await.unwrap();
    done("commit");
    let precondition = Precondition::FieldAbsent;
    store.commit(&[Write::Remove { key: "k", field: "a", precondition }]).await.unwrap().unwrap_err();
    done("conflict");
    store.read("k", &["a", "b", "c"]).await.unwrap().unwrap();
    done("read");
    assert_eq!(store.list("k", "", 10).await.unwrap().len(), 2);
    done("list");
    store.read_log("log", 0).await.unwrap().unwrap();
    done("read_log");
    assert_eq!(store.inbox("me").await.unwrap().len(), 1);
    done("inbox");
    let received = store.receive("me", &position).await.unwrap();
    assert_eq!((received.messages.len(), received.missed), (2, false));
    position = received.position;
    done("receive at another position");
    commit(store, &[Write::Send { to: Recipient::All, message: Bytes::new(), ttl: TTL }]).await.unwrap();
    done("commit");
    let received = store.receive("me", &position).await.unwrap();
    assert_eq!((received.messages.len(), received.missed), (1, false));
    done("receive after a message");
    store.take("k").await.unwrap().unwrap();
    done("take");
    store.spend("k", 1, SpendLimit { burst: 1, per_second: 1e6 }).await.unwrap().unwrap();
    done("spend");
    store.renew_lease("me", Duration::from_secs(5), &received.position).await.unwrap();
    done("renew_lease");
    assert!(store.has_lease("me").await.unwrap());
    done("has_lease");
    store.end_lease("me").await.unwrap();
    done("end_lease");
}

/// The commands that clients have sent. Commands of scripts are counted by Redis too; only their scripts are sent.
fn sent_commands(server: &Server) -> String {
    let stats: String = server.run(&["INFO", "commandstats"]);
    let mut commands = Vec::new();
    for line in stats.lines() {
        let Some((name, rest)) = line.strip_prefix("cmdstat_").and_then(|line| line.split_once(":calls="))
        else {
            continue;
        };
        let calls: usize = rest.split(',').next().unwrap().parse().unwrap();
        commands.push((name.to_owned(), calls));
    }
    let scripts = commands.iter().find(|(name, _)| name == "evalsha").map_or(0, |(_, calls)| *calls);
    let of_tests = ["config|resetstat", "info", "evalsha", "client|setinfo"];
    let of_scripts = |name: &str| scripts > 0 && !["xread", "eval", "script|load"].contains(&name);
    commands.retain(|(name, _)| !of_tests.contains(&name.as_str()) && !of_scripts(name));
    let mut sent: Vec<String> = vec!["evalsha 1".to_owned(); scripts];
    sent.extend(commands.iter().map(|(name, calls)| format!("{name} {calls}")));
    sent.sort();
    sent.join(", ")
}

#[tokio::test]
async fn largest_values_are_kept() {
    let server = Server::start();
    // A busy machine writes 32 MiB slowly.
    let store = server.store().timeout(Duration::from_secs(60));
    let value = Bytes::from(vec![b'x'; MAX_VALUE_BYTES]);
    let (key, field, precondition) = ("k", "a", Precondition::None);
    let set = Write::Set { key, field, value: value.clone(), precondition, ttl: TTL };
    let send = Write::Send { to: Recipient::Replica("me"), message: value.clone(), ttl: TTL };
    commit(&store, &[set, send]).await.unwrap();
    let read = store.read(key, &[field]).await.unwrap().unwrap();
    assert!(read[0].as_ref().is_some_and(|field| field.value == value));
    assert!(store.inbox("me").await.unwrap() == [value]);
}

#[tokio::test]
async fn large_records_are_listed_in_pages() {
    let server = Server::start();
    let store = server.store();
    let names: Vec<String> = (0..1_000).map(|number| format!("{number:04}")).collect();
    for part in names.chunks(100) {
        let writes: Vec<_> = part.iter().map(|name| set("k", name, "value")).collect();
        commit(&store, &writes).await.unwrap();
    }
    let mut found: Vec<String> = Vec::new();
    loop {
        let after = found.last().cloned().unwrap_or_default();
        let page = store.list("k", &after, 150).await.unwrap();
        if page.is_empty() {
            break;
        }
        assert!(page.iter().all(|(_, field)| field.value == "value"));
        found.extend(page.into_iter().map(|(name, _)| name));
    }
    assert_eq!(found, names);
}
