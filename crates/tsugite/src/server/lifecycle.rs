//! How a conversation begins: the handshake, and discover.

use std::collections::HashSet;

use tsugite_core::protocol::capabilities::{ListCapability, ResourcesCapability};
use tsugite_core::protocol::discover::DiscoverResult;
use tsugite_core::protocol::lifecycle::InitializeResult;
use tsugite_core::protocol::{Object, ServerCapabilities};
use tsugite_core::revision::Revision;

use super::link::Link;
use super::registry::Kind;
use super::{Config, Shared, lists};

/// The answer to `initialize`.
pub(crate) fn initialized(shared: &Shared, config: &Config, revision: Revision) -> InitializeResult {
    let mut answer =
        InitializeResult::new(revision.as_str(), capabilities(shared, config), config.info.clone());
    answer.instructions.clone_from(&config.instructions);
    answer
}

/// The answer to `server/discover`.
pub(crate) fn discovered(link: &Link) -> DiscoverResult {
    let (shared, config) = (&link.server.shared, &link.config);
    let versions: Vec<String> = config.served.names().into_iter().map(str::to_owned).collect();
    let mut answer = DiscoverResult::new(versions, capabilities(shared, config));
    answer.instructions.clone_from(&config.instructions);
    lists::hint(&mut answer, config.cache, false);
    answer
}

/// The lists a client was told of.
pub(crate) fn declared(capabilities: &ServerCapabilities) -> HashSet<Kind> {
    let lists = [
        (Kind::Tool, capabilities.tools.is_some()),
        (Kind::Prompt, capabilities.prompts.is_some()),
        (Kind::Resource, capabilities.resources.is_some()),
    ];
    lists.into_iter().filter(|(_, declared)| *declared).map(|(kind, _)| kind).collect()
}

/// What is offered is declared, and nothing else. All of it can change while it is served.
pub(crate) fn capabilities(shared: &Shared, config: &Config) -> ServerCapabilities {
    let registry = shared.registry();
    let has = |kind| config.offers_later || registry.has(kind);
    let list = || ListCapability::new().list_changed(true);
    let mut capabilities = ServerCapabilities::new().logging(Object::new());
    capabilities.tools = has(Kind::Tool).then(list);
    capabilities.prompts = has(Kind::Prompt).then(list);
    capabilities.resources =
        has(Kind::Resource).then(|| ResourcesCapability::new().subscribe(true).list_changed(true));
    capabilities.completions = registry.completes().then(Object::new);
    capabilities.extensions = (!config.extensions.is_empty()).then(|| config.extensions.clone());
    capabilities
}
