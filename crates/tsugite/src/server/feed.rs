//! News of changes: who wants to hear of what, and how it reaches them.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use tsugite_core::jsonrpc::Id;
use tsugite_core::protocol::resources::{Updated, UriParams};
use tsugite_core::protocol::{HasMeta, Meta, NoParams, NotificationMethod, prompts, resources, tools};
use tsugite_core::revision::{Revision, Translate, write_notification};

use super::Shared;
use super::context::Cancelled;
use super::principal::Principal;
use super::registry::{Kind, outer_name};
use crate::bus::{Carrier, News};
use crate::lock::lock;
use crate::transport::outbox::Outbox;

/// The news of one server.
#[derive(Default)]
pub(crate) struct Feed {
    /// Counts the changes, so that whoever keeps something knows whether it still holds.
    version: AtomicU64,
    listeners: Mutex<Vec<Weak<Listener>>>,
    /// Servers this one is mounted in, and under which prefix.
    outer: Mutex<Vec<(Weak<Shared>, String)>>,
    /// Other replicas.
    pub(crate) carrier: Carrier,
}

/// Somebody who wants to hear of changes: a session, or one `subscriptions/listen`.
pub(crate) struct Listener {
    outbox: Arc<Outbox>,
    revision: Revision,
    /// Names the subscription, on 2026-07-28.
    id: Option<Id<'static>>,
    who: Option<Principal>,
    lists: HashSet<Kind>,
    uris: Mutex<HashSet<String>>,
    /// Nothing is said before the handshake is over.
    awake: AtomicBool,
    /// A subscription that was cancelled says nothing more, even if its task is still there.
    cancelled: Cancelled,
}

impl Listener {
    /// A session of the handshake era: hears of the lists that were declared to it, and of the resources it subscribes
    /// to.
    pub(crate) fn session(
        outbox: Arc<Outbox>,
        revision: Revision,
        who: Option<Principal>,
        lists: HashSet<Kind>,
    ) -> Self {
        Self {
            outbox,
            revision,
            id: None,
            who,
            lists,
            uris: Mutex::default(),
            awake: AtomicBool::new(false),
            cancelled: Cancelled::default(),
        }
    }

    /// A subscription of 2026-07-28.
    pub(crate) fn subscription(
        outbox: Arc<Outbox>,
        revision: Revision,
        id: Id<'static>,
        who: Option<Principal>,
        lists: HashSet<Kind>,
        uris: HashSet<String>,
        cancelled: Cancelled,
    ) -> Self {
        Self {
            outbox,
            revision,
            id: Some(id),
            who,
            lists,
            uris: Mutex::new(uris),
            awake: AtomicBool::new(true),
            cancelled,
        }
    }

    pub(crate) fn wake(&self) {
        self.awake.store(true, Ordering::Release);
    }

    /// Subscribes to a resource; false if there are too many already.
    pub(crate) fn subscribe(&self, uri: String, most: usize) -> bool {
        let mut uris = self.uris();
        if !uris.contains(&uri) && uris.len() >= most {
            return false;
        }
        uris.insert(uri);
        true
    }

    pub(crate) fn unsubscribe(&self, uri: &str) {
        self.uris().remove(uri);
    }

    fn list_changed(&self, kind: Kind) {
        if self.lists.contains(&kind) {
            match kind {
                Kind::Tool => self.tell::<tools::ListChanged>(NoParams::new()),
                Kind::Prompt => self.tell::<prompts::ListChanged>(NoParams::new()),
                Kind::Resource => self.tell::<resources::ListChanged>(NoParams::new()),
            }
        }
    }

    /// Who may no longer read a resource no longer hears of it.
    fn updated(&self, shared: &Shared, uri: &str) {
        let config = shared.config();
        let may_read = || {
            !shared.has_rules(&config)
                || matches!(shared.find_resource(&config, self.who.as_ref(), uri), Ok(Some(_)))
        };
        let subscribed = self.uris().contains(uri);
        if subscribed && may_read() {
            self.tell::<Updated>(UriParams::new(uri));
        }
    }

