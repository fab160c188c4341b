//! Sessions that other replicas serve as well: their record in the store, and this replica's copy of it.
//!
//! Every request reads the record, so an end or a change at another replica is seen at once. The record is written only
//! when something in it changes, and its time to live is refreshed at most four times in its length.

use std::sync::{Mutex, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use tsugite_core::jsonrpc::{Id, Incoming, Message, MessageLimits, RawJson, parse};
use tsugite_core::protocol::NotificationMethod;
use tsugite_core::protocol::cancellation::Cancelled;
use tsugite_core::protocol::logging::Level;
use tsugite_core::revision::{Revision, read_notification};

use crate::lock::lock;
use crate::replica::{OtherMembers, RecordError, Replica, digest, read_record};
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
    pub(super) other: OtherMembers,
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
            other: OtherMembers::default(),
        })
    }

    /// The caller who opened the session.
    pub(super) fn principal(&self) -> Option<Principal> {
        self.principal.as_ref().map(CallerIdentity::to_principal)
    }

    pub(super) fn seal(&self, replica: &Replica, key: &str) -> Result<bytes::Bytes, StoreError> {
        replica.seal_record(key, SESSION_FIELD, self)
    }

    pub(super) fn open(replica: &Replica, key: &str, field: &Field) -> Result<Self, RecordError> {
        replica.open_record(key, SESSION_FIELD, &field.value)
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
    /// How many GET requests take the stream at this moment.
    takers: u32,
}

/// A GET request that takes the stream. What is read meanwhile may be older than its outcome.
pub(super) struct StreamTaker<'a>(&'a SharedSession);

impl Drop for StreamTaker<'_> {
    fn drop(&mut self) {
        lock(&self.0.state).takers -= 1;
    }
}

/// The stream for messages that belong to no request, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PushStream {
    /// The replica that is told of changes for the session.
    pub(super) replica: String,
    /// The number of the last event that was sent to the client before the stream was last opened or closed.
    pub(super) delivered: u64,
    #[serde(flatten)]
    pub(super) other: OtherMembers,
}

impl PushStream {
    /// A stream that no replica had before.
    pub(super) fn new(replica: &str) -> Self {
        Self { replica: replica.to_owned(), delivered: 0, other: OtherMembers::default() }
    }

    pub(super) fn parse(field: &Field) -> Result<Self, RecordError> {
        read_record(&field.value)
    }

    pub(super) fn to_bytes(&self) -> Result<bytes::Bytes, StoreError> {
        Ok(serde_json::to_vec(self)?.into())
    }
}

/// A subscription to a resource, as it is stored.
#[derive(Serialize, Deserialize)]
pub(super) struct SubscriptionRecord {
    pub(super) uri: String,
    #[serde(flatten)]
    pub(super) other: OtherMembers,
}

impl SharedSession {
    pub(super) fn new(digest: String, record: SessionRecord, version: u64) -> Self {
        let state = SharedState { record, version, refreshed_millis: 0, push: None, changes: 0, takers: 0 };
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
            state.push = push.and_then(|field| Some((PushStream::parse(field).ok()?, field.version)));
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

    /// Begins to take the stream.
    pub(super) fn begin_to_take(&self) -> StreamTaker<'_> {
        lock(&self.state).takers += 1;
        StreamTaker(self)
    }

    /// The replica that has the stream. `None` if it is unknown, or while this replica takes it.
    pub(super) fn push_holder(&self) -> Option<String> {
        let state = lock(&self.state);
        state.push.as_ref().filter(|_| state.takers == 0).map(|(push, _)| push.replica.clone())
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
    format!("{SESSION_KEYS}{digest}")
}

/// The key of an HTTP+SSE session.
pub(super) fn http_sse_key(digest: &str) -> String {
    format!("http-sse/{digest}")
}

/// A request of a session that is not answered yet, as it is stored.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub(super) enum RequestRecord {
    Running(RunningRequest),
    /// The client cancelled it before a replica had registered it.
    Cancelled {
        reason: Option<String>,
        at_millis: u64,
        #[serde(flatten)]
        other: OtherMembers,
    },
    /// Another version of the library has written it, and this one cannot read it. It may run.
    #[serde(skip)]
    Unreadable,
}

