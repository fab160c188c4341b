//! The server: registering tools, resources and prompts, and dispatching requests to their handlers.
//!
//! - [`Server`]: the registrations and the settings (`config`).
//! - `connection`: one connection; `dispatch`: the pipeline of a request; `in_flight`, `pending`: requests that are not
//!   answered at once; `push`: messages the server sends without a request.
//! - `route`: the router, one line per method; `layer`: middleware around it.
//! - `lifecycle`, `lists`, `tools`, `resources`, `prompts`, `completion`, `subscriptions`: one file per group of methods.
//! - [`Context`]: the call as its handler sees it; `ask`: requests of a handler to the client.
//! - `handler`: converts functions into handlers; [`Tool`], [`Resource`], [`Prompt`]: built by hand, or by macros
//!   (`macro_support`).
//! - `registry`, `lookup`, `change_feed`: the registered items, finding them, and notifying clients of changes.

mod arguments;
pub(crate) mod ask;
mod call_state;
mod change_feed;
mod completer;
mod completion;
mod config;
pub(crate) mod connection;
mod context;
pub(crate) mod dispatch;
mod era;
mod files;
mod handler;
mod handler_error;
pub(crate) mod handler_limits;
mod handler_method;
mod in_flight;
#[cfg(feature = "client")]
mod in_process;
mod json_path;
pub mod layer;
mod lazy_context;
mod lifecycle;
mod lists;
mod lookup;
#[doc(hidden)]
pub mod macro_support;
mod metadata;
mod output;
pub(crate) mod pending;
mod principal;
mod progress;
mod prompt;
mod prompts;
mod push;
pub(crate) mod registry;
mod registry_changes;
mod resource;
mod resources;
pub(crate) mod response_writer;
mod route;
pub(crate) mod schema;
mod seal;
mod state;
mod subscriptions;
mod tool;
mod tools;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};

pub use arguments::Args;
pub use ask::{Ask, AskError, FieldValue, Form, FormChoice, FormField, UrlElicitation};
pub use completer::{Completer, CompletionRequest, IntoCompleter, IntoValues};
pub use context::{CancellationToken, Context};
pub use handler::{Blocking, CallParts, FromCall, Handler, HandlerFuture, IntoHandler};
pub use handler_error::{HandlerError, InvocationError};
pub(crate) use lifecycle::DeclaredCapabilities;
pub use lookup::ItemInfo;
pub use output::{IntoOutput, Json};
pub(crate) use principal::HeaderSource;
pub use principal::{Headers, Principal};
pub use progress::{ProgressNumber, ProgressUpdate};
pub use prompt::Prompt;
pub use registry::{ListKind, Registration};
pub use registry_changes::Changes;
pub use resource::Resource;
pub(crate) use response_writer::{ResponseWriter, encode_result};
pub(crate) use seal::random_id;
pub use seal::{SealKey, SealKeyError};
pub use state::State;
pub use tool::Tool;

pub(crate) use config::Config;

use change_feed::ChangeFeed;
use lists::PageCache;
use registry::Registry;

/// A server with its tools, resources and prompts. Cheap to clone; clones are the same server, also while it is served.
#[derive(Clone)]
pub struct Server {
    pub(crate) shared: Arc<ServerShared>,
}

pub(crate) struct ServerShared {
    pub(crate) config: RwLock<Arc<Config>>,
    registry: RwLock<Arc<Registry>>,
    /// Whether another server is mounted; read by every list request.
    has_mounts: AtomicBool,
    pub(crate) feed: ChangeFeed,
    pub(crate) page_cache: PageCache,
}

/// Registrations that belong together; `#[handlers]` implements it for the type of an `impl` block.
pub trait Handlers {
    /// Returns the registrations.
    fn registrations(self) -> Vec<Registration>;
}

impl Server {
    /// Registers a tool. An invalid registration is reported when the server is served.
    #[must_use]
    pub fn tool(self, tool: impl Into<Tool>) -> Self {
        self.register(tool.into())
    }

    /// Registers a resource or a resource template. An invalid registration is reported when the server is served.
    #[must_use]
    pub fn resource(self, resource: impl Into<Resource>) -> Self {
        self.register(resource.into())
    }

    /// Registers a prompt. An invalid registration is reported when the server is served.
    #[must_use]
    pub fn prompt(self, prompt: impl Into<Prompt>) -> Self {
        self.register(prompt.into())
    }

    /// Registers the handlers of a value: the methods of an `impl` block with `#[handlers]`.
    #[must_use]
    pub fn handlers(self, handlers: impl Handlers) -> Self {
        handlers.registrations().into_iter().fold(self, Server::register)
    }

    fn register(self, registration: impl Into<Registration>) -> Self {
        let (registration, checks_output) = (registration.into(), self.shared.config().output_validation);
        let kind = registration.kind();
        self.shared.update_registry(|registry| registry.add_or_record_error(registration, checks_output));
        self.shared.feed.notify_list_changed(&[kind]);
        self
    }

    /// Fails with all errors of registrations that are invalid.
    pub(crate) fn check_registrations(&self) -> crate::Result<()> {
        let errors = self.shared.registry().errors().to_vec();
        if errors.is_empty() { Ok(()) } else { Err(crate::Error::registration(errors)) }
    }
}

impl ServerShared {
    pub(crate) fn config(&self) -> Arc<Config> {
        self.config.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
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
