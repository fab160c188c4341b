//! What a server offers, and how a request finds its handler.
//!
//! - [`Server`]: what is offered, and its settings (`config`).
//! - `connection`: one connection; `dispatch`: the pipeline of a request; `in_flight`, `pending`: requests that are not
//!   answered at once; `push`: what the server sends on its own.
//! - `route`: the switchboard, one line per method; `layer`: what stands around it.
//! - `lifecycle`, `lists`, `tools`, `resources`, `prompts`, `completion`, `subscriptions`: one file per family of methods.
//! - [`Context`]: what a handler may do meanwhile; `ask`: what it may ask.
//! - `handler`: from `async fn` to handler; [`Tool`], [`Resource`], [`Prompt`]: put together by hand, or by macros (`param`).
//! - `registry`, `lookup`, `feed`: what there is, who finds it, who hears that it changed.

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

/// A server: its name, and what it offers. Cheap to clone; clones are the same server, also while it is served.
#[derive(Clone)]
pub struct Server {
    pub(crate) shared: Arc<ServerShared>,
}

pub(crate) struct ServerShared {
    pub(crate) config: RwLock<Arc<Config>>,
    registry: RwLock<Arc<Registry>>,
    /// Whether another server is mounted, which every list asks.
    has_mounts: AtomicBool,
    pub(crate) feed: ChangeFeed,
    pub(crate) page_cache: PageCache,
}

/// Things that are offered together: what `#[handlers]` makes of an `impl` block.
pub trait Handlers {
    /// The things.
    fn registrations(self) -> Vec<Registration>;
}

impl Server {
    /// Offers a tool. What cannot be offered is reported when the server is served.
    #[must_use]
    pub fn tool(self, tool: impl Into<Tool>) -> Self {
        self.register(tool.into())
    }

    /// Offers a resource, or a family of them. What cannot be offered is reported when the server is served.
    #[must_use]
    pub fn resource(self, resource: impl Into<Resource>) -> Self {
        self.register(resource.into())
    }

    /// Offers a prompt. What cannot be offered is reported when the server is served.
    #[must_use]
    pub fn prompt(self, prompt: impl Into<Prompt>) -> Self {
        self.register(prompt.into())
    }

    /// Offers the handlers of a value: the methods of an `impl` block that stands under `#[handlers]`.
    #[must_use]
    pub fn handlers(self, handlers: impl Handlers) -> Self {
        handlers.registrations().into_iter().fold(self, Server::register)
    }

    fn register(self, offered: impl Into<Registration>) -> Self {
        let (offered, checks_output) = (offered.into(), self.shared.config().output_validation);
        let kind = offered.kind();
        self.shared.update_registry(|registry| registry.add_or_record_error(offered, checks_output));
        self.shared.feed.notify_list_changed(&[kind]);
        self
    }

    /// Fails, naming each mistake, when something was registered that cannot be offered.
    pub(crate) fn check_registrations(&self) -> crate::Result<()> {
        let mistakes = self.shared.registry().errors().to_vec();
        if mistakes.is_empty() { Ok(()) } else { Err(crate::Error::registration(mistakes)) }
    }
}

impl ServerShared {
    pub(crate) fn config(&self) -> Arc<Config> {
        self.config.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    /// What is offered at this moment.
    pub(crate) fn registry(&self) -> Arc<Registry> {
        self.registry.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    /// Looks at what is offered, without keeping it. Nobody else's code may run inside: the lock is held.
    pub(crate) fn with_registry<T>(&self, look: impl FnOnce(&Registry) -> T) -> T {
        look(&self.registry.read().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }

    /// Puts something else in its place, in view of what is there. Nobody else's code may run inside: the lock is held.
    pub(crate) fn replace_registry(&self, change: impl FnOnce(&mut Arc<Registry>)) {
        let mut registry = self.registry.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        change(&mut registry);
        self.has_mounts.store(!registry.mounts.is_empty(), Ordering::Release);
    }

    /// Whether another server is mounted.
    pub(crate) fn has_mounts(&self) -> bool {
        self.has_mounts.load(Ordering::Acquire)
    }

    /// Changes what is offered. Nobody else's code may run inside: the lock is held.
    pub(crate) fn update_registry(&self, change: impl FnOnce(&mut Registry)) {
        // Copied only if somebody is looking at it right now.
        self.replace_registry(|registry| change(Arc::make_mut(registry)));
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("info", &self.shared.config().info).finish_non_exhaustive()
    }
}
