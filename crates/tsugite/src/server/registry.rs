//! What is offered, in the order it was registered, own things first and then those of mounted servers.

use std::sync::Arc;

use indexmap::IndexMap;
use tsugite_core::protocol::Schema;
use tsugite_core::session::header::HeaderParams;
use tsugite_core::uri_template::UriTemplate;

use super::Shared;
use super::config::Checks;
use super::prompt::Prompt;
use super::resource::{Place, Resource};
use super::schema;
use super::tool::Tool;
use super::validate::{self, Check, Compile, Validator};

/// What is offered. Whoever looks takes a snapshot, so nothing is locked while somebody else's code runs.
#[derive(Clone, Default)]
pub(crate) struct Registry {
    pub(crate) tools: Shelf<ToolEntry>,
    pub(crate) prompts: Shelf<Prompt>,
    pub(crate) resources: Shelf<Resource>,
    /// Families of resources, by their template.
    pub(crate) templates: Shelf<Resource>,
    pub(crate) mounts: Vec<Mount>,
    mistakes: Vec<String>,
    /// What was ever offered: its list stays there, if only empty.
    ever: Vec<Kind>,
}

/// Something that can be offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// A tool, by its name.
    Tool,
    /// A prompt, by its name.
    Prompt,
    /// A resource by its URI, or a family by its template.
    Resource,
}

impl Kind {
    /// All of them.
    pub(crate) const ALL: [Self; 3] = [Kind::Tool, Kind::Prompt, Kind::Resource];
}

/// A tool, a prompt or a resource.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Offered {
    /// A tool.
    Tool(Tool),
    /// A prompt.
    Prompt(Prompt),
    /// A resource, or a family of them.
    Resource(Box<Resource>),
}

impl Offered {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Offered::Tool(_) => Kind::Tool,
            Offered::Prompt(_) => Kind::Prompt,
            Offered::Resource(_) => Kind::Resource,
        }
    }
}

impl From<Tool> for Offered {
    fn from(tool: Tool) -> Self {
        Offered::Tool(tool)
    }
}

impl From<Prompt> for Offered {
    fn from(prompt: Prompt) -> Self {
        Offered::Prompt(prompt)
    }
}

impl From<Resource> for Offered {
    fn from(resource: Resource) -> Self {
        Offered::Resource(Box::new(resource))
    }
}

/// A server inside another.
#[derive(Clone)]
pub(crate) struct Mount {
    pub(crate) prefix: String,
    pub(crate) shared: Arc<Shared>,
}

/// A tool that can be called.
pub(crate) struct ToolEntry {
    pub(crate) tool: Tool,
    /// Which arguments headers repeat.
    pub(crate) headers: HeaderParams,
    /// Where reading the arguments into their type does not check all the schema says.
    pub(crate) input: Option<Check>,
    /// For whoever wants the output checked.
    pub(crate) output: Option<Validator>,
}

/// Things of one kind, in order, each switched on or off. Their names are the server's own, so that nobody can choose them to
/// collide; every call looks one up.
pub(crate) struct Shelf<T>(IndexMap<String, (Arc<T>, bool), foldhash::fast::RandomState>);

impl<T> Clone for Shelf<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self(IndexMap::default())
    }
}

impl<T> Shelf<T> {
    pub(crate) fn get(&self, name: &str) -> Option<&Arc<T>> {
        self.0.get(name).filter(|(_, on)| *on).map(|(item, _)| item)
    }

    /// What is switched on, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Arc<T>)> {
        self.0.iter().filter(|(_, (_, on))| *on).map(|(name, (item, _))| (name.as_str(), item))
    }

    fn insert(&mut self, name: String, item: T) {
        self.0.insert(name, (Arc::new(item), true));
    }

    fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    fn remove(&mut self, name: &str) -> bool {
        self.0.shift_remove(name).is_some()
    }

    /// True if that changed anything.
    fn switch(&mut self, name: &str, on: bool) -> bool {
        self.0.get_mut(name).is_some_and(|(_, is_on)| std::mem::replace(is_on, on) != on)
    }
}