/// A request that a replica runs.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct RunningRequest {
    pub(super) replica: String,
    /// Its id as JSON.
    pub(super) id: String,
    /// The stream that its client may resume.
    pub(super) stream: String,
    /// Whether its handler waits for nothing but answers, so that another replica can continue it.
    #[serde(default)]
    pub(super) waiting: bool,
    #[serde(flatten)]
    pub(super) other: OtherMembers,
}

impl RequestRecord {
    pub(super) fn cancelled(reason: Option<String>) -> Self {
        RequestRecord::Cancelled { reason, at_millis: now_millis(), other: OtherMembers::default() }
    }

    pub(super) fn seal(&self, replica: &Replica, key: &str, field: &str) -> Result<bytes::Bytes, StoreError> {
        replica.seal_record(key, field, self)
    }

    /// Opens a record. A cancellation that came too long ago does not count.
    pub(super) fn open(replica: &Replica, key: &str, field: &str, value: &Field) -> Option<Self> {
        match replica.open_record(key, field, &value.value).unwrap_or(RequestRecord::Unreadable) {
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

/// The parts of a session's record that a message needs, or all messages of a batch.
#[derive(Clone, Default)]
pub(super) struct MessageSubject {
    /// The ids of the requests that are sent or cancelled, as JSON.
    pub(super) requests: Vec<String>,
    /// The replicas that asked the questions which the client answers.
    pub(super) askers: Vec<String>,
}

impl MessageSubject {
    /// Reads the subject of a body. It is parsed again later; here mistakes do not matter.
    pub(super) fn of_body(bytes: &[u8], limits: &MessageLimits) -> Self {
        let mut subject = Self::default();
        match parse(bytes, limits) {
            Ok(Incoming::Single(message)) => subject.add(&message),
            Ok(Incoming::Batch(batch)) => {
                batch.into_messages().iter().flatten().for_each(|message| subject.add(message));
            }
            Err(_) => {}
        }
        subject
    }

    fn add(&mut self, message: &Message<'_>) {
        match message {
            Message::Request(request) => self.requests.push(id_text(&request.id)),
            Message::Notification(notification) if notification.method == Cancelled::NAME => {
                let params = read_notification::<Cancelled>(notification.params(), Revision::NEWEST).ok();
                let id = params.and_then(|params| params.request_id);
                self.requests.extend(id.map(|id| id_text(&id)));
            }
            Message::Notification(_) => {}
            Message::Response(response) => {
                self.askers.extend(response.id.as_ref().and_then(asking_replica));
            }
        }
    }

    /// The fields of the session's record, first those of requests.
    pub(super) fn fields(&self) -> Vec<String> {
        let requests = self.requests.iter().map(|id| request_field(id));
        requests.chain(self.askers.iter().map(|asker| format!("{MOVED_FIELDS}{asker}"))).collect()
    }
}

/// The records of a session about the messages of a body.
#[derive(Default)]
pub(super) struct KnownRecords {
    /// Requests by their ids as JSON.
    requests: Vec<(String, RequestRecord)>,
    /// The replicas that continue the calls of others.
    moved: Vec<(String, String)>,
}

impl KnownRecords {
    /// Reads the fields of a subject, in their order.
    pub(super) fn read(
        replica: &Replica,
        key: &str,
        subject: &MessageSubject,
        values: impl Iterator<Item = Option<Field>>,
    ) -> Self {
        let (mut known, mut values) = (Self::default(), values);
        for id in &subject.requests {
            let value = values.next().flatten();
            let record =
                value.and_then(|value| RequestRecord::open(replica, key, &request_field(id), &value));
            known.requests.extend(record.map(|record| (id.clone(), record)));
        }
        for asker in &subject.askers {
            let value = values.next().flatten();
            let to = value.and_then(|value| String::from_utf8(value.value.to_vec()).ok());
            known.moved.extend(to.map(|to| (asker.clone(), to)));
        }
        known
    }

    /// The record of a request that is sent or cancelled.
    pub(super) fn request(&self, id: &Id<'_>) -> Option<RequestRecord> {
        if self.requests.is_empty() {
            return None;
        }
        let id = id_text(id);
        self.requests.iter().find(|(known, _)| *known == id).map(|(_, record)| record.clone())
    }

    /// The replica that continues the calls of the one that asked.
    pub(super) fn moved_to(&self, asker: &str) -> Option<String> {
        self.moved.iter().find(|(known, _)| known == asker).map(|(_, to)| to.clone())
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

/// The keys of sessions begin with this.
pub(super) const SESSION_KEYS: &str = "session/";
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
