//! The registry of tools, prompts and resources, in registration order, and the mounted servers.

use std::sync::Arc;

use indexmap::IndexMap;
use tsugite_core::protocol::{Meta, Schema, TaskSupport};
use tsugite_core::session::header::HeaderParams;
use tsugite_core::uri_template::UriTemplate;

use super::ServerShared;
use super::config::OutputValidation;
use super::output_check::has_scheme;
use super::prompt::Prompt;
use super::resource::{Resource, ResourceLocation};
use super::schema;
use super::scope_rule::check_scope_names;
use super::tool::Tool;
pub use crate::shared::list_kind::ListKind;
pub(crate) use crate::shared::list_kind::{inner_name, outer_name};
use crate::shared::log;
use crate::shared::validate::{self, ArgumentValidator, CompileFn, Validator};

/// The items a server offers. Readers take a snapshot, so no lock is held while user code runs.
#[derive(Clone, Default)]
pub(crate) struct Registry {
    pub(crate) tools: Collection<ToolEntry>,
    pub(crate) prompts: Collection<Prompt>,
    pub(crate) resources: Collection<Resource>,
    /// Resource templates, by their template text.
    pub(crate) templates: Collection<Resource>,
    pub(crate) mounts: Vec<Mount>,
    /// Whether an item ever needed a scope.
    pub(crate) has_scopes: bool,
    errors: Vec<String>,
    /// The kinds that were ever registered. Their capability stays declared even if the list becomes empty.
    ever_registered: Vec<ListKind>,
    /// Whether a tool that allows tasks is or was registered.
    had_task_tools: bool,
}

/// A tool, a prompt or a resource, ready to be registered.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Registration {
    /// A tool.
    Tool(Tool),
    /// A prompt.
    Prompt(Prompt),
    /// A resource or a resource template.
    Resource(Box<Resource>),
}

impl Registration {
    pub(crate) fn kind(&self) -> ListKind {
        match self {
            Registration::Tool(_) => ListKind::Tool,
            Registration::Prompt(_) => ListKind::Prompt,
            Registration::Resource(_) => ListKind::Resource,
        }
    }

    fn scopes(&self) -> &[String] {
        match self {
            Registration::Tool(tool) => &tool.scopes,
            Registration::Prompt(prompt) => &prompt.scopes,
            Registration::Resource(resource) => &resource.scopes,
        }
    }
}

impl From<Tool> for Registration {
    fn from(tool: Tool) -> Self {
        Registration::Tool(tool)
    }
}

impl From<Prompt> for Registration {
    fn from(prompt: Prompt) -> Self {
        Registration::Prompt(prompt)
    }
}

impl From<Resource> for Registration {
    fn from(resource: Resource) -> Self {
        Registration::Resource(Box::new(resource))
    }
}

/// A server mounted inside another, and its prefix.
#[derive(Clone)]
pub(crate) struct Mount {
    pub(crate) prefix: String,
    pub(crate) shared: Arc<ServerShared>,
}

/// A registered tool with its handler.
pub(crate) struct ToolEntry {
    pub(crate) tool: Tool,
    /// The arguments that are mirrored in HTTP headers.
    pub(crate) header_params: HeaderParams,
    /// Validates arguments where deserializing them into their type does not enforce the whole schema.
    pub(crate) input_validator: Option<ArgumentValidator>,
    /// Validates the output, if output validation is on.
    pub(crate) output_validator: Option<Validator>,
}

/// Items of one kind in registration order, each enabled or disabled. The keys are chosen by the server, so a fast hash
/// is safe.
pub(crate) struct Collection<T>(IndexMap<String, (Arc<T>, bool), foldhash::fast::RandomState>);

impl<T> Clone for Collection<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Default for Collection<T> {
    fn default() -> Self {
        Self(IndexMap::default())
    }
}

impl<T> Collection<T> {
    pub(crate) fn get(&self, name: &str) -> Option<&Arc<T>> {
        self.0.get(name).filter(|(_, on)| *on).map(|(item, _)| item)
    }

    /// The enabled items, in registration order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Arc<T>)> {
        self.0.iter().filter(|(_, (_, on))| *on).map(|(name, (item, _))| (name.as_str(), item))
    }

    fn insert(&mut self, name: String, item: T) {
        self.0.insert(name, (Arc::new(item), true));
    }

    fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    fn remove(&mut self, name: &str) -> bool {
        self.0.shift_remove(name).is_some()
    }

    /// Enables or disables an item. Returns whether that changed anything.
    fn set_enabled(&mut self, name: &str, on: bool) -> bool {
        self.0.get_mut(name).is_some_and(|(_, is_on)| std::mem::replace(is_on, on) != on)
    }
}

