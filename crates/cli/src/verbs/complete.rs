//! `tsugite complete`: what could stand in an argument.

use clap::Args;
use tsugite::protocol::completion::{CompleteParams, CompletionArgument, CompletionContext, Reference};

use super::take_first;
use crate::arguments;
use crate::connection::Connection;
use crate::error::{CliError, Result};
use crate::options::CommonOptions;
use crate::server_requests::PresetAnswers;
use crate::suggest::did_you_mean;
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
    pub(super) common: CommonOptions,
}

/// An argument to complete.
pub(crate) struct CompletionRequest(CompleteParams);

impl Complete {
    pub(crate) async fn run(self) -> Result<()> {
        let (found, rest) = target::resolve(self.words, &self.common, "complete")?;
        let job = CompletionRequest::new(rest)?;
        let session = Connection::open(found, &self.common, PresetAnswers::default()).await?;
        let outcome = job.run_on(&session).await;
        session.finish(outcome).await
    }
}

impl CompletionRequest {
    /// `words` are the prompt or template, the argument, how it begins, and what is filled in already.
    pub(crate) fn new(mut words: Vec<String>) -> Result<Self> {
        let example = "review language r";
        let about = take_first(&mut words, "complete", "a prompt or a template", example)?;
        let name = take_first(&mut words, "complete", "the name of an argument", example)?;
        let begun = if words.is_empty() { String::new() } else { words.remove(0) };
        let others = arguments::string_arguments(&words).map_err(|failure| failure.at_step("arguments"))?;
        let reference = match about.contains(':') {
            true => Reference::resource(about),
            false => Reference::prompt(about),
        };
        let mut params = CompleteParams::new(reference, CompletionArgument::new(name, begun));
        if !others.is_empty() {
            params = params.context(CompletionContext::new().arguments(others));
        }
        Ok(Self(params))
    }

    pub(crate) async fn run_on(&self, session: &Connection) -> Result<()> {
        let result = session.client.complete(self.0.clone()).await;
        let result = match result {
            Ok(result) => result,
            Err(error) => {
                let failure = CliError::from_client_error(error, "complete");
                return Err(match self.suggestion(session).await {
                    Some(advice) => failure.hint(advice),
                    None => failure,
                });
            }
        };
        let screen = &session.console;
        if screen.json {
            return screen.print_json(&result);
        }
        for value in &result.completion.values {
            screen.print_line(&screen.sanitized(value))?;
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
    async fn suggestion(&self, session: &Connection) -> Option<String> {
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
