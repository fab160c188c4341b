//! The record of a request that is not answered at once, in the record of its session.
//!
//! With it other replicas refuse a second request with the same id, send a cancellation to the replica that runs the
//! request, and answer for a replica that has died.

use std::sync::Arc;

use tsugite_core::jsonrpc::Id;

use super::http_state::HttpState;
use super::sessions::HttpSession;
use super::shared_session::{RequestRecord, id_text, request_field};
use crate::error::Chain;
use crate::replica::Replica;
use crate::shared::log;
use crate::store::{Precondition, StoreError, Write};

/// A request in the record of its session. Dropping it removes the record.
pub(super) struct InFlightRecord {
    replica: Arc<Replica>,
    key: String,
    field: String,
    version: u64,
    stream: u128,
}

/// The reason why a request is not continued.
#[derive(Debug)]
pub(super) enum RegisterError {
    /// Another request of the session has the same id.
    DuplicateId,
    /// The client has cancelled the request.
    Cancelled,
    /// The session has ended.
    SessionEnded,
}

impl InFlightRecord {
    /// Registers a request. `None` if the session has no record, or the store fails: the handler has begun, and continues
    /// unregistered.
    pub(super) async fn register(
        state: &HttpState,
        session: &HttpSession,
        id: &Id<'_>,
    ) -> Result<Option<Self>, RegisterError> {
        let (Some(replica), Some(shared)) = (&state.replica, &session.shared) else { return Ok(None) };
        let id = id_text(id);
        let (key, field) = (shared.key.clone(), request_field(&id));
        let Some(stream) = state.reserve_stream() else { return Ok(None) };
        let record =
            RequestRecord::Running { replica: replica.name().to_owned(), id, stream: format!("{stream:x}") };
        let mut replaces = None;
        // A second attempt replaces the record of a replica that has died.
        for _ in 0..2 {
            match commit(state, replica, (&key, &field), &record, replaces).await {
                Ok(Ok(version)) => {
                    let replica = replica.clone();
                    return Ok(Some(Self { replica, key, field, version, stream }));
                }
                Ok(Err(None)) => return Err(RegisterError::SessionEnded),
                Ok(Err(Some(current))) => match RequestRecord::open(replica, &key, &field, &current) {
                    Some(RequestRecord::Cancelled { .. }) => {
                        remove(replica, &key, &field, current.version);
                        return Err(RegisterError::Cancelled);
                    }
                    Some(RequestRecord::Running { replica: owner, .. })
                        if !replica.is_dead(&owner).await.unwrap_or(false) =>
                    {
                        return Err(RegisterError::DuplicateId);
                    }
                    Some(RequestRecord::Running { .. }) | None => replaces = Some(current.version),
                },
                Err(error) => {
                    log::warn!(error = %Chain(&*error), "a request is not registered for other replicas");
                    return Ok(None);
                }
            }
        }
        Err(RegisterError::DuplicateId)
    }

    /// The id that was reserved for the stream of the request.
    pub(super) fn stream(&self) -> u128 {
        self.stream
    }
}

/// Writes the record, and returns its version or what is there in its place.
async fn commit(
    state: &HttpState,
    replica: &Replica,
    (key, field): (&str, &str),
    record: &RequestRecord,
    replaces: Option<u64>,
) -> Result<Result<u64, Option<crate::store::Field>>, StoreError> {
    let value = record.seal(replica, key, field)?;
    let precondition = replaces.map_or(Precondition::FieldAbsentInRecord, Precondition::FieldVersion);
    let write = Write::Set { key, field, value, precondition, ttl: state.session_ttl() };
    let committed = replica.store.commit(&[write]).await?;
    Ok(committed.map(|committed| committed.version).map_err(|conflict| conflict.current))
}

/// Removes a record in the background, if it is still this one.
fn remove(replica: &Arc<Replica>, key: &str, field: &str, version: u64) {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    let (replica, key, field) = (replica.clone(), key.to_owned(), field.to_owned());
    runtime.spawn(async move {
        let precondition = Precondition::FieldVersion(version);
        // What stays because of a failure ends with the session.
        drop(replica.store.commit(&[Write::Remove { key: &key, field: &field, precondition }]).await);
    });
}

impl Drop for InFlightRecord {
    fn drop(&mut self) {
        remove(&self.replica, &self.key, &self.field, self.version);
    }
}