impl Registry {
    /// Adds something. Fails naming why it cannot be offered; nothing has changed then.
    pub(crate) fn add(&mut self, offered: Offered, checks_output: Checks) -> Result<(), String> {
        let kind = offered.kind();
        match offered {
            Offered::Tool(tool) => self.add_tool(tool, checks_output),
            Offered::Prompt(prompt) => self.add_prompt(prompt),
            Offered::Resource(resource) => self.add_resource(*resource),
        }?;
        if !self.ever.contains(&kind) {
            self.ever.push(kind);
        }
        Ok(())
    }

    /// Adds something while the server is being put together; what cannot be offered is noted down.
    pub(crate) fn add_or_note(&mut self, offered: Offered, checks_output: Checks) {
        if let Err(mistake) = self.add(offered, checks_output) {
            self.mistakes.push(mistake);
        }
    }

    pub(crate) fn note(&mut self, mistake: String) {
        self.mistakes.push(mistake);
    }

    pub(crate) fn mistakes(&self) -> &[String] {
        &self.mistakes
    }

    /// Takes something away; true if it was there.
    pub(crate) fn remove(&mut self, kind: Kind, name: &str) -> bool {
        match kind {
            Kind::Tool => self.tools.remove(name),
            Kind::Prompt => self.prompts.remove(name),
            Kind::Resource => self.resources.remove(name) || self.templates.remove(name),
        }
    }

    /// Switches something on or off; true if that changed anything.
    pub(crate) fn switch(&mut self, kind: Kind, name: &str, on: bool) -> bool {
        match kind {
            Kind::Tool => self.tools.switch(name, on),
            Kind::Prompt => self.prompts.switch(name, on),
            Kind::Resource => self.resources.switch(name, on) || self.templates.switch(name, on),
        }
    }

    /// Whether anything of the kind is there or was, here or in a mounted server.
    pub(crate) fn has(&self, kind: Kind) -> bool {
        self.ever.contains(&kind) || self.mounts.iter().any(|mount| mount.shared.registry().has(kind))
    }

    /// Whether any argument can be completed.
    pub(crate) fn completes(&self) -> bool {
        self.prompts.iter().any(|(_, prompt)| !prompt.completers.is_empty())
            || self.templates.iter().any(|(_, resource)| !resource.completers.is_empty())
            || self.mounts.iter().any(|mount| mount.shared.registry().completes())
    }

    fn add_tool(&mut self, mut tool: Tool, checks_output: Checks) -> Result<(), String> {
        let name = &tool.definition.name;
        if tool.handler.is_none() {
            return Err(format!("the tool {name:?} has no handler"));
        }
        named("tool", name, |name| self.tools.has(name))?;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        if name.len() > 128 || !name.bytes().all(plain) {
            tracing::warn!(
                "many clients take no tool called {name:?}: letters, digits, `_`, `-` and `.` are safe"
            );
        }
        let schema = &tool.definition.input_schema;
        if !schema.is_object_rooted() {
            return Err(format!("the arguments of the tool {name:?} are not an object"));
        }
        let headers = HeaderParams::from_schema(schema).map_err(|mark| format!("the tool {name:?}: {mark}"))?;
        let input = Check::arguments(schema, tool.typed, tool.compile)
            .map_err(|error| format!("the input schema of the tool {name:?}: {error}"))?;
        let output = match &tool.definition.output_schema {
            Some(schema) => output_validator(schema, tool.compile.filter(|_| !tool.typed), checks_output)
                .map_err(|error| format!("the output schema of the tool {name:?}: {error}"))?,
            None => None,
        };
        let name = name.clone();
        if tool.typed {
            let definition = &mut tool.definition;
            schema::plain_formats(&mut definition.input_schema);
            definition.output_schema.iter_mut().for_each(schema::plain_formats);
        }
        self.tools.insert(name, ToolEntry { tool, headers, input, output });
        Ok(())
    }

