//! Requests and waiting calls, as they are registered in the store.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use tsugite_core::jsonrpc::{Id, RawJson};

use super::shared_session::{RequestRecord, RunningRequest, request_field, session_key};
use crate::lock::lock;
use crate::replica::{OtherMembers, RecordError, Replica, digest};
use crate::server::Principal;
use crate::server::kept_call::KeptHistory;
use crate::server::outgoing_requests::asking_replica;
use crate::shared::principal::CallerIdentity;
use crate::store::{Field, StoreError};

/// Where a request is registered.
pub(super) struct RegisteredRequest {
    /// The key of the session's record.
    pub(super) key: String,
    pub(super) field: String,
    /// The id of the request as JSON.
    pub(super) id: String,
    /// The id that is reserved for its stream.
    pub(super) stream: u128,
    version: AtomicU64,
    /// Members that another version of the library has stored.
    other: OtherMembers,
}

impl RegisteredRequest {
    pub(super) fn new(key: String, id: String, stream: u128) -> Self {
        let (version, other) = (AtomicU64::new(0), OtherMembers::default());
        Self { key, field: request_field(&id), id, stream, version, other }
    }

    /// The request of a waiting call. `None` if its stream is unknown.
    pub(super) fn of_waiting(call: &WaitingRecord) -> Option<Self> {
        let stream = u128::from_str_radix(&call.stream, 16).ok()?;
        Some(Self::new(session_key(&digest(call.session.as_bytes())), call.request.clone(), stream))
    }

    /// Keeps the members of the stored record that this version does not know.
    pub(super) fn set_other(&mut self, other: OtherMembers) {
        self.other = other;
    }

    /// The version of the field.
    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    pub(super) fn set_version(&self, version: u64) {
        self.version.store(version, Ordering::Release);
    }

    /// The record of a request that `replica` runs, or that waits there.
    pub(super) fn record(&self, replica: &str, waiting: bool) -> RequestRecord {
        RequestRecord::Running(RunningRequest {
            replica: replica.to_owned(),
            id: self.id.clone(),
            stream: format!("{:x}", self.stream),
            waiting,
            other: self.other.clone(),
        })
    }
}

/// The key of the waiting calls of a replica.
pub(super) fn waiting_key(replica: &str) -> String {
    format!("waiting/{replica}")
}

/// The field of a waiting call, made of the key of its session and the field of its request there.
pub(super) fn waiting_field(session_key: &str, request_field: &str) -> String {
    format!("{session_key}/{request_field}")
}

/// The exponent of the longest pause between two attempts.
pub(super) const LONGEST_BACKOFF: u32 = 5;

/// A waiting call, as it is stored.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct WaitingRecord {
    /// The id of the session.
    pub(super) session: String,
    /// The id of the request as JSON.
    pub(super) request: String,
    pub(super) method: String,
    pub(super) params: RawJson,
    pub(super) revision: String,
    /// The caller and its scopes.
    pub(super) principal: Option<(CallerIdentity, Vec<String>)>,
    /// The stream of the request.
    pub(super) stream: String,
    pub(super) history: KeptHistory,
    #[serde(flatten)]
    pub(super) other: OtherMembers,
}

impl WaitingRecord {
    pub(super) fn principal(&self) -> Option<Principal> {
        let (identity, scopes) = self.principal.as_ref()?;
        Some(identity.to_principal().with_scopes(scopes))
    }

    pub(super) fn seal(&self, replica: &Replica, key: &str, field: &str) -> Result<bytes::Bytes, StoreError> {
        replica.seal_record(key, field, self)
    }

    pub(super) fn open(
        replica: &Replica,
        key: &str,
        field: &str,
        value: &Field,
    ) -> Result<Self, RecordError> {
        replica.open_record(key, field, &value.value)
    }
}

/// The waiting calls of dead replicas that this one has claimed, by the ids of their open questions.
#[derive(Default)]
pub(super) struct ClaimedCalls {
    by_question: Mutex<HashMap<String, Arc<ClaimedCall>>>,
    /// The fields of calls that may be claimed: the store failed.
    unsure: Mutex<HashSet<String>>,
}

/// A waiting call of a dead replica.
pub(super) struct ClaimedCall {
    /// The name of its session in the store. No other session may answer its questions.
    pub(super) session: String,
    /// Taken when an answer is there.
    pub(super) record: Mutex<Option<WaitingRecord>>,
    pub(super) registered: Arc<RegisteredRequest>,
    pub(super) waiting_version: u64,
}

impl ClaimedCalls {
    pub(super) fn insert(&self, call: &Arc<ClaimedCall>) {
        let questions = lock(&call.record).as_ref().map(|record| record.history.questions.clone());
        let mut calls = lock(&self.by_question);
        for question in questions.unwrap_or_default() {
            calls.insert(question.id, call.clone());
        }
    }

    /// Takes the call of this session that asked the question.
    pub(super) fn take(&self, session: &str, question: &str) -> Option<Arc<ClaimedCall>> {
        let mut calls = lock(&self.by_question);
        calls.get(question).filter(|call| call.session == session)?;
        calls.remove(question)
    }

    /// Removes the call of this session with this request id, which is JSON.
    pub(super) fn remove(&self, session: &str, request: &str) -> Option<Arc<ClaimedCall>> {
        let mut calls = lock(&self.by_question);
        let is_wanted = |call: &ClaimedCall| call.session == session && call.registered.id == request;
        let found = calls.values().find(|call| is_wanted(call)).cloned()?;
        calls.retain(|_, call| !is_wanted(call));
        Some(found)
    }

    /// Whether a call is claimed that asked one of the same questions.
    pub(super) fn has(&self, record: &WaitingRecord) -> bool {
        let calls = lock(&self.by_question);
        record.history.questions.iter().any(|question| calls.contains_key(&question.id))
    }

    pub(super) fn add_unsure(&self, field: &str) {
        lock(&self.unsure).insert(field.to_owned());
    }

    pub(super) fn remove_unsure(&self, field: &str) {
        lock(&self.unsure).remove(field);
    }

    /// The fields of calls that may be claimed.
    pub(super) fn unsure(&self) -> Vec<String> {
        lock(&self.unsure).iter().cloned().collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        lock(&self.by_question).is_empty()
    }

    /// The replicas that asked the questions.
    pub(super) fn askers(&self) -> Vec<String> {
        let mut askers: Vec<_> =
            lock(&self.by_question).keys().filter_map(|id| asking_replica(&Id::from(id.clone()))).collect();
        askers.sort();
        askers.dedup();
        askers
    }
}
