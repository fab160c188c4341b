//! `tsugite complete`: completes an argument of a prompt or a template.

use clap::Args;
use tsugite::protocol::{CompleteParams, CompletionArgument, CompletionContext, Reference, completion};

use super::take_first;
use crate::arguments;
use crate::connection::Connection;
use crate::error::{CliError, Result};
use crate::options::CommonOptions;
use crate::server_requests::PresetAnswers;
use crate::suggest::did_you_mean;
use crate::targets;

/// Complete an argument of a prompt or a template
#[derive(Debug, Args)]
#[command(
    override_usage = "tsugite complete [OPTIONS] TARGET PROMPT|TEMPLATE ARGUMENT [PREFIX] [k=v]…\n       tsugite complete [OPTIONS] PROMPT|TEMPLATE ARGUMENT [PREFIX] [k=v]… -- COMMAND…",
    after_help = "k=v are arguments that are already known.\n\nExamples:\n  tsugite complete demo review language r\n  tsugite complete demo 'demo://cities/{country}/{city}' city '' country=Japan"
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
        let (found, rest) = targets::resolve(self.words, &self.common, "complete").await?;
        let request = CompletionRequest::new(rest)?;
        let connection = Connection::open(found, &self.common, PresetAnswers::default()).await?;
        let outcome = request.run_on(&connection).await;
        connection.finish(outcome).await
    }
}

impl CompletionRequest {
    /// Parses the prompt or template, the argument, its prefix, and the known arguments.
    pub(crate) fn new(mut words: Vec<String>) -> Result<Self> {
        let example = "review language r";
        let about = take_first(&mut words, "complete", "a prompt or a template", example)?;
        let name = take_first(&mut words, "complete", "the name of an argument", example)?;
        let prefix = if words.is_empty() { String::new() } else { words.remove(0) };
        let others = arguments::string_arguments(&words).map_err(|failure| failure.at_step("arguments"))?;
        let reference = match about.contains(':') {
            true => Reference::resource(about),
            false => Reference::prompt(about),
        };
        let mut params = CompleteParams::new(reference, CompletionArgument::new(name, prefix));
        if !others.is_empty() {
            params = params.context(CompletionContext::new().arguments(others));
        }
        Ok(Self(params))
    }

    pub(crate) async fn run_on(&self, connection: &Connection) -> Result<()> {
        let result = connection.client.request::<completion::Complete>(self.0.clone()).await;
        let result = match result {
            Ok(result) => result,
            Err(error) => {
                let failure = CliError::from_client_error(error, "complete");
                return Err(match self.suggestion(connection).await {
                    Some(advice) => failure.hint(advice),
                    None => failure,
                });
            }
        };
        let console = &connection.console;
        if console.json {
            return console.print_json(&result);
        }
        for value in &result.completion.values {
            console.print_line(&console.sanitized_name(value))?;
        }
        let shown = result.completion.values.len() as u64;
        match (result.completion.total, result.completion.has_more) {
            (Some(total), _) if total > shown => {
                console.note(&format!("note: showing {shown} of {total} values"))
            }
            (_, Some(true)) => console.note("note: the server has more values"),
            _ => {}
        }
        Ok(())
    }

    /// Suggests a name, if the server does not have the one that was given.
    async fn suggestion(&self, connection: &Connection) -> Option<String> {
        let CompleteParams { r#ref: reference, argument, .. } = &self.0;
        match reference {
            Reference::Prompt { name, .. } => {
                let prompts = connection.client.list_prompts().await.ok()?;
                let Some(prompt) = prompts.iter().find(|prompt| prompt.name == *name) else {
                    return did_you_mean(name, prompts.iter().map(|prompt| prompt.name.as_str()));
                };
                let declared: Vec<&str> =
                    prompt.arguments.iter().flatten().map(|argument| argument.name.as_str()).collect();
                match declared.contains(&argument.name.as_str()) {
                    true => None,
                    false => did_you_mean(&argument.name, declared),
                }
            }
            Reference::Resource { uri, .. } => {
                let templates = connection.client.list_resource_templates().await.ok()?;
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
