//! Finding what is offered, through mounted servers, for whoever may see it.
//!
//! A list and a lookup agree: what is our own goes before what is mounted, a URI that stands there goes before a template
//! that fits it, and what somebody may not see is passed over as if it were not there.

use std::borrow::Cow;
use std::sync::{Arc, Mutex};

use tsugite_core::uri_template::Variables;

use super::principal::Principal;
use super::registry::{
    Item, ListKind, Mount, RegistryEntry, RegistryList, inner_name, outer_name, resource_template,
};
use super::resource::{Resource, ResourceLocation};
use super::{Config, Server, ServerShared};

/// Something that is offered, to decide whether somebody may see it.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ItemInfo<'a> {
    /// What it is.
    pub kind: ListKind,
    /// Its name, URI or template.
    pub name: &'a str,
    /// Its tags.
    pub tags: &'a [String],
}

impl ItemInfo<'_> {
    /// Whether it has that tag.
    pub fn has_tag(&self, tag: &str) -> bool {
        self.tags.iter().any(|known| known == tag)
    }
}

/// Decides whether somebody may see something.
pub(crate) type VisibilityRule = Arc<dyn Fn(Option<&Principal>, &ItemInfo<'_>) -> bool + Send + Sync>;

/// Something that was found.
pub(crate) struct FoundItem<'n, T> {
    pub(crate) item: Arc<T>,
    /// What it is called here: a name, a URI or a template.
    name: Cow<'n, str>,
    /// The mounted server it belongs to.
    pub(crate) owner: Option<Arc<ServerShared>>,
    /// What stood in the variables of its template.
    pub(crate) variables: Variables,
}

impl<'n, T> FoundItem<'n, T> {
    /// The same, seen from the server it is mounted in.
    fn with_mount_prefix<'o>(self, kind: ListKind, mount: &Mount) -> FoundItem<'o, T> {
        FoundItem {
            item: self.item,
            name: Cow::Owned(outer_name(kind, &mount.prefix, &self.name)),
            owner: self.owner.or_else(|| Some(mount.shared.clone())),
            variables: self.variables,
        }
    }
}

/// A value in a URI that no handler should see.
#[derive(Debug)]
pub(crate) struct UnsafeUriError;

impl Config {
    fn is_item_visible<T: Item>(&self, who: Option<&Principal>, name: &str, item: &T) -> bool {
        self.is_visible(who, &ItemInfo { kind: T::KIND, name, tags: item.tags() })
    }

    fn is_visible(&self, who: Option<&Principal>, viewed: &ItemInfo<'_>) -> bool {
        self.visibility_rule.as_ref().is_none_or(|rule| rule(who, viewed))
    }
}

