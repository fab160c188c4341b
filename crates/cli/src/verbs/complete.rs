//! `tsugite complete`: what could stand in an argument.

use clap::Args;
use tsugite::core::protocol::completion::{Argument, CompleteParams, CompletionContext, Reference};

use super::first;
use crate::arguments;
use crate::asking::Replies;
use crate::fail::{Failure, Result};
use crate::near::did_you_mean;
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

/// An argument to complete.
pub(crate) struct Job(CompleteParams);

impl Complete {
    pub(crate) async fn run(self) -> Result<()> {
        let (found, rest) = target::find(self.words, &self.common, "complete")?;
        let job = Job::new(rest)?;
        let session = Session::open(found, &self.common, Replies::default()).await?;
        let outcome = job.on(&session).await;
        session.finish(outcome).await
    }
}

impl Job {
    /// `words` are the prompt or template, the argument, how it begins, and what is filled in already.
    pub(crate) fn new(mut words: Vec<String>) -> Result<Self> {
        let example = "review language r";
        let about = first(&mut words, "complete", "a prompt or a template", example)?;
        let name = first(&mut words, "complete", "the name of an argument", example)?;
        let begun = if words.is_empty() { String::new() } else { words.remove(0) };
        let others = arguments::plain_pairs(&words).map_err(|failure| failure.at("arguments"))?;
        let reference = match about.contains(':') {
            true => Reference::resource(about),
            false => Reference::prompt(about),
        };
        let mut params = CompleteParams::new(reference, Argument::new(name, begun));
        if !others.is_empty() {
            params = params.context(CompletionContext::new().arguments(others));
        }
        Ok(Self(params))
    }

    pub(crate) async fn on(&self, session: &Session) -> Result<()> {
        let result = session.client.complete(self.0.clone()).await;
        let result = match result {
            Ok(result) => result,
            Err(error) => {
                let failure = Failure::of(error, "complete");
                return Err(match self.meant(session).await {
                    Some(advice) => failure.hint(advice),
                    None => failure,
                });
            }
        };
        let screen = &session.screen;
        if screen.json {
            return screen.json(&result);
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
        Ok(())
    }

    /// Which name was meant, if the one that was given is none of the server's.
    async fn meant(&self, session: &Session) -> Option<String> {
        let CompleteParams { r#ref: reference, argument, .. } = &self.0;
        match reference {
            Reference::Prompt { name, .. } => {
                let prompts = session.client.list_prompts().await.ok()?;
                let Some(prompt) = prompts.iter().find(|prompt| prompt.name == *name) else {
                    return did_you_mean(name, prompts.iter().map(|prompt| prompt.name.as_str()));
                };
                let asked: Vec<&str> =
                    prompt.arguments.iter().flatten().map(|argument| argument.name.as_str()).collect();
                match asked.contains(&argument.name.as_str()) {
                    true => None,
                    false => did_you_mean(&argument.name, asked),
                }
            }
            Reference::Resource { uri, .. } => {
                let templates = session.client.list_resource_templates().await.ok()?;
                let known: Vec<&str> =
                    templates.iter().map(|template| template.uri_template.as_str()).collect();
                match known.contains(&uri.as_str()) {
                    true => None,
                    false => did_you_mean(uri, known),
                }
            }
            _ => None,
        }
    }
}
