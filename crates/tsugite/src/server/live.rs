//! Changing what is offered while it is served: whoever may want to know is told, once for each list.

use super::Server;
use super::config::Checks;
use super::registry::{Kind, Offered, Registry};

/// Changes to what a server offers, made together.
pub struct Changes<'a> {
    registry: &'a mut Registry,
    checks_output: Checks,
    changed: Vec<Kind>,
}

impl Server {
    /// Changes what is offered, at any time. However much changes, each list that did is announced once.
    ///
    /// ```
    /// use tsugite::prelude::*;
    ///
    /// let server = Server::new("shop", "1.0.0").tool(Tool::new("buy").handler(|| async { "bought" }));
    /// server.change(|changes| {
    ///     changes.disable(Kind::Tool, "buy");
    ///     changes.add(Tool::new("browse").handler(|| async { "a hat" }))
    /// })?;
    /// # Ok::<(), tsugite::Error>(())
    /// ```
    pub fn change<T>(&self, change: impl FnOnce(&mut Changes<'_>) -> T) -> T {
        let checks_output = self.shared.config().checks_output;
        let (result, changed) = self.shared.registry_mut(|registry| {
            let mut changes = Changes { registry, checks_output, changed: Vec::new() };
            let result = change(&mut changes);
            (result, changes.changed)
        });
        if !changed.is_empty() {
            self.shared.feed.changed(&changed);
        }
        result
    }

    /// Offers something more. Fails, changing nothing, when it cannot be offered.
    pub fn add(&self, offered: impl Into<Offered>) -> crate::Result<()> {
        self.change(|changes| changes.add(offered))
    }

    /// No longer offers something; true if it was there.
    pub fn remove(&self, kind: Kind, name: &str) -> bool {
        self.change(|changes| changes.remove(kind, name))
    }

    /// Offers something again that was disabled; true if it was.
    pub fn enable(&self, kind: Kind, name: &str) -> bool {
        self.change(|changes| changes.enable(kind, name))
    }

    /// Hides something until it is enabled again; true if it was not hidden.
    pub fn disable(&self, kind: Kind, name: &str) -> bool {
        self.change(|changes| changes.disable(kind, name))
    }

    /// Tells whoever subscribed to it that a resource has changed.
    pub fn updated(&self, uri: &str) {
        self.shared.feed.updated(uri);
    }
}

impl Changes<'_> {
    /// Offers something more. Fails, changing nothing, when it cannot be offered.
    pub fn add(&mut self, offered: impl Into<Offered>) -> crate::Result<()> {
        let offered = offered.into();
        let kind = match &offered {
            Offered::Tool(_) => Kind::Tool,
            Offered::Prompt(_) => Kind::Prompt,
            Offered::Resource(_) => Kind::Resource,
        };
        let added = self.registry.add(offered, self.checks_output);
        added.map_err(|mistake| crate::Error::registration(vec![mistake]))?;
        self.note(kind, true);
        Ok(())
    }

    /// No longer offers something; true if it was there.
    pub fn remove(&mut self, kind: Kind, name: &str) -> bool {
        let removed = self.registry.remove(kind, name);
        self.note(kind, removed)
    }

    /// Offers something again that was disabled; true if it was.
    pub fn enable(&mut self, kind: Kind, name: &str) -> bool {
        let switched = self.registry.switch(kind, name, true);
        self.note(kind, switched)
    }

    /// Hides something until it is enabled again; true if it was not hidden.
    pub fn disable(&mut self, kind: Kind, name: &str) -> bool {
        let switched = self.registry.switch(kind, name, false);
        self.note(kind, switched)
    }

    fn note(&mut self, kind: Kind, changed: bool) -> bool {
        if changed && !self.changed.contains(&kind) {
            self.changed.push(kind);
        }
        changed
    }
}

impl std::fmt::Debug for Changes<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Changes").field("changed", &self.changed).finish_non_exhaustive()
    }
}
