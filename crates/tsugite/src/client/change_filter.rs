//! [`ChangeFilter`]: the changes that a subscription reports.

use tsugite_core::protocol::subscriptions::SubscriptionFilter;

use super::client_handler::Change;

/// The changes to report.
///
/// ```
/// use tsugite::client::ChangeFilter;
///
/// let watch = ChangeFilter::new().tools().resource("file:///notes.txt");
/// # let _ = watch;
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChangeFilter {
    /// The list of tools.
    pub tools: bool,
    /// The list of prompts.
    pub prompts: bool,
    /// The lists of resources and templates.
    pub resources: bool,
    /// The contents of these resources.
    pub uris: Vec<String>,
}

impl ChangeFilter {
    /// Nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// All three lists.
    pub fn lists() -> Self {
        Self::new().tools().prompts().resources()
    }

    /// The list of tools.
    #[must_use]
    pub fn tools(mut self) -> Self {
        self.tools = true;
        self
    }

    /// The list of prompts.
    #[must_use]
    pub fn prompts(mut self) -> Self {
        self.prompts = true;
        self
    }

    /// The lists of resources and templates.
    #[must_use]
    pub fn resources(mut self) -> Self {
        self.resources = true;
        self
    }

    /// Adds the contents of a resource, and of the resources below it: `file:///a` covers `file:///a/b`, not
    /// `file:///ab`.
    #[must_use]
    pub fn resource(mut self, uri: impl Into<String>) -> Self {
        self.uris.push(uri.into());
        self
    }

    pub(super) fn matches(&self, change: &Change) -> bool {
        match change {
            Change::Tools => self.tools,
            Change::Prompts => self.prompts,
            Change::Resources => self.resources,
            Change::Resource { uri } => self.uris.iter().any(|watched| covers(watched, uri)),
            Change::ElicitationComplete { .. } => false,
            Change::All => true,
        }
    }

    /// The part of this filter that the server granted.
    pub(super) fn granted(&self, granted: &SubscriptionFilter) -> Self {
        let has = |wanted: bool, granted: Option<bool>| wanted && granted == Some(true);
        let uris = granted.resource_subscriptions.as_deref().unwrap_or_default();
        Self {
            tools: has(self.tools, granted.tools_list_changed),
            prompts: has(self.prompts, granted.prompts_list_changed),
            resources: has(self.resources, granted.resources_list_changed),
            uris: self.uris.iter().filter(|uri| uris.contains(uri)).cloned().collect(),
        }
    }

    pub(super) fn to_listen_filter(&self) -> SubscriptionFilter {
        let mut filter = SubscriptionFilter::new();
        if self.tools {
            filter = filter.tools_list_changed(true);
        }
        if self.prompts {
            filter = filter.prompts_list_changed(true);
        }
        if self.resources {
            filter = filter.resources_list_changed(true);
        }
        if !self.uris.is_empty() {
            filter = filter.resource_subscriptions(self.uris.clone());
        }
        filter
    }
}

/// Whether a change of `uri` concerns the watched resource: the same URI, or one below it.
fn covers(watched: &str, uri: &str) -> bool {
    uri.strip_prefix(watched).is_some_and(|rest| {
        rest.is_empty() || watched.ends_with(['/', ':']) || rest.starts_with(['/', '?', '#'])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resource_covers_itself_and_the_paths_below_it() {
        let covers = |watched: &str, uri: &str| {
            ChangeFilter::new().resource(watched).matches(&Change::Resource { uri: uri.to_owned() })
        };
        for (watched, uri) in [
            ("file:///a", "file:///a"),
            ("file:///a", "file:///a/b"),
            ("file:///a/", "file:///a/b"),
            ("file:///a", "file:///a?version=2"),
            ("file:///a", "file:///a#part"),
            ("note:", "note:1"),
        ] {
            assert!(covers(watched, uri), "{watched} {uri}");
        }
        for (watched, uri) in
            [("file:///a", "file:///ab"), ("file:///a/b", "file:///a"), ("file:///a/", "file:///a")]
        {
            assert!(!covers(watched, uri), "{watched} {uri}");
        }
    }
}
