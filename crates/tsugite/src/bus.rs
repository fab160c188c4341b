//! News that every replica of a server should hear: what has changed, which session has ended, and answers of a client to a
//! question that another replica asked.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use serde::{Deserialize, Serialize};
use tsugite_core::jsonrpc::RawJson;

/// Hears what is published, under which topic; says whether it is still there to hear.
pub type BusSubscriber = Box<dyn Fn(&str, &[u8]) -> bool + Send + Sync>;

/// Carries news between replicas. Whoever publishes may hear its own news.
pub trait Bus: Send + Sync + 'static {
    /// Tells everybody. Never waits: what cannot be told at once is told later, or lost.
    fn publish(&self, topic: &str, message: &[u8]);

    /// Calls with everything that is published from now on, until it says that it is no longer there.
    fn subscribe(&self, hearing: BusSubscriber);
}

/// A bus for replicas in one process. Clones are the same one.
#[derive(Clone, Default)]
pub struct MemoryBus(Arc<Mutex<Vec<Arc<BusSubscriber>>>>);

impl MemoryBus {
    /// One that nobody listens to yet.
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<BusSubscriber>>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Bus for MemoryBus {
    fn publish(&self, topic: &str, message: &[u8]) {
        let hearing = self.lock().clone();
        let gone: Vec<_> = hearing.into_iter().filter(|hear| !hear(topic, message)).collect();
        if !gone.is_empty() {
            self.lock().retain(|known| !gone.iter().any(|gone| Arc::ptr_eq(known, gone)));
        }
    }

    fn subscribe(&self, hearing: BusSubscriber) {
        self.lock().push(Arc::new(hearing));
    }
}

impl std::fmt::Debug for MemoryBus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryBus").field("hearing", &self.lock().len()).finish()
    }
}

/// What replicas tell each other.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum BusEvent {
    /// These lists have changed.
    ListsChanged { tools: bool, prompts: bool, resources: bool },
    /// This resource has changed.
    ResourceUpdated { uri: String },
    /// This session has ended.
    SessionEnded { session: String },
    /// The client of this session has answered.
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
    /// Uses a bus under a topic of its own. The first one stays.
    pub(crate) fn set(&self, bus: Arc<dyn Bus>, topic: String) {
        let from = RandomState::new().hash_one(std::process::id());
        drop(self.0.set((bus, topic, from)));
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.get().is_some()
    }

    pub(crate) fn publish(&self, news: BusEvent) {
        let Some((bus, topic, from)) = self.0.get() else { return };
        if let Ok(letter) = RawJson::from_value(&Envelope { from: *from, event: news }) {
            bus.publish(topic, letter.text().as_bytes());
        }
    }

    /// Hears what other replicas tell, for as long as `hear` says.
    pub(crate) fn subscribe(&self, hear: impl Fn(BusEvent) -> bool + Send + Sync + 'static) {
        let Some((bus, known, own)) = self.0.get() else { return };
        let (known, own) = (known.clone(), *own);
        bus.subscribe(Box::new(move |topic, message| {
            if topic != known {
                return true;
            }
            let letter = std::str::from_utf8(message).ok().map(serde_json::from_str::<Envelope>);
            match letter {
                Some(Ok(letter)) if letter.from != own => hear(letter.event),
                // Our own, or of a version that says more than we know.
                _ => true,
            }
        }));
    }
}
