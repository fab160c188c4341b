//! The table of HTTP sessions, which clients up to 2025-11-25 open with `initialize`.
//!
//! An idle session is one entry in a map: it has no task, no channel and no buffer.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use foldhash::fast::RandomState as FoldHash;
use ring::rand::{SecureRandom, SystemRandom};
use tokio::time::Instant;
use tsugite_core::base64;
use tsugite_core::revision::Revision;

use super::event_stream::{EventStream, SessionStreams};
use super::shared_session::SharedSession;
use crate::lock::lock;
use crate::server::Principal;
use crate::server::connection::ServerConnection;
use crate::server::limits::LimitPermit;
use crate::shared::principal::is_same_caller;

/// A session id: 192 random bits from the operating system, written as 32 characters of base64url.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct SessionId([u8; 32]);

impl SessionId {
    /// Returns `None` if the operating system provides no random bytes.
    pub(super) fn random() -> Option<Self> {
        let mut bits = [0; 24];
        SystemRandom::new().fill(&mut bits).ok()?;
        base64::encode_url(&bits).as_bytes().try_into().ok().map(Self)
    }

    /// Reads an id from a header value. Ids of another length cannot be ours.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        text.try_into().ok().map(Self)
    }

    pub(super) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

/// One session.
pub(super) struct HttpSession {
    id: SessionId,
    pub(super) connection: Arc<ServerConnection>,
    /// The revision agreed on by `initialize`. A second `initialize` opens a second session.
    pub(super) revision: Option<Revision>,
    usage: Mutex<SessionUsage>,
    /// Counts the session and the bytes of its record.
    _permit: LimitPermit,
    replica_id: u32,
    streams: Mutex<Option<Box<SessionStreams>>>,
    /// Set if other processes serve the session as well, or later.
    pub(super) shared: Option<Box<SharedSession>>,
}

/// Requests and streams of a session that are in progress, and when the last one ended.
struct SessionUsage {
    active: u32,
    last_used: Instant,
}

impl HttpSession {
    pub(super) fn id(&self) -> &SessionId {
        &self.id
    }

    /// Whether this caller opened the session.
    fn belongs_to(&self, principal: Option<&Principal>) -> bool {
        is_same_caller(self.connection.caller.principal.as_ref(), principal)
    }

    /// How long no request or stream has used the session.
    pub(super) fn idle_time(&self, now: Instant) -> Duration {
        let usage = lock(&self.usage);
        match usage.active {
            0 => now.saturating_duration_since(usage.last_used),
            _ => Duration::ZERO,
        }
    }

    /// Calls `look` with the session's event streams and its id.
    pub(super) fn with_streams<T>(&self, look: impl FnOnce(&mut SessionStreams, &str) -> T) -> T {
        let mut streams = lock(&self.streams);
        let streams = streams.get_or_insert_with(|| {
            Box::new(match &self.shared {
                None => SessionStreams::new(fingerprint(&self.id), self.replica_id),
                Some(_) => SessionStreams::shared(),
            })
        });
        look(streams, self.log_name())
    }

    /// How long the session stays in this table while it is idle. A copy of a session in a store is dropped early, unless
    /// its client would miss messages: this process is told of changes for it, or a `Context` may still send something.
    fn copy_timeout(&self, idle_timeout: Duration) -> Duration {
        let may_push = || self.connection.is_push_active() || Arc::weak_count(&self.connection) > 0;
        match &self.shared {
            Some(_) if !may_push() => idle_timeout.min(COPY_TIMEOUT),
            Some(_) | None => idle_timeout,
        }
    }

    /// The name of the session in the keys of its logs.
    pub(super) fn log_name(&self) -> &str {
        self.shared.as_ref().map_or(self.id.as_str(), |shared| &shared.digest)
    }

    fn with_existing_streams<T>(&self, look: impl FnOnce(&mut SessionStreams) -> Vec<T>) -> Vec<T> {
        lock(&self.streams).as_deref_mut().map_or_else(Vec::new, look)
    }
}

