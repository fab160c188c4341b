//! The table of HTTP+SSE sessions.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::lock::lock;
use crate::server::Principal;
use crate::server::connection::ServerConnection;
use crate::shared::principal::is_same_caller;

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

    /// Closes the connections of all sessions, which ends their streams.
    pub(super) fn close(&self) {
        let connections: Vec<_> = lock(&self.0).values().cloned().collect();
        for connection in connections {
            connection.close();
            connection.wake_push_stream();
        }
    }
}