    fn add_prompt(&mut self, prompt: Prompt) -> Result<(), String> {
        let name = prompt.definition.name.clone();
        if prompt.handler.is_none() {
            return Err(format!("the prompt {name:?} has no handler"));
        }
        named("prompt", &name, |name| self.prompts.has(name))?;
        let known = prompt.definition.arguments.as_deref().unwrap_or_default();
        if let Some(argument) =
            prompt.completers.keys().find(|name| !known.iter().any(|known| known.name == **name))
        {
            return Err(format!(
                "the prompt {name:?} completes {argument:?}, which is none of its arguments"
            ));
        }
        self.prompts.insert(name, prompt);
        Ok(())
    }

    fn add_resource(&mut self, resource: Resource) -> Result<(), String> {
        if let Some(mistake) = resource.mistake {
            return Err(mistake);
        }
        let uri = resource.definition.uri.clone();
        if resource.handler.is_none() {
            return Err(format!("the resource {uri:?} has no handler"));
        }
        named("resource", &uri, |uri| self.resources.has(uri) || self.templates.has(uri))?;
        if !has_scheme(&uri) {
            return Err(format!("the resource {uri:?} has no scheme"));
        }
        let Some(template) = template_of(&resource) else {
            if let Some(variable) = resource.completers.keys().next() {
                return Err(format!("the resource {uri:?} completes {variable:?}, but is no template"));
            }
            self.resources.insert(uri, resource);
            return Ok(());
        };
        if let Some(variable) =
            resource.completers.keys().find(|name| !template.variables().any(|known| known == **name))
        {
            return Err(format!(
                "the template {uri:?} completes {variable:?}, which is none of its variables"
            ));
        }
        let clash = self
            .templates
            .0
            .iter()
            .find(|(_, (other, _))| template_of(other).is_some_and(|other| other.overlaps(template)));
        if let Some((other, _)) = clash {
            return Err(format!("a URI could fit both templates {other:?} and {uri:?}"));
        }
        self.templates.insert(uri, resource);
        Ok(())
    }
}

fn named(what: &str, name: &str, taken: impl Fn(&str) -> bool) -> Result<(), String> {
    if name.is_empty() {
        return Err(format!("a {what} has no name"));
    }
    if taken(name) {
        return Err(format!("the {what} {name:?} was registered twice"));
    }
    Ok(())
}

/// What checks the output, if anything is to. A schema that no type vouches for must be one in any case.
fn output_validator(
    schema: &Schema,
    unvouched: Option<Compile>,
    checks: Checks,
) -> Result<Option<Validator>, String> {
    let unvouched = unvouched.filter(|_| validate::IS_THERE);
    match (checks, unvouched) {
        (Checks::Yes(compile), _) | (Checks::IfPossible(compile), Some(_)) => compile(schema).map(Some),
        (Checks::IfPossible(compile), None) => Ok(compile(schema).ok()),
        (Checks::No, Some(compile)) => compile(schema).map(|_| None),
        (Checks::No, None) => Ok(None),
    }
}

/// A scheme is a letter, then letters, digits, `+`, `-` or `.` (RFC 3986, section 3.1).
fn has_scheme(uri: &str) -> bool {
    let Some((scheme, _)) = uri.split_once(':') else { return false };
    scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
}

/// The template of a family.
pub(crate) fn template_of(resource: &Resource) -> Option<&UriTemplate> {
    match &resource.place {
        Place::Uri => None,
        Place::Template(template) | Place::Folder(template, _) => Some(template),
    }
}

/// A thing of some kind: where it stands, and who may see it.
pub(crate) trait Item: Sized + 'static {
    const KIND: Kind;

    fn shelf(registry: &Registry) -> &Shelf<Self>;
    fn tags(&self) -> &[String];
}

/// A thing of any kind.
#[derive(Clone)]
pub(crate) enum Entry {
    Tool(Arc<ToolEntry>),
    Prompt(Arc<Prompt>),
    Resource(Arc<Resource>),
}

