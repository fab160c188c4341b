//! Finding what is offered, through mounted servers, for whoever may see it.

use std::sync::Arc;

use tsugite_core::uri_template::Variables;

use super::principal::Principal;
use super::registry::{FoundResource, Item, Kind, inner_name, outer_name, template_of};
use super::resource::{Place, Resource};
use super::{Config, Server, Shared};

/// Something that is offered, to decide whether somebody may see it.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Viewed<'a> {
    /// What it is.
    pub kind: Kind,
    /// Its name, URI or template.
    pub name: &'a str,
    /// Its tags.
    pub tags: &'a [String],
}

impl Viewed<'_> {
    /// Whether it has that tag.
    pub fn has_tag(&self, tag: &str) -> bool {
        self.tags.iter().any(|known| known == tag)
    }
}

/// Decides whether somebody may see something.
pub(crate) type Rule = Arc<dyn Fn(Option<&Principal>, &Viewed<'_>) -> bool + Send + Sync>;

impl Config {
    fn shows(&self, who: Option<&Principal>, kind: Kind, name: &str, tags: &[String]) -> bool {
        match &self.rule {
            Some(rule) => rule(who, &Viewed { kind, name, tags }),
            None => true,
        }
    }
}

impl Shared {
    /// Finds a tool or prompt by name. `None` too when the caller may not see it. The second part is the mounted server it
    /// belongs to.
    pub(crate) fn find<T: Item>(
        &self,
        config: &Config,
        who: Option<&Principal>,
        name: &str,
    ) -> Option<(Arc<T>, Option<Arc<Shared>>)> {
        let registry = self.registry.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(item) = T::shelf(&registry).get(name) {
            return config.shows(who, T::KIND, name, item.tags()).then(|| (item.clone(), None));
        }
        registry.mounts.iter().find_map(|mount| {
            let inner = inner_name(T::KIND, &mount.prefix, name)?;
            let (item, owner) = mount.shared.find::<T>(&mount.shared.config(), who, &inner)?;
            let shown = config.shows(who, T::KIND, name, item.tags());
            shown.then(|| (item, Some(owner.unwrap_or_else(|| mount.shared.clone()))))
        })
    }

    /// Finds a resource by its URI: one that stands there, or one that a template makes. Fails with `Err` when a value in
    /// the URI is one no handler should see.
    pub(crate) fn find_resource(
        &self,
        config: &Config,
        who: Option<&Principal>,
        uri: &str,
    ) -> Result<Option<FoundResource>, NotForHandlers> {
        let registry = self.registry.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        let shown = |resource: &Resource, name: &str| config.shows(who, Kind::Resource, name, &resource.tags);
        if let Some(resource) = registry.resources.get(uri) {
            let resource = resource.clone();
            return Ok(shown(&resource, uri).then(|| FoundResource {
                resource,
                variables: Variables::default(),
                shared: None,
            }));
        }
        for (name, resource) in registry.templates.iter() {
            let Some(template) = template_of(resource) else { continue };
            if let Some(variables) = template.matches(uri).map_err(|_| NotForHandlers)? {
                let resource = resource.clone();
                return Ok(shown(&resource, name).then(|| FoundResource {
                    resource,
                    variables,
                    shared: None,
                }));
            }
        }
        for mount in &registry.mounts {
            let Some(inner) = inner_name(Kind::Resource, &mount.prefix, uri) else { continue };
            let found = mount.shared.find_resource(&mount.shared.config(), who, &inner)?;
            if let Some(mut found) = found {
                found.shared.get_or_insert_with(|| mount.shared.clone());
                return Ok(shown(&found.resource, uri).then_some(found));
            }
        }
        Ok(None)
    }

    /// Finds a family by its template, for completion.
    pub(crate) fn find_template(
        &self,
        config: &Config,
        who: Option<&Principal>,
        template: &str,
    ) -> Option<Arc<Resource>> {
        let registry = self.registry.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(found) = registry.templates.get(template) {
            return config.shows(who, Kind::Resource, template, &found.tags).then(|| found.clone());
        }
        registry.mounts.iter().find_map(|mount| {
            let inner = inner_name(Kind::Resource, &mount.prefix, template)?;
            mount.shared.find_template(&mount.shared.config(), who, &inner)
        })
    }

    /// What somebody sees of a kind, in order, under the names it has here.
    pub(crate) fn seen<T: Item>(&self, families: bool, who: Option<&Principal>) -> Vec<(String, Arc<T>)> {
        let registry = self.registry.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        let config = self.config();
        let shelf = if families { T::families(&registry) } else { Some(T::shelf(&registry)) };
        let own = shelf.into_iter().flat_map(|shelf| shelf.iter());
        let mut seen: Vec<(String, Arc<T>)> =
            own.map(|(name, item)| (name.to_owned(), item.clone())).collect();
        for mount in &registry.mounts {
            let inner = mount.shared.seen::<T>(families, who);
            seen.extend(
                inner.into_iter().map(|(name, item)| (outer_name(T::KIND, &mount.prefix, &name), item)),
            );
        }
        // A name of our own goes before the same name in a mounted server.
        let mut names = std::collections::HashSet::new();
        seen.retain(|(name, item)| {
            config.shows(who, T::KIND, name, item.tags()) && names.insert(name.clone())
        });
        seen
    }

    /// Whether anybody could see something else than somebody else.
    pub(crate) fn has_rules(&self) -> bool {
        self.config().rule.is_some()
            || self.registry(|registry| registry.mounts.iter().any(|mount| mount.shared.has_rules()))
    }

    /// Whether files are listed, which change without anybody saying so.
    pub(crate) fn has_folders(&self) -> bool {
        self.registry(|registry| {
            registry.templates.iter().any(|(_, resource)| matches!(resource.place, Place::Folder(..)))
                || registry.mounts.iter().any(|mount| mount.shared.has_folders())
        })
    }
}

/// A value in a URI that no handler should see.
#[derive(Debug)]
pub(crate) struct NotForHandlers;

impl Server {
    /// Offers everything another server offers, under a prefix: the tool `forecast` of a server mounted as `weather`
    /// is `weather_forecast` here, the resource `config://app` is `config://weather/app`. The prefix is there from the
    /// first server on, so no name changes when another is mounted. What changes there later changes here too.
    ///
    /// Handlers see the state, and the rules of visibility, of the server they belong to; layers and settings are those
    /// of the outer one.
    #[must_use]
    pub fn mount(self, prefix: impl Into<String>, other: Server) -> Self {
        let prefix = prefix.into();
        let taken =
            self.shared.registry(|registry| registry.mounts.iter().any(|mount| mount.prefix == prefix));
        let fine = !prefix.is_empty()
            && prefix.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'));
        let inside = other.shared.contains(&self.shared);
        self.shared.registry_mut(|registry| {
            if !fine {
                registry.note(format!(
                    "a server cannot be mounted as {prefix:?}: use letters, digits, `_`, `-` or `.`"
                ));
            } else if taken {
                registry.note(format!("two servers are mounted as {prefix:?}"));
            } else if inside {
                registry.note(format!("the server mounted as {prefix:?} would hold itself"));
            } else {
                for mistake in other.shared.registry(|inner| inner.mistakes().to_vec()) {
                    registry.note(format!("in the server mounted as {prefix:?}: {mistake}"));
                }
                registry
                    .mounts
                    .push(super::registry::Mount { prefix: prefix.clone(), shared: other.shared.clone() });
            }
        });
        if fine && !taken && !inside {
            other.shared.feed.heard_by(&self.shared, prefix);
            self.shared.feed.changed(&[Kind::Tool, Kind::Prompt, Kind::Resource]);
        }
        self
    }
}

impl Shared {
    /// Whether `other` is this server or mounted somewhere inside it.
    fn contains(self: &Arc<Self>, other: &Arc<Shared>) -> bool {
        Arc::ptr_eq(self, other)
            || self.registry(|registry| registry.mounts.iter().any(|mount| mount.shared.contains(other)))
    }
}
