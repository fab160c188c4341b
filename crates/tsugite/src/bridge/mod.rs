//! Bridges: a [`Bridge`] is a server that forwards to another server, or to several, between any transports and any
//! protocol versions.
//!
//! ```no_run
//! # async fn f() -> tsugite::Result<()> {
//! use tsugite::Client;
//! use tsugite::bridge::Bridge;
//!
//! // A program that speaks over its pipes, for clients over HTTP.
//! let bridge = Bridge::to(Client::spawn(["my-server", "--verbose"]));
//! bridge.server().serve_http("127.0.0.1:8808").await?;
//! bridge.close().await;
//! # Ok(()) }
//! ```
//!
//! Messages are translated only where the other side's revision writes them differently. Unknown methods, members and
//! `_meta` are forwarded unchanged. The guide [bridge](crate::guide::bridge) says what is forwarded, and how calls wait for
//! answers.

// - `forward`: dispatches a request (`client_request`). `pairing`: forwards it, one file for each pair of eras.
// - `bridge_state`: the connections and sessions of the bridge. `initialize`, `listen`: handshakes and subscriptions.
// - `description`, `describe_lock`: how servers describe themselves, learned once, so that handshakes need no connection.
// - `upstream`, `reconnect`, `in_flight`: one connection to one server, opened as a `client_identity` at a
//   limited rate (`start_rate`).
// - `upstream_events`, `notification_encoding`, `upstream_listener`: what the server sends on it, and who receives it.
// - `pause`, `gate`: keep the servers disconnected while they are replaced.
// - `bridge_session`, `session_state`: clients with a session. `upstream_pool`, `suspended_calls`, `suspendable_call`,
//   `suspension_slots`: clients without.
// - `bridged_tasks`, `core_task`, `task_questions`, `task_poll`, `task_use`: tasks that cross between 2025-11-25 and
//   2026-07-28.
// - `target`, `name_mapping`, `merged_list`, `join_all`: several servers behind one bridge. `bridge_errors`: errors.

mod backoff;
mod bridge_errors;
mod bridge_session;
mod bridge_state;
mod bridged_tasks;
mod client_identity;
mod client_request;
mod core_task;
mod describe_lock;
mod description;
mod forward;
mod gate;
mod in_flight;
mod initialize;
mod join_all;
mod kept_subscription;
mod listen;
mod merged_list;
mod name_mapping;
mod notification_encoding;
mod pairing;
mod pause;
mod reconnect;
mod session_state;
mod start_rate;
mod suspendable_call;
mod suspended_calls;
mod suspension_slots;
mod target;
mod task_poll;
mod task_questions;
mod task_use;
mod upstream;
mod upstream_events;
mod upstream_listener;
mod upstream_pool;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tsugite_core::protocol::Implementation;

use crate::client::ClientBuilder;
use crate::server::Server;
use bridge_state::BridgeState;
use forward::BridgeService;
pub use pause::Pause;
use target::Target;

/// A server that forwards the requests of its clients to one server, or to several.
#[doc(alias("proxy", "gateway", "mcp_remote", "as_proxy"))]
pub struct Bridge {
    info: Implementation,
    targets: Vec<Arc<Target>>,
    settings: BridgeSettings,
    state: OnceLock<Arc<BridgeState>>,
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
    /// How long a call may take without progress.
    call_timeout: Duration,
    /// Calls that may be suspended, and for how long.
    max_suspended_calls: usize,
    suspended_call_ttl: Duration,
    /// Connections in all, and to each server for clients without sessions.
    max_connections: usize,
    max_pooled_per_target: usize,
    /// How long a request waits for a connection.
    connection_wait_timeout: Duration,
    /// When the session whose handshake opened connections is disconnected if it has no requests.
    unused_session_timeout: Duration,
}

impl Bridge {
    /// To one server, under its own names. It is reached as `server` says, once or more often: every client with a session
    /// has a connection of its own from its first request on.
    pub fn to(server: ClientBuilder) -> Self {
        Self::from_targets(vec![Arc::new(Target::new(None, server))])
    }

    /// To several servers, which are added with [`Bridge::target`].
    pub fn to_many() -> Self {
        Self::from_targets(Vec::new())
    }

    fn from_targets(targets: Vec<Arc<Target>>) -> Self {
        let settings = BridgeSettings {
            call_timeout: Duration::from_secs(600),
            max_suspended_calls: 256,
            suspended_call_ttl: Duration::from_secs(600),
            max_connections: 256,
            max_pooled_per_target: 32,
            connection_wait_timeout: Duration::from_secs(30),
            unused_session_timeout: Duration::from_secs(60),
        };
        let info = Implementation::new("tsugite", env!("CARGO_PKG_VERSION"));
        Self { info, targets, settings, state: OnceLock::new() }
    }

