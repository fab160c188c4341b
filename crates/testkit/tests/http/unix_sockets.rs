//! Serving on a Unix socket: who may open it, and what happens to its file.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tsugite::prelude::*;
use tsugite::transport::http::Http;

/// A folder for sockets, removed when it is dropped.
struct TempFolder(PathBuf);

impl TempFolder {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("tsugite-unix-{}-{count}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn server() -> Server {
    Server::new("s", "1").tool(Tool::new("greet").description("Greets.").handler(async || "hello"))
}

/// Serves until the sender is dropped.
fn start(server: &Server, path: &Path) -> (oneshot::Sender<()>, JoinHandle<tsugite::Result<()>>) {
    let listener = server.bind_http_unix(path).unwrap();
    assert_eq!(listener.path(), path);
    let (stop, stopped) = oneshot::channel::<()>();
    (stop, tokio::spawn(listener.serve_until(async move { drop(stopped.await) })))
}

fn socket(folder: &TempFolder) -> PathBuf {
    folder.path().join("s.sock")
}

#[tokio::test]
async fn client_calls_over_a_unix_socket_in_every_revision() {
    let folder = TempFolder::new();
    let path = socket(&folder);
    let (_stop, _task) = start(&server(), &path);
    for revision in Revision::ALL {
        let client = Client::connect(format!("unix:{}", path.display())).revision(revision).await.unwrap();
        assert_eq!(client.call::<String>("greet", json!({})).await.unwrap(), "hello", "{revision}");
    }
}

#[tokio::test]
async fn path_of_the_endpoint_follows_the_socket() {
    let folder = TempFolder::new();
    let path = socket(&folder);
    let (_stop, _task) = start(&server().http(Http::new().path("/other")), &path);
    let client = Client::connect(format!("unix:{}#/other", path.display())).await.unwrap();
    assert_eq!(client.call::<String>("greet", json!({})).await.unwrap(), "hello");
    assert!(Client::connect(format!("unix:{}", path.display())).await.is_err());
}

#[tokio::test]
async fn only_the_owner_can_open_the_socket() {
    // T-09, SEC-022, ARS-004
    let folder = TempFolder::new();
    let path = socket(&folder);
    let (_stop, _task) = start(&server(), &path);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let names: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["s.sock"]);
}

#[tokio::test]
async fn socket_is_removed_when_the_server_stops() {
    let folder = TempFolder::new();
    let path = socket(&folder);
    let (stop, task) = start(&server(), &path);
    drop(stop);
    task.await.unwrap().unwrap();
    assert!(!path.exists());
}

#[tokio::test]
async fn socket_of_a_running_server_is_not_replaced() {
    let folder = TempFolder::new();
    let path = socket(&folder);
    let (_stop, _task) = start(&server(), &path);
    let error = server().bind_http_unix(&path).unwrap_err().to_string();
    assert!(error.contains("another server listens") && error.contains("s.sock"), "{error}");
    assert!(Client::connect(format!("unix:{}", path.display())).await.is_ok());
}

#[tokio::test]
async fn socket_left_by_a_killed_server_is_replaced() {
    let folder = TempFolder::new();
    let path = socket(&folder);
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let (_stop, _task) = start(&server(), &path);
    assert!(Client::connect(format!("unix:{}", path.display())).await.is_ok());
}

#[tokio::test]
async fn file_that_is_not_a_socket_is_kept() {
    let folder = TempFolder::new();
    let path = socket(&folder);
    std::fs::write(&path, "notes").unwrap();
    let error = server().bind_http_unix(&path).unwrap_err().to_string();
    assert!(error.contains("not a socket"), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "notes");
}
