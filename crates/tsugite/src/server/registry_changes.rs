//! Changing what is offered while it is served: whoever may want to know is told, once for each list.

use std::sync::Arc;

use super::Server;
use super::config::OutputValidation;
use super::registry::{ListKind, Registration, Registry};

/// Changes to what a server offers, made together.
pub struct Changes {
    /// What is offered with the changes made.
    registry: Registry,
    output_validation: OutputValidation,
    operations: Vec<RegistryOperation>,
    changed_kinds: Vec<ListKind>,
}

/// A change, to be made again if somebody else was faster.
enum RegistryOperation {
    Add(Box<Registration>),
    Remove(ListKind, String),
    SetEnabled(ListKind, String, bool),
}

impl RegistryOperation {
    fn apply(self, registry: &mut Registry, checks_output: OutputValidation) {
        match self {
            RegistryOperation::Add(offered) => {
                if let Err(mistake) = registry.add(*offered, checks_output) {
                    tracing::warn!("something was added twice at the same time: {mistake}");
                }
            }
            RegistryOperation::Remove(kind, name) => drop(registry.remove(kind, &name)),
            RegistryOperation::SetEnabled(kind, name, on) => drop(registry.set_enabled(kind, &name, on)),
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
    ///     changes.disable(Kind::ClientHandler, "buy");
    ///     changes.add(Tool::new("browse").handler(|| async { "a hat" }))
    /// })?;
    /// # Ok::<(), tsugite::ClientError>(())
    /// ```
    pub fn change<T>(&self, change: impl FnOnce(&mut Changes) -> T) -> T {
        let before = self.shared.registry();
        let checks_output = self.shared.config().output_validation;
        let registry = Registry::clone(&before);
        let mut changes = Changes {
            registry,
            output_validation: checks_output,
            operations: Vec::new(),
            changed_kinds: Vec::new(),
        };
        let result = change(&mut changes);
        if changes.changed_kinds.is_empty() {
            return result;
        }
        self.shared.replace_registry(|now| match Arc::ptr_eq(now, &before) {
            true => *now = Arc::new(changes.registry),
            // Somebody else has changed it meanwhile: the same once more, on what there is now.
            false => {
                let registry = Arc::make_mut(now);
                changes.operations.into_iter().for_each(|made| made.apply(registry, checks_output));
            }
        });
        self.shared.feed.notify_list_changed(&changes.changed_kinds);
        result
    }

    /// Offers something more. Fails, changing nothing, when it cannot be offered.
    pub fn add(&self, offered: impl Into<Registration>) -> crate::Result<()> {
        self.change(|changes| changes.add(offered))
    }

    /// No longer offers something; true if it was there.
    pub fn remove(&self, kind: ListKind, name: &str) -> bool {
        self.change(|changes| changes.remove(kind, name))
    }

    /// Offers something again that was disabled; true if it was.
    pub fn enable(&self, kind: ListKind, name: &str) -> bool {
        self.change(|changes| changes.enable(kind, name))
    }

    /// Hides something until it is enabled again; true if it was not hidden.
    pub fn disable(&self, kind: ListKind, name: &str) -> bool {
        self.change(|changes| changes.disable(kind, name))
    }

    /// Tells whoever subscribed to it that a resource has changed.
    pub fn notify_resource_updated(&self, uri: &str) {
        self.shared.feed.notify_resource_updated(&self.shared, uri);
    }
}

impl Changes {
    /// Offers something more. Fails, changing nothing, when it cannot be offered.
    pub fn add(&mut self, offered: impl Into<Registration>) -> crate::Result<()> {
        let offered = offered.into();
        let kind = offered.kind();
        let added = self.registry.add(offered.clone(), self.output_validation);
        added.map_err(|mistake| crate::Error::registration(vec![mistake]))?;
        self.record(kind, RegistryOperation::Add(Box::new(offered)));
        Ok(())
    }

    /// No longer offers something; true if it was there.
    pub fn remove(&mut self, kind: ListKind, name: &str) -> bool {
        let removed = self.registry.remove(kind, name);
        if removed {
            self.record(kind, RegistryOperation::Remove(kind, name.to_owned()));
        }
        removed
    }

    /// Offers something again that was disabled; true if it was.
    pub fn enable(&mut self, kind: ListKind, name: &str) -> bool {
        self.set_enabled(kind, name, true)
    }

    /// Hides something until it is enabled again; true if it was not hidden.
    pub fn disable(&mut self, kind: ListKind, name: &str) -> bool {
        self.set_enabled(kind, name, false)
    }

    fn set_enabled(&mut self, kind: ListKind, name: &str, on: bool) -> bool {
        let switched = self.registry.set_enabled(kind, name, on);
        if switched {
            self.record(kind, RegistryOperation::SetEnabled(kind, name.to_owned(), on));
        }
        switched
    }

    fn record(&mut self, kind: ListKind, made: RegistryOperation) {
        self.operations.push(made);
        if !self.changed_kinds.contains(&kind) {
            self.changed_kinds.push(kind);
        }
    }
}

impl std::fmt::Debug for Changes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Changes").field("changed", &self.changed_kinds).finish_non_exhaustive()
    }
}