impl Registry {
    /// Adds an item. Fails with the reason if the item is invalid and then changes nothing.
    pub(crate) fn add(
        &mut self,
        offered: Registration,
        checks_output: OutputValidation,
    ) -> Result<(), String> {
        let (kind, has_scopes) = (offered.kind(), !offered.scopes().is_empty());
        let allows_tasks =
            matches!(&offered, Registration::Tool(tool) if tool.task != TaskSupport::Forbidden);
        match offered {
            Registration::Tool(tool) => self.add_tool(tool, checks_output),
            Registration::Prompt(prompt) => self.add_prompt(prompt),
            Registration::Resource(resource) => self.add_resource(*resource),
        }?;
        self.has_scopes |= has_scopes;
        self.had_task_tools |= allows_tasks;
        if !self.ever_registered.contains(&kind) {
            self.ever_registered.push(kind);
        }
        Ok(())
    }

    pub(crate) fn record_error(&mut self, error: String) {
        self.errors.push(error);
    }

    pub(crate) fn errors(&self) -> &[String] {
        &self.errors
    }

    /// Removes an item. Returns whether it was registered.
    pub(crate) fn remove(&mut self, kind: ListKind, name: &str) -> bool {
        match kind {
            ListKind::Tool => self.tools.remove(name),
            ListKind::Prompt => self.prompts.remove(name),
            ListKind::Resource => self.resources.remove(name) || self.templates.remove(name),
        }
    }

    /// Enables or disables an item by name. Returns whether that changed anything.
    pub(crate) fn set_enabled(&mut self, kind: ListKind, name: &str, on: bool) -> bool {
        match kind {
            ListKind::Tool => self.tools.set_enabled(name, on),
            ListKind::Prompt => self.prompts.set_enabled(name, on),
            ListKind::Resource => {
                self.resources.set_enabled(name, on) || self.templates.set_enabled(name, on)
            }
        }
    }

    /// Whether an item of this kind is or was registered, here or in a mounted server.
    pub(crate) fn has(&self, kind: ListKind) -> bool {
        self.ever_registered.contains(&kind)
            || self.mounts.iter().any(|mount| mount.shared.registry().has(kind))
    }

    /// Whether any registered item completes arguments.
    pub(crate) fn has_completers(&self) -> bool {
        self.prompts.iter().any(|(_, prompt)| !prompt.completers.is_empty())
            || self.templates.iter().any(|(_, resource)| !resource.completers.is_empty())
            || self.mounts.iter().any(|mount| mount.shared.registry().has_completers())
    }

    /// Whether any registered tool is `once`.
    pub(crate) fn has_once_tools(&self) -> bool {
        self.tools.iter().any(|(_, entry)| entry.tool.once)
            || self.mounts.iter().any(|mount| mount.shared.registry().has_once_tools())
    }

    /// Whether a tool that allows tasks is or was registered: its tasks go on without it.
    pub(crate) fn has_task_tools(&self) -> bool {
        self.had_task_tools || self.mounts.iter().any(|mount| mount.shared.registry().has_task_tools())
    }

    fn add_tool(&mut self, mut tool: Tool, checks_output: OutputValidation) -> Result<(), String> {
        let name = &tool.definition.name;
        if tool.handler.is_none() {
            return Err(format!("the tool {name:?} has no handler"));
        }
        check_name("tool", name, |name| self.tools.contains(name))?;
        check_meta("tool", name, tool.definition.meta.as_ref())?;
        check_scope_names("tool", name, &tool.scopes)?;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        if (name.len() > 128 || !name.bytes().all(plain)) && log::is_first("tool name", name) {
            log::warn!("many clients reject the tool name {name:?}; use letters, digits, `_`, `-` and `.`");
        }
        let schema = &tool.definition.input_schema;
        if !schema.is_object_rooted() {
            return Err(format!("the input schema of the tool {name:?} must have the type object"));
        }
        let headers =
            HeaderParams::from_schema(schema).map_err(|mark| format!("the tool {name:?}: {mark}"))?;
        let input = ArgumentValidator::for_arguments(schema, tool.typed, tool.compile)
            .map_err(|error| format!("the input schema of the tool {name:?}: {error}"))?;
        let output = match &tool.definition.output_schema {
            Some(schema) => {
                compile_output_validator(schema, tool.compile.filter(|_| !tool.typed), checks_output)
                    .map_err(|error| format!("the output schema of the tool {name:?}: {error}"))?
            }
            None => None,
        };
        let description = tool.definition.description.as_deref().unwrap_or_default();
        if description.trim().is_empty() && log::is_first("tool description", name) {
            log::warn!(
                "the tool {name:?} has no description, by which models choose tools; write a doc comment or use \
                 `Tool::description`"
            );
        }
        let name = name.clone();
        if tool.typed {
            let definition = &mut tool.definition;
            schema::strip_rust_formats(&mut definition.input_schema);
            definition.output_schema.iter_mut().for_each(schema::strip_rust_formats);
        }
        self.tools.insert(
            name,
            ToolEntry { tool, header_params: headers, input_validator: input, output_validator: output },
        );
        Ok(())
    }

