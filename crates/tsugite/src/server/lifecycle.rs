//! `initialize` and `server/discover`.

use tsugite_core::protocol::capabilities::{ListCapability, ResourcesCapability};
use tsugite_core::protocol::discover::DiscoverResult;
use tsugite_core::protocol::lifecycle::InitializeResult;
use tsugite_core::protocol::{Object, ServerCapabilities};
use tsugite_core::revision::Revision;

use super::connection::ServerConnection;
use super::registry::ListKind;
use super::{Config, ServerShared, lists};

/// The result of `initialize`.
pub(crate) fn initialize_result(
    shared: &ServerShared,
    config: &Config,
    revision: Revision,
) -> InitializeResult {
    let mut answer =
        InitializeResult::new(revision.as_str(), capabilities(shared, config), config.info.clone());
    answer.instructions.clone_from(&config.instructions);
    answer
}

/// The result of `server/discover`.
pub(crate) fn discover_result(connection: &ServerConnection) -> DiscoverResult {
    let (shared, config) = (&connection.server.shared, &connection.config);
    let versions: Vec<String> = config.revisions.names().into_iter().map(str::to_owned).collect();
    let mut answer = DiscoverResult::new(versions, capabilities(shared, config));
    answer.instructions.clone_from(&config.instructions);
    lists::set_cache_hint(&mut answer, config.cache, false);
    answer
}

/// The capabilities declared in the handshake. A session keeps them even if the registry changes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct DeclaredCapabilities {
    tools: bool,
    prompts: bool,
    resources: bool,
    pub(crate) completions: bool,
}

impl DeclaredCapabilities {
    pub(crate) fn from_capabilities(capabilities: &ServerCapabilities) -> Self {
        Self {
            tools: capabilities.tools.is_some(),
            prompts: capabilities.prompts.is_some(),
            resources: capabilities.resources.is_some(),
            completions: capabilities.completions.is_some(),
        }
    }

    pub(crate) fn has(self, kind: ListKind) -> bool {
        match kind {
            ListKind::Tool => self.tools,
            ListKind::Prompt => self.prompts,
            ListKind::Resource => self.resources,
        }
    }
}

/// Removes capabilities that need server-initiated messages.
pub(crate) fn strip_push_capabilities(capabilities: &mut ServerCapabilities) {
    capabilities.logging = None;
    capabilities.tools = capabilities.tools.take().map(|_| ListCapability::new());
    capabilities.prompts = capabilities.prompts.take().map(|_| ListCapability::new());
    capabilities.resources = capabilities.resources.take().map(|_| ResourcesCapability::new());
}

/// Declares the capabilities of the registered items. All of them may change while the server runs.
pub(crate) fn capabilities(shared: &ServerShared, config: &Config) -> ServerCapabilities {
    let registry = shared.registry();
    let has = |kind| config.declare_all_capabilities || registry.has(kind);
    let list = || ListCapability::new().list_changed(true);
    let mut capabilities = ServerCapabilities::new().logging(Object::new());
    capabilities.tools = has(ListKind::Tool).then(list);
    capabilities.prompts = has(ListKind::Prompt).then(list);
    capabilities.resources =
        has(ListKind::Resource).then(|| ResourcesCapability::new().subscribe(true).list_changed(true));
    capabilities.completions = registry.has_completers().then(Object::new);
    capabilities.extensions = (!config.extensions.is_empty()).then(|| config.extensions.clone());
    capabilities
}
