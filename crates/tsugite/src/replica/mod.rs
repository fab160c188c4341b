//! This process as one replica of a server whose state other processes see: its id, its lease, the messages that it
//! receives, and the values that it seals.
//!
//! A server whose store ends with the process has no replica, and none of this costs anything.

mod announcements;
mod message;
mod recent_messages;
mod record;
mod sealed;
mod suspects;

use std::collections::VecDeque;
use std::future::{Future, IntoFuture, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use announcements::Announcements;
use message::Envelope;
pub(crate) use message::ReplicaMessage;
use recent_messages::RecentMessages;
pub(crate) use record::{OtherMembers, RecordError, read_record};
pub(crate) use sealed::{NAME_DIGITS, digest};
use suspects::Suspects;

use crate::error::Chain;
use crate::lock::lock;
use crate::shared::boxed::boxed;
use crate::shared::log;
use crate::shared::seal::LazyKeyRing;
use crate::store::{Position, Recipient, Store, StoreError, StoreScope, Write};

/// This process as one replica of a server.
pub(crate) struct Replica {
    /// 64 random bits, which tell this replica from all others.
    id: u64,
    name: String,
    asker: OnceLock<String>,
    pub(crate) store: Arc<dyn Store>,
    keys: Arc<LazyKeyRing>,
    lease: Duration,
    started: AtomicBool,
    stopped: AtomicBool,
    last_number: AtomicU64,
    /// Whether the store has been asked for messages once, with or without success.
    is_receiving: watch::Sender<bool>,
    receivers: Mutex<Vec<Arc<Receiver>>>,
    recent_messages: Mutex<RecentMessages>,
    suspects: Mutex<Suspects>,
    announcements: Mutex<Announcements>,
    /// Replicas that stopped in good order, newest last.
    stopped_replicas: Mutex<VecDeque<String>>,
    /// Messages that are being handled, oldest first, with the position after them.
    handling: Mutex<VecDeque<(Position, Vec<JoinHandle<()>>)>>,
    /// The position up to which all messages are handled.
    handled: Mutex<Position>,
}

/// Handles a message. It returns work that must be done before the message counts as handled, or `None` to end its
/// subscription.
pub(crate) type Receiver = dyn Fn(&ReceivedMessage) -> Option<MessageWork> + Send + Sync;

/// Work that a message causes.
pub(crate) type MessageWork = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Something that a replica receives.
pub(crate) enum ReceivedMessage {
    /// A message of another replica.
    Message(ReplicaMessage),
    /// Messages may have been lost.
    Missed,
}

impl Replica {
    /// A replica of a server with this store. `None` if the store ends with the process, or the operating system provides no
    /// random bytes.
    pub(crate) fn new(store: Arc<dyn Store>, keys: Arc<LazyKeyRing>, lease: Duration) -> Option<Arc<Self>> {
        if store.scope() == StoreScope::Process {
            return None;
        }
        let id = u64::from_be_bytes(crate::shared::seal::random_bytes()?);
        Some(Arc::new(Self {
            id,
            name: format!("{id:016x}"),
            asker: OnceLock::new(),
            store,
            keys,
            lease,
            started: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            last_number: AtomicU64::new(0),
            is_receiving: watch::Sender::new(false),
            receivers: Mutex::default(),
            recent_messages: Mutex::default(),
            suspects: Mutex::default(),
            announcements: Mutex::default(),
            stopped_replicas: Mutex::default(),
            handling: Mutex::default(),
            handled: Mutex::default(),
        }))
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The id as the store and other replicas know it.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// A number that this replica has not used before.
    pub(crate) fn next_number(&self) -> u64 {
        self.last_number.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn lease(&self) -> Duration {
        self.lease
    }

    /// Calls `receiver` with each message from now on, until it returns `None`.
    pub(crate) fn subscribe(
        &self,
        receiver: impl Fn(&ReceivedMessage) -> Option<MessageWork> + Send + Sync + 'static,
    ) {
        lock(&self.receivers).push(Arc::new(receiver));
    }

    /// Starts to renew the lease and to receive messages, once. Nothing happens outside of a runtime.
    pub(crate) fn start(self: &Arc<Self>) {
        if self.started.load(Ordering::Acquire) {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if !self.started.swap(true, Ordering::AcqRel) {
            runtime.spawn(boxed(renew_lease(Arc::downgrade(self))));
            runtime.spawn(boxed(receive_messages(Arc::downgrade(self))));
        }
    }

    fn is_started(&self) -> bool {
        self.started.load(Ordering::Acquire)
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Whether messages of other replicas are received from now on, or the store does not give them.
    pub(crate) fn is_receiving(&self) -> bool {
        *self.is_receiving.borrow()
    }

    /// Starts, and waits until messages are received. A client that listens before would miss a change at another replica.
    pub(crate) async fn wait_until_receiving(self: Arc<Self>) {
        self.start();
        // The sender is in `self`.
        let _ = self.is_receiving.subscribe().wait_for(|is_receiving| *is_receiving).await;
    }

    /// Tells other replicas that this one has stopped in good order.
    pub(crate) async fn stop(&self) {
        if self.stopped.swap(true, Ordering::AcqRel) || !self.started.load(Ordering::Acquire) {
            return;
        }
        let left = ReplicaMessage::ReplicaStopped { replica: self.name.clone() };
        if let Some(write) = self.send(Recipient::All, &left)
            && let Err(error) = self.store.commit(&[write]).await
        {
            log::warn!(error = %Chain(&*error), "other replicas were not told that this one stops");
        }
    }

    /// The write that sends a message. `None` if it cannot be sealed.
    pub(crate) fn send<'a>(&self, to: Recipient<'a>, message: &ReplicaMessage) -> Option<Write<'a>> {
        let number = Some(self.next_number());
        let envelope = Envelope { from: self.name.clone(), number, message: message.clone() };
        let plain = serde_json::to_vec(&envelope).ok()?;
        let message = self.seal(MESSAGES, "", &plain).ok()?;
        Some(Write::Send { to, message, ttl: MESSAGE_TTL })
    }

    /// Whether a replica is dead: it stopped in good order, or its lease has stayed away for a whole lease time since this
    /// replica first noticed.
    pub(crate) async fn is_dead(&self, replica: &str) -> Result<bool, StoreError> {
        if replica == self.name {
            return Ok(false);
        }
        // Only one process has the store, so every other one has ended, whatever is left of its lease.
        if self.store.scope() == StoreScope::Restart {
            return Ok(true);
        }
        if lock(&self.stopped_replicas).iter().any(|stopped| stopped == replica) {
            return Ok(true);
        }
        if self.store.has_lease(replica).await? {
            lock(&self.suspects).clear(replica);
            return Ok(false);
        }
        Ok(lock(&self.suspects).note(replica, self.lease, Instant::now()))
    }

    /// Removes what was handled and returns the position up to which nothing is open.
    fn handled_position(&self) -> Position {
        let mut handling = lock(&self.handling);
        let mut handled = lock(&self.handled);
        while handling.front().is_some_and(|(_, tasks)| tasks.iter().all(JoinHandle::is_finished)) {
            if let Some((position, _)) = handling.pop_front() {
                *handled = position;
            }
        }
        handled.clone()
    }

    fn receive(&self, received: &ReceivedMessage) -> Vec<JoinHandle<()>> {
        let receivers = lock(&self.receivers).clone();
        let (mut tasks, mut ended) = (Vec::new(), Vec::new());
        for receiver in receivers {
            match receiver(received) {
                Some(work) => tasks.push(tokio::spawn(work)),
                None => ended.push(receiver),
            }
        }
        if !ended.is_empty() {
            lock(&self.receivers).retain(|known| !ended.iter().any(|ended| Arc::ptr_eq(known, ended)));
        }
        tasks
    }

    fn open_envelope(&self, sealed: &Bytes) -> Option<Envelope> {
        serde_json::from_slice(&self.open(MESSAGES, "", sealed)?).ok()
    }

    /// Opens a message of another replica, unless it was received before.
    fn open_message(&self, sealed: &Bytes) -> Option<ReplicaMessage> {
        let envelope = self.open_envelope(sealed).filter(|envelope| envelope.from != self.name)?;
        if let Some(number) = envelope.number
            && !lock(&self.recent_messages).insert(&envelope.from, number)
        {
            return None;
        }
        if let ReplicaMessage::ReplicaStopped { replica } = &envelope.message {
            let mut stopped = lock(&self.stopped_replicas);
            stopped.push_back(replica.clone());
            if stopped.len() > MAX_STOPPED {
                stopped.pop_front();
            }
        }
        Some(envelope.message)
    }

    /// The messages that are stored for another replica.
    pub(crate) async fn messages_to(&self, replica: &str) -> Result<Vec<ReplicaMessage>, StoreError> {
        let sealed = self.store.inbox(replica).await?;
        let envelopes = sealed.iter().filter_map(|sealed| self.open_envelope(sealed));
        Ok(envelopes.map(|envelope| envelope.message).collect())
    }
}

/// How long the store keeps a lease that is not renewed. With the whole lease time for which it must stay away, and the
/// time between two looks at it, a replica that has died is found dead within two lease times.
fn lease_ttl(lease: Duration) -> Duration {
    lease / 4 * 3
}

/// Renews the lease until the replica is dropped or stopped.
async fn renew_lease(replica: Weak<Replica>) {
    loop {
        let every = {
            let Some(replica) = replica.upgrade() else { return };
            if replica.stopped.load(Ordering::Acquire) {
                return;
            }
            let handled = replica.handled_position();
            if let Err(error) =
                replica.store.renew_lease(&replica.name, lease_ttl(replica.lease), &handled).await
                && log::is_first("lease", &error.to_string())
            {
                log::warn!(error = %Chain(&*error), "the lease of this replica was not renewed");
            }
            replica.lease / 4
        };
        tokio::time::sleep(every).await;
    }
}

/// Receives messages until the replica is dropped.
async fn receive_messages(replica: Weak<Replica>) {
    let mut position = Position::default();
    let mut failures: u32 = 0;
    // What was sent to all before the first success is not received, and clients may listen since the first attempt.
    let mut began_late = false;
    loop {
        let mut receiving = {
            let Some(replica) = replica.upgrade() else { return };
            pin!(replica.store.receive(&replica.name, &position).into_future())
        };
        // The replica is not kept alive while it waits.
        let mut dropped = pin!(dropped(&replica));
        let received = poll_fn(|cx| match receiving.as_mut().poll(cx) {
            Poll::Ready(received) => Poll::Ready(Some(received)),
            Poll::Pending => dropped.as_mut().poll(cx).map(|()| None),
        });
        let Some(received) = received.await else { return };
        let Some(replica) = replica.upgrade() else { return };
        replica.is_receiving.send_if_modified(|is_receiving| !std::mem::replace(is_receiving, true));
        match received {
            Ok(received) => {
                failures = 0;
                position = received.position;
                let missed = received.missed || std::mem::take(&mut began_late);
                if missed || !received.messages.is_empty() {
                    log::debug!(
                        replica = replica.name,
                        messages = received.messages.len(),
                        missed,
                        position = position.0,
                        "messages of other replicas were received"
                    );
                }
                let mut tasks = Vec::new();
                if missed {
                    tasks.extend(replica.receive(&ReceivedMessage::Missed));
                }
                for message in received.messages.iter().filter_map(|sealed| replica.open_message(sealed)) {
                    tasks.extend(replica.receive(&ReceivedMessage::Message(message)));
                }
                lock(&replica.handling).push_back((position.clone(), tasks));
            }
            Err(error) => {
                if log::is_first("receive", &error.to_string()) {
                    log::warn!(error = %Chain(&*error), "messages of other replicas were not received");
                }
                drop(replica);
                began_late |= position == Position::default();
                failures = (failures + 1).min(5);
                tokio::time::sleep(Duration::from_millis(50 << failures)).await;
            }
        }
    }
}

/// Waits until the replica is dropped.
async fn dropped(replica: &Weak<Replica>) {
    while replica.strong_count() > 0 {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// The key that messages are sealed for.
const MESSAGES: &str = "message";
/// How long a message is kept for a replica that does not read.
const MESSAGE_TTL: Duration = Duration::from_secs(15 * 60);
/// The most replicas that are remembered after they stopped. Older ones have no lease any more.
const MAX_STOPPED: usize = 100;
