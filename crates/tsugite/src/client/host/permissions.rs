//! What a host lets one of its servers be used for.

use std::collections::HashSet;

/// What a server may be used for: everything, unless said otherwise. What is not allowed is neither listed nor done.
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
    /// Everything.
    pub fn new() -> Self {
        Self::default()
    }

    /// Of its tools only these, by the names the server gives them.
    #[must_use]
    pub fn only_tools(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.tools = ToolPermissions::Only(names.into_iter().map(Into::into).collect());
        self
    }

    /// Of its tools all but these, by the names the server gives them.
    #[must_use]
    pub fn without_tools(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.tools = ToolPermissions::Except(names.into_iter().map(Into::into).collect());
        self
    }

    /// Whether its resources may be read.
    #[must_use]
    pub fn resources(mut self, allowed: bool) -> Self {
        self.no_resources = !allowed;
        self
    }

    /// Whether its prompts may be used.
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