    fn add_prompt(&mut self, prompt: Prompt) -> Result<(), String> {
        let name = prompt.definition.name.clone();
        if prompt.handler.is_none() {
            return Err(format!("the prompt {name:?} has no handler"));
        }
        check_name("prompt", &name, |name| self.prompts.contains(name))?;
        check_meta("prompt", &name, prompt.definition.meta.as_ref())?;
        check_scope_names("prompt", &name, &prompt.scopes)?;
        let known = prompt.definition.arguments.as_deref().unwrap_or_default();
        if let Some(argument) =
            prompt.completers.keys().find(|name| !known.iter().any(|known| known.name == **name))
        {
            return Err(format!(
                "the prompt {name:?} completes {argument:?}, which is not one of its arguments"
            ));
        }
        self.prompts.insert(name, prompt);
        Ok(())
    }

    fn add_resource(&mut self, resource: Resource) -> Result<(), String> {
        if let Some(error) = resource.error {
            return Err(error);
        }
        let uri = resource.definition.uri.clone();
        if resource.handler.is_none() {
            return Err(format!("the resource {uri:?} has no handler"));
        }
        check_name("resource", &uri, |uri| self.resources.contains(uri) || self.templates.contains(uri))?;
        check_meta("resource", &uri, resource.definition.meta.as_ref())?;
        check_scope_names("resource", &uri, &resource.scopes)?;
        if !has_scheme(&uri) {
            return Err(format!("the resource {uri:?} has no URI scheme; use for example `file:///name`"));
        }
        let Some(template) = resource_template(&resource) else {
            if let Some(variable) = resource.completers.keys().next() {
                return Err(format!(
                    "the resource {uri:?} completes {variable:?}, but its URI is not a template"
                ));
            }
            self.resources.insert(uri, resource);
            return Ok(());
        };
        if let Some(variable) =
            resource.completers.keys().find(|name| !template.variables().any(|known| known == **name))
        {
            return Err(format!(
                "the template {uri:?} completes {variable:?}, which is not one of its variables"
            ));
        }
        let clash =
            self.templates.0.iter().find(|(_, (other, _))| {
                resource_template(other).is_some_and(|other| other.overlaps(template))
            });
        if let Some((other, _)) = clash {
            return Err(format!("a URI could fit both templates {other:?} and {uri:?}"));
        }
        self.templates.insert(uri, resource);
        Ok(())
    }
}

fn check_name(what: &str, name: &str, taken: impl Fn(&str) -> bool) -> Result<(), String> {
    if name.is_empty() {
        return Err(format!("a {what} has no name"));
    }
    if taken(name) {
        return Err(format!("the {what} {name:?} was registered twice"));
    }
    Ok(())
}

/// Returns the output validator if output validation is on. A schema that no Rust type backs is compiled in any case.
fn compile_output_validator(
    schema: &Schema,
    unvouched: Option<CompileFn>,
    checks: OutputValidation,
) -> Result<Option<Validator>, String> {
    let unvouched = unvouched.filter(|_| validate::AVAILABLE);
    match (checks, unvouched) {
        (OutputValidation::Required(compile), _) | (OutputValidation::BestEffort(compile), Some(_)) => {
            compile(schema).map(Some)
        }
        // No Rust type vouches for the result of a raw handler, so it is validated in release builds, too.
        (OutputValidation::RawOnly, Some(compile)) => compile(schema).map(Some),
        (OutputValidation::RawOnly, None) => Ok(None),
        (OutputValidation::BestEffort(compile), None) => Ok(compile(schema).ok()),
        (OutputValidation::Disabled, Some(compile)) => compile(schema).map(|_| None),
        (OutputValidation::Disabled, None) => Ok(None),
    }
}

fn check_meta(what: &str, name: &str, meta: Option<&Meta>) -> Result<(), String> {
    let checked = meta.map_or(Ok(()), |meta| meta.check_user_keys(&[]));
    checked.map_err(|error| format!("the {what} {name:?}: {error}"))
}

/// Parses the URI template of a resource template.
pub(crate) fn resource_template(resource: &Resource) -> Option<&UriTemplate> {
    match &resource.location {
        ResourceLocation::Uri => None,
        ResourceLocation::Template(template) | ResourceLocation::Directory(template, _) => Some(template),
    }
}

