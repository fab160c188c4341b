//! The store in one file keeps the rules of the contract, and what it acknowledged.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and so do its own helpers"
)]

mod growth;
mod kill;
mod opening;
mod restart;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tsugite_store::{Append, FileStore, LogLimits, Precondition, Store, Write, suite};

#[tokio::test]
async fn file_store_keeps_the_contract() {
    let folder = Folder::new();
    let store: Arc<dyn Store> = Arc::new(FileStore::open(folder.file()).unwrap());
    suite::run(&store, "first").await.unwrap();
    drop(store);
    let store: Arc<dyn Store> = Arc::new(FileStore::open(folder.file()).unwrap());
    suite::run(&store, "first").await.unwrap_err();
    suite::run(&store, "second").await.unwrap();
}

/// A folder that is removed at the end of the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("tsugite-store-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("state.redb")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

const TTL: Duration = Duration::from_secs(3_600);

fn set<'a>(key: &'a str, field: &'a str, value: &str) -> Write<'a> {
    Write::Set {
        key,
        field,
        value: Bytes::copy_from_slice(value.as_bytes()),
        precondition: Precondition::None,
        ttl: TTL,
    }
}

fn append<'a>(log: &'a str, first: u64, data: &str) -> Write<'a> {
    Write::Append(Append {
        log,
        owner: "owner",
        replaces: None,
        first: Some(first),
        count: 1,
        data: Bytes::copy_from_slice(data.as_bytes()),
        ends: false,
        limits: LogLimits { max_events: u64::MAX, max_bytes: usize::MAX, ttl: TTL },
    })
}

async fn value(store: &FileStore, key: &str, field: &str) -> Option<String> {
    let fields = store.read(key, &[field]).await.unwrap()?;
    let field = fields.into_iter().next().flatten()?;
    Some(String::from_utf8(field.value.to_vec()).unwrap())
}

fn size(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().len()
}
