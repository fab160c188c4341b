//! The file does not grow without bound, and nothing is written without need.

use std::sync::Arc;

use bytes::Bytes;
use tsugite_store::{FileStore, Precondition, Store, Write};

use super::{Folder, TTL, set, size};

#[tokio::test]
async fn conflicts_write_nothing_to_the_disk() {
    let folder = Folder::new();
    let store = FileStore::open(folder.file()).unwrap();
    let missing = || Write::Set {
        key: "k",
        field: "a",
        value: Bytes::new(),
        precondition: Precondition::RecordExists,
        ttl: TTL,
    };
    for _ in 0..3 {
        store.commit(&[missing()]).await.unwrap().unwrap_err();
        assert_eq!(store.take("k").await.unwrap(), None);
    }
    assert_eq!(store.transactions(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rewritten_records_do_not_grow_the_file() {
    let folder = Folder::new();
    let store = Arc::new(FileStore::open(folder.file()).unwrap());
    let mut tasks = Vec::new();
    for number in 0..100 {
        let store = store.clone();
        tasks.push(tokio::spawn(async move {
            let key = number.to_string();
            for turn in 0..100 {
                store.commit(&[set(&key, "a", &turn.to_string().repeat(500))]).await.unwrap().unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    // 100 KiB are stored, and 10 MB were written.
    let bytes = size(&folder.file());
    assert!(bytes < 6 << 20, "{bytes} bytes");
}
