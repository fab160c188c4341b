//! The server for clients of other projects: `peers-server --listen 127.0.0.1:PORT`, and with `--redis
//! URL` one of several replicas. `cargo xtask peers` starts it.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tsugite::prelude::*;
use tsugite::store::{MemoryStore, Precondition, Store, StoreError, Write};
use tsugite::transport::http::Http;
use tsugite_redis::Redis;
use tsugite_testkit::replicas::ServerArgs;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args = match ServerArgs::from_env() {
        Ok(args) => args,
        Err(usage) => {
            eprintln!("peers-server: {usage}");
            return ExitCode::from(2);
        }
    };
    match Gates::new(args.redis()) {
        Ok(gates) => args.serve(server(gates)).await,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn server(gates: Gates) -> Server {
    let motto = Resource::text(MOTTO, "Measure twice, cut once.").name("motto").mime_type("text/plain");
    Server::new("peers", "1.0.0")
        .instructions("Try everything.")
        // For clients of 2024-11-05.
        .http(Http::new().http_sse())
        // So that lists have more than one page, and clients must follow cursors.
        .page_size(2)
        .state(gates)
        .tool(add)
        .tool(count)
        .tool(order)
        .tool(hold)
        .tool(release)
        .tool(touch)
        .resource(motto)
        .resource(note)
        .prompt(review)
}

/// Adds two numbers.
#[tool(read_only)]
async fn add(a: i64, b: i64) -> i64 {
    a + b
}

/// Counts, and tells how far it is.
#[tool]
async fn count(to: u32, cx: Context) -> String {
    for step in 1..=to {
        cx.progress(step).total(to).message(format!("step {step}")).await;
    }
    format!("counted to {to}")
}

#[derive(Form)]
enum Size {
    Small,
    Large,
}

#[derive(Form)]
struct Order {
    /// Who gets it?
    name: String,
    #[form(min = 1, max = 12)]
    planks: u32,
    size: Size,
    sure: bool,
}

/// Takes an order, after asking for it.
#[tool]
async fn order(cx: Context) -> Result<String, HandlerError> {
    let Order { name, planks, size, sure } = cx.ask::<Order>("What shall it be?").await?;
    let size = if matches!(size, Size::Large) { "large" } else { "small" };
    Ok(format!("{planks} {size} planks for {name}, {}", if sure { "surely" } else { "perhaps" }))
}

/// Reports progress, so that its stream has begun, and waits until it is released. Says how often it ran.
#[tool]
async fn hold(
    key: String,
    /// Whether to close the stream and let the client come back.
    closes: bool,
    cx: Context,
    State(gates): State<Gates>,
) -> Result<String, HandlerError> {
    let run = gates.count_run(&key).await?;
    cx.progress(1).total(2).message("holding").await;
    if closes {
        cx.close_stream();
    }
    gates.wait(&key, "open").await?;
    gates.set(&key, "done").await?;
    Ok(format!("{key}: run {run}"))
}

/// Releases what `hold` holds, and says so when it has gone on.
#[tool]
async fn release(key: String, State(gates): State<Gates>) -> Result<&'static str, HandlerError> {
    gates.set(&key, "open").await?;
    gates.wait(&key, "done").await?;
    Ok("released")
}

/// Says that the motto has changed.
#[tool]
async fn touch(cx: Context) -> &'static str {
    cx.server().notify_resource_updated(MOTTO);
    "touched"
}

/// One note.
#[resource("notes://{owner}/{number}", name = "note", mime_type = "text/plain")]
async fn note(owner: String, number: u32) -> String {
    format!("note {number} of {owner}")
}

/// Asks for a review.
#[prompt]
async fn review(
    code: String,
    #[arg(complete = ["perl", "python", "rust"])] language: Option<String>,
) -> String {
    format!("Review this {}: {code}", language.unwrap_or_else(|| "code".to_owned()))
}

/// The held calls, by key. They are the application's own state, which replicas share like that of the server.
#[derive(Clone)]
struct Gates(Arc<dyn Store>);

impl Gates {
    fn new(redis: Option<&str>) -> Result<Self, String> {
        Ok(Self(match redis {
            Some(url) => Arc::new(Redis::at(url).map_err(|error| error.to_string())?.prefix("gates")),
            None => Arc::new(MemoryStore::new()),
        }))
    }

    /// Counts a run of a call, and returns its number.
    async fn count_run(&self, key: &str) -> Result<u32, StoreError> {
        let mut run = 1;
        while !self.write(&format!("{key}/runs"), &run.to_string(), Precondition::FieldAbsent).await? {
            run += 1;
        }
        Ok(run)
    }

    async fn set(&self, key: &str, what: &str) -> Result<(), StoreError> {
        self.write(&format!("{key}/{what}"), what, Precondition::None).await.map(drop)
    }

    /// Waits until something is set, at any replica, and takes it.
    async fn wait(&self, key: &str, what: &str) -> Result<(), StoreError> {
        while self.0.take(&format!("{key}/{what}")).await?.is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    /// Returns whether it was written.
    async fn write(&self, key: &str, field: &str, precondition: Precondition) -> Result<bool, StoreError> {
        let ttl = Duration::from_secs(600);
        let write = Write::Set { key, field, value: Bytes::from_static(b"1"), precondition, ttl };
        Ok(self.0.commit(&[write]).await?.is_ok())
    }
}

const MOTTO: &str = "notes://motto";
