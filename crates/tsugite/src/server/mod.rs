//! Servers: tools, resources and prompts, and the functions that handle them.
//!
//! [`Server`] holds the items and the settings. Its handlers are functions: a macro such as
//! [`#[tool]`](macro@crate::tool) or a builder ([`Tool`], [`Resource`], [`Prompt`]) registers them.
//!
//! - Parameters of a handler: [`Args`], [`Context`], [`State`], [`Principal`], [`Headers`], [`CancellationToken`], and any
//!   type of your own that implements [`FromCall`].
//! - Results of a handler: everything that implements [`IntoOutput`], and [`HandlerError`].
//! - Questions to the user, the model and the client: [`Context::ask`], [`Context::sample`], [`Context::roots`]. They fail
//!   with an [`AskError`]. [`Form`](trait@Form) is a form for the user.
//! - Middleware: [`layer`].
//! - Serving: [`Server::serve_stdio`], [`Server::serve_http`](crate::Server::serve_http),
//!   [`Server::http_service`](crate::Server::http_service) for axum, and
//!   [`Client::in_process`](crate::Client::in_process) for tests.
//!
//! The guides [tools](crate::guide::tools), [errors](crate::guide::errors) and [asking](crate::guide::asking) explain them
//! with examples.

// - `config`: the settings. `connection`: one connection; `dispatch`: the pipeline of a request; `in_flight`, `pending`:
//   requests that are not answered at once; `push`: messages the server sends without a request; `token_expiry`: when
//   streams end.
// - `route`: the router, one line per method; `layer`: middleware around it.
// - `lifecycle`, `lists`, `tools`, `resources`, `prompts`, `completion`, `subscriptions`: one file per group of methods.
// - `tasks`: the methods of tasks; `task_run`: runs a call as a task; `task_state`: the records and the running tasks;
//   `task_offer`: whether a call becomes a task; `task_context`: the methods of `Context` for it.
// - `idempotency`: calls with a key, which run once; `key_state`: their records. `record_limits` counts these, and tasks.
// - `ask`: requests of a handler to the client. `handler`: converts functions into handlers; `macro_support`: the code that
//   macros generate calls it.
// - `registry`, `lookup`, `scopes`, `change_feed`: the registered items, finding them, what callers need for them, and
//   notifying clients of changes.

mod argument_default;
mod arguments;
pub(crate) mod ask;
mod ask_error;
mod call_state;
mod caller_key;
mod cancellation;
mod change_feed;
mod completer;
mod completion;
mod config;
pub(crate) mod connection;
mod context;
mod declared_capabilities;
pub(crate) mod dispatch;
mod duplicate_names;
mod early_cancellations;
mod era;
mod extractors;
mod failure;
mod files;
mod handler;
mod handler_error;
mod handler_method;
mod idempotency;
pub(crate) mod in_flight;
#[cfg(feature = "client")]
mod in_process;
pub(crate) mod incoming_request;
pub mod into_item;
pub(crate) mod kept_call;
mod key_state;
pub mod layer;
pub(crate) mod layer_service;
mod lazy_context;
mod lifecycle;
mod limited_notifications;
pub(crate) mod limits;
mod lists;
mod lookup;
#[doc(hidden)]
pub mod macro_support;
mod metadata;
mod missing_states;
mod notification_limit;
pub(crate) mod outgoing_requests;
mod output;
mod output_check;
pub(crate) mod pending;
mod poll_timer;
pub(crate) mod principal;
mod progress;
mod prompt;
mod prompts;
mod purge;
mod push;
mod push_channel;
mod record_limits;
pub(crate) mod registry;
mod registry_changes;
mod resource;
mod resources;
pub(crate) mod response_writer;
mod round;
mod route;
mod running_handler;
pub(crate) mod schema;
mod scope_rule;
mod scopes;
pub(crate) mod serving;
mod state;
mod subject;
mod subscription_permit;
pub(crate) mod subscriptions;
mod task_context;
pub(crate) mod task_offer;
mod task_run;
mod task_slot;
pub(crate) mod task_state;
pub(crate) mod tasks;
pub(crate) mod token_expiry;
mod tool;
mod tools;
mod visibility;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, RwLock};

