//! Finds, opens and ends sessions, in this process and in the store.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::task::JoinSet;

use super::event_stream::push_log_key;
use super::http_state::HttpState;
use super::maybe_ready::MaybeReady;
use super::named_session::{NamedSession, SessionIdHeader};
use super::push_log::PushWaker;
use super::sessions::{HttpSession, SessionId};
use super::shared_session::{
    KnownRecords, MessageSubject, PUSH_FIELD, REFRESHED_FIELD, SESSION_FIELD, SessionRecord, SharedSession,
    refreshed_now, session_key,
};
use crate::error::Chain;
use crate::replica::{RecordError, Replica, ReplicaMessage, digest};
use crate::server::Principal;
use crate::server::connection::ServerConnection;
use crate::server::limits::{CallerKey, LimitPermit, Resource};
use crate::server::principal::Caller;
use crate::shared::boxed::boxed;
use crate::shared::log;
use crate::shared::principal::is_same_caller;
use crate::store::{Field, Precondition, Recipient, StoreError, StoreScope, Write};

/// A session that was found, and what the store says about the messages of the request.
pub(super) struct FoundSession {
    pub(super) session: NamedSession,
    pub(super) known: KnownRecords,
}

impl From<NamedSession> for FoundSession {
    fn from(session: NamedSession) -> Self {
        Self { session, known: KnownRecords::default() }
    }
}

impl HttpState {
    /// Finds the session that a request names. A store that other processes write is asked each time, a store of this
    /// process alone only for a session that is not here. `subject` reads the message that the request carries.
    pub(super) fn find_session(
        self: &Arc<Self>,
        named: SessionIdHeader,
        caller: Option<&Principal>,
        subject: impl FnOnce() -> MessageSubject,
    ) -> MaybeReady<FoundSession> {
        let id = match named {
            SessionIdHeader::Absent => return MaybeReady::Ready(NamedSession::Absent.into()),
            SessionIdHeader::Invalid => return MaybeReady::Ready(NamedSession::Unknown.into()),
            SessionIdHeader::Id(id) => id,
        };
        let Some(replica) = &self.replica else {
            return MaybeReady::Ready(self.find_local_session(&id, caller).into());
        };
        replica.start();
        self.start_claiming();
        if self.store.scope() == StoreScope::Restart
            && let Some(session) = self.sessions.get(&id)
        {
            self.refresh(&session);
            return MaybeReady::Ready(self.find_local_session(&id, caller).into());
        }
        let (state, caller, subject) = (self.clone(), caller.cloned(), subject());
        MaybeReady::pending(async move { state.find_shared_session(id, caller.as_ref(), &subject).await })
    }

    fn find_local_session(&self, id: &SessionId, caller: Option<&Principal>) -> NamedSession {
        let session = self.sessions.acquire(id, caller);
        let found = session.and_then(|session| session.revision.map(|revision| (session, revision)));
        found.map_or(NamedSession::Unknown, |(session, revision)| NamedSession::Found(session, revision))
    }

