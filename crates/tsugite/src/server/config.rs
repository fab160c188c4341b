//! The settings of a server, each with its default.

use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::sync::Semaphore;
use tsugite_core::jsonrpc::MessageLimits;
use tsugite_core::protocol::caching::CacheScope;
use tsugite_core::protocol::{Implementation, Object};
use tsugite_core::revision::{Revisions, ServerInfoMeta};

use super::key_state::OnceSettings;
use super::layer_service::{DynService, NotificationHandler};
use super::notification_limit::NotificationLimit;
use super::poll_timer::PollClock;
use super::principal::Principal;
use super::scope_rule::ScopeRule;
use super::state::StateMap;
use super::task_state::TaskSettings;
use super::visibility::{ItemInfo, VisibilityRule};
use super::{Server, ServerShared};
use crate::shared::seal::{LazyKeyRing, SealKeys};
use crate::shared::settings_slot::SettingsSlot;
use crate::shared::validate::{CompileFn, Validator};
use crate::store::{MemoryStore, Store};

/// Whether tool output is validated.
#[derive(Debug, Clone, Copy)]
pub(crate) enum OutputValidation {
    Disabled,
    /// Only the results of raw handlers, which no Rust type vouches for.
    RawOnly,
    /// Only where the schema can be enforced: a debug build must not reject output that a release build accepts.
    BestEffort(CompileFn),
    Required(CompileFn),
}

/// Removes secrets from a log message before a client receives it.
pub(crate) type RedactFn = Arc<dyn Fn(&mut serde_json::Value) + Send + Sync>;

/// The settings that every request reads. A connection keeps the settings it started with.
#[derive(Clone)]
pub(crate) struct Config {
    pub(crate) info: Implementation,
    pub(crate) stamp: ServerInfoMeta,
    pub(crate) instructions: Option<String>,
    pub(crate) revisions: Revisions,
    pub(crate) states: StateMap,
    pub(crate) limits: MessageLimits,
    pub(crate) max_concurrent_handlers: usize,
    pub(crate) max_pending_requests: usize,
    pub(crate) max_subscriptions: usize,
    pub(crate) max_subscription_bytes: usize,
    pub(crate) max_pending_bytes: usize,
    /// How long a handler may make no progress.
    pub(crate) call_timeout: Option<Duration>,
    pub(crate) shutdown_grace: Duration,
    pub(crate) page_size: usize,
    pub(crate) cache: Option<(Duration, CacheScope)>,
    pub(crate) visibility_rule: Option<VisibilityRule>,
    pub(crate) scope_rule: Option<ScopeRule>,
    pub(crate) output_validation: OutputValidation,
    pub(crate) declare_all_capabilities: bool,
    pub(crate) redact: Option<RedactFn>,
    pub(crate) extensions: Object,
    pub(crate) experimental: Object,
    /// The caller on stdio.
    pub(crate) stdio_principal: Option<Principal>,
    pub(crate) layers: Option<Arc<dyn DynService>>,
    /// Receives client notifications.
    pub(crate) notification_handler: Option<Arc<dyn NotificationHandler>>,
    pub(crate) key_ring: Arc<LazyKeyRing>,
    pub(crate) state_ttl: Duration,
    pub(crate) max_state_bytes: usize,
    pub(crate) max_rounds: u32,
    pub(crate) round_timeout: Duration,
    pub(crate) ask_timeout: Duration,
    pub(crate) notification_limit: NotificationLimit,
    pub(crate) max_write_buffer_bytes: usize,
    /// Measures how long handlers block their thread.
    pub(crate) poll_clock: PollClock,
    /// The settings of the HTTP transport.
    pub(crate) http: SettingsSlot,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) replica_lease: Duration,
    pub(crate) tasks: TaskSettings,
    pub(crate) once: OnceSettings,
}

