//! The server for clients of other projects: `peers-server --listen 127.0.0.1:PORT`. `cargo xtask peers` starts it.

use std::collections::HashMap;
use std::env;
use std::io;
use std::process::{self, ExitCode};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use tokio::sync::Semaphore;
use tsugite::prelude::*;
use tsugite::transport::http::Http;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let ["--listen", address] = *args else {
        eprintln!("usage: peers-server --listen 127.0.0.1:PORT");
        return ExitCode::from(2);
    };
    match serve(address).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(address: &str) -> tsugite::Result<()> {
    // The process that started it holds the other end, and has exited when it closes.
    thread::spawn(|| {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        process::exit(0);
    });
    server().serve_http(address).await
}

fn server() -> Server {
    let motto = Resource::text(MOTTO, "Measure twice, cut once.").name("motto").mime_type("text/plain");
    Server::new("peers", "1.0.0")
        .instructions("Try everything.")
        // For clients of 2024-11-05.
        .http(Http::new().http_sse())
        // So that lists have more than one page, and clients must follow cursors.
        .page_size(2)
        .state(Gates::default())
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
    let gate = gates.get(&key);
    let run = 1 + gate.runs.fetch_add(1, Ordering::Relaxed);
    cx.progress(1).total(2).message("holding").await;
    if closes {
        cx.close_stream();
    }
    gate.open.acquire().await?.forget();
    gate.done.add_permits(1);
    Ok(format!("{key}: run {run}"))
}

/// Releases what `hold` holds, and says so when it has gone on.
#[tool]
async fn release(key: String, State(gates): State<Gates>) -> Result<&'static str, HandlerError> {
    let gate = gates.get(&key);
    gate.open.add_permits(1);
    gate.done.acquire().await?.forget();
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

/// The held calls, by key.
#[derive(Clone, Default)]
struct Gates(Arc<Mutex<HashMap<String, Arc<Gate>>>>);

impl Gates {
    fn get(&self, key: &str) -> Arc<Gate> {
        let mut gates = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        gates.entry(key.to_owned()).or_default().clone()
    }
}

struct Gate {
    runs: AtomicU32,
    open: Semaphore,
    done: Semaphore,
}

impl Default for Gate {
    fn default() -> Self {
        Self { runs: AtomicU32::new(0), open: Semaphore::new(0), done: Semaphore::new(0) }
    }
}

const MOTTO: &str = "notes://motto";
