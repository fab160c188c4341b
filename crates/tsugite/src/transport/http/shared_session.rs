//! Sessions that other replicas serve as well: their record in the store, and this replica's copy of it.
//!
//! Every request reads the record, so an end or a change at another replica is seen at once. The record is written only
//! when something in it changes, and its time to live is refreshed at most four times in its length.

use std::sync::{Mutex, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::time::Instant;
use tsugite_core::jsonrpc::{Id, Incoming, Message, MessageLimits, RawJson, parse};
use tsugite_core::protocol::NotificationMethod;
use tsugite_core::protocol::cancellation::Cancelled;
use tsugite_core::protocol::logging::Level;
use tsugite_core::revision::{Revision, read_notification};

use crate::lock::lock;
use crate::replica::{Replica, digest};
use crate::server::Principal;
use crate::server::connection::ServerConnection;
use crate::server::outgoing_requests::asking_replica;
use crate::shared::principal::CallerIdentity;
use crate::store::{Field, StoreError};

/// The record of a session, as it is stored.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct SessionRecord {
    pub(super) revision: String,
    pub(super) initialize_params: RawJson,
    pub(super) level: Level,
    pub(super) principal: Option<CallerIdentity>,
    /// Members of a later version, which are kept.
    #[serde(flatten)]
    pub(super) rest: Map<String, Value>,
}

impl SessionRecord {
    /// The record of a connection that has completed `initialize`.
    pub(super) fn new(connection: &ServerConnection) -> Option<Self> {
        let (revision, initialize_params, level) = connection.snapshot()?;
        let principal = connection.caller.principal.as_ref();
        Some(Self {
            revision: revision.as_str().to_owned(),
            initialize_params,
            level,
            principal: principal.map(Principal::identity),
            rest: Map::new(),
        })
    }

    /// The caller who opened the session.
    pub(super) fn principal(&self) -> Option<Principal> {
        self.principal.as_ref().map(CallerIdentity::to_principal)
    }

    pub(super) fn seal(&self, replica: &Replica, key: &str) -> Result<bytes::Bytes, StoreError> {
        replica.seal(key, SESSION_FIELD, &serde_json::to_vec(self)?)
    }

    pub(super) fn open(replica: &Replica, key: &str, field: &Field) -> Option<Self> {
        serde_json::from_slice(&replica.open(key, SESSION_FIELD, &field.value)?).ok()
    }
}

/// This replica's copy of a session that is in a store.
pub(super) struct SharedSession {
    /// The name of the session in the store and in messages, which does not reveal its id.
    pub(super) digest: String,
    pub(super) key: String,
    state: Mutex<SharedState>,
}

struct SharedState {
    record: SessionRecord,
    version: u64,
    /// When the time to live of the record was last set, by any replica.
    refreshed_millis: u64,
    /// The stream with the version of its field.
    push: Option<(PushStream, u64)>,
    /// Counts the changes that this replica made or was told of. What was read before a change is older than it.
    changes: u64,
}

/// The stream for messages that belong to no request, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PushStream {
    /// The replica that is told of changes for the session.
    pub(super) replica: String,
    /// The number of the last event that was sent to the client before the stream was last opened or closed.
    pub(super) delivered: u64,
}

impl PushStream {
    pub(super) fn parse(field: &Field) -> Option<Self> {
        let text = std::str::from_utf8(&field.value).ok()?;
        let (replica, delivered) = text.split_once(' ')?;
        Some(Self { replica: replica.to_owned(), delivered: delivered.parse().ok()? })
    }

    pub(super) fn to_bytes(&self) -> bytes::Bytes {
        format!("{} {}", self.replica, self.delivered).into()
    }
}

impl SharedSession {
    pub(super) fn new(digest: String, record: SessionRecord, version: u64) -> Self {
        let state = SharedState { record, version, refreshed_millis: 0, push: None, changes: 0 };
        Self { key: session_key(&digest), digest, state: Mutex::new(state) }
    }

