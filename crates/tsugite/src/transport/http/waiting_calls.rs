//! Calls that wait for an answer of the client, and continue at another replica if theirs dies.
//!
//! While the handler of a call waits for nothing but answers, its replica keeps a record of the call: the request, what the
//! handler has asked and done, and the open questions. A replica that finds another one dead claims its records. When the
//! answer to one of the questions is there, the handler runs again from the start with the stored answers, and finishes
//! the same stream under the same request id.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tsugite_core::jsonrpc::Id;
use tsugite_core::revision::Revision;

use super::http_state::HttpState;
use super::sessions::HttpSession;
use super::shared_session::{MOVED_FIELDS, RequestRecord, session_key};
use super::waiting_record::{ClaimedCall, RegisteredRequest, WaitingRecord};
use crate::error::Chain;
use crate::lock::lock;
use crate::replica::{Replica, ReplicaMessage, digest};
use crate::server::Principal;
use crate::server::kept_call::{CallKeeper, KeepError, KeepFuture, KeptAnswer, WaitingCall};
use crate::server::outgoing_requests::asking_replica;
use crate::shared::log;
use crate::store::{Field, Precondition, StoreError, Write};

/// Stores one call of a session while it waits.
pub(super) struct HttpCallKeeper {
    state: Weak<HttpState>,
    session: Weak<HttpSession>,
    revision: Revision,
    principal: Option<Principal>,
    /// Set when the request is registered in the store, before its handler goes on.
    registered: OnceLock<Arc<RegisteredRequest>>,
    /// The version of the record of the waiting call; 0 if there is none.
    waiting_version: AtomicU64,
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
            waiting_version: AtomicU64::new(0),
        })
    }

    pub(super) fn set_registered(&self, registered: &Arc<RegisteredRequest>) {
        drop(self.registered.set(registered.clone()));
    }

    /// Whether the call is stored as waiting.
    pub(super) fn is_waiting(&self) -> bool {
        self.waiting_version.load(Ordering::Acquire) != 0
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
        match stored.await {
            Ok(Ok(committed)) => {
                registered.set_version(committed.version);
                self.waiting_version.store(committed.version, Ordering::Release);
                Ok(())
            }
            Ok(Err(_)) => Err(KeepError::TakenOver),
            Err(error) => {
                if log::is_first("waiting", &error.to_string()) {
                    log::warn!(error = %Chain(&*error), "a call that waits for an answer is not stored");
                }
                Err(KeepError::NotStored)
            }
        }
    }

    async fn try_store_running(&self) -> Result<(), KeepError> {
        let (Some(state), Some(registered)) = (self.state.upgrade(), self.registered.get()) else {
            return Err(KeepError::NotStored);
        };
        let Some(replica) = &state.replica else { return Err(KeepError::NotStored) };
        let waiting_version = self.waiting_version.load(Ordering::Acquire);
        for attempt in 0..RUNNING_ATTEMPTS {
            match store_running(&state, replica, registered, waiting_version).await {
                Ok(Ok(version)) => {
                    registered.set_version(version);
                    self.waiting_version.store(0, Ordering::Release);
                    return Ok(());
                }
                Ok(Err(())) => return Err(KeepError::TakenOver),
                Err(error) => {
                    log::warn!(error = %Chain(&*error), "a call does not go on yet: the store failed");
                    tokio::time::sleep(Duration::from_millis(100 << attempt)).await;
                }
            }
        }
        // Another replica may claim the call at any time, so it must not go on here.
        Err(KeepError::TakenOver)
    }
}

impl CallKeeper for HttpCallKeeper {
    fn store_waiting(self: Arc<Self>, call: WaitingCall) -> KeepFuture {
        Box::pin(async move { self.try_store_waiting(call).await })
    }

    fn store_running(self: Arc<Self>) -> KeepFuture {
        Box::pin(async move { self.try_store_running().await })
    }
}

