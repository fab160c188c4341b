//! The table of HTTP+SSE sessions.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use super::shared_session::http_sse_key;
use crate::lock::lock;
use crate::server::Principal;
use crate::server::connection::ServerConnection;
use crate::shared::boxed::boxed;
use crate::shared::principal::is_same_caller;
use crate::store::{Store, Write};

/// The sessions of HTTP+SSE. Each lives as long as its stream.
#[derive(Default)]
pub(super) struct HttpSseSessions(Mutex<Table>);

#[derive(Default)]
struct Table {
    sessions: HashMap<String, Entry>,
    /// The ids of sessions by their names in the store.
    ids: HashMap<String, String>,
}

struct Entry {
    connection: Arc<ServerConnection>,
    /// The name of the session in the store, if it is there.
    name: Option<String>,
    refreshed_at: Instant,
}

impl HttpSseSessions {
    /// Inserts a session, with its name in the store if it is there.
    pub(super) fn insert(&self, id: String, name: Option<String>, connection: Arc<ServerConnection>) {
        let mut table = lock(&self.0);
        if let Some(name) = &name {
            table.ids.insert(name.clone(), id.clone());
        }
        table.sessions.insert(id, Entry { connection, name, refreshed_at: Instant::now() });
    }

    /// Removes a session and returns its name in the store.
    pub(super) fn remove(&self, id: &str) -> Option<String> {
        let mut table = lock(&self.0);
        let name = table.sessions.remove(id)?.name?;
        table.ids.remove(&name);
        Some(name)
    }

    /// Finds a session, if it belongs to this caller, and notes the scopes of its token.
    pub(super) fn find(&self, id: &str, principal: Option<&Principal>) -> Option<Arc<ServerConnection>> {
        let connection = lock(&self.0).sessions.get(id)?.connection.clone();
        if !is_same_caller(connection.caller.principal.as_ref(), principal) {
            return None;
        }
        connection.note_principal(principal);
        Some(connection)
    }

    /// Finds a session by its name in the store.
    pub(super) fn find_by_name(&self, name: &str) -> Option<Arc<ServerConnection>> {
        let table = lock(&self.0);
        table.sessions.get(table.ids.get(name)?).map(|entry| entry.connection.clone())
    }

    /// Refreshes the time to live of those records of which a quarter has passed.
    pub(super) fn refresh(&self, store: &Arc<dyn Store>, ttl: Duration) {
        let mut due = Vec::new();
        for entry in lock(&self.0).sessions.values_mut() {
            if let Some(name) = entry.name.as_ref().filter(|_| entry.refreshed_at.elapsed() >= ttl / 4) {
                due.push(http_sse_key(name));
                entry.refreshed_at = Instant::now();
            }
        }
        let store = store.clone();
        if let (false, Ok(runtime)) = (due.is_empty(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(boxed(async move {
                for key in due {
                    drop(store.commit(&[Write::Touch { key: &key, ttl }]).await);
                }
            }));
        }
    }

    /// Closes the connections of all sessions, which ends their streams.
    pub(super) fn close(&self) {
        let connections: Vec<_> =
            lock(&self.0).sessions.values().map(|entry| entry.connection.clone()).collect();
        for connection in connections {
            connection.close();
            connection.wake_push_stream();
        }
    }
}
