//! Finds registered items for a caller, through mounted servers.
//!
//! Lists and lookups agree: own items come before mounted ones, a resource with the exact URI comes before a matching
//! template, and an item the caller may not see is skipped as if it did not exist.

use std::borrow::Cow;
use std::sync::{Arc, Mutex};

use tsugite_core::uri_template::Variables;

use super::principal::Principal;
use super::registry::{
    Item, ListKind, Mount, RegistryEntry, RegistryList, inner_name, outer_name, resource_template,
};
use super::resource::{Resource, ResourceLocation};
use super::visibility::ItemInfo;
use super::{Config, Server, ServerShared};

/// An item that a lookup returned.
pub(crate) struct FoundItem<'n, T> {
    pub(crate) item: Arc<T>,
    /// The name, URI or URI template under which the outer server knows the item.
    name: Cow<'n, str>,
    /// The mounted server that owns the item.
    pub(crate) owner: Option<Arc<ServerShared>>,
    /// The values of the template's variables.
    pub(crate) variables: Variables,
}

impl<'n, T> FoundItem<'n, T> {
    /// The same item, as the server sees it in which this one is mounted.
    fn with_mount_prefix<'o>(self, kind: ListKind, mount: &Mount) -> FoundItem<'o, T> {
        FoundItem {
            item: self.item,
            name: Cow::Owned(outer_name(kind, &mount.prefix, &self.name)),
            owner: self.owner.or_else(|| Some(mount.shared.clone())),
            variables: self.variables,
        }
    }
}

/// A URI contains a value that must not reach a handler.
#[derive(Debug)]
pub(crate) struct UnsafeUriError;

impl Config {
    fn is_item_visible<T: Item>(&self, principal: Option<&Principal>, name: &str, item: &T) -> bool {
        self.is_visible(principal, &ItemInfo { kind: T::KIND, name, tags: item.tags() })
    }

    fn is_visible(&self, principal: Option<&Principal>, viewed: &ItemInfo<'_>) -> bool {
        self.visibility_rule.as_ref().is_none_or(|rule| rule(principal, viewed))
    }
}

impl ServerShared {
    /// Finds a tool or prompt by name, or a resource by its exact URI.
    pub(crate) fn find<'n, T: Item>(
        &self,
        config: &Config,
        principal: Option<&Principal>,
        name: &'n str,
    ) -> Option<FoundItem<'n, T>> {
        if let Some(item) = self.with_registry(|registry| T::collection(registry).get(name).cloned())
            && config.is_item_visible(principal, name, &*item)
        {
            let name = Cow::Borrowed(name);
            return Some(FoundItem { item, name, owner: None, variables: Variables::default() });
        }
        self.registry().mounts.iter().find_map(|mount| {
            let inner = inner_name(T::KIND, &mount.prefix, name)?;
            let found = mount
                .shared
                .find::<T>(&mount.shared.config(), principal, &inner)?
                .with_mount_prefix(T::KIND, mount);
            config.is_item_visible(principal, &found.name, &*found.item).then_some(found)
        })
    }

    /// Whether there is a tool or prompt with this name, or a resource with this URI, also if callers may not see it.
    pub(crate) fn has<T: Item>(&self, name: &str) -> bool {
        self.with_registry(|registry| T::collection(registry).get(name).is_some())
            || self.registry().mounts.iter().any(|mount| {
                inner_name(T::KIND, &mount.prefix, name).is_some_and(|inner| mount.shared.has::<T>(&inner))
            })
    }

    /// Finds a resource by its exact URI or through a template. Fails if a template variable holds an unsafe value.
    pub(crate) fn find_resource<'n>(
        &self,
        config: &Config,
        principal: Option<&Principal>,
        uri: &'n str,
    ) -> Result<Option<FoundItem<'n, Resource>>, UnsafeUriError> {
        if uri.len() > MAX_URI_BYTES {
            return Ok(None);
        }
        match self.find(config, principal, uri) {
            Some(found) => Ok(Some(found)),
            None => self.find_by_template(config, principal, uri),
        }
    }

    fn find_by_template<'n>(
        &self,
        config: &Config,
        principal: Option<&Principal>,
        uri: &str,
    ) -> Result<Option<FoundItem<'n, Resource>>, UnsafeUriError> {
        let registry = self.registry();
        for (name, resource) in registry.templates.iter() {
            let fits = resource_template(resource).map(|template| template.matches(uri));
            if let Some(variables) = fits.transpose().map_err(|_| UnsafeUriError)?.flatten()
                && config.is_item_visible(principal, name, &**resource)
            {
                let (item, name) = (resource.clone(), Cow::Owned(name.to_owned()));
                return Ok(Some(FoundItem { item, name, owner: None, variables }));
            }
        }
        for mount in &registry.mounts {
            let Some(inner) = inner_name(ListKind::Resource, &mount.prefix, uri) else { continue };
            let found = mount.shared.find_by_template(&mount.shared.config(), principal, &inner)?;
            if let Some(found) = found.map(|found| found.with_mount_prefix(ListKind::Resource, mount))
                && config.is_item_visible(principal, &found.name, &*found.item)
            {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Finds a resource template by its text, for completion.
    pub(crate) fn find_template<'n>(
        &self,
        config: &Config,
        principal: Option<&Principal>,
        template: &'n str,
    ) -> Option<FoundItem<'n, Resource>> {
        let registry = self.registry();
        if let Some(item) = registry.templates.get(template)
            && config.is_item_visible(principal, template, &**item)
        {
            let (item, name) = (item.clone(), Cow::Borrowed(template));
            return Some(FoundItem { item, name, owner: None, variables: Variables::default() });
        }
        registry.mounts.iter().find_map(|mount| {
            let inner = inner_name(ListKind::Resource, &mount.prefix, template)?;
            let found = mount.shared.find_template(&mount.shared.config(), principal, &inner)?;
            let found = found.with_mount_prefix(ListKind::Resource, mount);
            config.is_item_visible(principal, &found.name, &*found.item).then_some(found)
        })
    }

    /// The items of a list that the caller may see, in order, under their outer names.
    pub(crate) fn visible_entries(
        &self,
        config: &Config,
        shown: RegistryList,
        principal: Option<&Principal>,
    ) -> Vec<(String, RegistryEntry)> {
        let registry = self.registry();
        let mut seen = registry.entries(shown);
        for mount in &registry.mounts {
            let inner = mount.shared.visible_entries(&mount.shared.config(), shown, principal).into_iter();
            seen.extend(inner.map(|(name, entry)| (outer_name(shown.kind(), &mount.prefix, &name), entry)));
        }
        let mut names = std::collections::HashSet::new();
        seen.retain(|(name, entry)| {
            let viewed = ItemInfo { kind: entry.kind(), name, tags: entry.tags() };
            config.is_visible(principal, &viewed) && names.insert(name.clone())
        });
        seen
    }

    /// Whether visibility can differ between callers.
    pub(crate) fn has_visibility_rules(&self, config: &Config) -> bool {
        let mounted = |mount: &Mount| mount.shared.has_visibility_rules(&mount.shared.config());
        config.visibility_rule.is_some() || self.has_mounts() && self.registry().mounts.iter().any(mounted)
    }

    /// Whether a directory is listed, whose files change without notification.
    pub(crate) fn has_directories(&self) -> bool {
        let registry = self.registry();
        registry
            .templates
            .iter()
            .any(|(_, resource)| matches!(resource.location, ResourceLocation::Directory(..)))
            || registry.mounts.iter().any(|mount| mount.shared.has_directories())
    }

    /// Whether `other` is this server or is mounted inside it.
    fn contains(self: &Arc<Self>, other: &Arc<ServerShared>) -> bool {
        Arc::ptr_eq(self, other) || self.registry().mounts.iter().any(|mount| mount.shared.contains(other))
    }
}