/// A number that tells the streams of sessions apart and does not reveal the session id.
fn fingerprint(id: &SessionId) -> u32 {
    let digest = ring::digest::digest(&ring::digest::SHA256, &id.0);
    digest.as_ref().first_chunk::<4>().map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

/// All sessions of a server, in shards so that requests rarely wait for each other's lock.
pub(super) struct Sessions {
    shards: [Mutex<SessionShard>; SHARDS],
    /// A random number that tells this table from those of other replicas.
    replica_id: u32,
    /// Sessions that are in a store, by their name there.
    by_digest: Mutex<HashMap<String, Weak<HttpSession>>>,
}

/// Ids are random and only ours are inserted, so a client cannot choose keys that collide.
type SessionShard = HashMap<SessionId, Arc<HttpSession>, FoldHash>;

impl Sessions {
    pub(super) fn new() -> Self {
        Self {
            shards: Default::default(),
            replica_id: u32::try_from(RandomState::new().hash_one(0) >> 32).unwrap_or_default(),
            by_digest: Mutex::default(),
        }
    }

    /// Inserts a session, unless it is here already. Returns the session that is here then.
    pub(super) fn insert(
        &self,
        id: SessionId,
        connection: Arc<ServerConnection>,
        permit: LimitPermit,
        shared: Option<Box<SharedSession>>,
    ) -> Arc<HttpSession> {
        let session = self.new_session(id, connection, permit, shared);
        self.shard(&id).entry(id).or_insert(session).clone()
    }

    /// Remembers the name of a session in the store.
    pub(super) fn insert_digest(&self, digest: String, session: &Arc<HttpSession>) {
        let mut known = lock(&self.by_digest);
        if known.len() == known.capacity() {
            known.retain(|_, session| session.strong_count() > 0);
        }
        known.insert(digest, Arc::downgrade(session));
    }

    /// Finds a session by its name in the store.
    pub(super) fn get_by_digest(&self, digest: &str) -> Option<Arc<HttpSession>> {
        lock(&self.by_digest).get(digest).and_then(Weak::upgrade)
    }

    /// Finds a session by its id without checking the caller.
    pub(super) fn get(&self, id: &SessionId) -> Option<Arc<HttpSession>> {
        self.shard(id).get(id).cloned()
    }

    fn new_session(
        &self,
        id: SessionId,
        connection: Arc<ServerConnection>,
        permit: LimitPermit,
        shared: Option<Box<SharedSession>>,
    ) -> Arc<HttpSession> {
        Arc::new(HttpSession {
            id,
            revision: connection.revision(),
            connection,
            usage: Mutex::new(SessionUsage { active: 0, last_used: Instant::now() }),
            _permit: permit,
            replica_id: self.replica_id,
            streams: Mutex::default(),
            shared,
        })
    }

    /// Finds a session of this caller, and notes the scopes of its token. The session does not expire while the guard
    /// lives.
    pub(super) fn acquire(&self, id: &SessionId, principal: Option<&Principal>) -> Option<SessionGuard> {
        // The guard is made before the shard is unlocked, so that `remove_idle` sees it.
        let sessions = self.shard(id);
        let session = sessions.get(id).filter(|session| session.belongs_to(principal))?;
        let guard = SessionGuard::new(session.clone());
        drop(sessions);
        guard.connection.note_principal(principal);
        Some(guard)
    }

    /// Ends a session, if it is still here. Returns its event streams, whose logs can be deleted.
    pub(super) fn remove(&self, session: &HttpSession) -> Vec<Arc<EventStream>> {
        let removed = self.shard(&session.id).remove(&session.id);
        removed.map_or_else(Vec::new, |session| release(&session))
    }

    /// Ends the sessions that have been idle for longer than `idle_timeout`. Returns the event streams that ended with
    /// them or finished more than `log_ttl` ago.
    pub(super) fn remove_idle(&self, idle_timeout: Duration, log_ttl: Duration) -> Vec<Arc<EventStream>> {
        let mut expired = Vec::new();
        for shard in &self.shards {
            let mut ended = Vec::new();
            let now = Instant::now();
            let mut sessions = lock(shard);
            sessions.retain(|_, session| {
                expired.extend(session.with_existing_streams(|streams| streams.take_expired(log_ttl)));
                let is_idle = session.idle_time(now) > session.copy_timeout(idle_timeout);
                if is_idle {
                    ended.push(session.clone());
                }
                !is_idle
            });
            if sessions.capacity() > 64 && sessions.len() < sessions.capacity() / 4 {
                sessions.shrink_to_fit();
            }
            drop(sessions);
            ended.iter().for_each(|session| expired.extend(release(session)));
        }
        expired
    }

    /// Calls `look` with every session.
    pub(super) fn for_each(&self, mut look: impl FnMut(&Arc<HttpSession>)) {
        for shard in &self.shards {
            let sessions: Vec<_> = lock(shard).values().cloned().collect();
            sessions.iter().for_each(&mut look);
        }
    }

    fn shard(&self, id: &SessionId) -> MutexGuard<'_, SessionShard> {
        let [first, ..] = &self.shards;
        let [.., last] = id.0;
        lock(self.shards.get(usize::from(last) % SHARDS).unwrap_or(first))
    }
}

/// Ends what belongs to a session. Its permit is released when the last request that uses it is done.
fn release(session: &HttpSession) -> Vec<Arc<EventStream>> {
    session.connection.abort_all();
    session.with_existing_streams(SessionStreams::take_all)
}

/// A session in use by a request or a stream: it does not expire while this exists.
pub(super) struct SessionGuard(Arc<HttpSession>);

impl SessionGuard {
    pub(super) fn new(session: Arc<HttpSession>) -> Self {
        lock(&session.usage).active += 1;
        Self(session)
    }
}

impl std::ops::Deref for SessionGuard {
    type Target = Arc<HttpSession>;

    fn deref(&self) -> &Arc<HttpSession> {
        &self.0
    }
}

impl Drop for SessionGuard {
    fn drop(&mut self) {
        let mut usage = lock(&self.0.usage);
        usage.active -= 1;
        if usage.active == 0 {
            usage.last_used = Instant::now();
        }
    }
}

const SHARDS: usize = 16;
/// How long an idle copy of a session stays.
const COPY_TIMEOUT: Duration = Duration::from_secs(60);
