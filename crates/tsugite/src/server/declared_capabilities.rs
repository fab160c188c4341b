//! The capabilities that a server has declared to a session.

use tsugite_core::protocol::ServerCapabilities;

use crate::shared::list_kind::ListKind;

/// The capabilities declared in the handshake. A session keeps them even if the registry changes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct DeclaredCapabilities {
    tools: bool,
    prompts: bool,
    resources: bool,
    pub(crate) completions: bool,
    pub(crate) tasks: bool,
}

impl DeclaredCapabilities {
    pub(crate) fn from_capabilities(capabilities: &ServerCapabilities) -> Self {
        Self {
            tools: capabilities.tools.is_some(),
            prompts: capabilities.prompts.is_some(),
            resources: capabilities.resources.is_some(),
            completions: capabilities.completions.is_some(),
            tasks: capabilities.tasks.is_some(),
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
