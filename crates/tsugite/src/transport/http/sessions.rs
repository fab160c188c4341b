//! The sessions of clients up to 2025-11-25. One at rest is a record in a map: no task, no channel, no buffer.

use std::collections::HashMap;
use std::collections::hash_map::{Entry, RandomState};
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use ring::rand::{SecureRandom, SystemRandom};
use tsugite_core::base64;
use tsugite_core::revision::Revision;

use super::event_stream::{EventStream, SessionStreams};
use crate::lock::lock;
use crate::server::Principal;
use crate::server::connection::ServerConnection;

/// The name of a session: 192 bits of the operating system, as 32 letters.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct SessionId([u8; 32]);

impl SessionId {
    /// Fails if the operating system has no randomness to give.
    fn random() -> Option<Self> {
        let mut bits = [0; 24];
        SystemRandom::new().fill(&mut bits).ok()?;
        base64::encode_url(&bits).as_bytes().try_into().ok().map(Self)
    }

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
    /// What was agreed on when it was opened. Another `initialize` opens another session.
    pub(super) revision: Option<Revision>,
    /// When it was last used, in sweeps since the table began: no request asks the clock.
    last_used: AtomicU32,
    /// Requests and streams under way.
    active_uses: AtomicU32,
    replica_id: u32,
    streams: Mutex<Option<Box<SessionStreams>>>,
}

impl HttpSession {
    pub(super) fn id(&self) -> &SessionId {
        &self.id
    }

    /// Whether it was opened by this caller.
    fn belongs_to(&self, who: Option<&Principal>) -> bool {
        is_same_principal(self.connection.caller.principal.as_ref(), who)
    }

    /// For how many sweeps nobody has used it. The count may begin anew, and whoever is just using it may be ahead.
    fn idle_sweeps(&self, now: u32) -> u64 {
        let sweeps = now.wrapping_sub(self.last_used.load(Ordering::Acquire)).cast_signed();
        u64::try_from(sweeps).unwrap_or(0)
    }

    pub(super) fn with_streams<T>(&self, look: impl FnOnce(&mut SessionStreams, &str) -> T) -> T {
        let mut tracks = lock(&self.streams);
        let tracks = tracks
            .get_or_insert_with(|| Box::new(SessionStreams::new(fingerprint(&self.id), self.replica_id)));
        look(tracks, self.id.as_str())
    }

    fn with_existing_streams<T>(&self, look: impl FnOnce(&mut SessionStreams) -> Vec<T>) -> Vec<T> {
        lock(&self.streams).as_deref_mut().map_or_else(Vec::new, look)
    }
}

fn is_same_principal(one: Option<&Principal>, other: Option<&Principal>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one.issuer() == other.issuer() && one.subject() == other.subject(),
        (None, None) => true,
        _ => false,
    }
}

