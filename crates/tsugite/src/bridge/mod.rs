//! A server that is another server, or several: any transport to any transport, any revision to any revision.
//!
//! ```no_run
//! # async fn f() -> tsugite::ToolResult<()> {
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
//! What crosses is what was said: only what the other side's revision writes differently is changed, and what nobody here
//! knows (methods, members, `_meta`) stays as it is.
//!
//! - `relay`: the walk of a request. `far`: one connection to one server, kept up. `tap`: what the server says and asks.
//! - `hello`: how clients are greeted. `session` and `told`: clients with one; `lend`: clients without.
//! - `rounds` and `parked`: questions where the two sides are of two eras. `listening`: changes, likewise.
//! - `target`, `names` and `together`: which server, and what its things are called where there are several.

mod far;
mod hello;
mod lend;
mod listening;
mod names;
mod parked;
mod relay;
mod rounds;
mod session;
mod tap;
mod target;
mod together;
mod told;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tsugite_core::protocol::Implementation;

use crate::client::ClientBuilder;
use crate::server::Server;
use relay::{Plugged, Relay};
use target::Target;

/// Stands between clients and one server, or several.
pub struct Bridge {
    info: Implementation,
    targets: Vec<Arc<Target>>,
    settings: Settings,
    relay: OnceLock<Arc<Relay>>,
}

/// How a bridge behaves.
#[derive(Debug, Clone)]
struct Settings {
    /// How long a call may take; the client decides, unless told otherwise.
    patience: Duration,
    /// Calls that may wait for their clients to come back, and for how long.
    parked: usize,
    park_time: Duration,
    /// Connections in all, and to each server for clients without sessions.
    connections: usize,
    lent: usize,
}

impl Bridge {
    /// To one server, under its own names. It is reached as `server` says, once or more often: every client with a session
    /// has a connection of its own.
    pub fn to(server: ClientBuilder) -> Self {
        Self::with(vec![Arc::new(Target::new(None, server))])
    }

    /// To several servers, which are added with [`Bridge::target`].
    pub fn to_many() -> Self {
        Self::with(Vec::new())
    }

    fn with(targets: Vec<Arc<Target>>) -> Self {
        let settings = Settings {
            patience: Duration::MAX,
            parked: 256,
            park_time: Duration::from_secs(600),
            connections: 256,
            lent: 32,
        };
        let info = Implementation::new("tsugite", env!("CARGO_PKG_VERSION"));
        Self { info, targets, settings, relay: OnceLock::new() }
    }

    /// Adds a server, whose names begin with `prefix`, as in [`Server::mount`].
    #[must_use]
    pub fn target(mut self, prefix: impl Into<String>, server: ClientBuilder) -> Self {
        self.targets.push(Arc::new(Target::new(Some(prefix.into()), server)));
        self
    }

    /// What the bridge calls itself where it stands before several servers.
    #[must_use]
    pub fn info(mut self, info: Implementation) -> Self {
        self.info = info;
        self
    }

    /// How long a call may take; as long as the client wants, unless told otherwise.
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.settings.patience = limit;
        self
    }

    /// How many calls may wait for a client of 2026-07-28 to come back with an answer, and for how long; 256 and 10
    /// minutes, unless told otherwise.
    #[must_use]
    pub fn park(mut self, calls: usize, time: Duration) -> Self {
        (self.settings.parked, self.settings.park_time) = (calls, time);
        self
    }

    /// How many connections to servers may be open; 256 unless told otherwise.
    #[must_use]
    pub fn max_connections(mut self, connections: usize) -> Self {
        self.settings.connections = connections.max(1);
        self.settings.lent = self.settings.lent.min(self.settings.connections);
        self
    }

    /// The server that clients see. It can be served and set up as any other; what is registered with it is not offered.
    pub fn server(&self) -> Server {
        let relay = Arc::clone(self.relay());
        let plugged = Arc::new(Plugged(relay));
        Server::from_info(self.info.clone()).configure(|config| {
            config.layers = Some(plugged.clone());
            config.notification_handler = Some(plugged);
        })
    }

    /// Why each server could not be reached when that was last tried; nothing for those that could, or were not needed yet.
    pub fn troubles(&self) -> Vec<(String, Option<String>)> {
        let name = |target: &Target| target.prefix.clone().unwrap_or_default();
        self.targets.iter().map(|target| (name(target), target.trouble())).collect()
    }

    /// Ends the connections to all servers politely, and opens no more. Calls that are parked, or under way, end too.
    pub async fn close(&self) {
        if let Some(relay) = self.relay.get() {
            relay.close().await;
        }
    }

    fn relay(&self) -> &Arc<Relay> {
        self.relay.get_or_init(|| Relay::new(self.targets.clone(), self.settings.clone()))
    }
}

impl std::fmt::Debug for Bridge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bridge").field("targets", &self.targets.len()).finish_non_exhaustive()
    }
}
