//! A server that is another server, or several: any transport to any transport, any revision to any revision.
//!
//! ```no_run
//! # async fn f() -> tsugite::Result<()> {
//! use tsugite::Client;
//! use tsugite::bridge::Bridge;
//!
//! // A server that only speaks over its pipes, for every client there is.
//! let bridge = Bridge::to(Client::spawn(["my-server", "--verbose"]));
//! bridge.server().serve_http("127.0.0.1:8808").await?;
//! bridge.close().await;
//! # Ok(()) }
//! ```
//!
//! Messages are translated only where the other side's revision writes them differently. Unknown methods, members and
//! `_meta` are forwarded unchanged.
//!
//! - `forward`: dispatches a request. `pairing`: forwards it, one file for each pair of eras.
//! - `upstream`, `reconnect`, `in_flight`: one connection to one server. `upstream_events`: what the server sends on it.
//! - `initialize`, `listen`: handshakes and subscriptions.
//! - `bridge_session`, `session_state`: clients with a session. `upstream_pool`, `suspended_calls`: clients without.
//! - `target`, `name_mapping`, `join_all`: several servers behind one bridge.

mod bridge_session;
mod forward;
mod in_flight;
mod initialize;
mod join_all;
mod listen;
mod name_mapping;
mod pairing;
mod reconnect;
mod session_state;
mod suspended_calls;
mod target;
mod upstream;
mod upstream_events;
mod upstream_pool;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tsugite_core::protocol::Implementation;

use crate::client::ClientBuilder;
use crate::server::Server;
use forward::{BridgeService, Forwarder};
use target::Target;

/// Stands between clients and one server, or several.
pub struct Bridge {
    info: Implementation,
    targets: Vec<Arc<Target>>,
    settings: BridgeSettings,
    forwarder: OnceLock<Arc<Forwarder>>,
}

/// The error of the last attempt to connect to one server of a [`Bridge`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TargetError {
    /// The prefix the server was added under; none if the bridge has one server under its own names.
    pub prefix: Option<String>,
    /// The error, as text.
    pub message: String,
}

/// The settings of a bridge.
#[derive(Debug, Clone)]
struct BridgeSettings {
    /// How long a call may take.
    call_timeout: Duration,
    /// Calls that may be suspended, and for how long.
    max_suspended_calls: usize,
    suspended_call_ttl: Duration,
    /// Connections in all, and to each server for clients without sessions.
    max_connections: usize,
    max_pooled_per_target: usize,
}

impl Bridge {
    /// To one server, under its own names. It is reached as `server` says, once or more often: every client with a session
    /// has a connection of its own.
    pub fn to(server: ClientBuilder) -> Self {
        Self::from_targets(vec![Arc::new(Target::new(None, server))])
    }

    /// To several servers, which are added with [`Bridge::target`].
    pub fn to_many() -> Self {
        Self::from_targets(Vec::new())
    }

    fn from_targets(targets: Vec<Arc<Target>>) -> Self {
        let settings = BridgeSettings {
            call_timeout: Duration::MAX,
            max_suspended_calls: 256,
            suspended_call_ttl: Duration::from_secs(600),
            max_connections: 256,
            max_pooled_per_target: 32,
        };
        let info = Implementation::new("tsugite", env!("CARGO_PKG_VERSION"));
        Self { info, targets, settings, forwarder: OnceLock::new() }
    }

    /// Adds a server, whose names begin with `prefix`, as in [`Server::mount`].
    #[must_use]
    pub fn target(mut self, prefix: impl Into<String>, server: ClientBuilder) -> Self {
        self.targets.push(Arc::new(Target::new(Some(prefix.into()), server)));
        self
    }

    /// Sets the name of the bridge, which clients see if there are several servers.
    #[must_use]
    pub fn info(mut self, info: Implementation) -> Self {
        self.info = info;
        self
    }

    /// How long a call may take; as long as the client wants, unless told otherwise.
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.settings.call_timeout = limit;
        self
    }

    /// Limits the calls that wait for a client of 2026-07-28 to call again with an answer; 256 unless set. A further call
    /// fails.
    #[must_use]
    pub fn max_suspended_calls(mut self, calls: usize) -> Self {
        self.settings.max_suspended_calls = calls;
        self
    }

    /// Sets how long a suspended call waits for its client; 10 minutes unless set. Then the bridge cancels it at the
    /// server.
    #[must_use]
    pub fn suspended_call_ttl(mut self, ttl: Duration) -> Self {
        self.settings.suspended_call_ttl = ttl;
        self
    }

    /// How many connections to servers may be open; 256 unless told otherwise.
    #[must_use]
    pub fn max_connections(mut self, connections: usize) -> Self {
        self.settings.max_connections = connections.max(1);
        self.settings.max_pooled_per_target =
            self.settings.max_pooled_per_target.min(self.settings.max_connections);
        self
    }

    /// The server that clients see. It can be served and set up as any other; what is registered with it is not offered.
    pub fn server(&self) -> Server {
        let relay = Arc::clone(self.forwarder());
        let plugged = Arc::new(BridgeService(relay));
        Server::from_info(self.info.clone()).configure(|config| {
            config.layers = Some(plugged.clone());
            config.notification_handler = Some(plugged);
        })
    }

    /// Returns the servers whose last connection attempt failed, in the order they were added.
    pub fn target_errors(&self) -> Vec<TargetError> {
        let failed = |target: &Arc<Target>| {
            Some(TargetError { prefix: target.prefix.clone(), message: target.last_error()? })
        };
        self.targets.iter().filter_map(failed).collect()
    }

    /// Ends the connections to all servers politely, and opens no more. Calls that are parked, or under way, end too.
    pub async fn close(&self) {
        if let Some(relay) = self.forwarder.get() {
            relay.close().await;
        }
    }

    fn forwarder(&self) -> &Arc<Forwarder> {
        self.forwarder.get_or_init(|| Forwarder::new(self.targets.clone(), self.settings.clone()))
    }
}

impl std::fmt::Debug for Bridge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bridge").field("targets", &self.targets.len()).finish_non_exhaustive()
    }
}