/// A number that tells the streams of sessions apart; says little of the name it is made of.
fn fingerprint(id: &SessionId) -> u32 {
    let digest = ring::digest::digest(&ring::digest::SHA256, &id.0);
    digest.as_ref().first_chunk::<4>().map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

/// All sessions of a server.
pub(super) struct Sessions {
    shards: [Mutex<HashMap<SessionId, Arc<HttpSession>, BuildSessionIdHasher>>; SHARDS],
    sweep_count: AtomicU32,
    /// Tells this table from those of other replicas.
    replica_id: u32,
    count: AtomicUsize,
    /// How many each authenticated caller has.
    count_per_caller: Mutex<HashMap<(String, String), usize>>,
}

/// Why there is no new session.
pub(super) enum OpenSessionError {
    LimitReached,
    CallerLimitReached,
    NoRandomness,
}

impl Sessions {
    pub(super) fn new() -> Self {
        Self {
            shards: Default::default(),
            sweep_count: AtomicU32::new(0),
            replica_id: u32::try_from(RandomState::new().hash_one(0) >> 32).unwrap_or_default(),
            count: AtomicUsize::new(0),
            count_per_caller: Mutex::default(),
        }
    }

    /// Opens a session for a link that has agreed on a revision.
    pub(super) fn open(
        &self,
        link: Arc<ServerConnection>,
        most: usize,
        most_each: usize,
    ) -> Result<Arc<HttpSession>, OpenSessionError> {
        let id = SessionId::random().ok_or(OpenSessionError::NoRandomness)?;
        let who = link.caller.principal.clone();
        if self.count.fetch_add(1, Ordering::AcqRel) >= most {
            self.count.fetch_sub(1, Ordering::AcqRel);
            return Err(OpenSessionError::LimitReached);
        }
        if let Some(who) = &who {
            let mut each = lock(&self.count_per_caller);
            let count = each.entry(caller_key(who)).or_default();
            if *count >= most_each {
                self.count.fetch_sub(1, Ordering::AcqRel);
                return Err(OpenSessionError::CallerLimitReached);
            }
            *count += 1;
        }
        let session = self.new_session(id, link);
        self.shard(&id).insert(id, session.clone());
        Ok(session)
    }

    /// Goes on with a session that began elsewhere, unless somebody else was faster; false if there are too many.
    pub(super) fn insert_restored(&self, id: SessionId, link: Arc<ServerConnection>, most: usize) -> bool {
        if self.count.load(Ordering::Acquire) >= most {
            return false;
        }
        let session = self.new_session(id, link);
        if let Entry::Vacant(place) = self.shard(&id).entry(id) {
            self.count.fetch_add(1, Ordering::AcqRel);
            if let Some(who) = &session.connection.caller.principal {
                *lock(&self.count_per_caller).entry(caller_key(who)).or_default() += 1;
            }
            place.insert(session);
        }
        true
    }

    /// Whether a session is here.
    pub(super) fn contains(&self, id: &SessionId) -> bool {
        self.shard(id).contains_key(id)
    }

    /// A session by its name, whoever it belongs to.
    pub(super) fn get(&self, id: &SessionId) -> Option<Arc<HttpSession>> {
        self.shard(id).get(id).cloned()
    }

    fn new_session(&self, id: SessionId, link: Arc<ServerConnection>) -> Arc<HttpSession> {
        Arc::new(HttpSession {
            id,
            revision: link.revision(),
            connection: link,
            last_used: AtomicU32::new(self.current_sweep()),
            active_uses: AtomicU32::new(0),
            replica_id: self.replica_id,
            streams: Mutex::default(),
        })
    }

    /// Finds a session of this caller, and keeps it while it is used.
    pub(super) fn acquire(&self, id: &SessionId, who: Option<&Principal>) -> Option<SessionGuard> {
        // Counted before the lock is given back: whoever sweeps must see that it is used.
        let sessions = self.shard(id);
        let session = sessions.get(id).filter(|session| session.belongs_to(who))?;
        Some(self.guard(session.clone()))
    }

    /// Keeps a session while it is used.
    pub(super) fn guard(&self, session: Arc<HttpSession>) -> SessionGuard {
        session.active_uses.fetch_add(1, Ordering::AcqRel);
        session.last_used.store(self.current_sweep(), Ordering::Release);
        SessionGuard(session)
    }

    /// Ends a session, if it is still there.
    pub(super) fn remove(&self, session: &HttpSession) -> Vec<Arc<EventStream>> {
        let removed = self.shard(&session.id).remove(&session.id);
        removed.map_or_else(Vec::new, |session| self.release(&session))
    }

    /// Ends those that nobody has used for so many sweeps, and gives the streams that are forgotten.
    pub(super) fn remove_idle(&self, idle: u64, age: Duration) -> Vec<Arc<EventStream>> {
        self.sweep_count.fetch_add(1, Ordering::AcqRel);
        let mut forgotten = Vec::new();
        for shard in &self.shards {
            let mut ended = Vec::new();
            let now = self.current_sweep();
            let mut sessions = lock(shard);
            sessions.retain(|_, session| {
                forgotten.extend(session.with_existing_streams(|tracks| tracks.take_expired(age)));
                if session.active_uses.load(Ordering::Acquire) > 0 {
                    session.last_used.store(now, Ordering::Release);
                }
                let unused = session.idle_sweeps(now) > idle;
                if unused {
                    ended.push(session.clone());
                }
                !unused
            });
            if sessions.capacity() > 64 && sessions.len() < sessions.capacity() / 4 {
                sessions.shrink_to_fit();
            }
            drop(sessions);
            ended.iter().for_each(|session| forgotten.extend(self.release(session)));
        }
        forgotten
    }

    /// Whether a session was used since the last sweep but one.
    pub(super) fn is_recently_used(&self, session: &HttpSession) -> bool {
        session.idle_sweeps(self.current_sweep()) <= 1
    }

    /// Calls with every session there is.
    pub(super) fn for_each(&self, mut look: impl FnMut(&Arc<HttpSession>)) {
        for shard in &self.shards {
            let sessions: Vec<_> = lock(shard).values().cloned().collect();
            sessions.iter().for_each(&mut look);
        }
    }

    fn release(&self, session: &HttpSession) -> Vec<Arc<EventStream>> {
        self.count.fetch_sub(1, Ordering::AcqRel);
        if let Some(who) = &session.connection.caller.principal {
            let mut each = lock(&self.count_per_caller);
            let name = caller_key(who);
            if let Some(count) = each.get_mut(&name) {
                *count -= 1;
                if *count == 0 {
                    each.remove(&name);
                }
            }
        }
        session.connection.abort_all();
        session.with_existing_streams(SessionStreams::take_all)
    }

    fn current_sweep(&self) -> u32 {
        self.sweep_count.load(Ordering::Acquire)
    }

    fn shard(
        &self,
        id: &SessionId,
    ) -> MutexGuard<'_, HashMap<SessionId, Arc<HttpSession>, BuildSessionIdHasher>> {
        let [first, ..] = &self.shards;
        let [.., last] = id.0;
        lock(self.shards.get(usize::from(last) % SHARDS).unwrap_or(first))
    }
}

fn caller_key(who: &Principal) -> (String, String) {
    (who.issuer().to_owned(), who.subject().to_owned())
}

/// A session that is used: it does not expire meanwhile.
pub(super) struct SessionGuard(Arc<HttpSession>);

impl std::ops::Deref for SessionGuard {
    type Target = Arc<HttpSession>;

    fn deref(&self) -> &Arc<HttpSession> {
        &self.0
    }
}

impl Drop for SessionGuard {
    fn drop(&mut self) {
        self.0.active_uses.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The names of sessions are random as they are: some of their bits are a hash of them.
#[derive(Clone, Default)]
struct BuildSessionIdHasher;

struct SessionIdHasher(u64);

impl BuildHasher for BuildSessionIdHasher {
    type Hasher = SessionIdHasher;

    fn build_hasher(&self) -> SessionIdHasher {
        SessionIdHasher(0)
    }
}

impl Hasher for SessionIdHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.first_chunk().map_or(0, |bits| u64::from_le_bytes(*bits));
    }

    fn finish(&self) -> u64 {
        // Letters of base64 leave the highest bits of each byte alike, and maps look at the highest bits.
        self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

impl Hash for SessionId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(&self.0);
    }
}

const SHARDS: usize = 16;
