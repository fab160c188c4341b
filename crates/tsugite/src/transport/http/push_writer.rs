//! Appends messages that belong to no request to the log of their session, each once.
//!
//! A commit that failed may have happened, or happen later. So each append also writes a field that belongs to its writer,
//! under the version of the append before: of several attempts only one can happen, and a conflict says that one has.

use std::time::Duration;

use bytes::Bytes;

use super::event_stream::{PUSH_STREAM, push_log_key};
use super::http_state::HttpState;
use super::sessions::HttpSession;
use crate::error::Chain;
use crate::replica::{Replica, ReplicaMessage};
use crate::shared::log;
use crate::store::{Append, Conflict, Precondition, Recipient, Write};

/// The only writer of its field.
pub(super) struct PushWriter {
    field: String,
    /// The version of the field after the last append.
    version: Option<u64>,
}

impl PushWriter {
    pub(super) fn new(replica: &Replica) -> Self {
        Self { field: format!("{}-{}", replica.name(), replica.next_number()), version: None }
    }

    /// Appends messages, one per line, and tells the replica that sends them.
    pub(super) async fn append(&mut self, state: &HttpState, session: &HttpSession, lines: Vec<u8>) {
        let (Some(replica), Some(shared)) = (&state.replica, &session.shared) else { return };
        let log = push_log_key(&shared.digest);
        let Ok(data) = replica.seal(&log, "", &lines) else { return };
        let count = memchr::memchr_iter(b'\n', &lines).count() as u64;
        let writers = format!("pushed/{}", shared.digest);
        let appended = ReplicaMessage::EventsAppended {
            session: shared.digest.clone(),
            stream: format!("{PUSH_STREAM:x}"),
        };
        let mut may_have_happened = false;
        for attempt in 0..ATTEMPTS {
            let reader = state.other_push_reader(session);
            let mut writes = vec![
                Write::Set {
                    key: &writers,
                    field: &self.field,
                    value: Bytes::new(),
                    precondition: self.version.map_or(Precondition::FieldAbsent, Precondition::FieldVersion),
                    ttl: state.session_ttl(),
                },
                Write::Append(Append {
                    log: &log,
                    owner: replica.name(),
                    replaces: None,
                    first: None,
                    count,
                    data: data.clone(),
                    ends: false,
                    limits: state.logs.limits(),
                }),
            ];
            if let Some(reader) = &reader {
                writes.extend(replica.send(Recipient::Replica(reader), &appended));
            }
            match state.store.commit(&writes).await {
                Ok(Ok(committed)) => {
                    self.version = Some(committed.version);
                    log::debug!(session = shared.digest, count, reader = ?reader, "messages for a session are stored");
                    return state.logs.wake_followers(&log);
                }
                Ok(Err(Conflict { write: 0, current })) => {
                    self.version = current.map(|field| field.version);
                    if may_have_happened && self.version.is_some() {
                        return state.logs.wake_followers(&log);
                    }
                    // The field has expired, or the store has lost its data.
                    may_have_happened = false;
                }
                // The log has ended.
                Ok(Err(_)) => return,
                Err(error) => {
                    may_have_happened = true;
                    log::warn!(error = %Chain(&*error), "messages for a session are not stored yet");
                    // Soon after the store is back, since later messages wait for these.
                    tokio::time::sleep(Duration::from_millis(50 << attempt.min(4))).await;
                }
            }
        }
        // The last append may still happen: under another field it does not count as the next one.
        *self = Self::new(replica);
    }
}

/// About a minute.
const ATTEMPTS: u32 = 75;
