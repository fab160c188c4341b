//! Calls that wait for an answer of the client, and continue at another replica if theirs dies.
//!
//! While the handler of a call waits for nothing but answers, its replica keeps a record of the call: the request, what the
//! handler has asked and done, and the open questions. A replica that finds another one dead claims its records. When the
//! answer to one of the questions is there, the handler runs again from the start with the stored answers, and finishes
//! the same stream under the same request id.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tsugite_core::jsonrpc::{Id, write};
use tsugite_core::revision::Revision;

use super::http_state::HttpState;
use super::sessions::HttpSession;
use super::shared_session::{MOVED_FIELDS, RequestRecord, SESSION_KEYS};
use super::waiting_record::{
    ClaimedCall, LONGEST_BACKOFF, RegisteredRequest, WaitingRecord, waiting_field, waiting_key,
};
use super::withdrawn_calls::{KnownState, withdraw};
use crate::error::Chain;
use crate::lock::lock;
use crate::replica::{OtherMembers, Replica, ReplicaMessage, digest};
use crate::server::Principal;
use crate::server::kept_call::{CallKeeper, KeepError, KeepFuture, KeptAnswer, WaitingCall};
use crate::server::outgoing_requests::asking_replica;
use crate::shared::boxed::boxed;
use crate::shared::log;
use crate::store::{Field, Precondition, Recipient, StoreError, Write};

/// Stores one call of a session while it waits.
pub(super) struct HttpCallKeeper {
    state: Weak<HttpState>,
    session: Weak<HttpSession>,
    revision: Revision,
    principal: Option<Principal>,
    /// Set when the request is registered in the store, before its handler goes on.
    registered: OnceLock<Arc<RegisteredRequest>>,
    /// Members that another version of the library has stored.
    other: OnceLock<OtherMembers>,
    /// The version of the record of the waiting call; 0 if there is none, or none that is known.
    waiting_version: AtomicU64,
    /// Whether the call may be stored as waiting: the store has failed, or has not answered yet.
    may_wait: AtomicBool,
    /// Whether the call may be stored as running again.
    may_run: AtomicBool,
    /// Whether another replica has the call.
    is_lost: AtomicBool,
}

impl HttpCallKeeper {
    pub(super) fn new(
        state: &Arc<HttpState>,
        session: &Arc<HttpSession>,
        revision: Revision,
        principal: Option<Principal>,
    ) -> Arc<Self> {
        Arc::new(Self {
            state: Arc::downgrade(state),
            session: Arc::downgrade(session),
            revision,
            principal,
            registered: OnceLock::new(),
            other: OnceLock::new(),
            waiting_version: AtomicU64::new(0),
            may_wait: AtomicBool::new(false),
            may_run: AtomicBool::new(false),
            is_lost: AtomicBool::new(false),
        })
    }

    /// Keeps the members of the stored record that this version does not know.
    pub(super) fn set_other(&self, other: &OtherMembers) {
        drop(self.other.set(other.clone()));
    }

    pub(super) fn set_registered(&self, registered: &Arc<RegisteredRequest>) {
        drop(self.registered.set(registered.clone()));
    }

    /// Whether the call is stored as waiting, or may be. Another replica can continue it then.
    pub(super) fn is_waiting(&self) -> bool {
        self.waiting_version.load(Ordering::Acquire) != 0 || self.may_wait.load(Ordering::Acquire)
    }

    /// Removes the call from the store: its handler was dropped, and must not run again. Returns false if another one has
    /// the call.
    pub(super) async fn withdraw(&self, state: &HttpState, registered: &RegisteredRequest) -> bool {
        let waiting_version = self.waiting_version.load(Ordering::Acquire);
        let may_run = self.may_run.load(Ordering::Acquire);
        withdraw(state, registered, KnownState { waiting_version, may_run }).await
    }

