//! Changes to the registry while the server runs. Each list that changed is announced once.

use std::sync::Arc;

use super::config::OutputValidation;
use super::into_item::IntoRegistration;
use super::registry::{ListKind, Registration, Registry};
use super::{Config, Server};
use crate::shared::log;

/// A set of registry changes that take effect together.
pub struct Changes {
    /// The registry with the changes applied.
    registry: Registry,
    config: Arc<Config>,
    operations: Vec<RegistryOperation>,
    changed_kinds: Vec<ListKind>,
}

/// One operation, kept so that it can be repeated if another thread changed the registry first.
enum RegistryOperation {
    Add(Box<Registration>),
    Remove(ListKind, String),
    SetEnabled(ListKind, String, bool),
}

impl RegistryOperation {
    fn apply(self, registry: &mut Registry, checks_output: OutputValidation) {
        match self {
            RegistryOperation::Add(offered) => {
                if let Err(error) = registry.add(*offered, checks_output) {
                    log::warn!("an item was added twice concurrently: {error}");
                }
            }
            RegistryOperation::Remove(kind, name) => drop(registry.remove(kind, &name)),
            RegistryOperation::SetEnabled(kind, name, on) => drop(registry.set_enabled(kind, &name, on)),
        }
    }
}

impl Server {
    /// Changes the registered items at any time. Each list that changed is announced once, however many items changed.
    ///
    /// ```
    /// use tsugite::prelude::*;
    /// use tsugite::server::ListKind;
    ///
    /// let server = Server::new("shop", "1.0.0").tool(Tool::new("buy").handler(|| async { "bought" }));
    /// server.change(|changes| {
    ///     changes.disable(ListKind::Tool, "buy");
    ///     changes.add(Tool::new("browse").handler(|| async { "a hat" }))
    /// })?;
    /// # Ok::<(), tsugite::Error>(())
    /// ```
    #[doc(alias(
        "list_changed",
        "notifications",
        "notify_tool_list_changed",
        "notifications/tools/list_changed"
    ))]
    pub fn change<T>(&self, change: impl FnOnce(&mut Changes) -> T) -> T {
        let before = self.shared.registry();
        let config = self.shared.config();
        let checks_output = config.output_validation;
        let registry = Registry::clone(&before);
        let mut changes = Changes { registry, config, operations: Vec::new(), changed_kinds: Vec::new() };
        let result = change(&mut changes);
        if changes.changed_kinds.is_empty() {
            return result;
        }
        self.shared.replace_registry(|now| match Arc::ptr_eq(now, &before) {
            true => *now = Arc::new(changes.registry),
            // Another thread changed the registry meanwhile: repeat the operations on its version.
            false => {
                let registry = Arc::make_mut(now);
                changes.operations.into_iter().for_each(|made| made.apply(registry, checks_output));
            }
        });
        self.shared.feed.notify_list_changed(&changes.changed_kinds);
        self.continue_tasks();
        result
    }

    /// Registers an item. Fails and changes nothing if the item is invalid or needs a state that the server lacks.
    pub fn add<Marker>(&self, offered: impl IntoRegistration<Marker>) -> crate::Result<()> {
        self.change(|changes| changes.add(offered))
    }

    /// Removes an item. Returns whether it was registered.
    pub fn remove(&self, kind: ListKind, name: &str) -> bool {
        self.change(|changes| changes.remove(kind, name))
    }

    /// Enables a disabled item. Returns whether it was disabled.
    pub fn enable(&self, kind: ListKind, name: &str) -> bool {
        self.change(|changes| changes.enable(kind, name))
    }

    /// Hides an item until it is enabled again. Returns whether it was enabled.
    pub fn disable(&self, kind: ListKind, name: &str) -> bool {
        self.change(|changes| changes.disable(kind, name))
    }

    /// Notifies subscribers that a resource has changed.
    #[doc(alias("notifications/resources/updated", "sendResourceUpdated"))]
    pub fn notify_resource_updated(&self, uri: &str) {
        self.shared.feed.notify_resource_updated(&self.shared, uri);
    }
}

impl Changes {
    /// Registers an item. Fails and changes nothing if the item is invalid or needs a state that the server lacks.
    pub fn add<Marker>(&mut self, offered: impl IntoRegistration<Marker>) -> crate::Result<()> {
        let offered = offered.into_registration();
        let kind = offered.kind();
        let missing = offered.missing_states(&self.config.states);
        if !missing.is_empty() {
            return Err(crate::Error::registration(missing));
        }
        let added = self.registry.add(offered.clone(), self.config.output_validation);
        added.map_err(|error| crate::Error::registration(vec![error]))?;
        self.record(kind, RegistryOperation::Add(Box::new(offered)));
        Ok(())
    }

    /// Removes an item. Returns whether it was registered.
    pub fn remove(&mut self, kind: ListKind, name: &str) -> bool {
        let removed = self.registry.remove(kind, name);
        if removed {
            self.record(kind, RegistryOperation::Remove(kind, name.to_owned()));
        }
        removed
    }

    /// Enables a disabled item. Returns whether it was disabled.
    pub fn enable(&mut self, kind: ListKind, name: &str) -> bool {
        self.set_enabled(kind, name, true)
    }

    /// Hides an item until it is enabled again. Returns whether it was enabled.
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