/// An item of one kind, with its tags and scopes.
pub(crate) trait Item: Sized + 'static {
    const KIND: ListKind;

    fn collection(registry: &Registry) -> &Collection<Self>;
    fn tags(&self) -> &[String];
    fn scopes(&self) -> &[String];
}

/// An item of any kind.
#[derive(Clone)]
pub(crate) enum RegistryEntry {
    Tool(Arc<ToolEntry>),
    Prompt(Arc<Prompt>),
    Resource(Arc<Resource>),
}

impl RegistryEntry {
    pub(crate) fn kind(&self) -> ListKind {
        match self {
            RegistryEntry::Tool(_) => ListKind::Tool,
            RegistryEntry::Prompt(_) => ListKind::Prompt,
            RegistryEntry::Resource(_) => ListKind::Resource,
        }
    }

    pub(crate) fn tags(&self) -> &[String] {
        match self {
            RegistryEntry::Tool(tool) => tool.tags(),
            RegistryEntry::Prompt(prompt) => prompt.tags(),
            RegistryEntry::Resource(resource) => resource.tags(),
        }
    }

    /// A number that tells apart two items of the same name.
    pub(crate) fn address(&self) -> usize {
        match self {
            RegistryEntry::Tool(tool) => Arc::as_ptr(tool).addr(),
            RegistryEntry::Prompt(prompt) => Arc::as_ptr(prompt).addr(),
            RegistryEntry::Resource(resource) => Arc::as_ptr(resource).addr(),
        }
    }
}

/// Selects one of the four lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RegistryList {
    Tools,
    Prompts,
    Resources,
    ResourceTemplates,
}

impl RegistryList {
    pub(crate) fn kind(self) -> ListKind {
        match self {
            RegistryList::Tools => ListKind::Tool,
            RegistryList::Prompts => ListKind::Prompt,
            RegistryList::Resources | RegistryList::ResourceTemplates => ListKind::Resource,
        }
    }
}

impl Registry {
    /// The items of this server, without mounted ones, in registration order.
    pub(crate) fn entries(&self, shown: RegistryList) -> Vec<(String, RegistryEntry)> {
        fn collect_entries<T>(
            shelf: &Collection<T>,
            entry: fn(Arc<T>) -> RegistryEntry,
        ) -> Vec<(String, RegistryEntry)> {
            shelf.iter().map(|(name, item)| (name.to_owned(), entry(item.clone()))).collect()
        }
        match shown {
            RegistryList::Tools => collect_entries(&self.tools, RegistryEntry::Tool),
            RegistryList::Prompts => collect_entries(&self.prompts, RegistryEntry::Prompt),
            RegistryList::Resources => collect_entries(&self.resources, RegistryEntry::Resource),
            RegistryList::ResourceTemplates => collect_entries(&self.templates, RegistryEntry::Resource),
        }
    }
}

impl Item for ToolEntry {
    const KIND: ListKind = ListKind::Tool;

    fn collection(registry: &Registry) -> &Collection<Self> {
        &registry.tools
    }

    fn tags(&self) -> &[String] {
        &self.tool.tags
    }

    fn scopes(&self) -> &[String] {
        &self.tool.scopes
    }
}

impl Item for Prompt {
    const KIND: ListKind = ListKind::Prompt;

    fn collection(registry: &Registry) -> &Collection<Self> {
        &registry.prompts
    }

    fn tags(&self) -> &[String] {
        &self.tags
    }

    fn scopes(&self) -> &[String] {
        &self.scopes
    }
}

impl Item for Resource {
    const KIND: ListKind = ListKind::Resource;

    fn collection(registry: &Registry) -> &Collection<Self> {
        &registry.resources
    }

    fn tags(&self) -> &[String] {
        &self.tags
    }

    fn scopes(&self) -> &[String] {
        &self.scopes
    }
}

#[cfg(all(test, feature = "validate"))]
mod tests {
    use super::*;

    #[test]
    fn raw_results_are_validated_in_release_builds() {
        // TOOL-034
        let schema = Schema::from(serde_json::json!({"type": "object", "required": ["n"]}));
        let validator = |unvouched, checks| compile_output_validator(&schema, unvouched, checks).unwrap();
        let raw = validator(Some(Validator::compile as CompileFn), OutputValidation::RawOnly).unwrap();
        assert!(raw.check(&serde_json::json!({"n": 1})).is_ok());
        assert!(raw.check(&serde_json::json!({})).is_err());
        assert!(validator(None, OutputValidation::RawOnly).is_none());
        assert!(validator(Some(Validator::compile), OutputValidation::Disabled).is_none());
    }
}