    async fn try_store_waiting(&self, call: WaitingCall) -> Result<(), KeepError> {
        let (Some(state), Some(session), Some(registered)) =
            (self.state.upgrade(), self.session.upgrade(), self.registered.get())
        else {
            return Err(KeepError::NotStored);
        };
        let Some(replica) = &state.replica else { return Err(KeepError::NotStored) };
        let principal = self.principal.as_ref();
        let principal = principal.map(|principal| (principal.identity(), principal.scopes().to_vec()));
        let record = WaitingRecord {
            session: session.id().as_str().to_owned(),
            request: registered.id.clone(),
            method: call.method,
            params: call.params,
            revision: self.revision.as_str().to_owned(),
            principal,
            stream: format!("{:x}", registered.stream),
            history: call.history,
            other: self.other.get().cloned().unwrap_or_default(),
        };
        let (key, field) = (waiting_key(replica.name()), waiting_field(&registered.key, &registered.field));
        let stored = async {
            let value = record.seal(replica, &key, &field)?;
            let request = registered.record(replica.name(), true);
            let request = request.seal(replica, &registered.key, &registered.field)?;
            let version = registered.version();
            let writes = [
                set(&key, &field, value, Precondition::None, WAITING_TTL),
                set(
                    &registered.key,
                    &registered.field,
                    request,
                    Precondition::FieldVersion(version),
                    state.session_ttl(),
                ),
                set(REPLICAS, replica.name(), "".into(), Precondition::None, REPLICAS_TTL),
            ];
            state.store.commit(&writes).await
        };
        // The handler may be dropped before the store answers.
        self.may_wait.store(true, Ordering::Release);
        match stored.await {
            Ok(Ok(committed)) => {
                registered.set_version(committed.version);
                self.waiting_version.store(committed.version, Ordering::Release);
                self.may_wait.store(false, Ordering::Release);
                Ok(())
            }
            Ok(Err(_)) => {
                self.is_lost.store(true, Ordering::Release);
                Err(KeepError::TakenOver)
            }
            Err(error) => {
                if log::is_first("waiting", &error.to_string()) {
                    log::warn!(error = %Chain(&*error), "a call that waits for an answer may not be stored");
                }
                Err(KeepError::Unknown)
            }
        }
    }

    async fn try_store_running(&self, answers: Vec<(String, KeptAnswer)>) -> Result<(), KeepError> {
        let mut attempt = 0;
        // Another replica may claim the call at any time, so it must not go on here before the store says so. As long as
        // this replica lives no other one continues the call, so there is no end to the attempts.
        loop {
            let (Some(state), Some(registered)) = (self.state.upgrade(), self.registered.get()) else {
                return Err(KeepError::NotStored);
            };
            let Some(replica) = &state.replica else { return Err(KeepError::NotStored) };
            let waiting_version = self.waiting_version.load(Ordering::Acquire);
            self.may_run.store(true, Ordering::Release);
            match store_running(&state, replica, registered, waiting_version).await {
                Ok(Ok(version)) => {
                    registered.set_version(version);
                    self.waiting_version.store(0, Ordering::Release);
                    self.may_wait.store(false, Ordering::Release);
                    self.may_run.store(false, Ordering::Release);
                    return Ok(());
                }
                Ok(Err(())) => {
                    self.is_lost.store(true, Ordering::Release);
                    // Also if the handler is dropped meanwhile.
                    drop(tokio::spawn(boxed(pass_on_answers(state, registered.clone(), answers))).await);
                    return Err(KeepError::TakenOver);
                }
                Err(error) => {
                    log::warn!(error = %Chain(&*error), "a call does not go on yet: the store failed");
                }
            }
            drop(state);
            tokio::time::sleep(Duration::from_millis(100 << attempt)).await;
            attempt = (attempt + 1).min(LONGEST_BACKOFF);
        }
    }
}

/// Passes answers on to the replica that has taken their call over: they came here while it did.
async fn pass_on_answers(
    state: Arc<HttpState>,
    registered: Arc<RegisteredRequest>,
    answers: Vec<(String, KeptAnswer)>,
) {
    let Some(replica) = &state.replica else { return };
    for (id, answer) in answers {
        let (id, mut response) = (Id::from(id), Vec::new());
        match answer {
            KeptAnswer::Result(result) => write::raw_result(&mut response, &id, &result),
            KeptAnswer::Error(error) => write::error(&mut response, Some(&id), false, &error),
            // The other replica has a timeout of its own.
            KeptAnswer::TimedOut | KeptAnswer::Closed => continue,
        }
        let message = ReplicaMessage::ClientResponse {
            session: registered.key.trim_start_matches(SESSION_KEYS).to_owned(),
            response: String::from_utf8_lossy(&response).into_owned(),
        };
        for attempt in 0..CONTINUE_ATTEMPTS {
            match pass_on(&state, replica, &registered.key, &message).await {
                Ok(()) => break,
                Err(error) => {
                    log::warn!(error = %Chain(&*error), "an answer is not passed on yet: the store failed");
                }
            }
            tokio::time::sleep(Duration::from_millis(100 << attempt.min(LONGEST_BACKOFF))).await;
        }
    }
}

