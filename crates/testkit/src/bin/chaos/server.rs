//! The server whose replicas are disturbed: `chaos replica …`. Its tools note in a file what they do, so that the driver can
//! count how often each call ran.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::process::{self, ExitCode};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tsugite::prelude::*;
use tsugite::server::SealKeys;
use tsugite::transport::http::Http;
use tsugite_redis::Redis;
use tsugite_testkit::replicas::KEYS_VARIABLE;

use crate::replica_log::ReplicaLog;

/// Serves until SIGTERM, or until standard input ends. Prints the address when it is bound.
pub(crate) async fn serve(listen: &str, redis: &str, marks: &Path) -> ExitCode {
    // The driver holds the other end, and has exited when it closes.
    thread::spawn(|| {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        process::exit(0);
    });
    match try_serve(listen, redis, marks).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn try_serve(listen: &str, redis: &str, marks: &Path) -> Result<(), Box<dyn std::error::Error>> {
    tracing::subscriber::set_global_default(ReplicaLog)?;
    let store = Redis::at(redis)?.prefix("chaos").timeout(REDIS_TIMEOUT);
    let server = Server::new("chaos", "1.0.0")
        .state(Marks::open(marks)?)
        .tool(now)
        .tool(steps)
        .tool(question)
        .tool(slow)
        .tool(touch)
        .resource(note)
        .replica_lease(LEASE)
        .shutdown_grace(Duration::from_secs(1))
        .http(Http::new().http_sse())
        .seal_keys(SealKeys::from_env(KEYS_VARIABLE)?)
        .store(store);
    let listener = server.bind_http(listen).await?;
    println!("{}", listener.local_addr());
    Ok(listener.serve().await?)
}

/// A file to which all replicas append what their handlers do.
#[derive(Clone)]
struct Marks(Arc<File>);

impl Marks {
    fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(Arc::new(OpenOptions::new().append(true).create(true).open(path)?)))
    }

    /// Adds a line in one write, so that lines of several processes do not mix.
    fn add(&self, mark: &str, nonce: &str) -> io::Result<()> {
        (&*self.0).write_all(format!("{mark} {nonce}\n").as_bytes())
    }
}

/// Answers at once.
#[tool]
async fn now(nonce: String, State(marks): State<Marks>) -> Result<String, HandlerError> {
    marks.add("start", &nonce)?;
    marks.add("end", &nonce)?;
    Ok(nonce)
}

/// Reports each step, with a pause after it.
#[tool]
async fn steps(
    nonce: String,
    steps: u32,
    pause_millis: u64,
    cx: Context,
    State(marks): State<Marks>,
) -> Result<String, HandlerError> {
    marks.add("start", &nonce)?;
    for step in 1..=steps {
        cx.progress(step).total(steps).await;
        tokio::time::sleep(Duration::from_millis(pause_millis)).await;
    }
    marks.add("end", &nonce)?;
    Ok(nonce)
}

#[derive(Form)]
struct Answer {
    answer: String,
}

/// Asks a question that contains the nonce, and returns the nonce with the answer.
#[tool]
async fn question(nonce: String, cx: Context, State(marks): State<Marks>) -> Result<String, HandlerError> {
    marks.add("start", &nonce)?;
    let seen: String = cx
        .once("mark", async {
            marks.add("once", &nonce)?;
            Ok::<_, HandlerError>(nonce.clone())
        })
        .await?;
    let Answer { answer } = cx.ask::<Answer>(format!("question {nonce}")).await?;
    marks.add("end", &nonce)?;
    Ok(format!("{seen} {answer}"))
}

/// Runs for longer than its client waits, which cancels it.
#[tool]
async fn slow(nonce: String, cx: Context, State(marks): State<Marks>) -> Result<String, HandlerError> {
    marks.add("start", &nonce)?;
    cx.progress(1).await;
    tokio::time::sleep(SLOW).await;
    marks.add("end", &nonce)?;
    Ok(nonce)
}

/// Says that a note has changed.
#[tool]
async fn touch(uri: String, cx: Context) -> &'static str {
    cx.server().notify_resource_updated(&uri);
    "touched"
}

/// A note that clients subscribe to.
#[resource("chaos://{name}", name = "note", mime_type = "text/plain")]
async fn note(name: String) -> String {
    name
}

/// The lease of the replicas.
pub(crate) const LEASE: Duration = Duration::from_secs(1);

/// How long a replica waits for Redis.
const REDIS_TIMEOUT: Duration = Duration::from_secs(2);

/// How long the tool `slow` runs.
const SLOW: Duration = Duration::from_secs(20);
