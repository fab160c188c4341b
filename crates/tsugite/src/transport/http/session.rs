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

use super::track::{Track, Tracks};
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
pub(super) struct Session {
    id: SessionId,
    pub(super) link: Arc<ServerConnection>,
    /// What was agreed on when it was opened. Another `initialize` opens another session.
    pub(super) revision: Option<Revision>,
    /// When it was last used, in sweeps since the table began: no request asks the clock.
    used: AtomicU32,
    /// Requests and streams under way.
    active: AtomicU32,
    replica: u32,
    tracks: Mutex<Option<Box<Tracks>>>,
}

impl Session {
    pub(super) fn id(&self) -> &SessionId {
        &self.id
    }

    /// Whether it was opened by this caller.
    fn is_of(&self, who: Option<&Principal>) -> bool {
        same(self.link.caller.principal.as_ref(), who)
    }

    /// For how many sweeps nobody has used it. The count may begin anew, and whoever is just using it may be ahead.
    fn unused_for(&self, now: u32) -> u64 {
        let sweeps = now.wrapping_sub(self.used.load(Ordering::Acquire)).cast_signed();
        u64::try_from(sweeps).unwrap_or(0)
    }

    pub(super) fn tracks<T>(&self, look: impl FnOnce(&mut Tracks, &str) -> T) -> T {
        let mut tracks = lock(&self.tracks);
        let tracks = tracks.get_or_insert_with(|| Box::new(Tracks::new(fingerprint(&self.id), self.replica)));
        look(tracks, self.id.as_str())
    }

    fn known_tracks<T>(&self, look: impl FnOnce(&mut Tracks) -> Vec<T>) -> Vec<T> {
        lock(&self.tracks).as_deref_mut().map_or_else(Vec::new, look)
    }
}

fn same(one: Option<&Principal>, other: Option<&Principal>) -> bool {
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
    shards: [Mutex<HashMap<SessionId, Arc<Session>, Random>>; SHARDS],
    sweeps: AtomicU32,
    /// Tells this table from those of other replicas.
    replica: u32,
    count: AtomicUsize,
    /// How many each authenticated caller has.
    each: Mutex<HashMap<(String, String), usize>>,
}

/// Why there is no new session.
pub(super) enum NoSession {
    TooMany,
    TooManyOfOne,
    NoRandomness,
}

impl Sessions {
    pub(super) fn new() -> Self {
        Self {
            shards: Default::default(),
            sweeps: AtomicU32::new(0),
            replica: u32::try_from(RandomState::new().hash_one(0) >> 32).unwrap_or_default(),
            count: AtomicUsize::new(0),
            each: Mutex::default(),
        }
    }

    /// Opens a session for a link that has agreed on a revision.
    pub(super) fn open(
        &self,
        link: Arc<ServerConnection>,
        most: usize,
        most_each: usize,
    ) -> Result<Arc<Session>, NoSession> {
        let id = SessionId::random().ok_or(NoSession::NoRandomness)?;
        let who = link.caller.principal.clone();
        if self.count.fetch_add(1, Ordering::AcqRel) >= most {
            self.count.fetch_sub(1, Ordering::AcqRel);
            return Err(NoSession::TooMany);
        }
        if let Some(who) = &who {
            let mut each = lock(&self.each);
            let count = each.entry(named(who)).or_default();
            if *count >= most_each {
                self.count.fetch_sub(1, Ordering::AcqRel);
                return Err(NoSession::TooManyOfOne);
            }
            *count += 1;
        }
        let session = self.session(id, link);
        self.shard(&id).insert(id, session.clone());
        Ok(session)
    }

    /// Goes on with a session that began elsewhere, unless somebody else was faster; false if there are too many.
    pub(super) fn adopt(&self, id: SessionId, link: Arc<ServerConnection>, most: usize) -> bool {
        if self.count.load(Ordering::Acquire) >= most {
            return false;
        }
        let session = self.session(id, link);
        if let Entry::Vacant(place) = self.shard(&id).entry(id) {
            self.count.fetch_add(1, Ordering::AcqRel);
            if let Some(who) = &session.link.caller.principal {
                *lock(&self.each).entry(named(who)).or_default() += 1;
            }
            place.insert(session);
        }
        true
    }

    /// Whether a session is here.
    pub(super) fn has(&self, id: &SessionId) -> bool {
        self.shard(id).contains_key(id)
    }

    /// A session by its name, whoever it belongs to.
    pub(super) fn known(&self, id: &SessionId) -> Option<Arc<Session>> {
        self.shard(id).get(id).cloned()
    }

