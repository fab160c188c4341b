//! Our client against protected servers and their authorization servers: logins that work, and attacks on them.
//!
//! `world` is a protected server and an authorization server on loopback, whose answers each test can change.
//! `authorization_server` is about our own authorization server.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking, and so do its own helpers"
)]

mod answers;
mod authorization_server;
mod discovery;
mod fetching;
mod logins;
mod logouts;
mod machines;
#[cfg(unix)]
mod private_files;
mod redirects;
mod refresh;
mod registration;
mod secrets;
mod step_up;
mod stores;
mod verifiers;
mod world;

use std::future::{Future, IntoFuture};
use std::time::Duration;

use tsugite::client::{Client, ClientError};

/// Fails the test instead of hanging.
async fn within<F: IntoFuture>(work: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(60), work.into_future()).await.expect("the test hangs")
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

/// Calls the tool of the protected server.
fn call(client: &Client) -> impl Future<Output = Result<String, ClientError>> + use<> {
    let client = client.clone();
    async move { within(client.call::<String>("t", serde_json::json!({}))).await }
}
