//! Events that the replicas of one server publish to each other: changes, ended sessions, and a client's response to a
//! request that another replica sent.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use serde::{Deserialize, Serialize};
use tsugite_core::jsonrpc::RawJson;

/// A callback that receives a topic and a message. It returns false to end its subscription.
pub type BusSubscriber = Box<dyn Fn(&str, &[u8]) -> bool + Send + Sync>;

/// Carries events between the replicas of a server. A publisher may receive its own events.
pub trait Bus: Send + Sync + 'static {
    /// Publishes a message to every subscriber. Must not block: a message that cannot be sent at once is queued or
    /// lost.
    fn publish(&self, topic: &str, message: &[u8]);

    /// Calls `subscriber` with each message published from now on, until it returns false.
    fn subscribe(&self, subscriber: BusSubscriber);
}

/// A bus for replicas in one process. Clones share their subscribers.
#[derive(Clone, Default)]
pub struct MemoryBus(Arc<Mutex<Vec<Arc<BusSubscriber>>>>);

impl MemoryBus {
    /// A bus without subscribers.
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<BusSubscriber>>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Bus for MemoryBus {
    fn publish(&self, topic: &str, message: &[u8]) {
        let subscribers = self.lock().clone();
        let gone: Vec<_> = subscribers.into_iter().filter(|receive| !receive(topic, message)).collect();
        if !gone.is_empty() {
            self.lock().retain(|known| !gone.iter().any(|gone| Arc::ptr_eq(known, gone)));
        }
    }

    fn subscribe(&self, subscriber: BusSubscriber) {
        self.lock().push(Arc::new(subscriber));
    }
}

impl std::fmt::Debug for MemoryBus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryBus").field("subscribers", &self.lock().len()).finish()
    }
}

/// An event between replicas.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum BusEvent {
    /// Lists have changed.
    ListsChanged { tools: bool, prompts: bool, resources: bool },
    /// A resource has changed.
    ResourceUpdated { uri: String },
    /// A session has ended.
    SessionEnded { session: String },
    /// The client of a session has sent a response.
    ClientResponse { session: String, response: String },
}

#[derive(Serialize, Deserialize)]
struct Envelope {
    from: u64,
    event: BusEvent,
}

/// The bus of one server, if it has one.
#[derive(Default)]
pub(crate) struct BusHandle(OnceLock<(Arc<dyn Bus>, String, u64)>);

impl BusHandle {
    /// Sets the bus and its topic. The first call wins.
    pub(crate) fn set(&self, bus: Arc<dyn Bus>, topic: String) {
        let from = RandomState::new().hash_one(std::process::id());
        drop(self.0.set((bus, topic, from)));
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.get().is_some()
    }

    pub(crate) fn publish(&self, event: BusEvent) {
        let Some((bus, topic, from)) = self.0.get() else { return };
        if let Ok(envelope) = RawJson::from_value(&Envelope { from: *from, event }) {
            bus.publish(topic, envelope.text().as_bytes());
        }
    }

    /// Calls `receive` with the events of other replicas, until it returns false.
    pub(crate) fn subscribe(&self, receive: impl Fn(BusEvent) -> bool + Send + Sync + 'static) {
        let Some((bus, known, own)) = self.0.get() else { return };
        let (known, own) = (known.clone(), *own);
        bus.subscribe(Box::new(move |topic, message| {
            if topic != known {
                return true;
            }
            let envelope = std::str::from_utf8(message).ok().map(serde_json::from_str::<Envelope>);
            match envelope {
                Some(Ok(envelope)) if envelope.from != own => receive(envelope.event),
                // Published by this replica, or by a version whose events are unknown here.
                _ => true,
            }
        }));
    }
}