    /// Adds a server, whose names begin with `prefix`, as in [`Server::mount`]. If several prefixes fit a name, the longest
    /// wins.
    ///
    /// Serving [`Bridge::server`] fails if two servers have the same prefix, or if the bridge was made by [`Bridge::to`].
    #[must_use]
    pub fn target(mut self, prefix: impl Into<String>, server: ClientBuilder) -> Self {
        self.targets.push(Arc::new(Target::new(Some(prefix.into()), server)));
        self
    }

    /// Sets the name of the bridge, which clients see if there are several servers.
    #[must_use]
    pub fn info(mut self, info: impl Into<Implementation>) -> Self {
        self.info = info.into();
        self
    }

    /// Sets how long a call may take without progress; 10 minutes unless set, `None` for no limit. The time of open
    /// questions does not count. Then the call fails, and the bridge cancels it at the server.
    #[must_use]
    pub fn timeout(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.settings.call_timeout = limit.into().unwrap_or(Duration::MAX);
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

    /// Limits the open connections to servers; 256 unless set. One caller has at most half of them: its principal, else
    /// its network address.
    #[must_use]
    pub fn max_connections(mut self, connections: usize) -> Self {
        self.settings.max_connections = connections.max(1);
        self.settings.max_pooled_per_target =
            self.settings.max_pooled_per_target.min(self.settings.max_connections);
        self
    }

    /// Sets how long a request waits for a connection to a server; 30 seconds unless set. Then it fails.
    #[must_use]
    pub fn connection_wait_timeout(mut self, limit: Duration) -> Self {
        self.settings.connection_wait_timeout = limit;
        self
    }

    /// Sets when the client whose `initialize` connected it to the servers is disconnected if it has sent no request and has
    /// no open stream; 60 seconds unless set, at least one. Its first request connects it again. Other clients with a
    /// session are not connected before their first request.
    #[must_use]
    pub fn unused_session_timeout(mut self, limit: Duration) -> Self {
        self.settings.unused_session_timeout = limit.max(Duration::from_secs(1));
        self
    }

    /// The server that clients see. It can be served and set up as any other; what is registered with it is not offered.
    pub fn server(&self) -> Server {
        let service = Arc::new(BridgeService(Arc::clone(self.state())));
        let server = Server::from_info(self.info.clone()).configure(|config| {
            config.layers = Some(service.clone());
            config.notification_handler = Some(service);
        });
        for error in self.prefix_errors() {
            server.shared.update_registry(|registry| registry.record_error(error));
        }
        server
    }

    /// The reasons why names could not be told apart.
    fn prefix_errors(&self) -> Vec<String> {
        let mut errors = Vec::new();
        for (index, target) in self.targets.iter().enumerate() {
            let same = |other: &Arc<Target>| other.prefix == target.prefix;
            match &target.prefix {
                Some(prefix) if self.targets.iter().skip(index + 1).any(same) => {
                    errors.push(format!("two servers have the prefix `{prefix}`; give one of them another"));
                }
                None if self.targets.len() > 1 => errors
                    .push("a bridge to one server has no further targets; use `Bridge::to_many`".to_owned()),
                _ => {}
            }
        }
        errors
    }

    /// Returns the servers whose last connection attempt failed, in the order they were added.
    pub fn target_errors(&self) -> Vec<TargetError> {
        let failed = |target: &Arc<Target>| {
            Some(TargetError { prefix: target.prefix.clone(), message: target.last_error()? })
        };
        self.targets.iter().filter_map(failed).collect()
    }

    /// Disconnects all servers, so that they can be replaced: a child process ends, and is started again afterwards.
    ///
    /// Clients keep their sessions. Calls in flight fail; other requests wait until the [`Pause`] is resumed or dropped.
    ///
    /// ```no_run
    /// # async fn f(bridge: tsugite::bridge::Bridge, build: impl Future<Output = bool>) {
    /// let pause = bridge.pause().await;
    /// match build.await {
    ///     true => pause.resume(),
    ///     false => pause.fail("it does not build"),
    /// }
    /// # }
    /// ```
    pub async fn pause(&self) -> Pause {
        let pause = Pause::begin(&self.targets);
        if let Some(relay) = self.state.get() {
            relay.pause().await;
        }
        pause
    }

    /// Ends the connections to all servers politely, and opens no more. Calls that are parked, or under way, end too.
    pub async fn close(&self) {
        if let Some(state) = self.state.get() {
            state.close().await;
        }
    }

    fn state(&self) -> &Arc<BridgeState> {
        self.state.get_or_init(|| BridgeState::new(self.targets.clone(), self.settings.clone()))
    }
}

impl std::fmt::Debug for Bridge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bridge").field("targets", &self.targets.len()).finish_non_exhaustive()
    }
}