/// Stores that a waiting call runs. Returns the new version of its request record, or an error if another replica has the
/// call.
async fn store_running(
    state: &HttpState,
    replica: &Replica,
    registered: &RegisteredRequest,
    waiting_version: u64,
) -> Result<Result<u64, ()>, StoreError> {
    let (key, field) = (waiting_key(replica.name()), waiting_field(&registered.key, &registered.field));
    let request = registered.record(replica.name(), false);
    let request = request.seal(replica, &registered.key, &registered.field)?;
    let writes = [
        Write::Remove { key: &key, field: &field, precondition: Precondition::FieldVersion(waiting_version) },
        set(
            &registered.key,
            &registered.field,
            request,
            Precondition::FieldVersion(registered.version()),
            state.session_ttl(),
        ),
    ];
    if let Ok(committed) = state.store.commit(&writes).await? {
        return Ok(Ok(committed.version));
    }
    // An earlier attempt that failed may have been made nevertheless.
    let known = state.store.read(&registered.key, &[&registered.field]).await?;
    let Some(known) = known.and_then(|fields| fields.into_iter().next().flatten()) else {
        return Ok(Err(()));
    };
    Ok(match RequestRecord::open(replica, &registered.key, &registered.field, &known) {
        Some(RequestRecord::Running { replica: runner, waiting: false, .. }) if runner == replica.name() => {
            Ok(known.version)
        }
        _ => Err(()),
    })
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
        runtime.spawn(async move {
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
        });
    }

    async fn claim_waiting_calls(self: &Arc<Self>) -> Result<(), StoreError> {
        let Some(replica) = &self.replica else { return Ok(()) };
        for (name, _) in self.store.list(REPLICAS, "", MAX_LISTED).await? {
            if name == replica.name() || !replica.is_dead(&name).await? {
                continue;
            }
            let key = waiting_key(&name);
            let calls = self.store.list(&key, "", MAX_LISTED).await?;
            for (field, value) in &calls {
                self.claim(replica, &name, field, value).await?;
            }
            self.receive_answers_to(replica, &name).await?;
            if calls.is_empty() {
                let precondition = Precondition::None;
                drop(
                    self.store.commit(&[Write::Remove { key: REPLICAS, field: &name, precondition }]).await?,
                );
            }
        }
        // Answers that were on their way to a dead replica when its calls were claimed.
        if !self.claimed.is_empty() {
            for asker in self.claimed.askers() {
                self.receive_answers_to(replica, &asker).await?;
            }
        }
        Ok(())
    }

    /// Uses the answers that are stored for a dead replica.
    async fn receive_answers_to(
        self: &Arc<Self>,
        replica: &Arc<Replica>,
        dead: &str,
    ) -> Result<(), StoreError> {
        for message in replica.messages_to(dead).await? {
            if let ReplicaMessage::ClientResponse { response, .. } = message {
                self.answer_claimed_text(response.as_bytes());
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
        let Some(record) = WaitingRecord::open(replica, &from, field, value) else {
            log::error!("a waiting call cannot be opened: do all replicas have the same keys?");
            drop(self.store.commit(&[remove]).await?);
            return Ok(());
        };
        let Ok(stream) = u128::from_str_radix(&record.stream, 16) else { return Ok(()) };
        let session = session_key(&digest(record.session.as_bytes()));
        let registered = RegisteredRequest::new(session, record.request.clone(), stream);
        let known = self.store.read(&registered.key, &[&registered.field]).await?;
        let known = known.and_then(|fields| fields.into_iter().next().flatten());
        let known = known.filter(|known| {
            let record = RequestRecord::open(replica, &registered.key, &registered.field, known);
            matches!(record, Some(RequestRecord::Running { .. }))
        });
        // The session has ended, or the client has cancelled the call.
        let Some(known) = known else {
            drop(self.store.commit(&[remove]).await?);
            return Ok(());
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
        // In a conflict another replica was faster.
        let Ok(committed) = self.store.commit(&writes).await? else { return Ok(()) };
        registered.set_version(committed.version);
        let call = Arc::new(ClaimedCall {
            record: Mutex::new(Some(record)),
            registered: Arc::new(registered),
            waiting_version: committed.version,
        });
        self.claimed.insert(&call);
        self.expire_claimed(&call);
        Ok(())
    }

    /// Lets the questions of a claimed call time out.
    fn expire_claimed(self: &Arc<Self>, call: &Arc<ClaimedCall>) {
        let questions = lock(&call.record).as_ref().map(|record| record.history.questions.clone());
        for question in questions.unwrap_or_default() {
            let state = Arc::downgrade(self);
            let left = Duration::from_millis(question.deadline_millis.saturating_sub(now_millis()));
            tokio::spawn(async move {
                tokio::time::sleep(left).await;
                if let Some(state) = state.upgrade() {
                    state.answer_claimed(&question.id, KeptAnswer::TimedOut);
                }
            });
        }
    }

    /// Continues a claimed call with an answer. Returns false if no claimed call asked the question.
    pub(super) fn answer_claimed(self: &Arc<Self>, question: &str, answer: KeptAnswer) -> bool {
        let Some(call) = self.claimed.take(question) else { return false };
        let Some(mut record) = lock(&call.record).take() else { return true };
        let Some(at) = record.history.questions.iter().position(|open| open.id == question) else {
            return true;
        };
        let open = record.history.questions.remove(at);
        record.history.answers.insert(open.key, answer);
        let state = self.clone();
        tokio::spawn(async move {
            if let Err(error) = state.continue_claimed(&call, record).await {
                log::error!(error = %Chain(&*error), "a claimed call could not be continued");
            }
        });
        true
    }

    async fn continue_claimed(
        self: &Arc<Self>,
        call: &ClaimedCall,
        record: WaitingRecord,
    ) -> Result<(), StoreError> {
        let Some(replica) = &self.replica else { return Ok(()) };
        let mut attempt = 0;
        // No other replica continues a call of this one while it lives, so it tries again while the store fails.
        loop {
            let continued = async {
                match store_running(self, replica, &call.registered, call.waiting_version).await? {
                    Ok(version) => call.registered.set_version(version),
                    Err(()) => return Ok(()),
                }
                self.take_up(call.registered.clone(), record.clone()).await
            };
            match continued.await {
                Err(error) if attempt + 1 < CONTINUE_ATTEMPTS && !self.is_closing() => {
                    log::warn!(error = %Chain(&*error), "a claimed call does not go on yet");
                    tokio::time::sleep(Duration::from_millis(100 << attempt.min(5))).await;
                    attempt += 1;
                }
                continued => return continued,
            }
        }
    }
}

fn waiting_key(replica: &str) -> String {
    format!("waiting/{replica}")
}

/// The field of a waiting call, made of the key of its session and the field of its request there.
fn waiting_field(session_key: &str, request_field: &str) -> String {
    format!("{session_key}/{request_field}")
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
const RUNNING_ATTEMPTS: u32 = 6;
/// About two minutes.
const CONTINUE_ATTEMPTS: u32 = 40;