/// Sends a message to the replica that has taken over the calls of this one in a session.
async fn pass_on(
    state: &Arc<HttpState>,
    replica: &Replica,
    session_key: &str,
    message: &ReplicaMessage,
) -> Result<(), StoreError> {
    let field = format!("{MOVED_FIELDS}{}", replica.name());
    let moved = state.store.read(session_key, &[&field]).await?;
    let moved = moved.and_then(|fields| fields.into_iter().next().flatten());
    let to = moved.and_then(|field| String::from_utf8(field.value.to_vec()).ok());
    match (to, message) {
        // This replica has taken the call back.
        (Some(to), ReplicaMessage::ClientResponse { session, response }) if to == replica.name() => {
            if let Some(settled) = state.answer_claimed_text(session, response.as_bytes()) {
                settled.wait(LONGEST_PASS).await;
            }
        }
        (Some(to), message) => {
            if let Some(write) = replica.send(Recipient::Replica(&to), message) {
                drop(state.store.commit(&[write]).await?);
            }
        }
        (None, _) => {}
    }
    Ok(())
}

impl CallKeeper for HttpCallKeeper {
    fn store_waiting(self: Arc<Self>, call: WaitingCall) -> KeepFuture {
        Box::pin(async move { self.try_store_waiting(call).await })
    }

    fn store_running(self: Arc<Self>, answers: Vec<(String, KeptAnswer)>) -> KeepFuture {
        Box::pin(async move { self.try_store_running(answers).await })
    }

    fn goes_on_elsewhere(&self) -> bool {
        self.is_lost.load(Ordering::Acquire) || self.state.upgrade().is_none_or(|state| state.is_aborting())
    }
}

/// Stores that a waiting call runs. Returns the new version of its request record, or an error if another replica has the
/// call. Without the version of the waiting call, it is not known whether it was stored.
pub(super) async fn store_running(
    state: &HttpState,
    replica: &Replica,
    registered: &RegisteredRequest,
    waiting_version: u64,
) -> Result<Result<u64, ()>, StoreError> {
    let versions = (registered.version(), waiting_version);
    if let Ok(version) = commit_running(state, replica, registered, versions).await? {
        return Ok(Ok(version));
    }
    // An attempt that failed may have been made nevertheless: to store the call as waiting, or as running.
    let known = state.store.read(&registered.key, &[&registered.field]).await?;
    let Some(known) = known.and_then(|fields| fields.into_iter().next().flatten()) else {
        return Ok(Err(()));
    };
    match RequestRecord::open(replica, &registered.key, &registered.field, &known) {
        Some(RequestRecord::Running(running)) if running.replica == replica.name() => match running.waiting {
            false => Ok(Ok(known.version)),
            true if waiting_version == 0 => {
                commit_running(state, replica, registered, (known.version, known.version)).await
            }
            true => Ok(Err(())),
        },
        _ => Ok(Err(())),
    }
}

/// Stores that a call runs, if its request record and the record of the waiting call have these versions. No record of a
/// waiting call has the version 0; one that is stored later than this conflicts with it.
async fn commit_running(
    state: &HttpState,
    replica: &Replica,
    registered: &RegisteredRequest,
    (version, waiting_version): (u64, u64),
) -> Result<Result<u64, ()>, StoreError> {
    let (key, field) = (waiting_key(replica.name()), waiting_field(&registered.key, &registered.field));
    let request = registered.record(replica.name(), false);
    let value = request.seal(replica, &registered.key, &registered.field)?;
    let precondition = Precondition::FieldVersion(version);
    let mut writes = vec![set(&registered.key, &registered.field, value, precondition, state.session_ttl())];
    if waiting_version != 0 {
        let precondition = Precondition::FieldVersion(waiting_version);
        writes.push(Write::Remove { key: &key, field: &field, precondition });
    }
    let committed = state.store.commit(&writes).await?;
    Ok(committed.map(|committed| committed.version).map_err(drop))
}

fn set<'a>(
    key: &'a str,
    field: &'a str,
    value: bytes::Bytes,
    precondition: Precondition,
    ttl: Duration,
) -> Write<'a> {
    Write::Set { key, field, value, precondition, ttl }
}