pub use ask::{Ask, FieldValue, Form, FormChoice, FormField, UrlElicitation};
pub use ask_error::AskError;
pub use cancellation::CancellationToken;
pub use completer::{Completer, CompletionRequest, IntoCompleter, IntoValues};
pub use context::Context;
pub(crate) use declared_capabilities::DeclaredCapabilities;
pub use extractors::Args;
pub use handler::{Blocking, CallParts, FromCall, Handler, HandlerFuture, IntoHandler};
pub use handler_error::{HandlerError, InvocationError};
pub use into_item::{IntoPrompt, IntoRegistration, IntoResource, IntoTool};
pub use output::{IntoOutput, Json};
pub(crate) use principal::HeaderSource;
pub use principal::{Headers, Principal};
pub use progress::{ProgressNumber, ProgressUpdate};
pub use prompt::Prompt;
pub use registry::{ListKind, Registration};
pub use registry_changes::Changes;
pub use resource::Resource;
pub(crate) use response_writer::{ResponseWriter, encode_result};
pub use state::{State, StateType};
pub use tool::Tool;
pub use visibility::ItemInfo;

pub(crate) use config::Config;

use change_feed::ChangeFeed;
use key_state::KeyTable;
use lists::PageCache;
use registry::Registry;
use task_state::TaskTable;
use token_expiry::TokenExpiries;

use crate::replica::{ReceivedMessage, Replica, ReplicaMessage};
use crate::shared::log;
pub use crate::shared::seal::{SealError, SealKey, SealKeyError, SealKeys};
pub use crate::shared::seal_keys::SealKeysError;
use crate::store::StoreScope;

/// A server with its tools, resources and prompts. Cheap to clone; clones are the same server, also while it is served.
#[derive(Clone)]
#[doc(alias("ServerHandler", "FastMCP", "McpServer", "MCPServer", "ServerBuilder"))]
pub struct Server {
    pub(crate) shared: Arc<ServerShared>,
}

pub(crate) struct ServerShared {
    pub(crate) config: RwLock<Arc<Config>>,
    registry: RwLock<Arc<Registry>>,
    /// Whether another server is mounted; read by every list request.
    has_mounts: AtomicBool,
    /// Whether the registrations were checked for a transport: mistakes after that are logged at once.
    is_served: AtomicBool,
    /// Whether expired records are removed from the store periodically.
    is_purging: AtomicBool,
    /// The number of transports that serve.
    transports: AtomicUsize,
    pub(crate) feed: ChangeFeed,
    pub(crate) page_cache: PageCache,
    pub(crate) token_expiries: TokenExpiries,
    tasks: OnceLock<Arc<TaskTable>>,
    keys: OnceLock<Arc<KeyTable>>,
}

/// Registrations that belong together; `#[handlers]` implements it for the type of an `impl` block.
pub trait Handlers {
    /// Returns the registrations.
    fn registrations(self) -> Vec<Registration>;
}

impl Server {
    /// Registers a tool. An invalid registration is reported when the server is served; on a
    /// server that is served already it is logged and not offered ([`Server::add`] returns the error instead).
    #[must_use]
    #[doc(alias("register_tool", "add_tool", "tool_handler", "tool_router"))]
    pub fn tool<Marker>(self, tool: impl IntoTool<Marker>) -> Self {
        self.register(tool.into_tool().into())
    }

    /// Registers a resource or a resource template. An invalid registration is reported when the server is served; on a
    /// server that is served already it is logged and not offered ([`Server::add`] returns the error instead).
    #[must_use]
    #[doc(alias("register_resource", "add_resource"))]
    pub fn resource<Marker>(self, resource: impl IntoResource<Marker>) -> Self {
        self.register(resource.into_resource().into())
    }

    /// Registers a prompt. An invalid registration is reported when the server is served; on a
    /// server that is served already it is logged and not offered ([`Server::add`] returns the error instead).
    #[must_use]
    #[doc(alias("register_prompt", "add_prompt", "prompt_router"))]
    pub fn prompt<Marker>(self, prompt: impl IntoPrompt<Marker>) -> Self {
        self.register(prompt.into_prompt().into())
    }

    /// Registers the handlers of a value: the methods of an `impl` block with `#[handlers]`.
    #[must_use]
    pub fn handlers(self, handlers: impl Handlers) -> Self {
        handlers.registrations().into_iter().fold(self, Server::register)
    }

    fn register(self, registration: Registration) -> Self {
        let checks_output = self.shared.config().output_validation;
        let kind = registration.kind();
        if self.shared.is_served() {
            // Not checked again before the item is called.
            let missing = registration.missing_states(&self.shared.config().states);
            if !missing.is_empty() {
                missing.into_iter().for_each(|error| self.shared.record_error(error));
                return self;
            }
        }
        let mut added = Ok(());
        self.shared.update_registry(|registry| added = registry.add(registration, checks_output));
        match added {
            Ok(()) => {
                self.shared.feed.notify_list_changed(&[kind]);
                self.continue_tasks();
            }
            Err(error) => self.shared.record_error(error),
        }
        self
    }

