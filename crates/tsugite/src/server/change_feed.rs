//! Change notifications: which listeners subscribed to which lists and resources, and how they are notified.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};

use tsugite_core::jsonrpc::Id;
use tsugite_core::protocol::resources::{Updated, UriParams};
use tsugite_core::protocol::{EmptyParams, HasMeta, Meta, NotificationMethod, prompts, resources, tools};
use tsugite_core::revision::{Revision, Translate, write_notification};

use super::ServerShared;
use super::cancellation::CancellationToken;
use super::limits::LimitPermit;
use super::principal::Principal;
use crate::lock::lock;
use crate::replica::{Replica, ReplicaMessage};
use crate::shared::list_kind::{ListKind, outer_name};
use crate::shared::outbound_queue::OutboundQueue;

/// The change feed of one server.
#[derive(Default)]
pub(crate) struct ChangeFeed {
    /// The number of changes so far; caches compare it to find out whether they are stale.
    version: AtomicU64,
    listeners: Mutex<Vec<Weak<ChangeListener>>>,
    /// The servers in which this one is mounted, with the prefix.
    outer_servers: Mutex<Vec<(Weak<ServerShared>, String)>>,
    /// Forwards changes to other replicas.
    pub(super) replica: OnceLock<Option<Arc<Replica>>>,
}

/// A subscriber to changes: a session, or one `subscriptions/listen` request.
pub(crate) struct ChangeListener {
    outbox: Arc<OutboundQueue>,
    revision: Revision,
    /// The id of the subscription (2026-07-28).
    id: Option<Id<'static>>,
    /// The newest principal of the session, or that of the subscription.
    principal: Mutex<Option<Principal>>,
    lists: HashSet<ListKind>,
    uris: Mutex<SubscribedUris>,
    /// Notifications are held back until the handshake is complete.
    active: AtomicBool,
    /// Set when the subscription is cancelled: it sends nothing more, even if its task still runs.
    cancellation: CancellationToken,
}

/// The resources that a listener subscribes to.
#[derive(Default)]
struct SubscribedUris {
    uris: HashSet<String>,
    /// Counts the bytes of the URIs of a session. Those of a stream are counted with the stream.
    permit: Option<LimitPermit>,
}

impl SubscribedUris {
    fn bytes(&self) -> usize {
        self.uris.iter().map(|uri| uri.len() + URI_OVERHEAD_BYTES).sum()
    }
}

impl ChangeListener {
    /// Creates a listener for a handshake-era session: it receives changes of the lists declared to the client and of the
    /// resources the session subscribes to.
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
            principal: Mutex::new(principal),
            lists,
            uris: Mutex::default(),
            active: AtomicBool::new(false),
            cancellation: CancellationToken::default(),
        }
    }

    /// Creates a listener for a `subscriptions/listen` request (2026-07-28).
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
            principal: Mutex::new(principal),
            lists,
            uris: Mutex::new(SubscribedUris { uris, permit: None }),
            active: AtomicBool::new(true),
            cancellation,
        }
    }

    pub(super) fn set_principal(&self, principal: Principal) {
        *lock(&self.principal) = Some(principal);
    }

    pub(crate) fn activate(&self) {
        self.active.store(true, Ordering::Release);
    }

    /// Subscribes a session to a resource. Returns false if a limit is reached. `begin` counts the first bytes.
    pub(crate) fn subscribe(
        &self,
        uri: String,
        (max_subscriptions, max_bytes): (usize, usize),
        begin: impl FnOnce(usize) -> Option<LimitPermit>,
    ) -> bool {
        let mut subscribed = self.uris();
        if subscribed.uris.contains(&uri) {
            return true;
        }
        let bytes = uri.len() + URI_OVERHEAD_BYTES;
        if subscribed.uris.len() >= max_subscriptions || subscribed.bytes() + bytes > max_bytes {
            return false;
        }
        let is_counted = match &mut subscribed.permit {
            Some(permit) => permit.grow(bytes).is_ok(),
            none => {
                *none = begin(bytes);
                none.is_some()
            }
        };
        if is_counted {
            subscribed.uris.insert(uri);
        }
        is_counted
    }

    pub(crate) fn unsubscribe(&self, uri: &str) {
        let mut subscribed = self.uris();
        if subscribed.uris.remove(uri)
            && let Some(permit) = &mut subscribed.permit
        {
            permit.shrink(uri.len() + URI_OVERHEAD_BYTES);
        }
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

    /// A caller who may no longer read a resource is no longer notified about it.
    fn resource_updated(&self, shared: &ServerShared, uri: &str) {
        let config = shared.config();
        let may_read = || {
            if !shared.has_visibility_rules(&config) && !shared.has_scoped_items() {
                return true;
            }
            let principal = lock(&self.principal).clone();
            let found = shared.find_resource(&config, principal.as_ref(), uri).ok().flatten();
            found.is_some_and(|found| config.has_scopes(principal.as_ref(), &found.item.scopes))
        };
        let subscribed = self.uris().uris.contains(uri);
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

    fn uris(&self) -> MutexGuard<'_, SubscribedUris> {
        lock(&self.uris)
    }
}

