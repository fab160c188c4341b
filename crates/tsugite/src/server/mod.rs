//! What a server offers, and how a request finds its handler.
//!
//! - [`Server`]: what is offered, and its settings (`config`).
//! - `link`: one peer; what arrives is decided here and answers leave from here.
//! - `route`: the switchboard, one line per method; `layer`: what stands around it.
//! - `lifecycle`, `lists`, `tools`, `resources`, `prompts`, `completion`, `subscriptions`: one file per family of methods.
//! - [`Context`]: what a handler may do meanwhile; `ask`: what it may ask.
//! - `handler`: from `async fn` to handler; [`Tool`], [`Resource`], [`Prompt`]: put together by hand, or by macros (`param`).
//! - `registry`, `lookup`, `feed`: what there is, who finds it, who hears that it changed.

mod arguments;
pub(crate) mod ask;
mod completer;
mod completion;
mod config;
mod context;
mod described;
mod failure;
mod feed;
mod files;
mod handled;
mod handler;
pub mod layer;
mod lifecycle;
pub(crate) mod link;
mod lists;
mod live;
mod lookup;
mod output;
pub(crate) mod panic;
#[doc(hidden)]
pub mod param;
mod position;
mod principal;
mod prompt;
mod prompts;
pub(crate) mod registry;
mod reply;
mod resource;
mod resources;
pub(crate) mod room;
mod route;
mod schema;
mod seal;
mod state;
mod subscriptions;
mod tool;
mod tools;
pub(crate) mod validate;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};

pub use arguments::Args;
pub use ask::{Ask, AskError, FieldValue, Form, FormChoice, FormField, Visit};
pub use completer::{Completer, IntoCompleter, IntoValues, Typing};
pub use context::{Cancelled, Context};
pub use failure::{Failure, ToolError};
pub use handler::{Answer, Blocking, CallParts, FromCall, Handler, IntoHandler};
pub(crate) use lifecycle::Declared;
pub use live::Changes;
pub use lookup::Viewed;
pub use output::{IntoOutput, Json};
pub(crate) use principal::Named;
pub use principal::{Headers, Principal};
pub use prompt::Prompt;
pub use registry::{Kind, Offered};
pub(crate) use reply::{Reply, alone};
pub use resource::Resource;
pub(crate) use seal::random_name;
pub use seal::{NoKey, SealKey};
pub use state::State;
pub use tool::Tool;

pub(crate) use config::Config;

use feed::Feed;
use lists::Pages;
use registry::Registry;

/// A server: its name, and what it offers. Cheap to clone; clones are the same server, also while it is served.
#[derive(Clone)]
pub struct Server {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) config: RwLock<Arc<Config>>,
    registry: RwLock<Arc<Registry>>,
    /// Whether another server is mounted, which every list asks.
    has_mounts: AtomicBool,
    pub(crate) feed: Feed,
    pub(crate) pages: Pages,
}

/// Things that are offered together: what `#[handlers]` makes of an `impl` block.
pub trait Handlers {
    /// The things.
    fn offered(self) -> Vec<Offered>;
}

impl Server {
    /// Offers a tool. What cannot be offered is reported when the server is served.
    #[must_use]
    pub fn tool(self, tool: impl Into<Tool>) -> Self {
        self.offer(tool.into())
    }

    /// Offers a resource, or a family of them. What cannot be offered is reported when the server is served.
    #[must_use]
    pub fn resource(self, resource: impl Into<Resource>) -> Self {
        self.offer(resource.into())
    }

    /// Offers a prompt. What cannot be offered is reported when the server is served.
    #[must_use]
    pub fn prompt(self, prompt: impl Into<Prompt>) -> Self {
        self.offer(prompt.into())
    }

    /// Offers the handlers of a value: the methods of an `impl` block that stands under `#[handlers]`.
    #[must_use]
    pub fn handlers(self, handlers: impl Handlers) -> Self {
        handlers.offered().into_iter().fold(self, Server::offer)
    }

    fn offer(self, offered: impl Into<Offered>) -> Self {
        let (offered, checks_output) = (offered.into(), self.shared.config().checks_output);
        let kind = offered.kind();
        self.shared.registry_mut(|registry| registry.add_or_note(offered, checks_output));
        self.shared.feed.changed(&[kind]);
        self
    }

    /// Fails, naming each mistake, when something was registered that cannot be offered.
    pub(crate) fn check(&self) -> crate::Result<()> {
        let mistakes = self.shared.registry().mistakes().to_vec();
        if mistakes.is_empty() { Ok(()) } else { Err(crate::Error::registration(mistakes)) }
    }
}

impl Shared {
    pub(crate) fn config(&self) -> Arc<Config> {
        self.config.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    /// What is offered at this moment.
    pub(crate) fn registry(&self) -> Arc<Registry> {
        self.registry.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    /// Looks at what is offered, without keeping it. Nobody else's code may run inside: the lock is held.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Registry) -> T) -> T {
        look(&self.registry.read().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }

    /// Puts something else in its place, in view of what is there. Nobody else's code may run inside: the lock is held.
    pub(crate) fn replace(&self, change: impl FnOnce(&mut Arc<Registry>)) {
        let mut registry = self.registry.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        change(&mut registry);
        self.has_mounts.store(!registry.mounts.is_empty(), Ordering::Release);
    }

    /// Whether another server is mounted.
    pub(crate) fn has_mounts(&self) -> bool {
        self.has_mounts.load(Ordering::Acquire)
    }

    /// Changes what is offered. Nobody else's code may run inside: the lock is held.
    pub(crate) fn registry_mut(&self, change: impl FnOnce(&mut Registry)) {
        // Copied only if somebody is looking at it right now.
        self.replace(|registry| change(Arc::make_mut(registry)));
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("info", &self.shared.config().info).finish_non_exhaustive()
    }
}
