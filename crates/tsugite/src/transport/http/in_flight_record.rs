//! The record of a request that is not answered at once, in the record of its session.
//!
//! With it other replicas refuse a second request with the same id, send a cancellation to the replica that runs the
//! request, and answer for a replica that has died.

use std::sync::Arc;
use std::time::Duration;

use tsugite_core::jsonrpc::Id;
use tsugite_core::revision::RpcError;

use super::http_state::HttpState;
use super::sessions::HttpSession;
use super::shared_session::{RequestRecord, id_text};
use super::waiting_calls::HttpCallKeeper;
use super::waiting_record::RegisteredRequest;
use crate::error::Chain;
use crate::replica::Replica;
use crate::server::in_flight::duplicate_id;
use crate::shared::boxed::boxed;
use crate::shared::log;
use crate::store::{Precondition, StoreError, Write};

/// A request in the record of its session. Dropping it removes the record, unless the call waits: it is withdrawn then, or
/// continued by another replica.
pub(super) struct InFlightRecord {
    replica: Arc<Replica>,
    registered: Arc<RegisteredRequest>,
    keeper: Option<Arc<HttpCallKeeper>>,
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
    /// The store fails. Other replicas could run a request with the same id, and could not cancel this one.
    Unavailable,
}

impl RegisterError {
    /// The error that the request gets; `None` if it gets none, or the whole response is another one.
    pub(super) fn to_rpc_error(&self, id: &Id<'_>) -> Option<RpcError> {
        match self {
            RegisterError::DuplicateId => Some(duplicate_id(id)),
            RegisterError::Unavailable => Some(RpcError::internal_with_message(NOT_STORED)),
            RegisterError::Cancelled | RegisterError::SessionEnded => None,
        }
    }
}

impl InFlightRecord {
    /// Registers a request whose messages go to this stream. `None` if the session has no record.
    pub(super) async fn register(
        state: &HttpState,
        session: &HttpSession,
        (id, stream): (&Id<'_>, u128),
        keeper: Option<Arc<HttpCallKeeper>>,
    ) -> Result<Option<Self>, RegisterError> {
        let (Some(replica), Some(shared)) = (&state.replica, &session.shared) else { return Ok(None) };
        let registered = RegisteredRequest::new(shared.key.clone(), id_text(id), stream);
        let record = registered.record(replica.name(), false);
        let (key, field) = (&registered.key, &registered.field);
        let mut replaces = None;
        // A second attempt replaces the record of a replica that has died.
        for _ in 0..2 {
            match commit(state, replica, (key, field), &record, replaces).await {
                Ok(Ok(version)) => {
                    registered.set_version(version);
                    let registered = Arc::new(registered);
                    if let Some(keeper) = &keeper {
                        keeper.set_registered(&registered);
                    }
                    return Ok(Some(Self { replica: replica.clone(), registered, keeper }));
                }
                Ok(Err(None)) => return Err(RegisterError::SessionEnded),
                Ok(Err(Some(current))) => match RequestRecord::open(replica, key, field, &current) {
                    Some(RequestRecord::Cancelled { .. }) => {
                        remove(replica, key, field, current.version);
                        return Err(RegisterError::Cancelled);
                    }
                    // A call that waits is continued, by whichever replica.
                    Some(RequestRecord::Running(running))
                        if running.waiting
                            || running.replica != replica.name()
                                && !replica.is_dead(&running.replica).await.unwrap_or(false) =>
                    {
                        return Err(RegisterError::DuplicateId);
                    }
                    Some(RequestRecord::Unreadable) => return Err(RegisterError::DuplicateId),
                    // A request that runs here was found before this one began, so a record of this replica is left over.
                    Some(RequestRecord::Running(_)) | None => replaces = Some(current.version),
                },
                Err(error) => {
                    log::warn!(error = %Chain(&*error), "a request ends: it cannot be registered for other replicas");
                    remove_unsure(replica, &registered);
                    return Err(RegisterError::Unavailable);
                }
            }
        }
        Err(RegisterError::DuplicateId)
    }

    /// The record of a request that another replica began.
    pub(super) fn adopted(
        replica: Arc<Replica>,
        registered: Arc<RegisteredRequest>,
        keeper: Option<Arc<HttpCallKeeper>>,
    ) -> Self {
        Self { replica, registered, keeper }
    }

    /// Whether the call is stored as waiting, for another replica to continue.
    pub(super) fn is_waiting(&self) -> bool {
        self.keeper.as_ref().is_some_and(|keeper| keeper.is_waiting())
    }

    /// Removes a call that waits and must not go on. Returns false if another replica has it.
    pub(super) async fn withdraw(&self, state: &HttpState) -> bool {
        match &self.keeper {
            Some(keeper) => keeper.withdraw(state, &self.registered).await,
            None => true,
        }
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

/// Removes a record in the background that may have been written although the store failed. Its stream tells it from others.
fn remove_unsure(replica: &Arc<Replica>, registered: &RegisteredRequest) {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    let (replica, stream) = (replica.clone(), format!("{:x}", registered.stream));
    let (key, field) = (registered.key.clone(), registered.field.clone());
    runtime.spawn(boxed(async move {
        for attempt in 0..REMOVE_ATTEMPTS {
            tokio::time::sleep(Duration::from_millis(100 << attempt)).await;
            let Ok(known) = replica.store.read(&key, &[&field]).await else { continue };
            let known = known.and_then(|fields| fields.into_iter().next().flatten());
            let record = known.as_ref().and_then(|known| RequestRecord::open(&replica, &key, &field, known));
            return match (known, record) {
                (Some(known), Some(RequestRecord::Running(running))) if running.stream == stream => {
                    remove(&replica, &key, &field, known.version);
                }
                _ => {}
            };
        }
    }));
}

/// Removes a record in the background, if it is still this one.
fn remove(replica: &Arc<Replica>, key: &str, field: &str, version: u64) {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    let (replica, key, field) = (replica.clone(), key.to_owned(), field.to_owned());
    runtime.spawn(boxed(async move {
        let precondition = Precondition::FieldVersion(version);
        // What stays because of a longer failure ends with the session.
        for attempt in 0..REMOVE_ATTEMPTS {
            let removal = Write::Remove { key: &key, field: &field, precondition };
            if replica.store.commit(&[removal]).await.is_ok() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100 << attempt)).await;
        }
    }));
}

impl Drop for InFlightRecord {
    fn drop(&mut self) {
        if !self.is_waiting() {
            let registered = &self.registered;
            remove(&self.replica, &registered.key, &registered.field, registered.version());
        }
    }
}

/// The message of the error for a request that the store did not take, or whose events it did not take.
pub(super) const NOT_STORED: &str =
    "Internal error: the store of the server failed while the request ran; the request may have run";
const REMOVE_ATTEMPTS: u32 = 8;