    pub(super) fn version(&self) -> u64 {
        lock(&self.state).version
    }

    pub(super) fn record(&self) -> (SessionRecord, u64) {
        let state = lock(&self.state);
        (state.record.clone(), state.version)
    }

    /// Notes the record that this replica has written.
    pub(super) fn set_record(&self, record: SessionRecord, version: u64) {
        let mut state = lock(&self.state);
        (state.record, state.version) = (record, version);
        state.changes += 1;
    }

    /// The number of changes so far, to be taken before a read.
    pub(super) fn changes(&self) -> u64 {
        lock(&self.state).changes
    }

    /// Notes a record that was read, unless it has changed meanwhile. Returns whether it is the newest.
    pub(super) fn set_read_record(&self, changes: u64, record: SessionRecord, version: u64) -> bool {
        let mut state = lock(&self.state);
        let is_newest = state.changes == changes;
        if is_newest {
            (state.record, state.version) = (record, version);
        }
        is_newest
    }

    /// Notes the other fields of a record that was read, unless they have changed meanwhile.
    pub(super) fn set_read_fields(&self, changes: u64, push: Option<&Field>, refreshed: Option<&Field>) {
        let mut state = lock(&self.state);
        if state.changes == changes {
            state.push = push.and_then(|field| Some((PushStream::parse(field)?, field.version)));
        }
        let refreshed = refreshed.and_then(|field| std::str::from_utf8(&field.value).ok()?.parse().ok());
        state.refreshed_millis = state.refreshed_millis.max(refreshed.unwrap_or_default());
    }

    pub(super) fn push(&self) -> Option<PushStream> {
        lock(&self.state).push.as_ref().map(|(push, _)| push.clone())
    }

    /// The stream with the version of its field.
    pub(super) fn push_with_version(&self) -> Option<(PushStream, u64)> {
        lock(&self.state).push.clone()
    }

    /// Notes the stream that this replica has written, or was told of.
    pub(super) fn set_push(&self, push: PushStream, version: u64) {
        let mut state = lock(&self.state);
        state.push = Some((push, version));
        state.changes += 1;
    }

    /// Whether a quarter of the time to live has passed since it was last set. The caller refreshes it then.
    pub(super) fn must_refresh(&self, ttl: Duration) -> bool {
        let (mut state, now) = (lock(&self.state), clock_millis());
        let quarter = u64::try_from((ttl / 4).as_millis()).unwrap_or(u64::MAX);
        let is_due = now.saturating_sub(state.refreshed_millis) >= quarter;
        if is_due {
            state.refreshed_millis = now;
        }
        is_due
    }

    /// Notes that the time to live was set now.
    pub(super) fn note_refresh(&self) {
        lock(&self.state).refreshed_millis = clock_millis();
    }

    /// Notes that the time to live could not be set.
    pub(super) fn forget_refresh(&self) {
        lock(&self.state).refreshed_millis = 0;
    }
}

/// The value of the field that says when the time to live was last set.
pub(super) fn refreshed_now() -> bytes::Bytes {
    clock_millis().to_string().into()
}

/// The time since the epoch, as this process has measured it since it first asked.
fn clock_millis() -> u64 {
    static START: OnceLock<(u64, Instant)> = OnceLock::new();
    let (millis, instant) = START.get_or_init(|| (now_millis(), Instant::now()));
    millis.saturating_add(u64::try_from(instant.elapsed().as_millis()).unwrap_or_default())
}

pub(super) fn session_key(digest: &str) -> String {
    format!("session/{digest}")
}

/// The key of an HTTP+SSE session.
pub(super) fn http_sse_key(digest: &str) -> String {
    format!("http-sse/{digest}")
}