    /// Reads the record of a session, and takes it over if it began at another replica.
    pub(super) async fn find_shared_session(
        self: &Arc<Self>,
        id: SessionId,
        caller: Option<&Principal>,
        subject: &MessageSubject,
    ) -> FoundSession {
        let Some(replica) = &self.replica else { return NamedSession::Unknown.into() };
        // The guard keeps the copy while the store is asked.
        let local = self.sessions.acquire(&id, caller);
        let changes =
            local.as_ref().and_then(|local| local.shared.as_ref()).map_or(0, |shared| shared.changes());
        let name = match local.as_ref().and_then(|local| local.shared.as_ref()) {
            Some(shared) => shared.digest.clone(),
            None => digest(id.as_str().as_bytes()),
        };
        let (key, subjects) = (session_key(&name), subject.fields());
        let mut fields = vec![SESSION_FIELD, PUSH_FIELD, REFRESHED_FIELD];
        fields.extend(subjects.iter().map(String::as_str));
        let fields = match self.store.read(&key, &fields).await {
            Ok(fields) => fields.unwrap_or_default(),
            Err(error) => {
                if log::is_first("session", &error.to_string()) {
                    log::error!(error = %Chain(&*error), "a session could not be looked up");
                }
                return NamedSession::Unavailable.into();
            }
        };
        let mut fields = fields.into_iter();
        let mut next_field = || fields.next().flatten();
        let (record, push, refreshed) = (next_field(), next_field(), next_field());
        let Some(record) = record else {
            // It was ended elsewhere, or has expired.
            if let Some(local) = local {
                drop(self.sessions.remove(&local));
            }
            return NamedSession::Unknown.into();
        };
        let local = local.as_deref().cloned();
        let session = match self.update_copy(replica, id, name, local, (&record, changes), caller) {
            Ok(session) => session,
            Err(unusable) => return unusable.into(),
        };
        if let Some(shared) = &session.shared {
            shared.set_read_fields(changes, push.as_ref(), refreshed.as_ref());
            self.leave_push_stream(&session);
        }
        self.refresh(&session);
        let known = KnownRecords::read(replica, &key, subject, fields);
        FoundSession { session: self.find_local_session(&id, caller), known }
    }

    /// Brings this replica's copy of a session up to date, or makes one.
    fn update_copy(
        self: &Arc<Self>,
        replica: &Arc<Replica>,
        id: SessionId,
        name: String,
        local: Option<Arc<HttpSession>>,
        (field, changes): (&Field, u64),
        caller: Option<&Principal>,
    ) -> Result<Arc<HttpSession>, NamedSession> {
        if let Some(local) = &local
            && let Some(shared) = &local.shared
            && shared.version() == field.version
        {
            return Ok(local.clone());
        }
        let record = match SessionRecord::open(replica, &session_key(&name), field) {
            Ok(record) => record,
            Err(error) => {
                if log::is_first("record", &error.to_string()) {
                    log::error!(%error, "the record of a session is not read");
                }
                // A replica that was updated, or that has the key already, can serve the session.
                return Err(match error {
                    RecordError::Newer(_) => NamedSession::Unavailable,
                    RecordError::Sealed if self.store.scope() == StoreScope::Replicas => {
                        NamedSession::Unavailable
                    }
                    RecordError::Sealed | RecordError::Malformed => NamedSession::Unknown,
                });
            }
        };
        if !is_same_caller(record.principal().as_ref(), caller) {
            return Err(NamedSession::Unknown);
        }
        if let Some(local) = local
            && let Some(shared) = &local.shared
        {
            let level = record.level;
            if shared.set_read_record(changes, record, field.version) {
                local.connection.set_log_level(level);
            }
            return Ok(local);
        }
        let Ok(revision) = record.revision.parse() else { return Err(NamedSession::Unknown) };
        let caller = Caller { principal: caller.cloned(), ..Caller::default() };
        let connection =
            ServerConnection::with_limits(&self.server, self.config.clone(), caller, &self.limits);
        connection.restore(revision, record.initialize_params.clone(), record.level);
        connection.set_push_active(false);
        let key = CallerKey::of_caller(&connection.caller);
        match self.limits.acquire(key, Some(Resource::Session), connection.session_bytes()) {
            Ok(permit) => {
                let shared = SharedSession::new(name, record, field.version);
                Ok(self.insert_shared(id, connection, permit, shared))
            }
            Err(_) => Err(NamedSession::Unavailable),
        }
    }

    /// Inserts a session that is in the store.
    fn insert_shared(
        self: &Arc<Self>,
        id: SessionId,
        connection: Arc<ServerConnection>,
        permit: LimitPermit,
        shared: SharedSession,
    ) -> Arc<HttpSession> {
        let name = shared.digest.clone();
        let session = self.sessions.insert(id, connection, permit, Some(Box::new(shared)));
        self.sessions.insert_digest(name, &session);
        PushWaker::register(self, &session);
        self.start_sweeper();
        session
    }