    fn tell<N: NotificationMethod>(&self, mut params: N::Params)
    where
        N::Params: Translate,
    {
        if !self.awake.load(Ordering::Acquire) || self.cancelled.is_cancelled() {
            return;
        }
        if let Some(id) = &self.id {
            params.meta_mut().get_or_insert_with(Meta::new).set_subscription_id(id);
        }
        let mut message = Vec::new();
        if write_notification::<N>(&mut message, params, self.revision).is_ok() {
            self.outbox.push_once(message);
        }
    }

    fn uris(&self) -> MutexGuard<'_, HashSet<String>> {
        lock(&self.uris)
    }
}

impl Feed {
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Somebody wants to hear of changes, for as long as they hold the listener.
    pub(crate) fn listen(&self, listener: &Arc<Listener>) {
        let mut listeners = lock(&self.listeners);
        // Those who are gone are taken out when they might be half of them, so that this costs nothing on the whole.
        if listeners.len() == listeners.capacity() {
            listeners.retain(|known| known.strong_count() > 0);
        }
        listeners.push(Arc::downgrade(listener));
    }

    /// What changes here changes in `outer` too.
    pub(crate) fn heard_by(&self, outer: &Arc<Shared>, prefix: String) {
        let mut known = lock(&self.outer);
        known.retain(|(outer, _)| outer.strong_count() > 0);
        known.push((Arc::downgrade(outer), prefix));
    }

    /// Lists have changed. Whoever holds this server is told once, by however many ways, and so are other replicas.
    pub(crate) fn changed(&self, kinds: &[Kind]) {
        if self.carrier.is_there() && !kinds.is_empty() {
            let has = |kind| kinds.contains(&kind);
            let (tools, prompts, resources) = (has(Kind::Tool), has(Kind::Prompt), has(Kind::Resource));
            self.carrier.tell(News::Changed { tools, prompts, resources });
        }
        self.changed_in_this_process(kinds);
    }

    fn changed_in_this_process(&self, kinds: &[Kind]) {
        self.changed_here(kinds);
        let mut told: Vec<Arc<Shared>> = Vec::new();
        let mut next: Vec<Arc<Shared>> = self.outer().into_iter().map(|(outer, _)| outer).collect();
        while let Some(outer) = next.pop() {
            if told.iter().any(|known| Arc::ptr_eq(known, &outer)) {
                continue;
            }
            outer.feed.changed_here(kinds);
            next.extend(outer.feed.outer().into_iter().map(|(outer, _)| outer));
            told.push(outer);
        }
    }

    fn changed_here(&self, kinds: &[Kind]) {
        self.version.fetch_add(1, Ordering::AcqRel);
        for listener in self.listening() {
            kinds.iter().for_each(|kind| listener.list_changed(*kind));
        }
    }

    /// What another replica tells.
    pub(crate) fn heard(&self, shared: &Shared, news: &News) {
        match news {
            News::Changed { tools, prompts, resources } => {
                let all = [(Kind::Tool, tools), (Kind::Prompt, prompts), (Kind::Resource, resources)];
                let kinds: Vec<_> = all.into_iter().filter(|(_, has)| **has).map(|(kind, _)| kind).collect();
                self.changed_in_this_process(&kinds);
            }
            News::Updated { uri } => self.updated_in_this_process(shared, uri),
            News::Ended { .. } | News::Answered { .. } => {}
        }
    }

    /// A resource has changed.
    pub(crate) fn updated(&self, shared: &Shared, uri: &str) {
        if self.carrier.is_there() {
            self.carrier.tell(News::Updated { uri: uri.to_owned() });
        }
        self.updated_in_this_process(shared, uri);
    }

    fn updated_in_this_process(&self, shared: &Shared, uri: &str) {
        for listener in self.listening() {
            listener.updated(shared, uri);
        }
        for (outer, prefix) in self.outer() {
            outer.feed.updated(&outer, &outer_name(Kind::Resource, &prefix, uri));
        }
    }

    fn listening(&self) -> Vec<Arc<Listener>> {
        lock(&self.listeners).iter().filter_map(Weak::upgrade).collect()
    }

    fn outer(&self) -> Vec<(Arc<Shared>, String)> {
        let outer = lock(&self.outer);
        outer.iter().filter_map(|(outer, prefix)| Some((outer.upgrade()?, prefix.clone()))).collect()
    }
}
