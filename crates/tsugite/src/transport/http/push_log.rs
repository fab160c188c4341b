//! Messages that belong to no request, in a session that several replicas serve.
//!
//! Any replica may have such a message. It is appended to one log of the session, and the replica that has the GET stream
//! of the client sends it from there. That replica alone is told of changes for the session, so that each change is sent
//! once.

use std::sync::{Arc, Weak};
use std::task::{Context, Wake, Waker};

use tokio::runtime::Handle;

use super::event_stream::push_log_key;
use super::forwarding::ChangeError;
use super::http_state::HttpState;
use super::push_writer::PushWriter;
use super::sessions::HttpSession;
use super::shared_session::{PUSH_FIELD, PushStream, SUBSCRIPTION_FIELDS, SharedSession, SubscriptionRecord};
use crate::replica::{OtherMembers, Replica, ReplicaMessage, digest};
use crate::shared::boxed::boxed;
use crate::shared::log;
use crate::store::{Conflict, Precondition, Recipient, StoreError, Write};

/// Stores the messages of a session's outbound queue when they arrive.
pub(super) struct PushWaker {
    state: Weak<HttpState>,
    session: Weak<HttpSession>,
    runtime: Handle,
    writer: tokio::sync::Mutex<PushWriter>,
}

impl PushWaker {
    /// Watches the outbound queue of a session.
    pub(super) fn register(state: &Arc<HttpState>, session: &Arc<HttpSession>) {
        let (Ok(runtime), Some(replica)) = (Handle::try_current(), &state.replica) else { return };
        let writer = tokio::sync::Mutex::new(PushWriter::new(replica));
        let waker = Self { state: Arc::downgrade(state), session: Arc::downgrade(session), runtime, writer };
        Arc::new(waker).watch(session);
    }

    fn watch(self: Arc<Self>, session: &HttpSession) {
        let outbox = session.connection.outbox();
        let waker = Waker::from(self.clone());
        if outbox.poll_readable(&mut Context::from_waker(&waker)).is_ready() && !outbox.is_closed() {
            self.wake();
        }
    }
}

impl Wake for PushWaker {
    fn wake(self: Arc<Self>) {
        let runtime = self.runtime.clone();
        runtime.spawn(boxed(async move {
            let (Some(state), Some(session)) = (self.state.upgrade(), self.session.upgrade()) else { return };
            let outbox = session.connection.outbox();
            let (mut writer, mut lines) = (self.writer.lock().await, Vec::new());
            while !outbox.is_closed() && outbox.take_all(&mut lines) {
                writer.append(&state, &session, std::mem::take(&mut lines)).await;
            }
            drop(writer);
            if !outbox.is_closed() {
                self.watch(&session);
            }
        }));
    }
}

impl HttpState {
    /// Makes this replica the one that is told of changes for a session. Returns the number of the last event that the
    /// client has.
    pub(super) async fn take_push_stream(&self, session: &HttpSession) -> Result<u64, StoreError> {
        let (Some(replica), Some(shared)) = (&self.replica, &session.shared) else { return Ok(0) };
        // A request of the session that reads the record meanwhile must not leave the stream to the replica before.
        let taker = shared.begin_to_take();
        // The replica before stops when it reads its message, so this one begins before it is sent.
        session.connection.set_push_active(true);
        self.load_subscriptions(replica, shared, session).await?;
        let mut before = shared.push_with_version();
        loop {
            let mut taken =
                before.as_ref().map_or_else(|| PushStream::new(replica.name()), |(push, _)| push.clone());
            taken.replica = replica.name().to_owned();
            let mut writes =
                vec![self.set_push(shared, &taken, before.as_ref().map(|(_, version)| *version))?];
            let message = ReplicaMessage::PushStreamTaken {
                session: shared.digest.clone(),
                replica: replica.name().to_owned(),
            };
            if let Some((before, _)) = before.as_ref().filter(|(before, _)| before.replica != replica.name())
            {
                writes.extend(replica.send(Recipient::Replica(&before.replica), &message));
            }
            match self.store.commit(&writes).await? {
                Ok(committed) => {
                    log::debug!(session = shared.digest, replica = replica.name(), "a GET stream is taken");
                    shared.set_push(taken, committed.version);
                    break;
                }
                // Another replica has taken it meanwhile.
                Err(Conflict { current: Some(current), .. }) => {
                    before = Some((PushStream::parse(&current)?, current.version));
                }
                Err(Conflict { current: None, .. }) => return Err("the session has ended".into()),
            }
        }
        // Those that were made while the replica before was told of them.
        self.load_subscriptions(replica, shared, session).await?;
        drop(taker);
        self.leave_push_stream(session);
        Ok(shared.push().map_or(0, |push| push.delivered))
    }

    /// Stops to be told of changes for a session, if another replica is.
    pub(super) fn leave_push_stream(&self, session: &HttpSession) {
        let (Some(replica), Some(shared)) = (&self.replica, &session.shared) else { return };
        if session.connection.is_push_active()
            && shared.push_holder().is_some_and(|holder| holder != replica.name())
        {
            log::debug!(
                session = shared.digest,
                replica = replica.name(),
                "a GET stream is left to another replica"
            );
            session.connection.set_push_active(false);
            // A stream that is not told of changes must not stay open, whatever the store says next.
            self.logs.end_followers(&push_log_key(&shared.digest));
        }
    }

