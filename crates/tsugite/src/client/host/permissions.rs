//! The permissions of a host for one of its servers.

use std::collections::HashSet;

/// The permitted uses of one server; all by default. Anything not permitted is neither listed nor called.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Permissions {
    tools: ToolPermissions,
    no_resources: bool,
    no_prompts: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum ToolPermissions {
    #[default]
    All,
    Only(HashSet<String>),
    Except(HashSet<String>),
}

impl Permissions {
    /// Permits everything.
    pub fn new() -> Self {
        Self::default()
    }

    /// Permits only these tools, by their names on the server.
    #[must_use]
    pub fn only_tools(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.tools = ToolPermissions::Only(names.into_iter().map(Into::into).collect());
        self
    }

    /// Permits all tools except these, by their names on the server.
    #[must_use]
    pub fn without_tools(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.tools = ToolPermissions::Except(names.into_iter().map(Into::into).collect());
        self
    }

    /// Sets whether resources may be read.
    #[must_use]
    pub fn resources(mut self, allowed: bool) -> Self {
        self.no_resources = !allowed;
        self
    }

    /// Sets whether prompts may be used.
    #[must_use]
    pub fn prompts(mut self, allowed: bool) -> Self {
        self.no_prompts = !allowed;
        self
    }

    pub(super) fn allows_tool(&self, name: &str) -> bool {
        match &self.tools {
            ToolPermissions::All => true,
            ToolPermissions::Only(names) => names.contains(name),
            ToolPermissions::Except(names) => !names.contains(name),
        }
    }

    pub(super) fn allows_resources(&self) -> bool {
        !self.no_resources
    }

    pub(super) fn allows_prompts(&self) -> bool {
        !self.no_prompts
    }
}
