//! `tsugite list`: what a server offers.

use clap::Args;
use serde::Serialize;
use serde_json::Value;
use tsugite::client::{Error, Listing, Pages};
use tsugite::core::protocol::prompts::Prompt;
use tsugite::core::protocol::resources::{Resource, ResourceTemplate};
use tsugite::core::protocol::tools::Tool;

use super::no_more;
use crate::asking::Replies;
use crate::fail::{Failure, Result};
use crate::options::Common;
use crate::schema;
use crate::screen::{Screen, Style};
use crate::session::{Session, is_unknown_method};
use crate::target;

/// List tools, resources, templates and prompts
#[derive(Debug, Args)]
#[command(
    override_usage = "tsugite list [OPTIONS] TARGET\n       tsugite list [OPTIONS] -- COMMAND…",
    after_help = "Examples:\n  tsugite list demo\n  tsugite list https://example.com/mcp --json\n  tsugite list -- npx -y @modelcontextprotocol/server-everything"
)]
pub(crate) struct List {
    #[arg(hide = true)]
    words: Vec<String>,
    #[command(flatten)]
    pub(super) common: Common,
}

/// All that a server offers.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Offered {
    tools: Vec<Tool>,
    resources: Vec<Resource>,
    resource_templates: Vec<ResourceTemplate>,
    prompts: Vec<Prompt>,
}

impl List {
    pub(crate) async fn run(self) -> Result<()> {
        let (found, rest) = target::find(self.words, &self.common, "list")?;
        no_more(&rest)?;
        let session = Session::open(found, &self.common, Replies::default()).await?;
        let can = session.about().await?.capabilities;
        let client = &session.client;
        let offered = Offered {
            tools: all(can.tools.is_some(), || client.list_tools()).await?,
            resources: all(can.resources.is_some(), || client.list_resources()).await?,
            resource_templates: all(can.resources.is_some(), || client.list_resource_templates()).await?,
            prompts: all(can.prompts.is_some(), || client.list_prompts()).await?,
        };
        match session.screen.json {
            true => session.screen.json(&offered)?,
            false => offered.show(&session.screen)?,
        }
        session.close().await
    }
}

/// A list, if the server has it. Some say that they have one and do not know all of its methods.
async fn all<M: Pages>(has: bool, list: impl FnOnce() -> Listing<M>) -> Result<Vec<M::Item>> {
    if !has {
        return Ok(Vec::new());
    }
    match list().await {
        Err(error) if is_unknown_method(&error) => Ok(Vec::new()),
        listed => listed.map_err(|error: Error| Failure::of(error, "list")),
    }
}

impl Offered {
    fn show(&self, screen: &Screen) -> Result<()> {
        let mut text = String::new();
        let mut section = |title: &str, entries: Vec<(String, Option<&String>)>| {
            if entries.is_empty() {
                return;
            }
            text.push_str(&screen.paint(Style::Bold, title));
            text.push('\n');
            for (entry, about) in entries {
                text.push_str(&format!("  {}\n", screen.paint(Style::Green, &screen.words(&entry))));
                let about = about.map(|about| screen.words(about)).unwrap_or_default();
                if let Some(line) = about.lines().find(|line| !line.trim().is_empty()) {
                    text.push_str(&format!("      {}\n", line.trim()));
                }
            }
        };
        let tools = self.tools.iter().map(|tool| (signature(tool), tool.description.as_ref()));
        section("tools", tools.collect());
        let resources = self.resources.iter().map(|resource| {
            (place(&resource.uri, &resource.name, resource.mime_type.as_ref()), resource.description.as_ref())
        });
        section("resources", resources.collect());
        let templates = self.resource_templates.iter().map(|template| {
            let place = place(&template.uri_template, &template.name, template.mime_type.as_ref());
            (place, template.description.as_ref())
        });
        section("templates", templates.collect());
        let prompts = self.prompts.iter().map(|prompt| (with_arguments(prompt), prompt.description.as_ref()));
        section("prompts", prompts.collect());
        match text.is_empty() {
            true => screen.line("the server offers nothing"),
            false => screen.text(&text),
        }
    }
}

fn signature(tool: &Tool) -> String {
    let input = Value::Object(tool.input_schema.keywords().clone());
    let output = tool.output_schema.as_ref().map(|schema| Value::Object(schema.keywords().clone()));
    schema::signature(&tool.name, &input, output.as_ref())
}

fn place(uri: &str, name: &str, mime_type: Option<&String>) -> String {
    match mime_type {
        Some(mime_type) => format!("{uri}  {name}, {mime_type}"),
        None => format!("{uri}  {name}"),
    }
}

fn with_arguments(prompt: &Prompt) -> String {
    let arguments = prompt.arguments.iter().flatten().map(|argument| match argument.required {
        Some(true) => argument.name.clone(),
        _ => format!("{}?", argument.name),
    });
    format!("{}({})", prompt.name, arguments.collect::<Vec<_>>().join(", "))
}