    /// Notes the replica that has the stream of a session from now on.
    pub(super) fn push_stream_taken(&self, session: &HttpSession, by: &str) {
        let Some(shared) = &session.shared else { return };
        let mut push = shared.push().unwrap_or_else(|| PushStream::new(by));
        push.replica = by.to_owned();
        // No version of the field is 0, so this replica must read it before it writes it.
        shared.set_push(push, 0);
        self.leave_push_stream(session);
    }

    /// The replica that has the stream of a session, if it is another one.
    pub(super) fn other_push_reader(&self, session: &HttpSession) -> Option<String> {
        let reader = session.shared.as_ref()?.push()?.replica;
        Some(reader).filter(|reader| self.replica.as_ref().is_some_and(|own| own.name() != reader))
    }

    fn set_push<'a>(
        &self,
        shared: &'a SharedSession,
        push: &PushStream,
        version: Option<u64>,
    ) -> Result<Write<'a>, StoreError> {
        Ok(Write::Set {
            key: &shared.key,
            field: PUSH_FIELD,
            value: push.to_bytes()?,
            precondition: version.map_or(Precondition::FieldAbsentInRecord, Precondition::FieldVersion),
            ttl: self.session_ttl(),
        })
    }

    /// Notes which event a client has, unless another replica has taken the stream. A failure only means that some events
    /// are sent again.
    pub(super) async fn note_delivered(&self, session: &HttpSession, delivered: u64) {
        let (Some(replica), Some(shared)) = (&self.replica, &session.shared) else { return };
        let push = shared.push_with_version();
        let Some((push, version)) = push.filter(|(push, _)| push.replica == replica.name()) else { return };
        if push.delivered == delivered {
            return;
        }
        let push = PushStream { delivered, ..push };
        if let Ok(write) = self.set_push(shared, &push, Some(version))
            && let Ok(Ok(committed)) = self.store.commit(&[write]).await
        {
            shared.set_push(push, committed.version);
        }
    }

    /// Subscribes this replica to the resources of a session, after messages about them may have been lost.
    pub(super) async fn reload_subscriptions(&self, session: &HttpSession) -> Result<(), StoreError> {
        let (Some(replica), Some(shared)) = (&self.replica, &session.shared) else { return Ok(()) };
        self.load_subscriptions(replica, shared, session).await
    }

    /// Subscribes this replica to the resources of a session.
    async fn load_subscriptions(
        &self,
        replica: &Replica,
        shared: &SharedSession,
        session: &HttpSession,
    ) -> Result<(), StoreError> {
        let fields = self.store.list(&shared.key, SUBSCRIPTION_FIELDS, self.config.max_subscriptions).await?;
        let fields = fields.into_iter().filter(|(field, _)| field.starts_with(SUBSCRIPTION_FIELDS));
        for (field, value) in fields {
            let record = replica.open_record(&shared.key, &field, &value.value);
            if let Ok(SubscriptionRecord { uri, .. }) = record {
                session.connection.subscribe_restored(uri);
            }
        }
        Ok(())
    }

    /// The record of a subscription, with what is stored of it. Other replicas have subscriptions that this one does not know.
    async fn new_subscription(
        &self,
        replica: &Replica,
        shared: &SharedSession,
        (field, uri): (&str, &str),
    ) -> Result<SubscriptionRecord, ChangeError> {
        let max = self.config.max_subscriptions;
        let mut fields = self.store.list(&shared.key, SUBSCRIPTION_FIELDS, max).await?;
        fields.retain(|(known, _)| known.starts_with(SUBSCRIPTION_FIELDS));
        match fields.iter().find(|(known, _)| known == field) {
            Some((_, value)) => {
                let known = replica.open_record(&shared.key, field, &value.value);
                known.map_err(|error| ChangeError::Store(error.into()))
            }
            None if fields.len() < max => {
                Ok(SubscriptionRecord { uri: uri.to_owned(), other: OtherMembers::default() })
            }
            None => Err(ChangeError::TooManySubscriptions),
        }
    }

    /// Stores a subscription, or the end of one, and tells the replica that is told of changes.
    pub(super) async fn store_subscription(
        &self,
        session: &HttpSession,
        uri: &str,
        subscribed: bool,
    ) -> Result<(), ChangeError> {
        let (Some(replica), Some(shared)) = (&self.replica, &session.shared) else { return Ok(()) };
        let field = format!("{SUBSCRIPTION_FIELDS}{}", digest(uri.as_bytes()));
        let record = match subscribed {
            true => {
                Some(self.new_subscription(replica, shared, (&field, uri)).await.inspect_err(|error| {
                    if matches!(error, ChangeError::TooManySubscriptions) {
                        session.connection.unsubscribe(uri);
                    }
                })?)
            }
            false => None,
        };
        let precondition = Precondition::RecordExists;
        let message = ReplicaMessage::SubscriptionChanged {
            session: shared.digest.clone(),
            uri: uri.to_owned(),
            subscribed,
        };
        let reader = shared.push().map(|push| push.replica);
        let mut writes = vec![match &record {
            Some(record) => {
                let value = replica.seal_record(&shared.key, &field, record)?;
                let ttl = self.session_ttl();
                Write::Set { key: &shared.key, field: &field, value, precondition, ttl }
            }
            None => Write::Remove { key: &shared.key, field: &field, precondition: Precondition::None },
        }];
        if let Some(reader) = reader.as_deref().filter(|reader| *reader != replica.name()) {
            writes.extend(replica.send(Recipient::Replica(reader), &message));
        }
        let committed = self.store.commit(&writes).await?;
        committed.map_err(|_| StoreError::from("the session has ended"))?;
        if reader.is_none() && subscribed {
            self.take_push_stream(session).await?;
        }
        Ok(())
    }
}
