//! News of changes: who wants to hear of what, and how it reaches them.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use tsugite_core::jsonrpc::Id;
use tsugite_core::protocol::resources::{Updated, UriParams};
use tsugite_core::protocol::{EmptyParams, HasMeta, Meta, NotificationMethod, prompts, resources, tools};
use tsugite_core::revision::{Revision, Translate, write_notification};

use super::ServerShared;
use super::context::CancellationToken;
use super::principal::Principal;
use super::registry::{ListKind, outer_name};
use crate::bus::{BusEvent, BusHandle};
use crate::lock::lock;
use crate::transport::outbound_queue::OutboundQueue;

/// The news of one server.
#[derive(Default)]
pub(crate) struct ChangeFeed {
    /// Counts the changes, so that whoever keeps something knows whether it still holds.
    version: AtomicU64,
    listeners: Mutex<Vec<Weak<ChangeListener>>>,
    /// Servers this one is mounted in, and under which prefix.
    outer_servers: Mutex<Vec<(Weak<ServerShared>, String)>>,
    /// Other replicas.
    pub(crate) bus: BusHandle,
}

/// Somebody who wants to hear of changes: a session, or one `subscriptions/add_listener`.
pub(crate) struct ChangeListener {
    outbox: Arc<OutboundQueue>,
    revision: Revision,
    /// Names the subscription, on 2026-07-28.
    id: Option<Id<'static>>,
    principal: Option<Principal>,
    lists: HashSet<ListKind>,
    uris: Mutex<HashSet<String>>,
    /// Nothing is said before the handshake is over.
    active: AtomicBool,
    /// A subscription that was cancelled says nothing more, even if its task is still there.
    cancellation: CancellationToken,
}

impl ChangeListener {
    /// A session of the handshake era: hears of the lists that were declared to it, and of the resources it subscribes
    /// to.
    pub(crate) fn for_session(
        outbox: Arc<OutboundQueue>,
        revision: Revision,
        principal: Option<Principal>,
        lists: HashSet<ListKind>,
    ) -> Self {
        Self {
            outbox,
            revision,
            id: None,
            principal,
            lists,
            uris: Mutex::default(),
            active: AtomicBool::new(false),
            cancellation: CancellationToken::default(),
        }
    }

    /// A subscription of 2026-07-28.
    pub(crate) fn for_subscription(
        outbox: Arc<OutboundQueue>,
        revision: Revision,
        id: Id<'static>,
        principal: Option<Principal>,
        lists: HashSet<ListKind>,
        uris: HashSet<String>,
        cancellation: CancellationToken,
    ) -> Self {
        Self {
            outbox,
            revision,
            id: Some(id),
            principal,
            lists,
            uris: Mutex::new(uris),
            active: AtomicBool::new(true),
            cancellation,
        }
    }

    pub(crate) fn activate(&self) {
        self.active.store(true, Ordering::Release);
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

    fn list_changed(&self, kind: ListKind) {
        if self.lists.contains(&kind) {
            match kind {
                ListKind::Tool => self.notify::<tools::ListChanged>(EmptyParams::new()),
                ListKind::Prompt => self.notify::<prompts::ListChanged>(EmptyParams::new()),
                ListKind::Resource => self.notify::<resources::ListChanged>(EmptyParams::new()),
            }
        }
    }

    /// Who may no longer read a resource no longer hears of it.
    fn resource_updated(&self, shared: &ServerShared, uri: &str) {
        let config = shared.config();
        let may_read = || {
            !shared.has_visibility_rules(&config)
                || matches!(shared.find_resource(&config, self.principal.as_ref(), uri), Ok(Some(_)))
        };
        let subscribed = self.uris().contains(uri);
        if subscribed && may_read() {
            self.notify::<Updated>(UriParams::new(uri));
        }
    }

    fn notify<N: NotificationMethod>(&self, mut params: N::Params)
    where
        N::Params: Translate,
    {
        if !self.active.load(Ordering::Acquire) || self.cancellation.is_cancelled() {
            return;
        }
        if let Some(id) = &self.id {
            params.meta_mut().get_or_insert_with(Meta::new).set_subscription_id(id);
        }
        let mut message = Vec::new();
        if write_notification::<N>(&mut message, params, self.revision).is_ok() {
            self.outbox.push_coalesced(message);
        }
    }

    fn uris(&self) -> MutexGuard<'_, HashSet<String>> {
        lock(&self.uris)
    }
}

