//! Files that can and cannot be opened.

use std::fs;
use std::thread;

use redb::{Database, TableDefinition};
use tsugite_store::{FileStore, Store};

use super::kill::ChildProcess;
use super::{Folder, set, value};

#[tokio::test]
async fn new_file_is_alone() {
    let folder = Folder::new();
    let store = FileStore::open(folder.file()).unwrap();
    store.commit(&[set("k", "a", "1")]).await.unwrap().unwrap();
    let names: Vec<_> = fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["state.redb"]);
}

#[cfg(unix)]
#[test]
fn new_file_is_private() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    let _store = FileStore::open(folder.file()).unwrap();
    assert_eq!(fs::metadata(folder.file()).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn missing_folder_is_named() {
    let folder = Folder::new();
    let path = folder.0.join("missing").join("state.redb");
    let error = FileStore::open(&path).unwrap_err().to_string();
    assert!(error.contains(path.to_str().unwrap()) && error.contains("its folder does not exist"), "{error}");
    assert!(!path.parent().unwrap().exists());
    let error = FileStore::open(&folder.0).unwrap_err().to_string();
    assert!(error.contains("it is not a file"), "{error}");
}

#[test]
fn file_in_use_is_refused_in_this_and_another_process() {
    if let Some(path) = ChildProcess::path() {
        let _store = FileStore::open(path).unwrap();
        return ChildProcess::report_and_wait("open");
    }
    let folder = Folder::new();
    let mut child =
        ChildProcess::start("opening::file_in_use_is_refused_in_this_and_another_process", &folder.file());
    assert_eq!(child.next_report().as_deref(), Some("open"));
    let error = FileStore::open(folder.file()).unwrap_err();
    assert!(error.is_in_use());
    let text = error.to_string();
    assert!(
        text.contains(folder.file().to_str().unwrap()) && text.contains("another process uses it"),
        "{text}"
    );
    child.stop();
    let _first = FileStore::open(folder.file()).unwrap();
    assert!(FileStore::open(folder.file()).unwrap_err().is_in_use());
}

#[test]
fn one_of_many_openers_gets_a_new_file() {
    let folder = Folder::new();
    let path = &folder.file();
    let opened: Vec<_> = thread::scope(|scope| {
        let openers: Vec<_> = (0..4).map(|_| scope.spawn(|| FileStore::open(path))).collect();
        openers.into_iter().map(|opener| opener.join().unwrap()).collect()
    });
    assert_eq!(opened.iter().filter(|opened| opened.is_ok()).count(), 1, "{opened:?}");
    assert!(opened.iter().flat_map(|opened| opened.as_ref().err()).all(|error| error.is_in_use()));
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 1);
}

#[test]
fn other_files_are_refused_and_unchanged() {
    let folder = Folder::new();
    let other = folder.0.join("other.redb");
    let database = Database::create(&other).unwrap();
    let transaction = database.begin_write().unwrap();
    transaction.open_table(TableDefinition::<u64, u64>::new("theirs")).unwrap().insert(1, 2).unwrap();
    transaction.commit().unwrap();
    drop(database);
    let notes = folder.0.join("notes.txt");
    fs::write(&notes, "notes ".repeat(2_000)).unwrap();
    let empty = folder.0.join("empty");
    fs::write(&empty, "").unwrap();
    for path in [other, notes, empty] {
        let before = fs::read(&path).unwrap();
        let error = FileStore::open(&path).unwrap_err().to_string();
        assert!(error.contains("is not a store"), "{error}");
        assert!(fs::read(&path).unwrap() == before, "{} has changed", path.display());
    }
}

#[test]
fn newer_format_is_refused_and_unchanged() {
    let folder = Folder::new();
    drop(FileStore::open(folder.file()).unwrap());
    let database = Database::open(folder.file()).unwrap();
    let transaction = database.begin_write().unwrap();
    let meta = TableDefinition::<&str, u64>::new("meta");
    transaction.open_table(meta).unwrap().insert("format", 2).unwrap();
    transaction.commit().unwrap();
    drop(database);
    let before = fs::read(folder.file()).unwrap();
    let error = FileStore::open(folder.file()).unwrap_err().to_string();
    assert!(error.contains("has format 2, and this version reads format 1"), "{error}");
    assert!(fs::read(folder.file()).unwrap() == before);
}

#[tokio::test]
async fn damaged_files_are_errors_and_never_panics() {
    let folder = Folder::new();
    let store = FileStore::open(folder.file()).unwrap();
    for number in 0..20 {
        store.commit(&[set(&number.to_string(), "a", &"v".repeat(3_000))]).await.unwrap().unwrap();
    }
    drop(store);
    let good = fs::read(folder.file()).unwrap();
    let damaged = folder.0.join("damaged.redb");
    for length in [1, 8, 9, 100, 320, 4_096, good.len() / 2, good.len() - 4_096, good.len() - 1] {
        fs::write(&damaged, &good[..length]).unwrap();
        let error = FileStore::open(&damaged).unwrap_err().to_string();
        assert!(error.contains("is damaged") || error.contains("is not a store"), "{length}: {error}");
    }
    // Every part of the header, then samples of the pages.
    for at in (9..320).chain((320..good.len()).step_by(good.len() / 60)) {
        let mut bytes = good.clone();
        bytes[at..(at + 16).min(good.len())].iter_mut().for_each(|byte| *byte ^= 0xa5);
        fs::write(&damaged, &bytes).unwrap();
        // A page that is not in use may be damaged without effect.
        let Ok(store) = FileStore::open(&damaged) else { continue };
        for number in 0..20 {
            drop(store.read(&number.to_string(), &["a"]).await);
        }
        drop(store.commit(&[set("k", "a", "1")]).await);
    }
    fs::write(&damaged, &good).unwrap();
    let store = FileStore::open(&damaged).unwrap();
    assert_eq!(value(&store, "7", "a").await, Some("v".repeat(3_000)));
}