impl HttpState {
    /// Claims the waiting calls of dead replicas until the state is dropped. Started once.
    pub(super) fn start_claiming(self: &Arc<Self>) {
        let Some(replica) = &self.replica else { return };
        if self.claiming_started.swap(true, Ordering::AcqRel) {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return self.claiming_started.store(false, Ordering::Release);
        };
        let (state, every) = (Arc::downgrade(self), replica.lease() / 2);
        runtime.spawn(boxed(async move {
            loop {
                {
                    let Some(state) = state.upgrade() else { return };
                    if state.is_closing() {
                        return;
                    }
                    if let Err(error) = state.claim_waiting_calls().await
                        && log::is_first("claim", &error.to_string())
                    {
                        log::warn!(error = %Chain(&*error), "waiting calls of other replicas were not looked for");
                    }
                }
                tokio::time::sleep(every).await;
            }
        }));
    }

    async fn claim_waiting_calls(self: &Arc<Self>) -> Result<(), StoreError> {
        let Some(replica) = &self.replica else { return Ok(()) };
        for (name, listed) in self.store.list(REPLICAS, "", MAX_LISTED).await? {
            if name == replica.name() || !replica.is_dead(&name).await? {
                continue;
            }
            let key = waiting_key(&name);
            let calls = self.store.list(&key, "", MAX_LISTED).await?;
            for (field, value) in &calls {
                self.claim(replica, &name, field, value).await?;
            }
            self.receive_messages_to(replica, &name).await?;
            if calls.is_empty() {
                // A replica that only seemed dead may have stored a call meanwhile, and its name with it.
                let precondition = Precondition::FieldVersion(listed.version);
                drop(
                    self.store.commit(&[Write::Remove { key: REPLICAS, field: &name, precondition }]).await?,
                );
            }
        }
        // The claims that failed above were tried again. The others were made nevertheless, or by another replica.
        for field in self.claimed.unsure() {
            self.find_claimed(replica, &field).await?;
        }
        // Answers that were on their way to a dead replica when its calls were claimed.
        if !self.claimed.is_empty() {
            for asker in self.claimed.askers() {
                self.receive_messages_to(replica, &asker).await?;
            }
        }
        Ok(())
    }