    /// Finds this replica's copy of a session by its name in the store.
    pub(super) fn session_by_digest(&self, digest: &str) -> Option<Arc<HttpSession>> {
        self.sessions.get_by_digest(digest)
    }

    /// Opens a session that is in the store. It exists for its client only if it was stored.
    pub(super) async fn open_shared_session(
        self: &Arc<Self>,
        replica: &Arc<Replica>,
        connection: Arc<ServerConnection>,
        permit: LimitPermit,
    ) -> Result<Arc<HttpSession>, StoreError> {
        replica.start();
        let id = SessionId::random().ok_or("the operating system gave no random bytes")?;
        let record = SessionRecord::new(&connection).ok_or("the session has no revision")?;
        let name = digest(id.as_str().as_bytes());
        let key = session_key(&name);
        let ttl = self.session_ttl();
        let set = |field, value, precondition| Write::Set { key: &key, field, value, precondition, ttl };
        let writes = [
            set(SESSION_FIELD, record.seal(replica, &key)?, Precondition::FieldAbsent),
            set(REFRESHED_FIELD, refreshed_now(), Precondition::None),
        ];
        let committed = self.store.commit(&writes).await?;
        let committed = committed.map_err(|_| "the id of the session is in use")?;
        connection.set_push_active(false);
        let shared = SharedSession::new(name, record, committed.version);
        shared.note_refresh();
        Ok(self.insert_shared(id, connection, permit, shared))
    }

    /// Stores a change of the log level, if there is one. If that fails, the level of the record counts again.
    pub(super) async fn store_log_level(&self, session: &HttpSession) -> Result<(), StoreError> {
        let stored = self.try_store_log_level(session).await;
        if let (Err(_), Some(shared)) = (&stored, &session.shared) {
            session.connection.set_log_level(shared.record().0.level);
        }
        stored
    }

    async fn try_store_log_level(&self, session: &HttpSession) -> Result<(), StoreError> {
        let (Some(replica), Some(shared)) = (&self.replica, &session.shared) else { return Ok(()) };
        let Some((_, _, level)) = session.connection.snapshot() else { return Ok(()) };
        let (mut record, mut version) = shared.record();
        while record.level != level {
            record.level = level;
            let write = Write::Set {
                key: &shared.key,
                field: SESSION_FIELD,
                value: record.seal(replica, &shared.key)?,
                precondition: Precondition::FieldVersion(version),
                ttl: self.session_ttl(),
            };
            match self.store.commit(&[write]).await? {
                Ok(committed) => shared.set_record(record.clone(), committed.version),
                // Another replica has changed the record meanwhile.
                Err(conflict) => {
                    let Some(current) = conflict.current else { return Err("the session has ended".into()) };
                    record = SessionRecord::open(replica, &shared.key, &current)?;
                    version = current.version;
                }
            }
        }
        Ok(())
    }

    /// Ends a session at all replicas.
    pub(super) async fn end_session(&self, session: &HttpSession) -> Result<(), StoreError> {
        if let (Some(replica), Some(shared)) = (&self.replica, &session.shared) {
            let ended = ReplicaMessage::SessionEnded { session: shared.digest.clone() };
            let log = push_log_key(&shared.digest);
            let mut writes = vec![Write::Delete { key: &shared.key }, Write::DeleteLog { log: &log }];
            writes.extend(replica.send(Recipient::All, &ended));
            drop(self.store.commit(&writes).await?);
        }
        self.delete_logs(self.sessions.remove(session));
        Ok(())
    }

