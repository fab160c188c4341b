//! `tsugite read`: what a resource holds.

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
    after_help = "Text is printed as it is; bytes too, unless standard output is a terminal.\n\nExamples:\n  tsugite read demo demo://motto\n  tsugite read demo demo://logo -o logo.png"
)]
pub(crate) struct Read {
    #[arg(hide = true)]
    words: Vec<String>,
    /// Save what it holds into a file or a folder (out/)
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    #[command(flatten)]
    replies: PresetAnswers,
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
        let (found, rest) = targets::resolve(self.words, &self.common, "read")?;
        let job = ResourceRead::new(rest, self.output)?;
        let session = Connection::open(found, &self.common, self.replies).await?;
        let outcome = job.run_on(&session).await;
        session.finish(outcome).await
    }
}

impl ResourceRead {
    /// `words` are the URI, `output` is where it goes.
    pub(crate) fn new(mut words: Vec<String>, output: Option<PathBuf>) -> Result<Self> {
        let uri = take_first(&mut words, "read", "the URI of a resource", "demo://motto")?;
        expect_no_more(&words)?;
        Ok(Self { uri, output })
    }

    pub(crate) async fn run_on(&self, session: &Connection) -> Result<()> {
        let Self { uri, output } = self;
        let result = session.check_result(session.client.read_resource(uri).await, "read")?;
        let screen = &session.console;
        let to = output.as_deref().filter(|to| *to != Path::new("-"));
        if let Some(to) = to {
            save(&result.contents, to, uri)?;
        }
        match (screen.json, to) {
            (true, _) => screen.print_json(&result)?,
            (false, Some(to)) => screen.note(&format!("saved in {}", to.display())),
            (false, None) => {
                for contents in &result.contents {
                    match &contents.body {
                        ResourceBody::Text(text) => screen.print(&screen.sanitized(text))?,
                        ResourceBody::Blob(base64) if !screen.is_terminal || output.is_some() => {
                            screen.print_bytes(&output::decode_base64(base64)?)?;
                        }
                        ResourceBody::Blob(_) => {
                            output::show(screen, &[output::part_from_contents(contents)], None, uri)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

fn save(contents: &[ResourceContents], to: &Path, uri: &str) -> Result<()> {
    match contents {
        [ResourceContents { body: ResourceBody::Text(text), .. }] if !to.is_dir() => {
            output::write(to, text.as_bytes())
        }
        _ => {
            let pieces: Vec<_> = contents
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
            output::save(&pieces, to, uri)
        }
    }
}
