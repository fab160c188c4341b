//! Tests with a disk that is slow or full, and of the rows in the file.

use std::fs::File;
use std::future::IntoFuture;
use std::io;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use bytes::Bytes;
use redb::backends::FileBackend;
use redb::{BackendError, ReadableTableMetadata, StorageBackend};

use super::FileStore;
use crate::{Append, LogLimits, Position, Precondition, Recipient, Store, StoreError, Write};

#[tokio::test]
async fn concurrent_commits_share_a_transaction() {
    let disk = Disk::new();
    let store = disk.open();
    // The first commit waits for the disk, so the others are queued meanwhile.
    disk.state.hold_flushes(true);
    let commit = |number: u32| {
        let commit = store.commit(&[set("k", &number.to_string(), "v")]).into_future();
        tokio::spawn(async move { commit.await.map_err(|error| error.to_string()) })
    };
    let first = commit(0);
    tokio::task::yield_now().await;
    disk.state.wait_for_flush();
    let others: Vec<_> = (1..=64).map(commit).collect();
    tokio::task::yield_now().await;
    disk.state.hold_flushes(false);
    let mut versions = vec![first.await.unwrap().unwrap().unwrap().version];
    for other in others {
        versions.push(other.await.unwrap().unwrap().unwrap().version);
    }
    assert_eq!(store.transactions(), 2);
    assert!(versions.is_sorted_by(|a, b| a < b), "{versions:?}");
    assert_eq!(store.list("k", "", 100).await.unwrap().len(), 65);
}

#[tokio::test]
async fn reads_do_not_wait_for_writes() {
    let disk = Disk::new();
    let store = disk.open();
    commit(&store, &[set("k", "a", "old")]).await.unwrap();
    disk.state.hold_flushes(true);
    let write = store.commit(&[set("k", "a", "new")]).into_future();
    let write = tokio::spawn(async move { write.await.map_err(|error| error.to_string()) });
    tokio::task::yield_now().await;
    disk.state.wait_for_flush();
    assert_eq!(value(&store, "k").await.as_deref(), Some("old"));
    disk.state.hold_flushes(false);
    write.await.unwrap().unwrap().unwrap();
    assert_eq!(value(&store, "k").await.as_deref(), Some("new"));
}

#[tokio::test]
async fn full_disk_loses_nothing_and_is_recovered_from() {
    let disk = Disk::new();
    let store = disk.open();
    commit(&store, &[set("first", "a", "1")]).await.unwrap();
    for number in 0..3 {
        disk.state.full.store(true, Ordering::SeqCst);
        let large = "x".repeat(3 << 20);
        for _ in 0..2 {
            let error = commit(&store, &[set("large", "a", &large), set("large", "b", "")]).await;
            let error = error.unwrap_err().to_string();
            assert!(error.contains("state.redb") && error.contains("disk is full"), "{error}");
        }
        assert_eq!(value(&store, "first").await.as_deref(), Some("1"));
        disk.state.full.store(false, Ordering::SeqCst);
        commit(&store, &[set(&format!("after {number}"), "a", "2")]).await.unwrap();
        assert_eq!(value(&store, "first").await.as_deref(), Some("1"));
    }
    let large = store.list("large", "", 10).await.unwrap().len();
    assert!(large == 0 || large == 2, "{large} fields of 2");
    drop(store);
    let store = FileStore::open(disk.path()).unwrap();
    assert_eq!(value(&store, "first").await.as_deref(), Some("1"));
    assert_eq!(value(&store, "after 2").await.as_deref(), Some("2"));
}

#[tokio::test]
async fn file_is_opened_again_without_a_write() {
    let disk = Disk::new();
    let store = disk.open();
    commit(&store, &[set("k", "a", "1")]).await.unwrap();
    disk.state.full.store(true, Ordering::SeqCst);
    commit(&store, &[set("k", "a", "2")]).await.unwrap_err();
    disk.state.full.store(false, Ordering::SeqCst);
    disk.state.wait_until(|held| held.opened >= 2);
    assert!(value(&store, "k").await.is_some());
}