    /// Uses the answers and cancellations that are stored for a dead replica.
    async fn receive_messages_to(
        self: &Arc<Self>,
        replica: &Arc<Replica>,
        dead: &str,
    ) -> Result<(), StoreError> {
        for message in replica.messages_to(dead).await? {
            match message {
                ReplicaMessage::ClientResponse { session, response } => {
                    self.answer_claimed_text(&session, response.as_bytes());
                }
                ReplicaMessage::RequestCancelled { session, request, .. } => {
                    self.cancel_claimed(&session, &request);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Claims one call of a dead replica.
    async fn claim(
        self: &Arc<Self>,
        replica: &Arc<Replica>,
        dead: &str,
        field: &str,
        value: &Field,
    ) -> Result<(), StoreError> {
        let (from, to) = (waiting_key(dead), waiting_key(replica.name()));
        let remove =
            Write::Remove { key: &from, field, precondition: Precondition::FieldVersion(value.version) };
        let record = match WaitingRecord::open(replica, &from, field, value) {
            Ok(record) => record,
            // Another replica may be able to read it, now or after an update.
            Err(error) => {
                if log::is_first("waiting call", &error.to_string()) {
                    log::error!(%error, "a waiting call is not continued");
                }
                return Ok(());
            }
        };
        let Some(mut registered) = RegisteredRequest::of_waiting(&record) else { return Ok(()) };
        let known = self.store.read(&registered.key, &[&registered.field]).await?;
        let known = known.and_then(|fields| fields.into_iter().next().flatten());
        let request = known
            .as_ref()
            .and_then(|known| RequestRecord::open(replica, &registered.key, &registered.field, known));
        let known = match (known, request) {
            (Some(known), Some(RequestRecord::Running(running))) => {
                registered.set_other(running.other);
                known
            }
            (Some(_), Some(RequestRecord::Unreadable)) => return Ok(()),
            // The session has ended, or the client has cancelled the call.
            (_, Some(RequestRecord::Cancelled { .. }) | None) | (None, Some(_)) => {
                drop(self.store.commit(&[remove]).await?);
                return Ok(());
            }
        };
        let askers: Vec<_> = record
            .history
            .questions
            .iter()
            .filter_map(|open| asking_replica(&Id::from(open.id.clone())))
            .map(|asker| format!("{MOVED_FIELDS}{asker}"))
            .collect();
        let request = registered.record(replica.name(), true);
        let ttl = self.session_ttl();
        let mut writes = vec![
            remove,
            set(&to, field, record.seal(replica, &to, field)?, Precondition::None, WAITING_TTL),
            set(REPLICAS, replica.name(), "".into(), Precondition::None, REPLICAS_TTL),
            set(
                &registered.key,
                &registered.field,
                request.seal(replica, &registered.key, &registered.field)?,
                Precondition::FieldVersion(known.version),
                ttl,
            ),
        ];
        let name = || replica.name().to_owned().into();
        let mut moved: Vec<&String> = askers.iter().collect();
        moved.sort();
        moved.dedup();
        writes.extend(
            moved
                .into_iter()
                .map(|field| set(&registered.key, field, name(), Precondition::RecordExists, ttl)),
        );
        match self.store.commit(&writes).await {
            Ok(Ok(committed)) => {
                self.claimed.remove_unsure(field);
                self.keep_claimed(record, registered, committed.version);
            }
            // Another replica was faster, or an attempt of this one that failed was made nevertheless.
            Ok(Err(_)) => self.find_claimed(replica, field).await?,
            Err(error) => {
                self.claimed.add_unsure(field);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Keeps a call that this replica has claimed, until an answer is there.
    fn keep_claimed(self: &Arc<Self>, record: WaitingRecord, registered: RegisteredRequest, version: u64) {
        registered.set_version(version);
        let session = digest(record.session.as_bytes());
        self.drop_lost_call(&session, &record);
        let call = Arc::new(ClaimedCall {
            session,
            record: Mutex::new(Some(record)),
            registered: Arc::new(registered),
            waiting_version: version,
        });
        self.claimed.insert(&call);
        self.expire_claimed(&call);
    }

    /// Keeps a call that this replica has claimed without knowing it, if it is in the store.
    async fn find_claimed(self: &Arc<Self>, replica: &Replica, field: &str) -> Result<(), StoreError> {
        let key = waiting_key(replica.name());
        let value = self.store.read(&key, &[field]).await?;
        let value = value.and_then(|fields| fields.into_iter().next().flatten());
        let record = value.as_ref().and_then(|value| WaitingRecord::open(replica, &key, field, value).ok());
        self.claimed.remove_unsure(field);
        if let (Some(value), Some(record)) = (value, record)
            && !self.claimed.has(&record)
            && let Some(registered) = RegisteredRequest::of_waiting(&record)
        {
            // One commit has set both versions.
            self.keep_claimed(record, registered, value.version);
        }
        Ok(())
    }

    /// Drops the handler of a call that this replica has lost to another one, and takes back now.
    fn drop_lost_call(&self, session: &str, record: &WaitingRecord) {
        let id = serde_json::from_str::<Id<'static>>(&record.request);
        let (Some(session), Ok(id)) = (self.session_by_digest(session), id) else { return };
        // The handler is dropped when its stream is read, perhaps much later. It must not take the answers until then, nor
        // cancel the questions.
        for question in &record.history.questions {
            session.connection.outgoing_requests().forget(&Id::from(question.id.clone()));
        }
        if session.connection.is_in_flight(&id) {
            session.connection.cancel_request(&id, None);
        }
    }

    /// Lets the questions of a claimed call time out.
    fn expire_claimed(self: &Arc<Self>, call: &Arc<ClaimedCall>) {
        let questions = lock(&call.record).as_ref().map(|record| record.history.questions.clone());
        for question in questions.unwrap_or_default() {
            let (state, session) = (Arc::downgrade(self), call.session.clone());
            let left = Duration::from_millis(question.deadline_millis.saturating_sub(now_millis()));
            tokio::spawn(boxed(async move {
                tokio::time::sleep(left).await;
                if let Some(state) = state.upgrade() {
                    state.answer_claimed(&session, &question.id, KeptAnswer::TimedOut);
                }
            }));
        }
    }
}

fn now_millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The record with the replicas that have had waiting calls.
const REPLICAS: &str = "replicas";
const REPLICAS_TTL: Duration = Duration::from_secs(7 * 24 * 60 * 60);
const WAITING_TTL: Duration = Duration::from_secs(24 * 60 * 60);
const MAX_LISTED: usize = 1_000;
/// How long an answer waits for a call that this replica has taken back.
const LONGEST_PASS: Duration = Duration::from_secs(60);
/// About two minutes.
pub(super) const CONTINUE_ATTEMPTS: u32 = 40;
