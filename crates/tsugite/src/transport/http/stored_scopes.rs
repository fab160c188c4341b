//! The scopes of a stream, beside its log in the store, for other replicas.
//!
//! Each append to the log writes them, so they are kept for as long as the log.

use std::time::Duration;

use bytes::Bytes;

use crate::replica::Replica;
use crate::store::{Precondition, StoreError, Write};

/// The scopes of a stream, sealed for other replicas.
pub(super) struct StoredScopes {
    key: String,
    value: Bytes,
}

impl StoredScopes {
    /// Seals the scopes. `None` if the stream needs no scopes.
    pub(super) fn new(replica: &Replica, log: &str, scopes: &[String]) -> Result<Option<Self>, StoreError> {
        if scopes.is_empty() {
            return Ok(None);
        }
        let key = scopes_key(log);
        let value = replica.seal(&key, SCOPES_FIELD, &serde_json::to_vec(scopes)?)?;
        Ok(Some(Self { key, value }))
    }

    /// The write that stores the scopes for as long as the log is kept.
    pub(super) fn write(&self, ttl: Duration) -> Write<'_> {
        let (key, value) = (&self.key, self.value.clone());
        Write::Set { key, field: SCOPES_FIELD, value, precondition: Precondition::None, ttl }
    }
}

/// Reads the scopes of the stream with this log.
pub(super) async fn read(replica: &Replica, log: &str) -> Result<Vec<String>, StoreError> {
    let key = scopes_key(log);
    let fields = replica.store.read(&key, &[SCOPES_FIELD]).await?.unwrap_or_default();
    let Some(field) = fields.into_iter().next().flatten() else { return Ok(Vec::new()) };
    let plain =
        replica.open(&key, SCOPES_FIELD, &field.value).ok_or("the scopes of a stream cannot be read")?;
    Ok(serde_json::from_slice(&plain)?)
}

fn scopes_key(log: &str) -> String {
    format!("{log}/scopes")
}

const SCOPES_FIELD: &str = "scopes";