/// A request of a session that is not answered yet, as it is stored.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RequestRecord {
    /// A replica runs it. `id` is its id as JSON, `stream` the stream that its client may resume.
    Running {
        replica: String,
        id: String,
        stream: String,
        /// Whether its handler waits for nothing but answers, so that another replica can continue it.
        #[serde(default)]
        waiting: bool,
    },
    /// The client cancelled it before a replica had registered it.
    Cancelled { reason: Option<String>, at_millis: u64 },
}

impl RequestRecord {
    pub(super) fn cancelled(reason: Option<String>) -> Self {
        RequestRecord::Cancelled { reason, at_millis: now_millis() }
    }

    pub(super) fn seal(&self, replica: &Replica, key: &str, field: &str) -> Result<bytes::Bytes, StoreError> {
        replica.seal(key, field, &serde_json::to_vec(self)?)
    }

    /// Opens a record. A cancellation that came too long ago does not count.
    pub(super) fn open(replica: &Replica, key: &str, field: &str, value: &Field) -> Option<Self> {
        let record = serde_json::from_slice(&replica.open(key, field, &value.value)?).ok()?;
        match record {
            RequestRecord::Cancelled { at_millis, .. }
                if now_millis().saturating_sub(at_millis) > CANCELLATION_MILLIS =>
            {
                None
            }
            record => Some(record),
        }
    }
}

fn now_millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// How long a cancellation waits for its request.
const CANCELLATION_MILLIS: u64 = 30_000;

/// The part of a session's record that a message needs.
#[derive(Clone, Default)]
pub(super) enum MessageSubject {
    /// Nothing but the session.
    #[default]
    Session,
    /// The request with this id, which is sent or cancelled.
    Request(String),
    /// The replica that asked a question which the client answers.
    Answer(String),
}

impl MessageSubject {
    /// Reads the subject of a message. The message is parsed again later; here mistakes do not matter.
    pub(super) fn of_body(bytes: &[u8], limits: &MessageLimits) -> Self {
        match parse(bytes, limits) {
            Ok(Incoming::Single(Message::Request(request))) => Self::Request(id_text(&request.id)),
            Ok(Incoming::Single(Message::Notification(notification)))
                if notification.method == Cancelled::NAME =>
            {
                let params = read_notification::<Cancelled>(notification.params(), Revision::NEWEST).ok();
                let id = params.and_then(|params| params.request_id);
                id.map_or(Self::Session, |id| Self::Request(id_text(&id)))
            }
            Ok(Incoming::Single(Message::Response(response))) => {
                response.id.as_ref().and_then(asking_replica).map_or(Self::Session, Self::Answer)
            }
            _ => Self::Session,
        }
    }

    /// The field of the session's record.
    pub(super) fn field(&self) -> Option<String> {
        match self {
            MessageSubject::Session => None,
            MessageSubject::Request(id) => Some(request_field(id)),
            MessageSubject::Answer(asker) => Some(format!("{MOVED_FIELDS}{asker}")),
        }
    }
}

/// An id as JSON.
pub(super) fn id_text(id: &Id<'_>) -> String {
    serde_json::to_string(id).unwrap_or_default()
}

/// The field of the record of a request. `id` is its id as JSON.
pub(super) fn request_field(id: &str) -> String {
    let mut field = digest(id.as_bytes());
    field.truncate(REQUEST_DIGEST);
    field.insert_str(0, REQUEST_FIELDS);
    field
}

pub(super) const SESSION_FIELD: &str = "session";
/// The field with the [`PushStream`].
pub(super) const PUSH_FIELD: &str = "push";
/// The fields of replicas whose questions another one answers begin with this.
pub(super) const MOVED_FIELDS: &str = "moved/";
/// The field that says when the time to live of the record was last set, in milliseconds since the epoch.
pub(super) const REFRESHED_FIELD: &str = "refreshed";
/// The fields of requests begin with this.
pub(super) const REQUEST_FIELDS: &str = "request/";
/// The fields of subscriptions begin with this.
pub(super) const SUBSCRIPTION_FIELDS: &str = "subscription/";
const REQUEST_DIGEST: usize = 32;