#[tokio::test]
async fn expired_entries_are_purged() {
    let disk = Disk::new();
    let store = disk.open();
    let mut sizes = Vec::new();
    for _ in 0..4 {
        for group in 0..20 {
            let keys: Vec<_> = (0..100).map(|number| format!("{group} {number}")).collect();
            let mut writes: Vec<_> = keys.iter().map(|key| expired(key)).collect();
            writes.push(Write::Append(append(&keys[0], Duration::ZERO)));
            writes.push(send(Recipient::Replica(&keys[0]), Duration::ZERO));
            commit(&store, &writes).await.unwrap();
        }
        commit(&store, &[set("stays", "a", "1"), send(Recipient::Replica("stays"), TTL)]).await.unwrap();
        assert!(rows(&store).0 >= 2_001);
        store.purge_expired();
        for _ in 0..1_000 {
            if rows(&store) == (1, 1, 0, 0) {
                break;
            }
            commit(&store, &[set("stays", "a", "1")]).await.unwrap();
        }
        assert_eq!(rows(&store), (1, 1, 0, 0));
        assert_eq!(store.shared.read(|snapshot, _| Ok(snapshot.counters.logged)).unwrap(), 0);
        sizes.push(std::fs::metadata(disk.path()).unwrap().len());
    }
    assert!(sizes[3] <= sizes[1] * 2, "{sizes:?}");
    assert_eq!(value(&store, "stays").await.as_deref(), Some("1"));
    assert_eq!(store.inbox("stays").await.unwrap().len(), 4);
}

#[tokio::test]
async fn logs_together_stay_within_their_limit() {
    let disk = Disk::new();
    let store = disk.open().max_log_bytes(250);
    for log in ["a", "b", "c"] {
        commit(&store, &[Write::Append(append(log, TTL))]).await.unwrap();
    }
    let kept = |log: &'static str| {
        let log = store.read_log(log, 0);
        async move { log.await.unwrap().map(|log| (log.batches.len(), log.last, log.trimmed)) }
    };
    assert_eq!(kept("b").await, Some((1, 1, false)));
    assert_eq!(kept("c").await, Some((0, 1, true)));
    commit(&store, &[Write::DeleteLog { log: "a" }]).await.unwrap();
    commit(&store, &[Write::Append(append("d", TTL))]).await.unwrap();
    assert_eq!(kept("d").await, Some((1, 1, false)));
}

#[tokio::test]
async fn lost_messages_to_all_are_reported() {
    let disk = Disk::new();
    let store = disk.open();
    let position = store.receive("replica", &Position::default()).await.unwrap().position;
    let messages: Vec<_> = (0..1_001).map(|_| send(Recipient::All, TTL)).collect();
    commit(&store, &messages).await.unwrap();
    let received = store.receive("replica", &position).await.unwrap();
    assert_eq!((received.messages.len(), received.missed), (1_000, true));
    commit(&store, &[send(Recipient::All, TTL)]).await.unwrap();
    let received = store.receive("replica", &received.position).await.unwrap();
    assert_eq!((received.messages.len(), received.missed), (1, false));
}

#[tokio::test]
async fn receiver_is_told_that_the_store_is_closed() {
    let disk = Disk::new();
    let store = disk.open();
    let position = store.receive("replica", &Position::default()).await.unwrap().position;
    let waiting = store.receive("replica", &position).into_future();
    let waiting = tokio::spawn(async move { waiting.await.map_err(|error| error.to_string()) });
    tokio::task::yield_now().await;
    drop(store);
    assert_eq!(waiting.await.unwrap().unwrap_err(), "the store is closed");
}

const TTL: Duration = Duration::from_secs(3_600);

fn set<'a>(key: &'a str, field: &'a str, value: &str) -> Write<'a> {
    let value = Bytes::copy_from_slice(value.as_bytes());
    Write::Set { key, field, value, precondition: Precondition::None, ttl: TTL }
}

