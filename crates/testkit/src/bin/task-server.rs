//! A server on stdio whose tasks, and calls with an idempotency key, survive it: `task-server EFFECTS --file PATH` or `task-server EFFECTS --redis URL|PREFIX`.
//!
//! Its tools append a line to the file EFFECTS for each step they do. With a last argument `--stop N` the process prints
//! `stopped` on stderr and does nothing more at one of the writes of a task or of a key, so that a test kills it there: before
//! the write N / 2 if N is even, and after it if N is odd.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tsugite::prelude::*;
use tsugite::server::{SealKey, SealKeys};
use tsugite::store::{
    Committed, Conflict, Field, LogRead, Position, Received, SpendLimit, Store, StoreFuture, StoreResult,
    StoreScope, Write,
};
use tsugite_store::FileStore;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match serve(&std::env::args().skip(1).collect::<Vec<_>>()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("task-server: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(args: &[String]) -> Result<(), String> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let (effects, kind, place, stop) = match args[..] {
        [effects, kind, place] => (effects, kind, place, None),
        [effects, kind, place, "--stop", number] => (effects, kind, place, number.parse().ok()),
        _ => return Err("the arguments are EFFECTS --file PATH | --redis URL|PREFIX [--stop N]".to_owned()),
    };
    let store: Arc<dyn Store> = match kind {
        "--file" => Arc::new(FileStore::open(place).map_err(|error| error.to_string())?),
        _ => {
            let (url, prefix) = place.split_once('|').ok_or("a prefix follows the URL")?;
            Arc::new(tsugite_redis::Redis::at(url).map_err(|error| error.to_string())?.prefix(prefix))
        }
    };
    let server = Server::new("tasks", "1")
        .store(StoppingStore { store, stop, writes: AtomicUsize::new(0) })
        .seal_keys(SealKeys::new(SealKey::new([7; 32])))
        .replica_lease(Duration::from_millis(200))
        .state(Effects(PathBuf::from(effects)))
        .tool(restarts)
        .tool(stays)
        .tool(pays)
        .tool(pays_again);
    server.serve_stdio().await.map_err(|error| error.to_string())
}

/// The file to which each step appends a line.
#[derive(Clone)]
struct Effects(PathBuf);

#[derive(Form)]
struct Name {
    name: String,
}

/// Does steps that must not happen twice, before and after a question, and may run again.
#[tool(task = "required", restartable)]
async fn restarts(cx: Context, State(effects): State<Effects>) -> Result<String, HandlerError> {
    work(cx, &effects.0).await
}

/// The same, and does not run again, except while it waits. Its last step is not one of `once`.
#[tool(task = "required")]
async fn stays(cx: Context, State(effects): State<Effects>) -> Result<String, HandlerError> {
    let name = work(cx, &effects.0).await?;
    append(&effects.0, "last")?;
    Ok(name)
}

/// Does a step that must not happen twice.
#[tool(once)]
async fn pays(State(effects): State<Effects>) -> Result<&'static str, HandlerError> {
    append(&effects.0, "pay")?;
    Ok("paid")
}

/// Does a step that may happen twice.
#[tool(once, restartable)]
async fn pays_again(State(effects): State<Effects>) -> Result<&'static str, HandlerError> {
    append(&effects.0, "pay")?;
    Ok("paid")
}

async fn work(cx: Context, effects: &Path) -> Result<String, HandlerError> {
    cx.once("first", async { append(effects, "first") }).await?;
    let Name { name } = cx.ask("Who?").key("name").await?;
    cx.once("second", async { append(effects, "second") }).await?;
    cx.once_repeatable("third", async { append(effects, "third") }).await?;
    Ok(name)
}

fn append(path: &Path, step: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    writeln!(file, "{step}")?;
    file.sync_all()
}

/// A store that stops the process at one write of a task or a key.
struct StoppingStore {
    store: Arc<dyn Store>,
    stop: Option<usize>,
    writes: AtomicUsize,
}

/// Waits to be killed.
fn stop() -> ! {
    eprintln!("stopped");
    loop {
        std::thread::park();
    }
}

impl Store for StoppingStore {
    fn scope(&self) -> StoreScope {
        self.store.scope()
    }

    fn read(&self, key: &str, fields: &[&str]) -> StoreResult<Option<Vec<Option<Field>>>> {
        self.store.read(key, fields)
    }

    fn list(&self, key: &str, after: &str, max: usize) -> StoreResult<Vec<(String, Field)>> {
        self.store.list(key, after, max)
    }

    fn commit(&self, writes: &[Write<'_>]) -> StoreResult<Result<Committed, Conflict>> {
        let is_counted = |write: &Write<'_>| matches!(write, Write::Set { key, .. } if key.starts_with("task/") || key.starts_with("once/"));
        if !writes.iter().any(is_counted) {
            return self.store.commit(writes);
        }
        let number = self.writes.fetch_add(1, Ordering::SeqCst) * 2;
        if self.stop == Some(number) {
            stop();
        }
        let (committing, stops) = (self.store.commit(writes), self.stop == Some(number + 1));
        StoreFuture::pending(async move {
            let committed = committing.await;
            if stops {
                stop();
            }
            committed
        })
    }

    fn take(&self, key: &str) -> StoreResult<Option<Vec<(String, Bytes)>>> {
        self.store.take(key)
    }

    fn spend(&self, key: &str, cost: u32, limit: SpendLimit) -> StoreResult<Result<(), Duration>> {
        self.store.spend(key, cost, limit)
    }

    fn read_log(&self, log: &str, after: u64) -> StoreResult<Option<LogRead>> {
        self.store.read_log(log, after)
    }

    fn receive(&self, replica: &str, position: &Position) -> StoreResult<Received> {
        self.store.receive(replica, position)
    }

    fn inbox(&self, replica: &str) -> StoreResult<Vec<Bytes>> {
        self.store.inbox(replica)
    }

    fn renew_lease(&self, replica: &str, ttl: Duration, handled: &Position) -> StoreResult<()> {
        self.store.renew_lease(replica, ttl, handled)
    }

    fn has_lease(&self, replica: &str) -> StoreResult<bool> {
        self.store.has_lease(replica)
    }

    fn end_lease(&self, replica: &str) -> StoreResult<()> {
        self.store.end_lease(replica)
    }
}
