//! How a conversation begins: the handshake, and discover.

use tsugite_core::protocol::capabilities::ListCapability;
use tsugite_core::protocol::discover::DiscoverResult;
use tsugite_core::protocol::lifecycle::InitializeResult;
use tsugite_core::protocol::{Object, ServerCapabilities};
use tsugite_core::revision::Revision;

use super::link::Link;
use super::{Config, Shared};

/// The answer to `initialize`.
pub(crate) fn initialized(shared: &Shared, config: &Config, revision: Revision) -> InitializeResult {
    let mut answer = InitializeResult::new(revision.as_str(), capabilities(shared), config.info.clone());
    answer.instructions.clone_from(&config.instructions);
    answer
}

/// The answer to `server/discover`.
pub(crate) fn discovered(link: &Link) -> DiscoverResult {
    let (shared, config) = (&link.server.shared, &link.config);
    let versions: Vec<String> = config.served.names().into_iter().map(str::to_owned).collect();
    let mut answer = DiscoverResult::new(versions, capabilities(shared));
    answer.instructions.clone_from(&config.instructions);
    answer
}

/// What is offered is declared, and nothing else.
fn capabilities(shared: &Shared) -> ServerCapabilities {
    let capabilities = ServerCapabilities::new().logging(Object::new());
    if shared.registry(|registry| registry.has_tools()) {
        return capabilities.tools(ListCapability::new());
    }
    capabilities
}
