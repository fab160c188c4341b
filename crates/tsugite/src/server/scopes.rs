//! The scopes that items need, and whether a caller has them.
//!
//! An item that needs a scope stays listed, so that clients can ask for the scope. Visibility rules hide items instead.

use std::sync::Arc;

use tsugite_core::protocol::Method;
use tsugite_core::protocol::{prompts, resources, tools};
use tsugite_core::revision::{InsufficientScope, RpcError};
use tsugite_core::session::request_meta::RequestMeta;

use super::principal::Principal;
use super::prompt::Prompt;
use super::registry::{Item, ToolEntry};
use super::{Config, Server, ServerShared};

impl Server {
    /// Decides which scopes include others: the rule gets a granted scope and a needed one that differ. By default a scope
    /// includes only itself.
    ///
    /// ```
    /// use tsugite::prelude::*;
    ///
    /// let server = Server::new("notes", "1.0.0")
    ///     .scope_implies(|granted, needed| granted == "notes:write" && needed == "notes:read");
    /// # let _ = server;
    /// ```
    #[must_use]
    #[doc(alias("hierarchy", "scope_hierarchy"))]
    pub fn scope_implies(self, rule: impl Fn(&str, &str) -> bool + Send + Sync + 'static) -> Self {
        self.configure(|config| config.scope_rule = Some(Arc::new(rule)))
    }
}

impl Config {
    /// Fails if the caller lacks one of these scopes. The error names them all, so that a client asks for them at once.
    pub(crate) fn check_scopes(
        &self,
        principal: Option<&Principal>,
        needed: &[String],
    ) -> Result<(), RpcError> {
        match needed.is_empty() || self.has_scopes(principal, needed) {
            true => Ok(()),
            false => {
                let granted = principal.map(|principal| principal.scopes().to_vec()).unwrap_or_default();
                let error = InsufficientScope { required: needed.to_vec(), granted };
                Err(RpcError::InsufficientScope(Box::new(error)))
            }
        }
    }

    /// Whether the caller has all of these scopes.
    pub(crate) fn has_scopes(&self, principal: Option<&Principal>, needed: &[String]) -> bool {
        let granted = principal.map(Principal::scopes).unwrap_or_default();
        let implies = |granted: &str, needed: &str| {
            granted == needed || self.scope_rule.as_ref().is_some_and(|rule| rule(granted, needed))
        };
        needed.iter().all(|needed| granted.iter().any(|granted| implies(granted, needed)))
    }
}

impl ServerShared {
    /// The scopes that a request needs, as the item that it names says. Empty if the item does not exist.
    pub(crate) fn needed_scopes(
        &self,
        config: &Config,
        principal: Option<&Principal>,
        method: &str,
        meta: &RequestMeta<'_>,
    ) -> Vec<String> {
        let Some(Some(name)) = meta.mcp_name(method) else { return Vec::new() };
        match method {
            tools::Call::NAME => Some(self.scopes_of_tool(config, principal, name)),
            prompts::Get::NAME => {
                self.find::<Prompt>(config, principal, name).map(|found| scopes_of(&*found.item))
            }
            resources::Read::NAME => self
                .find_resource(config, principal, name)
                .ok()
                .flatten()
                .map(|found| scopes_of(&*found.item)),
            _ => None,
        }
        .unwrap_or_default()
    }

    /// The scopes that a tool needs. Empty if the tool does not exist.
    pub(crate) fn scopes_of_tool(
        &self,
        config: &Config,
        principal: Option<&Principal>,
        name: &str,
    ) -> Vec<String> {
        let found = self.find::<ToolEntry>(config, principal, name);
        found.map(|found| scopes_of(&*found.item)).unwrap_or_default()
    }

    /// Whether an item of this server or of a mounted one needs a scope.
    pub(crate) fn has_scoped_items(&self) -> bool {
        self.with_registry(|registry| {
            registry.has_scopes || registry.mounts.iter().any(|mount| mount.shared.has_scoped_items())
        })
    }
}

fn scopes_of(item: &impl Item) -> Vec<String> {
    item.scopes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broader_scope_counts_where_the_rule_says_so() {
        // ARS-025
        let server = Server::new("s", "1").scope_implies(|granted, needed| {
            granted.strip_suffix('*').is_some_and(|start| needed.starts_with(start))
        });
        let config = server.shared.config();
        let needed = ["notes:read".to_owned(), "notes:write".to_owned()];
        let has = |scopes: &[&str]| {
            config.has_scopes(Some(&Principal::new("ann").with_scopes(scopes.iter().copied())), &needed)
        };
        assert!(has(&["notes:read", "notes:write"]) && has(&["notes:*"]) && has(&["notes:read", "notes:w*"]));
        assert!(
            !has(&["notes:read"]) && !has(&["other:*"]) && !has(&[]) && !config.has_scopes(None, &needed)
        );
        let plain = Server::new("s", "1");
        let ann = Principal::new("ann").with_scopes(["notes:*"]);
        assert!(!plain.shared.config().has_scopes(Some(&ann), &needed));
    }
}