    /// Continues tasks of other processes, if a tool of a running server is the first that allows tasks.
    pub(crate) fn continue_tasks(&self) {
        if self.shared.is_served() && self.shared.replica().is_some() {
            tasks::start_taking_over(self);
        }
    }

    /// Fails with all errors of registrations that are invalid.
    pub(crate) fn check_registrations(&self) -> crate::Result<()> {
        let mut errors = self.shared.registry().errors().to_vec();
        errors.extend(self.missing_states());
        let config = self.shared.config();
        if config.store.scope() != StoreScope::Process && !config.key_ring.is_configured() {
            errors.push(MISSING_KEYS.to_owned());
        }
        if !errors.is_empty() {
            return Err(crate::Error::registration(errors));
        }
        self.shared.is_served.store(true, Ordering::Release);
        if let Some(replica) = self.shared.replica() {
            replica.start();
            tasks::start_taking_over(self);
        }
        Ok(())
    }
}

const MISSING_KEYS: &str = "a store that outlives the process needs `Server::seal_keys`: what it holds is sealed, and \
                            every replica must open it";

impl ServerShared {
    pub(crate) fn config(&self) -> Arc<Config> {
        self.config.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    /// This process as a replica; `None` if the store ends with the process.
    pub(crate) fn replica(self: &Arc<Self>) -> Option<&Arc<Replica>> {
        let made = || {
            let config = self.config();
            let replica = Replica::new(config.store.clone(), config.key_ring.clone(), config.replica_lease)?;
            let shared = Arc::downgrade(self);
            replica.subscribe(move |received| {
                let shared = shared.upgrade()?;
                match received {
                    ReceivedMessage::Message(ReplicaMessage::TaskChanged { task }) => {
                        shared.tasks().notify_changed(task);
                    }
                    ReceivedMessage::Message(message) => shared.feed.receive_message(&shared, message),
                    ReceivedMessage::Missed => {
                        shared.feed.notify_missed_changes(&shared);
                        shared.tasks().notify_missed();
                    }
                }
                Some(Box::pin(std::future::ready(())))
            });
            Some(replica)
        };
        self.feed.replica.get_or_init(made).as_ref()
    }

    /// The tasks of this server.
    pub(crate) fn tasks(self: &Arc<Self>) -> &Arc<TaskTable> {
        self.tasks.get_or_init(|| {
            let config = self.config();
            TaskTable::new(config.store.clone(), self.replica().cloned(), config.tasks.clone())
        })
    }

    /// The idempotency keys of this server.
    pub(crate) fn keys(self: &Arc<Self>) -> &Arc<KeyTable> {
        self.keys.get_or_init(|| {
            let config = self.config();
            KeyTable::new(config.store.clone(), self.replica().cloned(), config.once.clone())
        })
    }

    /// Returns the current registry.
    pub(crate) fn registry(&self) -> Arc<Registry> {
        self.registry.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    /// Reads the registry without cloning it. `read` must not run user code, because the lock is held.
    pub(crate) fn with_registry<T>(&self, read: impl FnOnce(&Registry) -> T) -> T {
        read(&self.registry.read().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }

    /// Replaces the registry. `change` must not run user code, because the lock is held.
    pub(crate) fn replace_registry(&self, change: impl FnOnce(&mut Arc<Registry>)) {
        let mut registry = self.registry.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        change(&mut registry);
        self.has_mounts.store(!registry.mounts.is_empty(), Ordering::Release);
    }

    fn is_served(&self) -> bool {
        self.is_served.load(Ordering::Acquire)
    }

    /// Records a mistake in a registration: serving the server reports it. A server that is served already logs it.
    pub(crate) fn record_error(&self, error: String) {
        if self.is_served() {
            log::error!("a change of a running server was refused: {error}");
        }
        self.update_registry(|registry| registry.record_error(error));
    }

    /// Whether another server is mounted.
    pub(crate) fn has_mounts(&self) -> bool {
        self.has_mounts.load(Ordering::Acquire)
    }

    /// Changes the registry. `change` must not run user code, because the lock is held.
    pub(crate) fn update_registry(&self, change: impl FnOnce(&mut Registry)) {
        // Clones the registry only while a reader holds it.
        self.replace_registry(|registry| change(Arc::make_mut(registry)));
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("info", &self.shared.config().info).finish_non_exhaustive()
    }
}
