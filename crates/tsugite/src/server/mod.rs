//! What a server offers, and how a request finds its handler.
//!
//! - [`Server`]: what is offered.
//! - `link`: one peer; what arrives is decided here and answers leave from here.
//! - `route`: the switchboard, one line per method.
//! - `lifecycle`, `tools`: one file per family of methods.
//! - [`Context`]: what a handler may do meanwhile. `tool_fn`: from `async fn` to tool.
//! - `validate`: arguments against a schema, where a type cannot do it.

mod context;
mod failure;
#[cfg_attr(not(test), expect(dead_code, reason = "wired in with resources"))]
mod files;
mod lifecycle;
pub(crate) mod link;
mod outbox;
mod output;
mod panic;
mod registry;
mod reply;
mod route;
#[cfg_attr(not(test), expect(dead_code, reason = "wired in with what a server asks its client for"))]
#[expect(unreachable_pub, reason = "`SealKey` becomes public with the setting that takes it")]
mod seal;
mod state;
mod tool_fn;
mod tools;
#[expect(unused_imports, reason = "wired in with the arguments")]
#[cfg_attr(not(test), expect(dead_code, reason = "wired in with the arguments"))]
mod validate;

use std::sync::{Arc, RwLock};

pub use context::{Cancelled, Context};
pub use failure::ToolError;
pub(crate) use outbox::Outbox;
pub use output::{IntoOutput, Json};
pub use state::State;
pub use tool_fn::{Args, FromCall, IntoHandler, Tool};

use registry::Registry;
use state::States;
use tsugite_core::jsonrpc::Limits;
use tsugite_core::protocol::Implementation;
use tsugite_core::revision::{Revisions, ServerStamp};

/// A server: its name, and what it offers. Cheap to clone; clones are the same server.
#[derive(Clone)]
pub struct Server {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) config: RwLock<Arc<Config>>,
    pub(crate) registry: RwLock<Registry>,
}

/// What is said once and looked up with every request. A link keeps the one it began with.
#[derive(Clone)]
pub(crate) struct Config {
    pub(crate) info: Implementation,
    pub(crate) stamp: ServerStamp,
    pub(crate) instructions: Option<String>,
    pub(crate) served: Revisions,
    pub(crate) states: States,
    pub(crate) limits: Limits,
    pub(crate) running: usize,
    pub(crate) waiting: usize,
}

impl Server {
    /// A server that offers nothing yet.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self::of(Implementation::new(name, version))
    }

    /// A server that presents itself with more than a name and a version.
    pub fn of(info: Implementation) -> Self {
        let config = Config {
            stamp: ServerStamp::new(info.clone()),
            info,
            instructions: None,
            served: Revisions::ALL,
            states: States::default(),
            limits: Limits::default(),
            running: 256,
            waiting: 16_384,
        };
        let shared = Shared { config: RwLock::new(Arc::new(config)), registry: RwLock::default() };
        Self { shared: Arc::new(shared) }
    }

    /// Tells the model how to use the server.
    #[must_use]
    pub fn instructions(self, text: impl Into<String>) -> Self {
        self.configure(|config| config.instructions = Some(text.into()))
    }

    /// Serves only these revisions; all unless told otherwise.
    #[must_use]
    pub fn revisions(self, served: Revisions) -> Self {
        self.configure(|config| config.served = served)
    }

    /// Sets how large a message may be.
    #[must_use]
    pub fn limits(self, limits: Limits) -> Self {
        self.configure(|config| config.limits = limits)
    }

    /// Sets how many handlers of one peer run at a time (256 unless told otherwise). Further requests wait; reading
    /// goes on, so that answers and cancellations are heard.
    #[must_use]
    pub fn concurrency(self, handlers: usize) -> Self {
        self.configure(|config| config.running = handlers.max(1))
    }

    /// Gives handlers a value they can ask for with [`State`]. One for each type; the last one counts.
    #[must_use]
    pub fn state<T: Clone + Send + Sync + 'static>(self, state: T) -> Self {
        self.configure(|config| config.states.insert(state))
    }

    /// Offers a tool. What cannot be offered is reported when the server is served.
    #[must_use]
    pub fn tool(self, tool: impl Into<Tool>) -> Self {
        let tool = tool.into();
        self.shared.registry_mut(|registry| registry.add_tool(tool));
        self
    }

    fn configure(self, change: impl FnOnce(&mut Config)) -> Self {
        let mut config = self.shared.config.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        change(Arc::make_mut(&mut config));
        drop(config);
        self
    }

    /// Fails, naming each mistake, when something was registered that cannot be offered.
    pub(crate) fn check(&self) -> crate::Result<()> {
        let mistakes = self.shared.registry(|registry| registry.mistakes().to_vec());
        if mistakes.is_empty() { Ok(()) } else { Err(crate::Error::registration(mistakes)) }
    }
}

impl Shared {
    pub(crate) fn config(&self) -> Arc<Config> {
        self.config.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    pub(crate) fn registry<T>(&self, look: impl FnOnce(&Registry) -> T) -> T {
        look(&self.registry.read().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }

    pub(crate) fn registry_mut<T>(&self, change: impl FnOnce(&mut Registry) -> T) -> T {
        change(&mut self.registry.write().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("info", &self.shared.config().info).finish_non_exhaustive()
    }
}
