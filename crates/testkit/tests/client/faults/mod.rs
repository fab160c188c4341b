//! Our client against broken and hostile servers: child processes that run a script, and sockets on which
//! HTTP is written by hand.
//!
//! No test sleeps: timeouts that must expire are short, and the test waits for the effect.

mod authorizers;
mod broken_connections;
mod caching;
mod cancellation;
mod child_exit;
#[cfg(target_os = "linux")]
mod closed_pipes;
mod endpoints;
mod keyed_calls;
mod limits;
mod listeners;
mod pipes;
#[cfg(target_os = "linux")]
mod process_tree;
mod proxies;
mod raw;
mod repeat_table;
mod repeats;
mod replaced_child;
mod responses;
mod script;
mod server_requests;
mod sessions;
#[cfg(target_os = "linux")]
mod shell;
mod stray_lines;
mod task_results;
mod timeouts;

use std::future::{Future, IntoFuture};
use std::time::Duration;

use tsugite::client::{Client, ClientError, ErrorKind};
use tsugite::prelude::Revision;

/// The revision of the tests that need a handshake.
const HANDSHAKE: Revision = Revision::V2025_11_25;

/// Longer than any machine needs, so that only a bug takes this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Fails the test instead of hanging.
async fn within<F: IntoFuture>(work: F) -> F::Output {
    tokio::time::timeout(PATIENCE, work.into_future()).await.expect("the test hangs")
}

/// Polls the condition until it holds, and yields to other tasks meanwhile.
async fn until(mut is_so: impl FnMut() -> bool) {
    within(async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

/// Calls a tool without arguments, whose result is a text.
async fn call(client: &Client, tool: &str) -> Result<String, ClientError> {
    within(client.call::<String>(tool, serde_json::json!({}))).await
}

/// The kind of the error.
fn kind<T: std::fmt::Debug>(outcome: Result<T, ClientError>) -> ErrorKind {
    outcome.expect_err("it went well").into_kind()
}

/// A task that is aborted on drop.
struct Running<T>(tokio::task::JoinHandle<T>);

impl<T: Send + 'static> Running<T> {
    fn new(work: impl Future<Output = T> + Send + 'static) -> Self {
        Self(tokio::spawn(work))
    }

    async fn end(mut self) -> T {
        within(&mut self.0).await.unwrap()
    }
}

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A memory figure of this process from `/proc`, in KiB; 0 where it is unknown.
fn memory(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Runs `work` and fails if the memory of this process grows by 192 MiB or more.
async fn without_growing<T>(work: impl Future<Output = T>) -> T {
    let before = memory("VmRSS");
    let outcome = work.await;
    let most = memory("VmHWM");
    assert!(most < before + (192 << 10), "it grew from {before} KiB to {most} KiB");
    outcome
}