impl ServerShared {
    /// Finds a tool or prompt by its name, or a resource that stands at a URI.
    pub(crate) fn find<'n, T: Item>(
        &self,
        config: &Config,
        who: Option<&Principal>,
        name: &'n str,
    ) -> Option<FoundItem<'n, T>> {
        if let Some(item) = self.with_registry(|registry| T::collection(registry).get(name).cloned())
            && config.is_item_visible(who, name, &*item)
        {
            let name = Cow::Borrowed(name);
            return Some(FoundItem { item, name, owner: None, variables: Variables::default() });
        }
        self.registry().mounts.iter().find_map(|mount| {
            let inner = inner_name(T::KIND, &mount.prefix, name)?;
            let found = mount
                .shared
                .find::<T>(&mount.shared.config(), who, &inner)?
                .with_mount_prefix(T::KIND, mount);
            config.is_item_visible(who, &found.name, &*found.item).then_some(found)
        })
    }

    /// Finds a resource: one that stands at the URI, or one that a template makes. Fails when a value in the URI is one no
    /// handler should see.
    pub(crate) fn find_resource<'n>(
        &self,
        config: &Config,
        who: Option<&Principal>,
        uri: &'n str,
    ) -> Result<Option<FoundItem<'n, Resource>>, UnsafeUriError> {
        if uri.len() > MAX_URI_BYTES {
            return Ok(None);
        }
        match self.find(config, who, uri) {
            Some(found) => Ok(Some(found)),
            None => self.find_by_template(config, who, uri),
        }
    }

    fn find_by_template<'n>(
        &self,
        config: &Config,
        who: Option<&Principal>,
        uri: &str,
    ) -> Result<Option<FoundItem<'n, Resource>>, UnsafeUriError> {
        let registry = self.registry();
        for (name, resource) in registry.templates.iter() {
            let fits = resource_template(resource).map(|template| template.matches(uri));
            if let Some(variables) = fits.transpose().map_err(|_| UnsafeUriError)?.flatten()
                && config.is_item_visible(who, name, &**resource)
            {
                let (item, name) = (resource.clone(), Cow::Owned(name.to_owned()));
                return Ok(Some(FoundItem { item, name, owner: None, variables }));
            }
        }
        for mount in &registry.mounts {
            let Some(inner) = inner_name(ListKind::Resource, &mount.prefix, uri) else { continue };
            let found = mount.shared.find_by_template(&mount.shared.config(), who, &inner)?;
            if let Some(found) = found.map(|found| found.with_mount_prefix(ListKind::Resource, mount))
                && config.is_item_visible(who, &found.name, &*found.item)
            {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Finds a family by its template, for completion.
    pub(crate) fn find_template<'n>(
        &self,
        config: &Config,
        who: Option<&Principal>,
        template: &'n str,
    ) -> Option<FoundItem<'n, Resource>> {
        let registry = self.registry();
        if let Some(item) = registry.templates.get(template)
            && config.is_item_visible(who, template, &**item)
        {
            let (item, name) = (item.clone(), Cow::Borrowed(template));
            return Some(FoundItem { item, name, owner: None, variables: Variables::default() });
        }
        registry.mounts.iter().find_map(|mount| {
            let inner = inner_name(ListKind::Resource, &mount.prefix, template)?;
            let found = mount.shared.find_template(&mount.shared.config(), who, &inner)?;
            let found = found.with_mount_prefix(ListKind::Resource, mount);
            config.is_item_visible(who, &found.name, &*found.item).then_some(found)
        })
    }

    /// What somebody sees of a list, in order, under the names it has here.
    pub(crate) fn visible_entries(
        &self,
        config: &Config,
        shown: RegistryList,
        who: Option<&Principal>,
    ) -> Vec<(String, RegistryEntry)> {
        let registry = self.registry();
        let mut seen = registry.entries(shown);
        for mount in &registry.mounts {
            let inner = mount.shared.visible_entries(&mount.shared.config(), shown, who).into_iter();
            seen.extend(inner.map(|(name, entry)| (outer_name(shown.kind(), &mount.prefix, &name), entry)));
        }
        let mut names = std::collections::HashSet::new();
        seen.retain(|(name, entry)| {
            let viewed = ItemInfo { kind: entry.kind(), name, tags: entry.tags() };
            config.is_visible(who, &viewed) && names.insert(name.clone())
        });
        seen
    }

    /// Whether anybody could see something else than somebody else.
    pub(crate) fn has_visibility_rules(&self, config: &Config) -> bool {
        let mounted = |mount: &Mount| mount.shared.has_visibility_rules(&mount.shared.config());
        config.visibility_rule.is_some() || self.has_mounts() && self.registry().mounts.iter().any(mounted)
    }

    /// Whether files are listed, which change without anybody saying so.
    pub(crate) fn has_directories(&self) -> bool {
        let registry = self.registry();
        registry
            .templates
            .iter()
            .any(|(_, resource)| matches!(resource.location, ResourceLocation::Directory(..)))
            || registry.mounts.iter().any(|mount| mount.shared.has_directories())
    }

    /// Whether `other` is this server or mounted somewhere inside it.
    fn contains(self: &Arc<Self>, other: &Arc<ServerShared>) -> bool {
        Arc::ptr_eq(self, other) || self.registry().mounts.iter().any(|mount| mount.shared.contains(other))
    }
}

impl Server {
    /// Offers everything another server offers, under a prefix: the tool `forecast` of a server mounted as `weather`
    /// is `weather_forecast` here, the resource `config://app` is `config://weather/app`. The prefix is there from the
    /// first server on, so no name changes when another is mounted. What changes there later changes here too. A name of
    /// our own goes before the same name of a mounted server, and one mounted earlier before one mounted later.
    ///
    /// Handlers see the state, and the rules of visibility, of the server they belong to; layers and settings are those
    /// of the outer one.
    #[must_use]
    pub fn mount(self, prefix: impl Into<String>, other: Server) -> Self {
        let prefix = prefix.into();
        // One at a time, so that two servers cannot be mounted into each other at once.
        let one_at_a_time = MOUNT_LOCK.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mistakes: Vec<String> = match self.mount_error(&prefix, &other) {
            Some(mistake) => vec![mistake],
            None => {
                let inner = other.shared.registry();
                let in_it = |mistake: &String| format!("in the server mounted as {prefix:?}: {mistake}");
                inner.errors().iter().map(in_it).collect()
            }
        };
        let mounted = mistakes.is_empty();
        self.shared.update_registry(|registry| {
            mistakes.into_iter().for_each(|mistake| registry.record_error(mistake));
            if mounted {
                registry.mounts.push(Mount { prefix: prefix.clone(), shared: other.shared.clone() });
            }
        });
        if mounted {
            other.shared.feed.add_outer(&self.shared, prefix);
            self.shared.feed.notify_list_changed(&ListKind::ALL);
        }
        drop(one_at_a_time);
        self
    }

    fn mount_error(&self, prefix: &str, other: &Server) -> Option<String> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        if prefix.is_empty() || !prefix.bytes().all(plain) {
            return Some(format!(
                "a server cannot be mounted as {prefix:?}: use letters, digits, `_`, `-` or `.`"
            ));
        }
        if self.shared.registry().mounts.iter().any(|mount| mount.prefix == prefix) {
            return Some(format!("two servers are mounted as {prefix:?}"));
        }
        other
            .shared
            .contains(&self.shared)
            .then(|| format!("the server mounted as {prefix:?} would hold itself"))
    }
}

static MOUNT_LOCK: Mutex<()> = Mutex::new(());

/// How long the URI of a resource may be.
const MAX_URI_BYTES: usize = 8 << 10;
