//! `tsugite complete`: what could stand in an argument.

use clap::Args;
use tsugite::core::protocol::completion::{Argument, CompleteParams, CompletionContext, Reference};

use super::first;
use crate::arguments;
use crate::asking::Replies;
use crate::fail::{Failure, Result};
use crate::options::Common;
use crate::session::Session;
use crate::target;

/// Ask what could stand in an argument of a prompt or a template
#[derive(Debug, Args)]
#[command(
    override_usage = "tsugite complete [OPTIONS] TARGET PROMPT|TEMPLATE ARGUMENT [BEGINNING] [k=v]…\n       tsugite complete [OPTIONS] PROMPT|TEMPLATE ARGUMENT [BEGINNING] [k=v]… -- COMMAND…",
    after_help = "k=v are the arguments that are filled in already.\n\nExamples:\n  tsugite complete demo review language r\n  tsugite complete demo 'demo://cities/{country}/{city}' city '' country=Japan"
)]
pub(crate) struct Complete {
    #[arg(hide = true)]
    words: Vec<String>,
    #[command(flatten)]
    pub(super) common: Common,
}

impl Complete {
    pub(crate) async fn run(self) -> Result<()> {
        let (found, mut rest) = target::find(self.words, &self.common, "complete")?;
        let example = "tsugite complete demo review language r";
        let about = first(&mut rest, "complete", "a prompt or a template", example)?;
        let name = first(&mut rest, "complete", "the name of an argument", example)?;
        let begun = if rest.is_empty() { String::new() } else { rest.remove(0) };
        let others = arguments::plain_pairs(&rest).map_err(|failure| failure.at("arguments"))?;
        let reference = match about.contains(':') {
            true => Reference::resource(about),
            false => Reference::prompt(about),
        };
        let mut params = CompleteParams::new(reference, Argument::new(name, begun));
        if !others.is_empty() {
            params = params.context(CompletionContext::new().arguments(others));
        }
        let session = Session::open(found, &self.common, Replies::default()).await?;
        let result = session.client.complete(params).await;
        let result = result.map_err(|error| Failure::of(error, "complete"))?;
        let screen = &session.screen;
        if screen.json {
            screen.json(&result)?;
            return session.close().await;
        }
        for value in &result.completion.values {
            screen.line(&screen.words(value))?;
        }
        let shown = result.completion.values.len() as u64;
        match (result.completion.total, result.completion.has_more) {
            (Some(total), _) if total > shown => screen.note(&format!("note: {total} in all")),
            (_, Some(true)) => screen.note("note: there are more"),
            _ => {}
        }
        session.close().await
    }
}
