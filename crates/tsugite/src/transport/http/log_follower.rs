//! Sends a stream to the client from its log, wherever the events come from.
//!
//! A task reads the log and waits for news of it. If the replica that wrote the log has died, the task ends the stream
//! with an error response for each request that was running there.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tsugite_core::jsonrpc::{Id, write};
use tsugite_core::revision::{Revision, RpcError};

use super::event_logs::Follower;
use super::event_stream::{PUSH_STREAM, encode_log, log_key};
use super::http_state::HttpState;
use super::sessions::SessionGuard;
use super::shared_session::{REQUEST_FIELDS, RequestRecord};
use super::sse_body::{KeepAlive, SseBody};
use crate::error::Chain;
use crate::replica::{Replica, ReplicaMessage};
use crate::server::limits::LimitPermit;
use crate::shared::boxed::boxed;
use crate::shared::log;
use crate::store::{Append, Batch, LogRead, Precondition, Recipient, StoreError, Write};

/// A stream of the client that is sent from its log.
pub(super) struct FollowedSseBody {
    first: Option<Bytes>,
    events: mpsc::Receiver<Bytes>,
    keep_alive: KeepAlive,
    _open_stream: LimitPermit,
}

impl SseBody for FollowedSseBody {
    fn poll_events(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(first));
        }
        match self.events.poll_recv(cx) {
            Poll::Ready(events) => {
                self.keep_alive.reset();
                Poll::Ready(events)
            }
            Poll::Pending => self.keep_alive.poll(cx).map(Some),
        }
    }
}

/// Follows the log of a stream after an event.
pub(super) struct LogFollower {
    pub(super) state: Arc<HttpState>,
    pub(super) replica: Arc<Replica>,
    pub(super) session: SessionGuard,
    pub(super) stream: u128,
    pub(super) after: u64,
    /// Whether events that are no longer kept may be left out at the beginning: the client has not named one.
    pub(super) may_skip: bool,
    pub(super) revision: Revision,
}

impl LogFollower {
    /// The key of the log.
    pub(super) fn log(&self) -> String {
        log_key(self.session.log_name(), self.stream)
    }

    /// Starts to follow. The stream begins with `first`.
    pub(super) fn start(self, first: Option<Bytes>, open: LimitPermit) -> FollowedSseBody {
        let (sender, events) = mpsc::channel(1);
        let keep_alive = KeepAlive::new(&self.state);
        let follower = self.state.logs.follow(&self.log());
        tokio::spawn(boxed(self.follow(follower, sender)));
        FollowedSseBody { first, events, keep_alive, _open_stream: open }
    }

    async fn follow(mut self, follower: Arc<Follower>, events: mpsc::Sender<Bytes>) {
        let log = self.log();
        let (mut failing_since, mut noted_at) = (None, Instant::now());
        // Another replica may have taken the stream before there was a follower to end.
        while !self.is_taken() {
            let mut wait = LONGEST_WAIT;
            match self.state.store.read_log(&log, self.after).await {
                Ok(Some(read)) => {
                    failing_since = None;
                    match self.send(&log, read, &events).await {
                        Ok(Progress::Waiting) => {}
                        Ok(Progress::WaitingFor(another)) => wait = another,
                        Ok(Progress::Ended) => break,
                        Err(error) => {
                            log::warn!(error = %Chain(&*error), "a stream is followed later");
                            wait = RETRY;
                        }
                    }
                }
                // The log of messages that belong to no request begins with the first of them, also after it has expired.
                Ok(None) if self.stream == PUSH_STREAM => self.after = 0,
                Ok(None) => break,
                Err(error) => {
                    wait = RETRY;
                    let since = *failing_since.get_or_insert_with(Instant::now);
                    if since.elapsed() >= GIVE_UP_AFTER {
                        log::error!(error = %Chain(&*error), "a stream could not be read; it ends");
                        break;
                    }
                }
            }
            log::debug!(log, after = self.after, "a stream was read");
            follower.note_sent(self.after);
            tokio::select! {
                () = follower.changed() => {}
                () = tokio::time::sleep(wait) => {}
                () = self.session.connection.closed() => break,
                () = events.closed() => break,
            }
            if follower.has_ended() || self.state.is_closing() {
                break;
            }
            if self.stream == PUSH_STREAM && noted_at.elapsed() >= LONGEST_WAIT {
                noted_at = Instant::now();
                self.state.note_delivered(&self.session, self.after).await;
            }
        }
        log::debug!(
            log,
            after = self.after,
            replaced = follower.has_ended(),
            "a stream is no longer followed"
        );
        if self.stream == PUSH_STREAM && !follower.has_ended() {
            self.state.note_delivered(&self.session, self.after).await;
        }
    }

    /// Whether another replica has the stream for messages that belong to no request.
    fn is_taken(&self) -> bool {
        self.stream == PUSH_STREAM && self.state.other_push_reader(&self.session).is_some()
    }

