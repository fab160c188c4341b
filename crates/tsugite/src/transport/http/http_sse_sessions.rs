//! The table of HTTP+SSE sessions.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::shared_session::http_sse_key;
use crate::lock::lock;
use crate::replica::digest;
use crate::server::Principal;
use crate::server::connection::ServerConnection;
use crate::shared::principal::is_same_caller;
use crate::store::{Store, Write};

/// The sessions of HTTP+SSE. Each lives as long as its stream.
#[derive(Default)]
pub(super) struct HttpSseSessions(Mutex<HashMap<String, Arc<ServerConnection>>>);

impl HttpSseSessions {
    pub(super) fn insert(&self, id: String, connection: Arc<ServerConnection>) {
        lock(&self.0).insert(id, connection);
    }

    pub(super) fn remove(&self, id: &str) {
        lock(&self.0).remove(id);
    }

    /// Finds a session, if it belongs to this caller, and notes the scopes of its token.
    pub(super) fn find(&self, id: &str, principal: Option<&Principal>) -> Option<Arc<ServerConnection>> {
        let connection = lock(&self.0).get(id).cloned()?;
        if !is_same_caller(connection.caller.principal.as_ref(), principal) {
            return None;
        }
        connection.note_principal(principal);
        Some(connection)
    }

    /// Finds a session by its name in the store.
    pub(super) fn find_by_digest(&self, name: &str) -> Option<Arc<ServerConnection>> {
        let sessions = lock(&self.0);
        sessions.iter().find(|(id, _)| digest(id.as_bytes()) == name).map(|(_, found)| found.clone())
    }

    /// Refreshes the time to live of the records of all sessions.
    pub(super) fn refresh(&self, store: &Arc<dyn Store>, ttl: Duration) {
        let keys: Vec<_> = lock(&self.0).keys().map(|id| http_sse_key(&digest(id.as_bytes()))).collect();
        let store = store.clone();
        if let (false, Ok(runtime)) = (keys.is_empty(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(async move {
                for key in keys {
                    drop(store.commit(&[Write::Touch { key: &key, ttl }]).await);
                }
            });
        }
    }

    /// Closes the connections of all sessions, which ends their streams.
    pub(super) fn close(&self) {
        let connections: Vec<_> = lock(&self.0).values().cloned().collect();
        for connection in connections {
            connection.close();
            connection.wake_push_stream();
        }
    }
}