/// A record that expires at once.
fn expired(key: &str) -> Write<'_> {
    let value = Bytes::from(vec![0; 500]);
    Write::Set { key, field: "a", value, precondition: Precondition::None, ttl: Duration::ZERO }
}

/// An append of 100 bytes.
fn append(log: &str, ttl: Duration) -> Append<'_> {
    Append {
        log,
        owner: "owner",
        replaces: None,
        first: None,
        count: 1,
        data: Bytes::from(vec![0; 100]),
        ends: false,
        limits: LogLimits { max_events: 10, max_bytes: 1_000, ttl },
    }
}

fn send(to: Recipient<'_>, ttl: Duration) -> Write<'_> {
    Write::Send { to, message: Bytes::from_static(b"message"), ttl }
}

async fn commit(store: &FileStore, writes: &[Write<'_>]) -> Result<(), StoreError> {
    store.commit(writes).await?.map(drop).map_err(|conflict| format!("{conflict:?}").into())
}

async fn value(store: &FileStore, key: &str) -> Option<String> {
    let field = store.read(key, &["a"]).await.unwrap()?.into_iter().next().flatten()?;
    Some(String::from_utf8(field.value.to_vec()).unwrap())
}

/// The numbers of records, fields, logs and appends, expired ones too.
fn rows(store: &FileStore) -> (u64, u64, u64, u64) {
    let rows = store.shared.read(|snapshot, _| {
        let queues = snapshot.queues.len()?;
        let logs = snapshot.logs.len()? + queues.saturating_sub(1);
        Ok((snapshot.records.len()?, snapshot.fields.len()?, logs, snapshot.events.len()?))
    });
    rows.unwrap()
}

/// A disk in a folder that is removed at the end of the test.
struct Disk {
    folder: PathBuf,
    state: Arc<DiskState>,
}

#[derive(Debug, Default)]
struct DiskState {
    full: AtomicBool,
    held: Mutex<Held>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Held {
    hold: bool,
    waiting: bool,
    /// How often the file was opened.
    opened: u32,
}

impl Disk {
    fn new() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("tsugite-disk-{}-{number}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        Self { folder, state: Arc::default() }
    }

    fn path(&self) -> PathBuf {
        self.folder.join("state.redb")
    }

    fn open(&self) -> FileStore {
        let state = self.state.clone();
        let make = move |builder: &redb::Builder, file: File| {
            state.held.lock().unwrap().opened += 1;
            state.changed.notify_all();
            builder.create_with_backend(Backend { file: FileBackend::new(file)?, state: state.clone() })
        };
        FileStore::open_with(&self.path(), Box::new(make)).unwrap()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.folder).unwrap();
    }
}

impl DiskState {
    fn hold_flushes(&self, hold: bool) {
        self.held.lock().unwrap().hold = hold;
        self.changed.notify_all();
    }

    /// Waits until a flush is held.
    fn wait_for_flush(&self) {
        self.wait_until(|held| held.waiting);
    }

    fn wait_until(&self, reached: impl Fn(&Held) -> bool) {
        let held = self.held.lock().unwrap();
        let waited = self.changed.wait_timeout_while(held, Duration::from_secs(20), |held| !reached(held));
        assert!(!waited.unwrap().1.timed_out(), "still waiting after 20 s");
    }

    fn check_space(&self) -> io::Result<()> {
        match self.full.load(Ordering::SeqCst) {
            true => Err(io::Error::new(io::ErrorKind::StorageFull, "the disk is full")),
            false => Ok(()),
        }
    }
}

#[derive(Debug)]
struct Backend {
    file: FileBackend,
    state: Arc<DiskState>,
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.state.check_space()?;
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut held = self.state.held.lock().unwrap();
        held.waiting = true;
        self.state.changed.notify_all();
        held = self.state.changed.wait_while(held, |held| held.hold).unwrap();
        held.waiting = false;
        drop(held);
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.state.check_space()?;
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }
}