impl Server {
    /// Offers every item of another server under a prefix: the tool `forecast` of a server mounted as `weather` becomes
    /// `weather_forecast`, and the resource `config://app` becomes `config://weather/app`. Later changes of the mounted
    /// server apply here too. On a name conflict an own item wins over a mounted one, and the server mounted first wins.
    ///
    /// Handlers use the state and the visibility rules of the server they belong to; layers and settings are those of the
    /// outer server. A mistake is reported when the server is served; if it is served already, the mistake is logged and
    /// nothing is mounted.
    #[must_use]
    #[doc(alias("import_server", "compose", "namespace"))]
    pub fn mount(self, prefix: impl Into<String>, other: Server) -> Self {
        let prefix = prefix.into();
        // One mount at a time, so that two servers cannot be mounted into each other concurrently.
        let one_at_a_time = MOUNT_LOCK.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let errors: Vec<String> = match self.mount_error(&prefix, &other) {
            Some(error) => vec![error],
            None => {
                let inner = other.shared.registry();
                let in_it = |error: &String| format!("in the server mounted as {prefix:?}: {error}");
                // A server that is served does not check its states again.
                let missing = if self.shared.is_served() { other.missing_states() } else { Vec::new() };
                inner.errors().iter().chain(&missing).map(in_it).collect()
            }
        };
        let mounted = errors.is_empty();
        errors.into_iter().for_each(|error| self.shared.record_error(error));
        if mounted {
            let mount = Mount { prefix: prefix.clone(), shared: other.shared.clone() };
            self.shared.update_registry(|registry| registry.mounts.push(mount));
            other.shared.feed.add_outer(&self.shared, prefix);
            self.shared.feed.notify_list_changed(&ListKind::ALL);
            self.continue_tasks();
        }
        drop(one_at_a_time);
        self
    }

    fn mount_error(&self, prefix: &str, other: &Server) -> Option<String> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        if prefix.is_empty() || !prefix.bytes().all(plain) {
            return Some(format!(
                "a server cannot be mounted as {prefix:?}; use letters, digits, `_`, `-` or `.`"
            ));
        }
        if self.shared.registry().mounts.iter().any(|mount| mount.prefix == prefix) {
            return Some(format!(
                "two servers are mounted under the prefix {prefix:?}; use distinct prefixes"
            ));
        }
        other
            .shared
            .contains(&self.shared)
            .then(|| format!("the server mounted as {prefix:?} would contain itself"))
    }
}

static MOUNT_LOCK: Mutex<()> = Mutex::new(());

/// The maximum length of a resource URI, in bytes.
const MAX_URI_BYTES: usize = 8 << 10;
