//! Finding what is offered, through mounted servers, for whoever may see it.
//!
//! A list and a lookup agree: what is our own goes before what is mounted, a URI that stands there goes before a template
//! that fits it, and what somebody may not see is passed over as if it were not there.

use std::borrow::Cow;
use std::sync::{Arc, Mutex};

use tsugite_core::uri_template::Variables;

use super::principal::Principal;
use super::registry::{Entry, Item, Kind, Mount, Shown, inner_name, outer_name, template_of};
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

/// Something that was found.
pub(crate) struct Found<'n, T> {
    pub(crate) item: Arc<T>,
    /// What it is called here: a name, a URI or a template.
    name: Cow<'n, str>,
    /// The mounted server it belongs to.
    pub(crate) owner: Option<Arc<Shared>>,
    /// What stood in the variables of its template.
    pub(crate) variables: Variables,
}

impl<'n, T> Found<'n, T> {
    /// The same, seen from the server it is mounted in.
    fn through<'o>(self, kind: Kind, mount: &Mount) -> Found<'o, T> {
        Found {
            item: self.item,
            name: Cow::Owned(outer_name(kind, &mount.prefix, &self.name)),
            owner: self.owner.or_else(|| Some(mount.shared.clone())),
            variables: self.variables,
        }
    }
}

/// A value in a URI that no handler should see.
#[derive(Debug)]
pub(crate) struct NotForHandlers;

impl Config {
    fn shows<T: Item>(&self, who: Option<&Principal>, name: &str, item: &T) -> bool {
        self.lets_see(who, &Viewed { kind: T::KIND, name, tags: item.tags() })
    }

    fn lets_see(&self, who: Option<&Principal>, viewed: &Viewed<'_>) -> bool {
        self.rule.as_ref().is_none_or(|rule| rule(who, viewed))
    }
}

