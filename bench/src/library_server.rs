//! A server made with the library, with the same tool as the bare one, and one that waits.

use serde::Deserialize;
use tsugite::prelude::*;
use tsugite::server::SealKeys;
use tsugite::transport::http::Http;
use tsugite_redis::Redis;
use tsugite_store::FileStore;

use crate::BoxError;

#[derive(Deserialize, JsonSchema)]
#[schemars(crate = "tsugite::schemars")]
struct Echo {
    text: String,
}

/// Serves until its input ends.
pub(crate) fn serve_stdio() -> Result<(), BoxError> {
    Ok(runtime()?.block_on(server().serve_stdio())?)
}

/// Serves until it is killed. The first line on standard output is the address.
pub(crate) fn serve_http() -> Result<(), BoxError> {
    serve_server(server())
}

/// The same with state in `memory`, in a file, or in Redis, and with more sessions than a server has by default.
pub(crate) fn serve_with_state(place: &str) -> Result<(), BoxError> {
    let server = server().http(Http::new().max_sessions(MAX_SESSIONS).max_sessions_per_caller(MAX_SESSIONS));
    let keys: SealKeys = "0123456789abcdef".repeat(4).parse()?;
    serve_server(match place {
        "memory" => server,
        url if url.starts_with("redis://") => server.store(Redis::at(url)?).seal_keys(keys),
        path => server.store(FileStore::open(path)?).seal_keys(keys),
    })
}

fn serve_server(server: Server) -> Result<(), BoxError> {
    runtime()?.block_on(async {
        let listener = server.bind_http("127.0.0.1:0").await?;
        println!("http://{}/mcp", listener.local_addr());
        Ok(listener.serve().await?)
    })
}

fn server() -> Server {
    let echo = Tool::new("echo")
        .description("Returns the text.")
        .handler(|Args(echo): Args<Echo>| async move { echo.text });
    let wait = Tool::new("wait").description("Never returns.").handler(|| async {
        std::future::pending::<()>().await;
        "never"
    });
    Server::new("library", "1.0.0").tool(echo).tool(wait)
}

fn runtime() -> Result<tokio::runtime::Runtime, BoxError> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

const MAX_SESSIONS: usize = 1_000_000;