    /// Sends what was read.
    async fn send(
        &mut self,
        log: &str,
        read: LogRead,
        events: &mpsc::Sender<Bytes>,
    ) -> Result<Progress, StoreError> {
        // Events that the client needs are no longer there.
        if read.trimmed && !self.may_skip {
            return Ok(Progress::Ended);
        }
        self.may_skip = false;
        let Some(batches) = open_batches(&self.replica, log, &read.batches) else {
            return Ok(Progress::Ended);
        };
        if read.last < self.after {
            // The log has expired, and begun again.
            self.after = 0;
        }
        let text = encode_log(self.stream, &batches, self.after);
        if !text.is_empty() && events.send(text).await.is_err() {
            return Ok(Progress::Ended);
        }
        self.after = self.after.max(read.last);
        if read.ended {
            return Ok(Progress::Ended);
        }
        if self.stream == PUSH_STREAM || read.owner == self.replica.name() {
            return Ok(Progress::Waiting);
        }
        if self.replica.is_dead(&read.owner).await? && self.end_for_dead_replica(log, &read).await? {
            // The events are read in the next turn.
            self.state.logs.wake_followers(log);
        }
        Ok(Progress::WaitingFor(self.replica.lease() / 10))
    }

    /// Ends the stream of a replica that has died with an error for each request that it answered. Returns false if a
    /// replica continues it.
    async fn end_for_dead_replica(&self, log: &str, read: &LogRead) -> Result<bool, StoreError> {
        let Some(shared) = &self.session.shared else { return Ok(false) };
        let stream = format!("{:x}", self.stream);
        let (mut lines, mut fields) = (Vec::new(), Vec::new());
        for (field, value) in self.state.store.list(&shared.key, REQUEST_FIELDS, MAX_REQUESTS).await? {
            if !field.starts_with(REQUEST_FIELDS) {
                break;
            }
            let running = match RequestRecord::open(&self.replica, &shared.key, &field, &value) {
                Some(RequestRecord::Running(running)) => running,
                // A replica that can read it ends the stream.
                Some(RequestRecord::Unreadable) => return Ok(false),
                Some(RequestRecord::Cancelled { .. }) | None => continue,
            };
            if running.stream == stream {
                let runner = &running.replica;
                // Its handler waits for an answer: this replica or another one continues it, or does already and has not
                // written yet.
                if running.waiting || *runner != read.owner && !self.replica.is_dead(runner).await? {
                    return Ok(false);
                }
                let id: Option<Id<'static>> = serde_json::from_str(&running.id).ok();
                let error = RpcError::internal_with_message(LOST);
                let error = error.to_error_object(self.revision);
                write::error(&mut lines, id.as_ref(), self.revision.writes_null_id(), &error);
                lines.push(b'\n');
                fields.push((field, value.version));
            }
        }
        let count = memchr::memchr_iter(b'\n', &lines).count() as u64;
        let append = Append {
            log,
            owner: self.replica.name(),
            replaces: Some(&read.owner),
            first: Some(read.last + 1),
            count,
            data: self.replica.seal(log, "", &lines)?,
            ends: true,
            limits: self.state.logs.limits_at_end(),
        };
        let mut writes = vec![Write::Append(append)];
        writes.extend(fields.iter().map(|(field, version)| Write::Remove {
            key: &shared.key,
            field,
            precondition: Precondition::FieldVersion(*version),
        }));
        // In a conflict another replica has ended the stream, or its owner lives.
        Ok(self.state.store.commit(&writes).await?.is_ok())
    }

    /// Asks the replica that writes the stream to tell this one of new events.
    pub(super) async fn announce(&self, owner: &str) -> Result<(), StoreError> {
        if owner == self.replica.name() {
            return Ok(());
        }
        let followed = ReplicaMessage::StreamFollowed {
            session: self.session.log_name().to_owned(),
            stream: format!("{:x}", self.stream),
            replica: self.replica.name().to_owned(),
        };
        let Some(write) = self.replica.send(Recipient::Replica(owner), &followed) else { return Ok(()) };
        self.state.store.commit(&[write]).await.map(drop)
    }
}

enum Progress {
    /// For news.
    Waiting,
    /// For news, or until it is time to see whether the owner is alive.
    WaitingFor(Duration),
    Ended,
}

/// Opens the events of a log. `None` if one was sealed with a key that is unknown here.
pub(super) fn open_batches(replica: &Replica, log: &str, batches: &[Batch]) -> Option<Vec<Batch>> {
    let open = |batch: &Batch| {
        let data = replica.open(log, "", &batch.data)?;
        Some(Batch { first: batch.first, last: batch.last, data: Bytes::from(data) })
    };
    batches.iter().map(open).collect()
}

/// The message of the error that ends the stream of a replica that has died.
const LOST: &str =
    "Internal error: the server process that ran this request has ended; the request may have run";
const MAX_REQUESTS: usize = 10_000;
/// How long a log is not read if there is no news of it. Messages are not lost without notice, so this is for the case that
/// a replica could not send one.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_millis(200);
const GIVE_UP_AFTER: Duration = Duration::from_secs(60);
