//! Messages of a client that concern another replica: cancellations, and changes of the session itself.

use std::sync::Arc;

use tsugite_core::jsonrpc::{Id, Message, Request};
use tsugite_core::protocol::cancellation::Cancelled;
use tsugite_core::protocol::logging::SetLevel;
use tsugite_core::protocol::resources::{Subscribe, Unsubscribe};
use tsugite_core::protocol::{Method, NotificationMethod};
use tsugite_core::revision::{Revision, read_notification, read_params};

use super::http_state::HttpState;
use super::sessions::HttpSession;
use super::shared_session::{RequestRecord, id_text, request_field};
use crate::replica::ReplicaMessage;
use crate::store::{Precondition, Recipient, StoreError, Write};

/// A cancellation of a request.
pub(super) struct Cancellation {
    pub(super) id: Id<'static>,
    reason: Option<String>,
}

impl Cancellation {
    /// Reads a `notifications/cancelled`.
    pub(super) fn of_message(message: &Message<'_>) -> Option<Self> {
        let Message::Notification(notification) = message else { return None };
        if notification.method != Cancelled::NAME {
            return None;
        }
        // Every revision writes it alike.
        let params = read_notification::<Cancelled>(notification.params(), Revision::NEWEST).ok()?;
        Some(Self { id: params.request_id?, reason: params.reason })
    }

    /// Sends the cancellation to the replica that runs the request, or stores it for a request that is still to come.
    pub(super) async fn store(
        self,
        state: &Arc<HttpState>,
        session: &HttpSession,
        known: Option<RequestRecord>,
    ) -> Result<(), StoreError> {
        let (Some(replica), Some(shared)) = (&state.replica, &session.shared) else { return Ok(()) };
        let (id, mut known) = (id_text(&self.id), known);
        if known.is_none() {
            let field = request_field(&id);
            let record = RequestRecord::cancelled(self.reason.clone());
            let write = Write::Set {
                key: &shared.key,
                field: &field,
                value: record.seal(replica, &shared.key, &field)?,
                precondition: Precondition::FieldAbsentInRecord,
                ttl: state.session_ttl(),
            };
            match state.store.commit(&[write]).await? {
                Ok(_) => session.connection.cancel_request(&self.id, self.reason.clone()),
                // It was registered meanwhile.
                Err(conflict) => {
                    known = conflict
                        .current
                        .and_then(|current| RequestRecord::open(replica, &shared.key, &field, &current));
                }
            }
        }
        let Some(RequestRecord::Running { replica: owner, .. }) = known else { return Ok(()) };
        if owner == replica.name() {
            session.connection.cancel_request(&self.id, self.reason);
            return Ok(());
        }
        let message = ReplicaMessage::RequestCancelled {
            session: shared.digest.clone(),
            request: id,
            reason: self.reason,
        };
        let Some(write) = replica.send(Recipient::Replica(&owner), &message) else { return Ok(()) };
        state.store.commit(&[write]).await.map(drop)
    }
}

/// A change of a session that other replicas must see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SessionChange {
    LogLevel,
    Subscription { uri: String, subscribed: bool },
}

impl SessionChange {
    /// The change that a request makes if it succeeds, in a session that is in a store.
    pub(super) fn of_request(state: &HttpState, request: &Request<'_>, revision: Revision) -> Option<Self> {
        state.replica.as_ref()?;
        match &*request.method {
            SetLevel::NAME => Some(SessionChange::LogLevel),
            Subscribe::NAME => {
                let uri = read_params::<Subscribe>(request.params(), revision).ok()?.uri;
                Some(SessionChange::Subscription { uri, subscribed: true })
            }
            Unsubscribe::NAME => {
                let uri = read_params::<Unsubscribe>(request.params(), revision).ok()?.uri;
                Some(SessionChange::Subscription { uri, subscribed: false })
            }
            _ => None,
        }
    }

    /// Stores the change.
    pub(super) async fn store(&self, state: &HttpState, session: &HttpSession) -> Result<(), StoreError> {
        match self {
            SessionChange::LogLevel => state.store_log_level(session).await,
            SessionChange::Subscription { uri, subscribed } => {
                state.store_subscription(session, uri, *subscribed).await
            }
        }
    }
}