impl Shared {
    /// Finds a tool or prompt by its name, or a resource that stands at a URI.
    pub(crate) fn find<'n, T: Item>(
        &self,
        config: &Config,
        who: Option<&Principal>,
        name: &'n str,
    ) -> Option<Found<'n, T>> {
        if let Some(item) = self.look(|registry| T::shelf(registry).get(name).cloned())
            && config.shows(who, name, &*item)
        {
            let name = Cow::Borrowed(name);
            return Some(Found { item, name, owner: None, variables: Variables::default() });
        }
        self.registry().mounts.iter().find_map(|mount| {
            let inner = inner_name(T::KIND, &mount.prefix, name)?;
            let found = mount.shared.find::<T>(&mount.shared.config(), who, &inner)?.through(T::KIND, mount);
            config.shows(who, &found.name, &*found.item).then_some(found)
        })
    }

    /// Finds a resource: one that stands at the URI, or one that a template makes. Fails when a value in the URI is one no
    /// handler should see.
    pub(crate) fn find_resource<'n>(
        &self,
        config: &Config,
        who: Option<&Principal>,
        uri: &'n str,
    ) -> Result<Option<Found<'n, Resource>>, NotForHandlers> {
        if uri.len() > MOST_URI {
            return Ok(None);
        }
        match self.find(config, who, uri) {
            Some(found) => Ok(Some(found)),
            None => self.find_fitting(config, who, uri),
        }
    }

    fn find_fitting<'n>(
        &self,
        config: &Config,
        who: Option<&Principal>,
        uri: &str,
    ) -> Result<Option<Found<'n, Resource>>, NotForHandlers> {
        let registry = self.registry();
        for (name, resource) in registry.templates.iter() {
            let fits = template_of(resource).map(|template| template.matches(uri));
            if let Some(variables) = fits.transpose().map_err(|_| NotForHandlers)?.flatten()
                && config.shows(who, name, &**resource)
            {
                let (item, name) = (resource.clone(), Cow::Owned(name.to_owned()));
                return Ok(Some(Found { item, name, owner: None, variables }));
            }
        }
        for mount in &registry.mounts {
            let Some(inner) = inner_name(Kind::Resource, &mount.prefix, uri) else { continue };
            let found = mount.shared.find_fitting(&mount.shared.config(), who, &inner)?;
            if let Some(found) = found.map(|found| found.through(Kind::Resource, mount))
                && config.shows(who, &found.name, &*found.item)
            {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Finds a family by its template, for completion.
    pub(crate) fn find_family<'n>(
        &self,
        config: &Config,
        who: Option<&Principal>,
        template: &'n str,
    ) -> Option<Found<'n, Resource>> {
        let registry = self.registry();
        if let Some(item) = registry.templates.get(template)
            && config.shows(who, template, &**item)
        {
            let (item, name) = (item.clone(), Cow::Borrowed(template));
            return Some(Found { item, name, owner: None, variables: Variables::default() });
        }
        registry.mounts.iter().find_map(|mount| {
            let inner = inner_name(Kind::Resource, &mount.prefix, template)?;
            let found = mount.shared.find_family(&mount.shared.config(), who, &inner)?;
            let found = found.through(Kind::Resource, mount);
            config.shows(who, &found.name, &*found.item).then_some(found)
        })
    }

    /// What somebody sees of a list, in order, under the names it has here.
    pub(crate) fn seen(
        &self,
        config: &Config,
        shown: Shown,
        who: Option<&Principal>,
    ) -> Vec<(String, Entry)> {
        let registry = self.registry();
        let mut seen = registry.entries(shown);
        for mount in &registry.mounts {
            let inner = mount.shared.seen(&mount.shared.config(), shown, who).into_iter();
            seen.extend(inner.map(|(name, entry)| (outer_name(shown.kind(), &mount.prefix, &name), entry)));
        }
        let mut names = std::collections::HashSet::new();
        seen.retain(|(name, entry)| {
            let viewed = Viewed { kind: entry.kind(), name, tags: entry.tags() };
            config.lets_see(who, &viewed) && names.insert(name.clone())
        });
        seen
    }

    /// Whether anybody could see something else than somebody else.
    pub(crate) fn has_rules(&self, config: &Config) -> bool {
        let mounted = |mount: &Mount| mount.shared.has_rules(&mount.shared.config());
        config.rule.is_some() || self.has_mounts() && self.registry().mounts.iter().any(mounted)
    }

    /// Whether files are listed, which change without anybody saying so.
    pub(crate) fn has_folders(&self) -> bool {
        let registry = self.registry();
        registry.templates.iter().any(|(_, resource)| matches!(resource.place, Place::Folder(..)))
            || registry.mounts.iter().any(|mount| mount.shared.has_folders())
    }

    /// Whether `other` is this server or mounted somewhere inside it.
    fn contains(self: &Arc<Self>, other: &Arc<Shared>) -> bool {
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
        let one_at_a_time = MOUNTING.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mistakes: Vec<String> = match self.mistake_in_mounting(&prefix, &other) {
            Some(mistake) => vec![mistake],
            None => {
                let inner = other.shared.registry();
                let in_it = |mistake: &String| format!("in the server mounted as {prefix:?}: {mistake}");
                inner.mistakes().iter().map(in_it).collect()
            }
        };
        let mounted = mistakes.is_empty();
        self.shared.registry_mut(|registry| {
            mistakes.into_iter().for_each(|mistake| registry.note(mistake));
            if mounted {
                registry.mounts.push(Mount { prefix: prefix.clone(), shared: other.shared.clone() });
            }
        });
        if mounted {
            other.shared.feed.heard_by(&self.shared, prefix);
            self.shared.feed.changed(&Kind::ALL);
        }
        drop(one_at_a_time);
        self
    }

    fn mistake_in_mounting(&self, prefix: &str, other: &Server) -> Option<String> {
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

static MOUNTING: Mutex<()> = Mutex::new(());

/// How long the URI of a resource may be.
const MOST_URI: usize = 8 << 10;
