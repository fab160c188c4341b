//! `tsugite read`: reads a resource.

use std::path::{Path, PathBuf};

use clap::Args;
use tsugite::protocol::content::{ResourceBody, ResourceContents};

use super::{expect_no_more, take_first};
use crate::connection::Connection;
use crate::error::Result;
use crate::options::CommonOptions;
use crate::output;
use crate::server_requests::PresetAnswers;
use crate::targets;

/// Read a resource
#[derive(Debug, Args)]
#[command(
    override_usage = "tsugite read [OPTIONS] TARGET URI\n       tsugite read [OPTIONS] URI -- COMMAND…",
    after_help = "Text and bytes are printed unchanged; on a terminal JSON gets a line for each member, and bytes are only described.\n\nExamples:\n  tsugite read demo demo://motto\n  tsugite read demo demo://logo -o logo.png"
)]
pub(crate) struct Read {
    #[arg(hide = true)]
    words: Vec<String>,
    /// Save the contents to a file or a folder (out/)
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    #[command(flatten)]
    answers: PresetAnswers,
    #[command(flatten)]
    pub(super) common: CommonOptions,
}

/// A resource to read.
pub(crate) struct ResourceRead {
    uri: String,
    output: Option<PathBuf>,
}

impl Read {
    pub(crate) async fn run(self) -> Result<()> {
        let (found, rest) = targets::resolve(self.words, &self.common, "read").await?;
        let read = ResourceRead::new(rest, self.output)?;
        let connection = Connection::open(found, &self.common, self.answers).await?;
        let outcome = read.run_on(&connection).await;
        connection.finish(outcome).await
    }
}

impl ResourceRead {
    /// Parses the URI. The contents are saved to `output`.
    pub(crate) fn new(mut words: Vec<String>, output: Option<PathBuf>) -> Result<Self> {
        let uri = take_first(&mut words, "read", "the URI of a resource", "demo://motto")?;
        expect_no_more(&words)?;
        Ok(Self { uri, output })
    }

    pub(crate) async fn run_on(&self, connection: &Connection) -> Result<()> {
        let Self { uri, output } = self;
        let result = connection.check_result(connection.client.read_resource(uri).await, "read")?;
        let console = &connection.console;
        let to = output.as_deref().filter(|to| *to != Path::new("-"));
        if let Some(to) = to {
            save(&result.contents, to, uri)?;
        }
        match (console.json, to) {
            (true, _) => console.print_json(&result)?,
            (false, Some(to)) => console.note(&format!("saved to {}", to.display())),
            (false, None) => {
                for contents in &result.contents {
                    match &contents.body {
                        ResourceBody::Text(text) if is_json(contents) => {
                            console.print(&output::readable_text(console, text))?
                        }
                        ResourceBody::Text(text) => console.print(&console.sanitized(text))?,
                        ResourceBody::Blob(base64) if !console.is_terminal || output.is_some() => {
                            console.print_bytes(&output::decode_base64(base64)?)?;
                        }
                        ResourceBody::Blob(_) => {
                            output::show(console, &[output::part_from_contents(contents)], None, uri)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

fn is_json(contents: &ResourceContents) -> bool {
    let mime_type = contents.mime_type.as_deref().unwrap_or_default();
    let mime_type = mime_type.split(';').next().unwrap_or_default().trim();
    mime_type.ends_with("/json") || mime_type.ends_with("+json")
}

fn save(contents: &[ResourceContents], to: &Path, uri: &str) -> Result<()> {
    match contents {
        [ResourceContents { body: ResourceBody::Text(text), .. }] if !to.is_dir() => {
            output::write(to, text.as_bytes())
        }
        _ => {
            let parts: Vec<_> = contents
                .iter()
                .map(|contents| match &contents.body {
                    ResourceBody::Text(text) => {
                        let mime_type = contents.mime_type.clone().unwrap_or_default();
                        let base64 = tsugite::base64::encode(text.as_bytes());
                        output::OutputPart::Blob { kind: "text", mime_type, base64 }
                    }
                    ResourceBody::Blob(_) => output::part_from_contents(contents),
                })
                .collect();
            output::save(&parts, to, uri)
        }
    }
}