impl ChangeFeed {
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Somebody wants to hear of changes, for as long as they hold the listener.
    pub(crate) fn add_listener(&self, listener: &Arc<ChangeListener>) {
        let mut listeners = lock(&self.listeners);
        // Those who are gone are taken out when they might be half of them, so that this costs nothing on the whole.
        if listeners.len() == listeners.capacity() {
            listeners.retain(|known| known.strong_count() > 0);
        }
        listeners.push(Arc::downgrade(listener));
    }

    /// What changes here changes in `outer_servers` too.
    pub(crate) fn add_outer(&self, outer: &Arc<ServerShared>, prefix: String) {
        let mut known = lock(&self.outer_servers);
        known.retain(|(outer, _)| outer.strong_count() > 0);
        known.push((Arc::downgrade(outer), prefix));
    }

    /// Lists have changed. Whoever holds this server is told once, by however many ways, and so are other replicas.
    pub(crate) fn notify_list_changed(&self, kinds: &[ListKind]) {
        if self.bus.is_set() && !kinds.is_empty() {
            let has = |kind| kinds.contains(&kind);
            let (tools, prompts, resources) =
                (has(ListKind::Tool), has(ListKind::Prompt), has(ListKind::Resource));
            self.bus.publish(BusEvent::ListsChanged { tools, prompts, resources });
        }
        self.notify_list_changed_locally(kinds);
    }

    fn notify_list_changed_locally(&self, kinds: &[ListKind]) {
        self.notify_listeners(kinds);
        let mut told: Vec<Arc<ServerShared>> = Vec::new();
        let mut next: Vec<Arc<ServerShared>> =
            self.outer_servers().into_iter().map(|(outer, _)| outer).collect();
        while let Some(outer) = next.pop() {
            if told.iter().any(|known| Arc::ptr_eq(known, &outer)) {
                continue;
            }
            outer.feed.notify_listeners(kinds);
            next.extend(outer.feed.outer_servers().into_iter().map(|(outer, _)| outer));
            told.push(outer);
        }
    }

    fn notify_listeners(&self, kinds: &[ListKind]) {
        self.version.fetch_add(1, Ordering::AcqRel);
        for listener in self.live_listeners() {
            kinds.iter().for_each(|kind| listener.list_changed(*kind));
        }
    }

    /// What another replica tells.
    pub(crate) fn receive_bus_event(&self, shared: &ServerShared, news: &BusEvent) {
        match news {
            BusEvent::ListsChanged { tools, prompts, resources } => {
                let all =
                    [(ListKind::Tool, tools), (ListKind::Prompt, prompts), (ListKind::Resource, resources)];
                let kinds: Vec<_> = all.into_iter().filter(|(_, has)| **has).map(|(kind, _)| kind).collect();
                self.notify_list_changed_locally(&kinds);
            }
            BusEvent::ResourceUpdated { uri } => self.notify_resource_updated_locally(shared, uri),
            BusEvent::SessionEnded { .. } | BusEvent::ClientResponse { .. } => {}
        }
    }

    /// A resource has changed.
    pub(crate) fn notify_resource_updated(&self, shared: &ServerShared, uri: &str) {
        if self.bus.is_set() {
            self.bus.publish(BusEvent::ResourceUpdated { uri: uri.to_owned() });
        }
        self.notify_resource_updated_locally(shared, uri);
    }

    fn notify_resource_updated_locally(&self, shared: &ServerShared, uri: &str) {
        for listener in self.live_listeners() {
            listener.resource_updated(shared, uri);
        }
        for (outer, prefix) in self.outer_servers() {
            outer.feed.notify_resource_updated(&outer, &outer_name(ListKind::Resource, &prefix, uri));
        }
    }

    fn live_listeners(&self) -> Vec<Arc<ChangeListener>> {
        lock(&self.listeners).iter().filter_map(Weak::upgrade).collect()
    }

    fn outer_servers(&self) -> Vec<(Arc<ServerShared>, String)> {
        let outer = lock(&self.outer_servers);
        outer.iter().filter_map(|(outer, prefix)| Some((outer.upgrade()?, prefix.clone()))).collect()
    }
}
