//! Messages of a client that concern another replica: responses, cancellations, and changes of the session itself.

use std::sync::Arc;
use std::time::Duration;

use tsugite_core::jsonrpc::{Id, Message, Request, Response, write};
use tsugite_core::protocol::cancellation::Cancelled;
use tsugite_core::protocol::logging::SetLevel;
use tsugite_core::protocol::resources::{Subscribe, Unsubscribe};
use tsugite_core::protocol::{Method, NotificationMethod};
use tsugite_core::revision::{Revision, read_notification, read_params};

use super::http_state::HttpState;
use super::sessions::HttpSession;
use super::shared_session::{REQUEST_FIELDS, RequestRecord, SharedSession, id_text, request_field};
use crate::replica::{Replica, ReplicaMessage};
use crate::server::connection::ServerConnection;
use crate::server::outgoing_requests::SettledAnswer;
use crate::store::{Conflict, Precondition, Recipient, StoreError, Write};

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
            known = self.store_early(state, replica, shared).await?;
            if known.is_none() {
                session.connection.cancel_request(&self.id, self.reason.clone());
            }
        }
        let owner = match known {
            Some(RequestRecord::Running(running)) => running.replica,
            Some(RequestRecord::Unreadable) => return Err("the record of the request cannot be read".into()),
            Some(RequestRecord::Cancelled { .. }) | None => return Ok(()),
        };
        if owner == replica.name() {
            state.cancel_here(session, &self.id, self.reason);
            return Ok(());
        }
        // This replica may have lost the request without knowing it yet.
        if session.connection.is_in_flight(&self.id) {
            session.connection.cancel_request(&self.id, self.reason.clone());
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

impl HttpState {
    /// Cancels a request that this replica runs, or a call that it has claimed.
    fn cancel_here(self: &Arc<Self>, session: &HttpSession, id: &Id<'static>, reason: Option<String>) {
        if !self.cancel_claimed(session.log_name(), &id_text(id)) {
            session.connection.cancel_request(id, reason);
        }
    }
}

impl Cancellation {
    /// Stores the cancellation for a request that is still to come, and removes those whose requests did not come. Returns
    /// the record of the request if it was registered meanwhile.
    async fn store_early(
        &self,
        state: &HttpState,
        replica: &Replica,
        shared: &SharedSession,
    ) -> Result<Option<RequestRecord>, StoreError> {
        let field = request_field(&id_text(&self.id));
        let (mut waiting, mut replaced, mut old) = (0, None, Vec::new());
        for (name, value) in state.store.list(&shared.key, REQUEST_FIELDS, MAX_LISTED).await? {
            match RequestRecord::open(replica, &shared.key, &name, &value) {
                _ if !name.starts_with(REQUEST_FIELDS) => break,
                Some(running @ (RequestRecord::Running(_) | RequestRecord::Unreadable)) if name == field => {
                    return Ok(Some(running));
                }
                Some(RequestRecord::Running(_) | RequestRecord::Unreadable) => {}
                _ if name == field => replaced = Some(value.version),
                Some(RequestRecord::Cancelled { .. }) => waiting += 1,
                None => old.push((name, value.version)),
            }
        }
        if waiting >= MAX_EARLY_CANCELLATIONS {
            // It counts at this replica only.
            return Ok(None);
        }
        let record = RequestRecord::cancelled(self.reason.clone());
        let mut writes = vec![Write::Set {
            key: &shared.key,
            field: &field,
            value: record.seal(replica, &shared.key, &field)?,
            precondition: replaced.map_or(Precondition::FieldAbsentInRecord, Precondition::FieldVersion),
            ttl: state.session_ttl(),
        }];
        writes.extend(old.iter().map(|(field, version)| Write::Remove {
            key: &shared.key,
            field,
            precondition: Precondition::FieldVersion(*version),
        }));
        match state.store.commit(&writes).await? {
            Ok(_) => Ok(None),
            Err(Conflict { write: 0, current }) => Ok(current
                .and_then(|current| RequestRecord::open(replica, &shared.key, &field, &current))
                .filter(|record| !matches!(record, RequestRecord::Cancelled { .. }))),
            // Another replica has removed an old one meanwhile; the rest is for the next cancellation.
            Err(_) => state.store.commit(writes.get(..1).unwrap_or_default()).await.map(|_| None),
        }
    }
}

/// The most cancellations of a session that wait for their requests.
const MAX_EARLY_CANCELLATIONS: usize = 64;
const MAX_LISTED: usize = 10_000;

/// A message of a batch that concerns other replicas.
pub(super) enum ForwardedMessage {
    /// A response to a request of ours.
    Response { delivery: Delivery, response: String },
    /// A cancellation, with the record of its request.
    Cancellation(Cancellation, Option<RequestRecord>),
}

/// The way of a client's response to the request of ours that waits for it.
pub(super) enum Delivery {
    /// No request waits for it, or nothing of it outlives this process.
    Done,
    /// A call of this replica has it, and the store does not know that yet.
    Here(SettledAnswer),
    /// One of these replicas may wait for it.
    Elsewhere(Vec<String>),
}

/// Stores a response of the client, unless its call is stored with it. It is accepted then, and must not be lost.
pub(super) async fn store_response(
    state: &HttpState,
    session: &HttpSession,
    delivery: Delivery,
    response: String,
) -> Result<(), StoreError> {
    let Some(replica) = &state.replica else { return Ok(()) };
    let to = match delivery {
        Delivery::Done => return Ok(()),
        Delivery::Here(settled) => {
            if settled.wait(SETTLE_TIMEOUT).await {
                return Ok(());
            }
            // Its handler is not polled, or the store fails. A replica that claims the call reads the messages to this one.
            vec![replica.name().to_owned()]
        }
        Delivery::Elsewhere(to) => to,
    };
    let message = ReplicaMessage::ClientResponse { session: session.log_name().to_owned(), response };
    let writes = to.iter().filter_map(|to| replica.send(Recipient::Replica(to), &message));
    state.store.commit(&writes.collect::<Vec<_>>()).await.map(drop)
}

/// How long a response waits until its call has taken it.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(2);

/// A response as JSON.
pub(super) fn response_text(response: &Response<'_>) -> String {
    let mut text = Vec::new();
    match (&response.id, &response.outcome) {
        (Some(id), Ok(result)) => write::raw_result(&mut text, id, &(*result).to_owned()),
        (id, Err(error)) => write::error(&mut text, id.as_ref(), false, error),
        // Only errors have no id.
        (None, Ok(_)) => {}
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// Stores messages for the replicas that they concern.
pub(super) async fn store_all(
    state: Arc<HttpState>,
    session: Arc<HttpSession>,
    messages: Vec<ForwardedMessage>,
) -> Result<(), StoreError> {
    for message in messages {
        match message {
            ForwardedMessage::Cancellation(cancellation, known) => {
                cancellation.store(&state, &session, known).await?
            }
            ForwardedMessage::Response { delivery, response } => {
                store_response(&state, &session, delivery, response).await?;
            }
        }
    }
    Ok(())
}

/// The reason why a change of a session is not stored.
pub(super) enum ChangeError {
    Store(StoreError),
    /// The session has as many subscriptions as it may, at all replicas together.
    TooManySubscriptions,
}

impl From<StoreError> for ChangeError {
    fn from(error: StoreError) -> Self {
        ChangeError::Store(error)
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

    /// Whether a request of this connection has made the change.
    pub(super) fn was_made(&self, connection: &ServerConnection) -> bool {
        match self {
            SessionChange::LogLevel => true,
            SessionChange::Subscription { uri, subscribed } => connection.is_subscribed(uri) == *subscribed,
        }
    }

    /// Stores the change.
    pub(super) async fn store(&self, state: &HttpState, session: &HttpSession) -> Result<(), ChangeError> {
        match self {
            SessionChange::LogLevel => Ok(state.store_log_level(session).await?),
            SessionChange::Subscription { uri, subscribed } => {
                state.store_subscription(session, uri, *subscribed).await
            }
        }
    }
}