    fn session(&self, id: SessionId, link: Arc<ServerConnection>) -> Arc<Session> {
        Arc::new(Session {
            id,
            revision: link.revision(),
            link,
            used: AtomicU32::new(self.now()),
            active: AtomicU32::new(0),
            replica: self.replica,
            tracks: Mutex::default(),
        })
    }

    /// Finds a session of this caller, and keeps it while it is used.
    pub(super) fn find(&self, id: &SessionId, who: Option<&Principal>) -> Option<InUse> {
        // Counted before the lock is given back: whoever sweeps must see that it is used.
        let sessions = self.shard(id);
        let session = sessions.get(id).filter(|session| session.is_of(who))?;
        Some(self.hold(session.clone()))
    }

    /// Keeps a session while it is used.
    pub(super) fn hold(&self, session: Arc<Session>) -> InUse {
        session.active.fetch_add(1, Ordering::AcqRel);
        session.used.store(self.now(), Ordering::Release);
        InUse(session)
    }

    /// Ends a session, if it is still there.
    pub(super) fn end(&self, session: &Session) -> Vec<Arc<Track>> {
        let removed = self.shard(&session.id).remove(&session.id);
        removed.map_or_else(Vec::new, |session| self.bury(&session))
    }

    /// Ends those that nobody has used for so many sweeps, and gives the streams that are forgotten.
    pub(super) fn sweep(&self, idle: u64, age: Duration) -> Vec<Arc<Track>> {
        self.sweeps.fetch_add(1, Ordering::AcqRel);
        let mut forgotten = Vec::new();
        for shard in &self.shards {
            let mut ended = Vec::new();
            let now = self.now();
            let mut sessions = lock(shard);
            sessions.retain(|_, session| {
                forgotten.extend(session.known_tracks(|tracks| tracks.outlived(age)));
                if session.active.load(Ordering::Acquire) > 0 {
                    session.used.store(now, Ordering::Release);
                }
                let unused = session.unused_for(now) > idle;
                if unused {
                    ended.push(session.clone());
                }
                !unused
            });
            if sessions.capacity() > 64 && sessions.len() < sessions.capacity() / 4 {
                sessions.shrink_to_fit();
            }
            drop(sessions);
            ended.iter().for_each(|session| forgotten.extend(self.bury(session)));
        }
        forgotten
    }

    /// Whether a session was used since the last sweep but one.
    pub(super) fn is_fresh(&self, session: &Session) -> bool {
        session.unused_for(self.now()) <= 1
    }

    /// Calls with every session there is.
    pub(super) fn each(&self, mut look: impl FnMut(&Arc<Session>)) {
        for shard in &self.shards {
            let sessions: Vec<_> = lock(shard).values().cloned().collect();
            sessions.iter().for_each(&mut look);
        }
    }

    fn bury(&self, session: &Session) -> Vec<Arc<Track>> {
        self.count.fetch_sub(1, Ordering::AcqRel);
        if let Some(who) = &session.link.caller.principal {
            let mut each = lock(&self.each);
            let name = named(who);
            if let Some(count) = each.get_mut(&name) {
                *count -= 1;
                if *count == 0 {
                    each.remove(&name);
                }
            }
        }
        session.link.abort_all();
        session.known_tracks(Tracks::all)
    }

    fn now(&self) -> u32 {
        self.sweeps.load(Ordering::Acquire)
    }

    fn shard(&self, id: &SessionId) -> MutexGuard<'_, HashMap<SessionId, Arc<Session>, Random>> {
        let [first, ..] = &self.shards;
        let [.., last] = id.0;
        lock(self.shards.get(usize::from(last) % SHARDS).unwrap_or(first))
    }
}

fn named(who: &Principal) -> (String, String) {
    (who.issuer().to_owned(), who.subject().to_owned())
}

/// A session that is used: it does not expire meanwhile.
pub(super) struct InUse(Arc<Session>);

impl std::ops::Deref for InUse {
    type Target = Arc<Session>;

    fn deref(&self) -> &Arc<Session> {
        &self.0
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.0.active.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The names of sessions are random as they are: some of their bits are a hash of them.
#[derive(Clone, Default)]
struct Random;

struct RandomBits(u64);

impl BuildHasher for Random {
    type Hasher = RandomBits;

    fn build_hasher(&self) -> RandomBits {
        RandomBits(0)
    }
}

impl Hasher for RandomBits {
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