impl Server {
    /// Creates a server without any items.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self::from_info(Implementation::new(name, version))
    }

    /// Creates a server from a full `Implementation`: title, icons, web site.
    #[doc(alias("get_info", "serverInfo", "server_info"))]
    pub fn from_info(info: impl Into<Implementation>) -> Self {
        Self::with_defaults(info.into())
    }

    fn with_defaults(info: Implementation) -> Self {
        let config = Config {
            stamp: ServerInfoMeta::new(info.clone()),
            info,
            instructions: None,
            revisions: Revisions::ALL,
            states: StateMap::default(),
            limits: MessageLimits::default(),
            max_concurrent_handlers: 256,
            max_pending_requests: 16_384,
            max_subscriptions: 1_024,
            max_subscription_bytes: 256 << 10,
            max_pending_bytes: 256 << 20,
            call_timeout: Some(Duration::from_secs(600)),
            shutdown_grace: Duration::from_secs(5),
            page_size: 1_000,
            cache: None,
            visibility_rule: None,
            scope_rule: None,
            output_validation: if cfg!(debug_assertions) {
                OutputValidation::BestEffort(Validator::compile)
            } else {
                OutputValidation::RawOnly
            },
            declare_all_capabilities: false,
            redact: None,
            extensions: Object::new(),
            experimental: Object::new(),
            stdio_principal: None,
            layers: None,
            notification_handler: None,
            key_ring: Arc::default(),
            state_ttl: Duration::from_secs(3_600),
            max_state_bytes: 64 << 10,
            max_rounds: 16,
            round_timeout: Duration::from_secs(10),
            ask_timeout: Duration::from_secs(600),
            notification_limit: NotificationLimit::default(),
            max_write_buffer_bytes: 256 << 10,
            poll_clock: Instant::now,
            http: SettingsSlot::default(),
            store: Arc::new(MemoryStore::new()),
            replica_lease: Duration::from_secs(10),
            tasks: TaskSettings::default(),
            once: OnceSettings::default(),
        };
        let shared = ServerShared {
            config: RwLock::new(Arc::new(config)),
            registry: Default::default(),
            has_mounts: Default::default(),
            is_served: Default::default(),
            is_purging: Default::default(),
            transports: Default::default(),
            feed: Default::default(),
            page_cache: Default::default(),
            token_expiries: Default::default(),
            tasks: Default::default(),
            keys: Default::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Sets the instructions for the model.
    #[must_use]
    #[doc(alias = "get_info")]
    pub fn instructions(self, text: impl Into<String>) -> Self {
        self.configure(|config| config.instructions = Some(text.into()))
    }

    /// Serves only these revisions. Default: all.
    #[must_use]
    #[doc(alias("protocol_version", "protocol_versions", "supported_protocol_versions"))]
    pub fn revisions(self, served: Revisions) -> Self {
        self.configure(|config| config.revisions = served)
    }

    /// Sets the size limits of messages.
    #[must_use]
    pub fn limits(self, limits: MessageLimits) -> Self {
        self.configure(|config| config.limits = limits)
    }

    /// Sets how many handlers of one peer run at once, after their first poll. Default: 256. Further ones wait, while responses and
    /// cancellations are still read.
    #[must_use]
    pub fn max_concurrent_handlers(self, handlers: usize) -> Self {
        self.configure(|config| config.max_concurrent_handlers = handlers.clamp(1, Semaphore::MAX_PERMITS))
    }

    /// Sets how many requests of one peer may be pending or running. Default: 16,384. Further requests are rejected.
    #[must_use]
    pub fn max_pending_requests(self, requests: usize) -> Self {
        self.configure(|config| config.max_pending_requests = requests.max(1))
    }

    /// Sets how many resources and how many change streams one peer may subscribe to. Default: 1,024.
    #[must_use]
    pub fn max_subscriptions(self, subscriptions: usize) -> Self {
        self.configure(|config| config.max_subscriptions = subscriptions)
    }

    /// Sets how many bytes the URIs that one peer, or one `subscriptions/listen` stream, subscribes to may have together.
    /// Default: 256 KiB.
    #[must_use]
    pub fn max_subscription_bytes(self, bytes: usize) -> Self {
        self.configure(|config| config.max_subscription_bytes = bytes)
    }

    /// Sets how many bytes the pending requests of one peer may have together. Default: 256 MiB. Further requests are
    /// rejected. Over HTTP [`Http::max_held_bytes`](crate::transport::http::Http::max_held_bytes) applies instead.
    #[must_use]
    pub fn max_pending_bytes(self, bytes: usize) -> Self {
        self.configure(|config| config.max_pending_bytes = bytes)
    }

    /// Sets how long a handler may run without reporting progress, also after its client has disconnected. Default: 10
    /// minutes. `None` removes the limit. The time in which the client answers a question does not count.
    /// [`Tool::timeout`](super::Tool::timeout) and [`Tool::no_timeout`](super::Tool::no_timeout) replace it for one tool.
    #[must_use]
    #[doc(alias("timeout", "request_timeout"))]
    pub fn call_timeout(self, timeout: impl Into<Option<Duration>>) -> Self {
        let timeout = timeout.into();
        self.configure(|config| config.call_timeout = timeout)
    }

    /// Sets how long running requests may take to finish after the client disconnects. Default: 5 seconds.
    #[must_use]
    pub fn shutdown_grace(self, time: Duration) -> Self {
        self.configure(|config| config.shutdown_grace = time)
    }

    /// Sets how many items a page of a list has. Default: 1,000.
    #[must_use]
    #[doc(alias("pagination", "nextCursor"))]
    pub fn page_size(self, things: usize) -> Self {
        self.configure(|config| config.page_size = things.max(1))
    }

    /// Sets how long clients may cache lists and the server's own description, and for whom (2026-07-28). Lists that depend
    /// on the caller are always private.
    #[must_use]
    #[doc(alias("ttlMs", "cacheScope"))]
    pub fn cache(self, time: Duration, scope: CacheScope) -> Self {
        self.configure(|config| config.cache = Some((time, scope)))
    }

    /// Decides which callers see which items. A hidden item is neither listed nor found by its name.
    ///
    /// ```
    /// use tsugite::prelude::*;
    ///
    /// let server = Server::new("office", "1.0.0").visible(|who, item| {
    ///     !item.has_tag("admin") || who.is_some_and(|who| who.has_scope("admin"))
    /// });
    /// # let _ = server;
    /// ```
    #[must_use]
    #[doc(alias("tool_filter", "authorization"))]
    pub fn visible(
        self,
        rule: impl Fn(Option<&Principal>, &ItemInfo<'_>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.configure(|config| config.visibility_rule = Some(Arc::new(rule)))
    }

    /// Validates tool output against the output schema before sending it. A mismatch is logged and becomes an internal
    /// error. Default: on in debug builds. Applies to tools registered afterwards.
    #[must_use]
    pub fn validate_output(self, yes: bool) -> Self {
        self.configure(|config| {
            config.output_validation =
                if yes { OutputValidation::Required(Validator::compile) } else { OutputValidation::Disabled };
        })
    }

    /// Sets where state is stored that outlives a request: sessions, the events of streams, and messages between replicas.
    /// In memory by default. A store that outlives the process needs [`Server::seal_keys`].
    #[must_use]
    #[doc(alias("SessionManager", "EventStore", "session", "redis", "persistence"))]
    pub fn store(self, store: impl Store) -> Self {
        self.configure(|config| config.store = Arc::new(store))
    }

    /// Sets how long a replica counts as alive after it was last heard of. Default: 10 seconds. Clients of a replica that
    /// ended without warning are told so within twice this time.
    #[must_use]
    pub fn replica_lease(self, time: Duration) -> Self {
        self.configure(|config| config.replica_lease = time.max(Duration::from_millis(100)))
    }

    /// Declares tools, prompts and resources although none are registered yet; see [`Server::change`].
    #[must_use]
    #[doc(alias("capabilities", "ServerCapabilities"))]
    pub fn declare_all_capabilities(self) -> Self {
        self.configure(|config| config.declare_all_capabilities = true)
    }

    /// Filters the data of every log message before a client receives it, to remove secrets.
    #[must_use]
    pub fn redact_logs(self, redact: impl Fn(&mut serde_json::Value) + Send + Sync + 'static) -> Self {
        self.configure(|config| config.redact = Some(Arc::new(redact)))
    }

    /// Declares an extension with its settings. Settings that do not serialize to a JSON object are empty.
    #[must_use]
    pub fn extension<T: Serialize>(self, name: impl Into<String>, settings: &T) -> Self {
        let settings = match serde_json::to_value(settings) {
            Ok(serde_json::Value::Object(settings)) => settings,
            _ => Object::new(),
        };
        let name = name.into();
        if !name.contains('/') || !tsugite_core::protocol::meta::is_valid_key(&name) {
            let error = format!("the extension {name:?} must have a name like `com.example/name`");
            self.shared.record_error(error);
        }
        self.configure(|config| drop(config.extensions.insert(name, settings.into())))
    }

    /// Declares an experimental capability with its settings. Settings that do not serialize to a JSON object are empty.
    /// The server does nothing else with it: its handlers and layers implement it.
    #[must_use]
    pub fn experimental<T: Serialize>(self, name: impl Into<String>, settings: &T) -> Self {
        let settings = match serde_json::to_value(settings) {
            Ok(serde_json::Value::Object(settings)) => settings,
            _ => Object::new(),
        };
        self.configure(|config| drop(config.experimental.insert(name.into(), settings.into())))
    }

    /// Sets the caller on stdio, where no transport authenticates one: handlers and visibility rules see this principal.
    /// For example the user that the operating system or the environment of the process names. Default: none. Other
    /// transports do not use it.
    #[must_use]
    pub fn stdio_principal(self, principal: Principal) -> Self {
        self.configure(|config| config.stdio_principal = Some(principal))
    }

    /// Adds a value that handlers extract with [`State`](super::State). One per type; the last one wins.
    #[must_use]
    #[doc(alias("lifespan", "dependency_injection"))]
    pub fn state<T: Clone + Send + Sync + 'static>(self, state: T) -> Self {
        self.configure(|config| config.states.insert(state))
    }

    /// Sets the keys that seal state carried by clients: the newest seals, all of them open. Replicas need the same keys; a
    /// rotated key stays until the state it sealed has expired. Default: a random key per server.
    ///
    /// ```no_run
    /// use tsugite::prelude::*;
    /// use tsugite::server::SealKeys;
    ///
    /// # fn main() -> Result<(), tsugite::server::SealKeysError> {
    /// let server = Server::new("notes", "1.0.0").seal_keys(SealKeys::from_env("NOTES_SEAL_KEYS")?);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn seal_keys(self, keys: impl Into<SealKeys>) -> Self {
        let keys = LazyKeyRing::from_keys(keys.into());
        self.configure(|config| config.key_ring = Arc::new(keys))
    }

    /// Sets how long a call that returned `input_required` can be resumed (2026-07-28). Default: 1 hour.
    #[must_use]
    pub fn state_ttl(self, time: Duration) -> Self {
        self.configure(|config| config.state_ttl = time)
    }

    /// Sets the maximum size of the sealed state of such a call. Default: 64 KiB.
    #[must_use]
    pub fn max_state_bytes(self, bytes: usize) -> Self {
        self.configure(|config| config.max_state_bytes = bytes)
    }

    /// Sets how many rounds one call may have (2026-07-28). Default: 16.
    #[must_use]
    pub fn max_rounds(self, rounds: u32) -> Self {
        self.configure(|config| config.max_rounds = rounds)
    }

    /// Sets how long a resumed handler may take to reach the question that was answered (2026-07-28). Default: 10 seconds.
    /// A handler that does not reach it has diverged from its earlier round.
    #[must_use]
    pub fn round_timeout(self, time: Duration) -> Self {
        self.configure(|config| config.round_timeout = time)
    }

    /// Sets how long a question to the client may take unless the question sets its own limit (up to 2025-11-25). Default:
    /// 10 minutes.
    #[must_use]
    #[doc(alias("elicitation_timeout", "sampling_timeout"))]
    pub fn ask_timeout(self, time: Duration) -> Self {
        self.configure(|config| config.ask_timeout = time)
    }

    /// Sets how many progress and log notifications one request may send at once. Default: 1,000. Beyond that,
    /// [`Server::notifications_per_second`] holds: progress is coalesced, and log messages are dropped and counted.
    #[must_use]
    pub fn max_notification_burst(self, notifications: u32) -> Self {
        self.configure(|config| config.notification_limit.burst = notifications.max(1))
    }

    /// Sets how many progress and log notifications one request may send each second after a burst. Default: 100.
    #[must_use]
    pub fn notifications_per_second(self, notifications: u32) -> Self {
        self.configure(|config| config.notification_limit.per_second = notifications.max(1))
    }

    /// Sets how many bytes may be queued for one peer. Beyond that, nothing more is read from the peer and its handlers
    /// wait. Default: 256 KiB.
    #[must_use]
    pub fn max_write_buffer_bytes(self, bytes: usize) -> Self {
        self.configure(|config| config.max_write_buffer_bytes = bytes.max(1))
    }

    pub(crate) fn configure(self, change: impl FnOnce(&mut Config)) -> Self {
        let mut config = self.shared.config.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        change(Arc::make_mut(&mut config));
        drop(config);
        // Cached list pages may differ now.
        self.shared.feed.notify_list_changed(&[]);
        self
    }
}
