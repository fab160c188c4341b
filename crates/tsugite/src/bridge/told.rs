//! What a server with sessions was told for a client, and is told again when it is reached anew.

use std::sync::{Arc, Mutex};

use indexmap::IndexSet;
use tsugite_core::jsonrpc::{Raw, RawJson};
use tsugite_core::protocol::Method;
use tsugite_core::protocol::logging::{Level, SetLevel};
use tsugite_core::protocol::resources::{Subscribe, Unsubscribe};
use tsugite_core::revision::{Revision, read_params};

use super::far::Far;
use crate::client::Client;
use crate::lock::lock;

/// What a server was told that it forgets with the connection.
#[derive(Default)]
pub(super) struct Told(Mutex<State>);

#[derive(Default)]
struct State {
    level: Option<Level>,
    uris: IndexSet<String>,
}

impl Told {
    /// The server has agreed to a request.
    pub(super) fn note(&self, method: &str, params: &RawJson, revision: Revision) {
        let params = Raw::from(params);
        let mut state = lock(&self.0);
        match method {
            SetLevel::NAME => {
                state.level = read_params::<SetLevel>(params, revision).ok().map(|params| params.level);
            }
            Subscribe::NAME => {
                // What is subscribed to beyond that is lost with the connection.
                if let Ok(params) = read_params::<Subscribe>(params, revision)
                    && state.uris.len() < WATCHED
                {
                    state.uris.insert(params.uri);
                }
            }
            Unsubscribe::NAME => {
                if let Ok(params) = read_params::<Unsubscribe>(params, revision) {
                    state.uris.swap_remove(&params.uri);
                }
            }
            _ => {}
        }
    }

    /// Tells all of it again.
    async fn again(&self, client: &Client) {
        let (level, uris) = {
            let state = lock(&self.0);
            (state.level, state.uris.clone())
        };
        if let Some(level) = level
            && let Err(error) = client.set_log_level(level).await
        {
            tracing::debug!(%error, method = SetLevel::NAME, "a server was not told again");
        }
        for uri in uris {
            if let Err(error) = client.subscribe(uri).await {
                tracing::debug!(%error, method = Subscribe::NAME, "a server was not told again");
            }
        }
    }
}

/// A server was reached anew, and knows nothing of what it was told before.
pub(super) fn again(far: &Arc<Far>) {
    let Some(client) = far.up_now().cloned().filter(|client| !client.revision().is_stateless()) else {
        return;
    };
    let told = Arc::clone(&far.told);
    tokio::spawn(async move { told.again(&client).await });
}

/// Resources that are remembered.
const WATCHED: usize = 1_024;
