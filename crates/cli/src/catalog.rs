//! The tools, resources, templates and prompts of a server, each with a one-line summary.

use serde::Serialize;
use serde_json::Value;
use tsugite::client::{Client, ClientError, Paginated, Paginator};
use tsugite::protocol::ServerCapabilities;
use tsugite::protocol::prompts::Prompt;
use tsugite::protocol::resources::{Resource, ResourceTemplate};
use tsugite::protocol::tools::Tool;

use crate::connection::is_method_not_found;
use crate::error::{CliError, Result};
use crate::schema;

/// All lists of a server.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Catalog {
    pub(crate) tools: Vec<Tool>,
    pub(crate) resources: Vec<Resource>,
    pub(crate) resource_templates: Vec<ResourceTemplate>,
    pub(crate) prompts: Vec<Prompt>,
}

/// One item of a list.
pub(crate) struct CatalogEntry<'a> {
    pub(crate) name: &'a str,
    /// The signature, or the URI.
    pub(crate) summary: String,
    /// The name to show to people, if it differs from the name.
    pub(crate) title: Option<&'a str>,
    /// The description from the server.
    pub(crate) description: Option<&'a str>,
}

impl Catalog {
    /// Fetches each list that the server's capabilities declare.
    pub(crate) async fn fetch(client: &Client, can: &ServerCapabilities) -> Result<Self> {
        Ok(Self {
            tools: list_if_supported(can.tools.is_some(), || client.list_tools()).await?,
            resources: list_if_supported(can.resources.is_some(), || client.list_resources()).await?,
            resource_templates: list_if_supported(can.resources.is_some(), || {
                client.list_resource_templates()
            })
            .await?,
            prompts: list_if_supported(can.prompts.is_some(), || client.list_prompts()).await?,
        })
    }

    /// Returns the items whose names begin with `prefix`, that is, those of one server behind a bridge.
    pub(crate) fn with_prefix(&self, prefix: &str) -> Self {
        let name = |name: &str| name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('_'));
        let uri = |uri: &str| {
            let rest = uri.split_once(':').map_or(uri, |(_, rest)| rest.trim_start_matches("//"));
            rest.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('/'))
        };
        Self {
            tools: self.tools.iter().filter(|tool| name(&tool.name)).cloned().collect(),
            resources: self.resources.iter().filter(|resource| uri(&resource.uri)).cloned().collect(),
            resource_templates: self
                .resource_templates
                .iter()
                .filter(|template| uri(&template.uri_template))
                .cloned()
                .collect(),
            prompts: self.prompts.iter().filter(|prompt| name(&prompt.name)).cloned().collect(),
        }
    }

    /// Counts the items: `3 tools, 1 prompt`.
    pub(crate) fn counts(&self) -> String {
        let counts = [
            (self.tools.len(), "tool"),
            (self.resources.len(), "resource"),
            (self.resource_templates.len(), "template"),
            (self.prompts.len(), "prompt"),
        ];
        let counts = counts.iter().filter(|(count, _)| *count > 0);
        let counts: Vec<String> = counts
            .map(|(count, noun)| format!("{count} {noun}{}", if *count == 1 { "" } else { "s" }))
            .collect();
        if counts.is_empty() { "the server offers nothing".to_owned() } else { counts.join(", ") }
    }

    /// Returns the lists, each with its title.
    pub(crate) fn lists(&self) -> [(&'static str, Vec<CatalogEntry<'_>>); 4] {
        let tools = self.tools.iter().map(|tool| {
            entry(&tool.name, signature(tool), tool.description.as_ref()).titled(Some(tool.display_name()))
        });
        let resources = self.resources.iter().map(|resource| {
            let summary = resource_summary(&resource.uri, &resource.name, resource.mime_type.as_ref());
            entry(&resource.name, summary, resource.description.as_ref()).titled(resource.title.as_deref())
        });
        let templates = self.resource_templates.iter().map(|template| {
            let summary =
                resource_summary(&template.uri_template, &template.name, template.mime_type.as_ref());
            entry(&template.name, summary, template.description.as_ref()).titled(template.title.as_deref())
        });
        let prompts = self.prompts.iter().map(|prompt| {
            entry(&prompt.name, prompt_signature(prompt), prompt.description.as_ref())
                .titled(prompt.title.as_deref())
        });
        [
            ("tools", tools.collect()),
            ("resources", resources.collect()),
            ("templates", templates.collect()),
            ("prompts", prompts.collect()),
        ]
    }
}

/// Fetches a list if the server supports it.
///
/// Some servers declare a capability and lack one of its methods; their list is empty.
async fn list_if_supported<M: Paginated>(
    supported: bool,
    list: impl FnOnce() -> Paginator<M>,
) -> Result<Vec<M::Item>> {
    if !supported {
        return Ok(Vec::new());
    }
    match list().await {
        Err(error) if is_method_not_found(&error) => Ok(Vec::new()),
        listed => listed.map_err(list_error::<M>),
    }
}

/// Converts the error of a list request, and names the method.
pub(crate) fn list_error<M: Paginated>(error: ClientError) -> CliError {
    let mut failure = CliError::from_client_error(error, "list");
    if let Some(detail) = failure.detail.take_if(|detail| !detail.contains(M::NAME)) {
        failure = failure.detail(format!("{}: {detail}", M::NAME));
    }
    failure
}

fn entry<'a>(name: &'a str, summary: String, description: Option<&'a String>) -> CatalogEntry<'a> {
    CatalogEntry { name, summary, title: None, description: description.map(String::as_str) }
}

impl<'a> CatalogEntry<'a> {
    /// Adds the title, unless it says nothing new.
    fn titled(self, title: Option<&'a str>) -> Self {
        let title = title.filter(|title| !title.trim().is_empty() && *title != self.name);
        Self { title, ..self }
    }
}

fn signature(tool: &Tool) -> String {
    let input = Value::Object(tool.input_schema.keywords().clone());
    let output = tool.output_schema.as_ref().map(|schema| Value::Object(schema.keywords().clone()));
    schema::signature(&tool.name, &input, output.as_ref())
}

fn resource_summary(uri: &str, name: &str, mime_type: Option<&String>) -> String {
    match mime_type {
        Some(mime_type) => format!("{uri}  {name}, {mime_type}"),
        None => format!("{uri}  {name}"),
    }
}

fn prompt_signature(prompt: &Prompt) -> String {
    let arguments = prompt.arguments.iter().flatten().map(|argument| match argument.required {
        Some(true) => argument.name.clone(),
        _ => format!("{}?", argument.name),
    });
    format!("{}({})", prompt.name, arguments.collect::<Vec<_>>().join(", "))
}