impl ChangeFeed {
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Adds a listener, which stays subscribed until it is dropped.
    pub(crate) fn add_listener(&self, listener: &Arc<ChangeListener>) {
        let mut listeners = lock(&self.listeners);
        // Dropped listeners are removed when they may be half of the list, so the amortized cost is constant.
        if listeners.len() == listeners.capacity() {
            listeners.retain(|known| known.strong_count() > 0);
        }
        listeners.push(Arc::downgrade(listener));
    }

    /// Forwards changes of this server to the servers in which it is mounted.
    pub(crate) fn add_outer(&self, outer: &Arc<ServerShared>, prefix: String) {
        let mut known = lock(&self.outer_servers);
        known.retain(|(outer, _)| outer.strong_count() > 0);
        known.push((Arc::downgrade(outer), prefix));
    }

    /// Announces changed lists. Each outer server is notified once, even if this server is mounted in it several times, and so
    /// are other replicas.
    pub(crate) fn notify_list_changed(&self, kinds: &[ListKind]) {
        if let Some(Some(replica)) = self.replica.get()
            && !kinds.is_empty()
        {
            let has = |kind| kinds.contains(&kind);
            let (tools, prompts, resources) =
                (has(ListKind::Tool), has(ListKind::Prompt), has(ListKind::Resource));
            replica.publish(&ReplicaMessage::ListsChanged { tools, prompts, resources });
        }
        self.notify_list_changed_locally(kinds);
    }

    fn notify_list_changed_locally(&self, kinds: &[ListKind]) {
        self.notify_listeners(kinds);
        let mut notified: Vec<Arc<ServerShared>> = Vec::new();
        let mut next: Vec<Arc<ServerShared>> =
            self.outer_servers().into_iter().map(|(outer, _)| outer).collect();
        while let Some(outer) = next.pop() {
            if notified.iter().any(|known| Arc::ptr_eq(known, &outer)) {
                continue;
            }
            outer.feed.notify_listeners(kinds);
            next.extend(outer.feed.outer_servers().into_iter().map(|(outer, _)| outer));
            notified.push(outer);
        }
    }

    fn notify_listeners(&self, kinds: &[ListKind]) {
        self.version.fetch_add(1, Ordering::AcqRel);
        for listener in self.live_listeners() {
            kinds.iter().for_each(|kind| listener.list_changed(*kind));
        }
    }

    /// Announces all lists and all resources with subscriptions, because changes at other replicas may have been missed.
    pub(crate) fn notify_missed_changes(&self, shared: &ServerShared) {
        self.notify_list_changed_locally(&ListKind::ALL);
        for listener in self.live_listeners() {
            let uris: Vec<_> = listener.uris().uris.iter().cloned().collect();
            uris.iter().for_each(|uri| listener.resource_updated(shared, uri));
        }
    }

    /// Applies a change that another replica announced.
    pub(crate) fn receive_message(&self, shared: &ServerShared, message: &ReplicaMessage) {
        match message {
            ReplicaMessage::ListsChanged { tools, prompts, resources } => {
                let all =
                    [(ListKind::Tool, tools), (ListKind::Prompt, prompts), (ListKind::Resource, resources)];
                let kinds: Vec<_> = all.into_iter().filter(|(_, has)| **has).map(|(kind, _)| kind).collect();
                self.notify_list_changed_locally(&kinds);
            }
            ReplicaMessage::ResourceUpdated { uri } => self.notify_resource_updated_locally(shared, uri),
            _ => {}
        }
    }

    /// Announces that a resource has changed.
    pub(crate) fn notify_resource_updated(&self, shared: &ServerShared, uri: &str) {
        if let Some(Some(replica)) = self.replica.get() {
            replica.publish(&ReplicaMessage::ResourceUpdated { uri: uri.to_owned() });
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

/// The memory of a URI besides its text.
pub(super) const URI_OVERHEAD_BYTES: usize = 48;
