//! Changing what is offered while it is served: whoever may want to know is told, once for each list.

use std::sync::Arc;

use super::Server;
use super::config::Checks;
use super::registry::{Kind, Offered, Registry};

/// Changes to what a server offers, made together.
pub struct Changes {
    /// What is offered with the changes made.
    registry: Registry,
    checks_output: Checks,
    made: Vec<Made>,
    changed: Vec<Kind>,
}

/// A change, to be made again if somebody else was faster.
enum Made {
    Add(Box<Offered>),
    Remove(Kind, String),
    Switch(Kind, String, bool),
}

impl Made {
    fn again(self, registry: &mut Registry, checks_output: Checks) {
        match self {
            Made::Add(offered) => {
                if let Err(mistake) = registry.add(*offered, checks_output) {
                    tracing::warn!("something was added twice at the same time: {mistake}");
                }
            }
            Made::Remove(kind, name) => drop(registry.remove(kind, &name)),
            Made::Switch(kind, name, on) => drop(registry.switch(kind, &name, on)),
        }
    }
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
    pub fn change<T>(&self, change: impl FnOnce(&mut Changes) -> T) -> T {
        let before = self.shared.registry();
        let checks_output = self.shared.config().checks_output;
        let registry = Registry::clone(&before);
        let mut changes = Changes { registry, checks_output, made: Vec::new(), changed: Vec::new() };
        let result = change(&mut changes);
        if changes.changed.is_empty() {
            return result;
        }
        self.shared.replace(|now| match Arc::ptr_eq(now, &before) {
            true => *now = Arc::new(changes.registry),
            // Somebody else has changed it meanwhile: the same once more, on what there is now.
            false => {
                let registry = Arc::make_mut(now);
                changes.made.into_iter().for_each(|made| made.again(registry, checks_output));
            }
        });
        self.shared.feed.changed(&changes.changed);
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
        self.shared.feed.updated(&self.shared, uri);
    }
}

impl Changes {
    /// Offers something more. Fails, changing nothing, when it cannot be offered.
    pub fn add(&mut self, offered: impl Into<Offered>) -> crate::Result<()> {
        let offered = offered.into();
        let kind = offered.kind();
        let added = self.registry.add(offered.clone(), self.checks_output);
        added.map_err(|mistake| crate::Error::registration(vec![mistake]))?;
        self.note(kind, Made::Add(Box::new(offered)));
        Ok(())
    }

    /// No longer offers something; true if it was there.
    pub fn remove(&mut self, kind: Kind, name: &str) -> bool {
        let removed = self.registry.remove(kind, name);
        if removed {
            self.note(kind, Made::Remove(kind, name.to_owned()));
        }
        removed
    }

    /// Offers something again that was disabled; true if it was.
    pub fn enable(&mut self, kind: Kind, name: &str) -> bool {
        self.switch(kind, name, true)
    }

    /// Hides something until it is enabled again; true if it was not hidden.
    pub fn disable(&mut self, kind: Kind, name: &str) -> bool {
        self.switch(kind, name, false)
    }

    fn switch(&mut self, kind: Kind, name: &str, on: bool) -> bool {
        let switched = self.registry.switch(kind, name, on);
        if switched {
            self.note(kind, Made::Switch(kind, name.to_owned(), on));
        }
        switched
    }

    fn note(&mut self, kind: Kind, made: Made) {
        self.made.push(made);
        if !self.changed.contains(&kind) {
            self.changed.push(kind);
        }
    }
}

impl std::fmt::Debug for Changes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Changes").field("changed", &self.changed).finish_non_exhaustive()
    }
}
