//! Log level and resource subscriptions that a client has set at a server, to be set again after a reconnect.

use std::sync::Mutex;

use indexmap::IndexSet;
use tsugite_core::jsonrpc::{Raw, RawJson};
use tsugite_core::protocol::Method;
use tsugite_core::protocol::logging::{Level, SetLevel};
use tsugite_core::protocol::resources::{Subscribe, Unsubscribe};
use tsugite_core::revision::{Revision, read_params};

use crate::client::Client;
use crate::lock::lock;

/// The state that a server of the handshake era forgets with the connection.
#[derive(Default)]
pub(super) struct UpstreamSessionState(Mutex<RestorableState>);

#[derive(Default)]
struct RestorableState {
    log_level: Option<Level>,
    uris: IndexSet<String>,
}

impl UpstreamSessionState {
    /// Records a request that the server has accepted.
    pub(super) fn record(&self, method: &str, params: &RawJson, revision: Revision) {
        let params = Raw::from(params);
        let mut state = lock(&self.0);
        match method {
            SetLevel::NAME => {
                state.log_level = read_params::<SetLevel>(params, revision).ok().map(|params| params.level);
            }
            Subscribe::NAME => {
                // What is subscribed to beyond that is lost with the connection.
                if let Ok(params) = read_params::<Subscribe>(params, revision)
                    && state.uris.len() < MAX_SUBSCRIPTIONS
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

    /// Sets all of it again.
    pub(super) async fn restore(&self, client: &Client) {
        let (level, uris) = {
            let state = lock(&self.0);
            (state.log_level, state.uris.clone())
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

/// Resources that are remembered.
const MAX_SUBSCRIPTIONS: usize = 1_024;