impl Entry {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Entry::Tool(_) => Kind::Tool,
            Entry::Prompt(_) => Kind::Prompt,
            Entry::Resource(_) => Kind::Resource,
        }
    }

    pub(crate) fn tags(&self) -> &[String] {
        match self {
            Entry::Tool(tool) => tool.tags(),
            Entry::Prompt(prompt) => prompt.tags(),
            Entry::Resource(resource) => resource.tags(),
        }
    }

    /// What tells two things with one name apart.
    pub(crate) fn address(&self) -> usize {
        match self {
            Entry::Tool(tool) => Arc::as_ptr(tool).addr(),
            Entry::Prompt(prompt) => Arc::as_ptr(prompt).addr(),
            Entry::Resource(resource) => Arc::as_ptr(resource).addr(),
        }
    }
}

/// What one list shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    Tools,
    Prompts,
    Resources,
    Families,
}

impl Shown {
    pub(crate) fn kind(self) -> Kind {
        match self {
            Shown::Tools => Kind::Tool,
            Shown::Prompts => Kind::Prompt,
            Shown::Resources | Shown::Families => Kind::Resource,
        }
    }
}

impl Registry {
    /// What is our own, in order.
    pub(crate) fn entries(&self, shown: Shown) -> Vec<(String, Entry)> {
        fn of<T>(shelf: &Shelf<T>, entry: fn(Arc<T>) -> Entry) -> Vec<(String, Entry)> {
            shelf.iter().map(|(name, item)| (name.to_owned(), entry(item.clone()))).collect()
        }
        match shown {
            Shown::Tools => of(&self.tools, Entry::Tool),
            Shown::Prompts => of(&self.prompts, Entry::Prompt),
            Shown::Resources => of(&self.resources, Entry::Resource),
            Shown::Families => of(&self.templates, Entry::Resource),
        }
    }
}

impl Item for ToolEntry {
    const KIND: Kind = Kind::Tool;

    fn shelf(registry: &Registry) -> &Shelf<Self> {
        &registry.tools
    }

    fn tags(&self) -> &[String] {
        &self.tool.tags
    }
}

impl Item for Prompt {
    const KIND: Kind = Kind::Prompt;

    fn shelf(registry: &Registry) -> &Shelf<Self> {
        &registry.prompts
    }

    fn tags(&self) -> &[String] {
        &self.tags
    }
}

impl Item for Resource {
    const KIND: Kind = Kind::Resource;

    fn shelf(registry: &Registry) -> &Shelf<Self> {
        &registry.resources
    }

    fn tags(&self) -> &[String] {
        &self.tags
    }
}

/// A name as it is in an outer server.
pub(crate) fn outer_name(kind: Kind, prefix: &str, name: &str) -> String {
    match kind {
        Kind::Resource => match name.split_once("://").map(|parts| (parts, "://")) {
            Some(((scheme, rest), mark)) => format!("{scheme}{mark}{prefix}/{rest}"),
            None => match name.split_once(':') {
                Some((scheme, rest)) => format!("{scheme}:{prefix}/{rest}"),
                None => format!("{prefix}/{name}"),
            },
        },
        _ => format!("{prefix}_{name}"),
    }
}

/// The name inside the mounted server, if it is one of its.
pub(crate) fn inner_name(kind: Kind, prefix: &str, name: &str) -> Option<String> {
    match kind {
        Kind::Resource => {
            let (scheme, mark, rest) = match name.split_once("://") {
                Some((scheme, rest)) => (scheme, "://", rest),
                None => match name.split_once(':') {
                    Some((scheme, rest)) => (scheme, ":", rest),
                    None => ("", "", name),
                },
            };
            Some(format!("{scheme}{mark}{}", rest.strip_prefix(prefix)?.strip_prefix('/')?))
        }
        _ => Some(name.strip_prefix(prefix)?.strip_prefix('_')?.to_owned()),
    }
}