    /// Refreshes the time to live of a session's record, if a quarter of it has passed. A session that has ended meanwhile is
    /// dropped here.
    pub(super) fn refresh(self: &Arc<Self>, session: &Arc<HttpSession>) {
        let (ttl, Some(shared)) = (self.session_ttl(), &session.shared) else { return };
        if !shared.must_refresh(ttl) {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (state, session) = (self.clone(), session.clone());
        runtime.spawn(boxed(async move {
            let Some(shared) = &session.shared else { return };
            let write = Write::Set {
                key: &shared.key,
                field: REFRESHED_FIELD,
                value: refreshed_now(),
                precondition: Precondition::RecordExists,
                ttl,
            };
            match state.store.commit(&[write]).await {
                Ok(Ok(_)) => {}
                Ok(Err(_)) => drop(state.sessions.remove(&session)),
                Err(_) => shared.forget_refresh(),
            }
        }));
    }

    /// Refreshes the records of sessions whose streams or requests are open here.
    pub(super) fn refresh_active_sessions(self: &Arc<Self>) {
        if self.is_shared() {
            self.active_sessions().iter().for_each(|session| self.refresh(session));
            self.http_sse_sessions.refresh(&self.store, self.session_ttl());
        }
    }

    /// Looks at the record of a session in use again, after messages about it may have been lost. Returns false if the store
    /// cannot tell.
    async fn recover_session(&self, session: &HttpSession) -> bool {
        if !self.reread_session(session).await {
            return false;
        }
        // Subscriptions that were made at other replicas.
        !session.connection.is_push_active() || self.reload_subscriptions(session).await.is_ok()
    }

    /// Looks at the record of a session again. Returns false if the store cannot tell.
    pub(super) async fn reread_session(&self, session: &HttpSession) -> bool {
        let Some(shared) = &session.shared else { return true };
        let changes = shared.changes();
        match self.store.read(&shared.key, &[SESSION_FIELD, PUSH_FIELD]).await {
            Ok(Some(fields)) => {
                let push = fields.into_iter().nth(1).flatten();
                shared.set_read_fields(changes, push.as_ref(), None);
                self.leave_push_stream(session);
            }
            Ok(None) => drop(self.sessions.remove(session)),
            // The next request of the session tells.
            Err(_) => return false,
        }
        true
    }

    pub(super) fn active_sessions(&self) -> Vec<Arc<HttpSession>> {
        let now = tokio::time::Instant::now();
        let mut active = Vec::new();
        self.sessions.for_each(|session| {
            if session.idle_time(now).is_zero() {
                active.push(session.clone());
            }
        });
        active
    }
}

/// Looks at the records of sessions in use again, until the store has told all of them: messages about them may have been
/// lost. A session may have ended.
pub(super) async fn recover_sessions(state: Weak<HttpState>, sessions: Vec<Weak<HttpSession>>) {
    let (mut left, mut attempt) = (sessions, 0);
    loop {
        {
            let Some(state) = state.upgrade().filter(|state| !state.is_closing()) else { return };
            let mut failed = Vec::new();
            for part in left.chunks(RECOVERED_AT_ONCE) {
                let mut reading = JoinSet::new();
                for session in part.iter().filter_map(Weak::upgrade) {
                    let state = state.clone();
                    reading.spawn(boxed(async move {
                        let is_read = state.recover_session(&session).await;
                        (!is_read).then(|| Arc::downgrade(&session))
                    }));
                }
                while let Some(read) = reading.join_next().await {
                    failed.extend(read.ok().flatten());
                }
            }
            left = failed;
        }
        if left.is_empty() {
            return;
        }
        log::warn!(sessions = left.len(), "sessions are looked at again later: the store failed");
        tokio::time::sleep(Duration::from_millis(100 << attempt)).await;
        attempt = (attempt + 1).min(LONGEST_BACKOFF);
    }
}

/// How many sessions are looked at together: a replica may have many, and the handlers of those that have ended go on until
/// then.
const RECOVERED_AT_ONCE: usize = 64;
/// The exponent of the longest pause between two attempts.
const LONGEST_BACKOFF: u32 = 5;
