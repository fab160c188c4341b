//! `tsugite prompt`: gets a prompt with its arguments filled in.

use clap::Args;
use tsugite::protocol::{Role, prompts};

use super::take_first;
use crate::arguments;
use crate::catalog::list_error;
use crate::connection::Connection;
use crate::console::Style;
use crate::error::{CliError, Result};
use crate::options::CommonOptions;
use crate::output::{self, OutputPart};
use crate::server_requests::PresetAnswers;
use crate::suggest::did_you_mean;
use crate::targets;

/// Get a prompt with its arguments filled in
#[derive(Debug, Args)]
#[command(
    override_usage = "tsugite prompt [OPTIONS] TARGET NAME [k=v]…\n       tsugite prompt [OPTIONS] NAME [k=v]… -- COMMAND…",
    after_help = "Examples:\n  tsugite prompt demo review code='let x = 1;' language=rust\n  tsugite prompt demo review @arguments.json --json"
)]
pub(crate) struct Prompt {
    #[arg(hide = true)]
    words: Vec<String>,
    #[command(flatten)]
    answers: PresetAnswers,
    #[command(flatten)]
    pub(super) common: CommonOptions,
}

/// A prompt request.
pub(crate) struct PromptRequest {
    name: String,
    words: Vec<String>,
}

impl Prompt {
    pub(crate) async fn run(self) -> Result<()> {
        let (found, rest) = targets::resolve(self.words, &self.common, "prompt").await?;
        let request = PromptRequest::new(rest)?;
        let connection = Connection::open(found, &self.common, self.answers).await?;
        let outcome = request.run_on(&connection).await;
        connection.finish(outcome).await
    }
}

impl PromptRequest {
    /// Parses the name of the prompt and its arguments.
    pub(crate) fn new(mut words: Vec<String>) -> Result<Self> {
        let name = take_first(&mut words, "prompt", "the name of a prompt", "review code=x")?;
        Ok(Self { name, words })
    }

    pub(crate) async fn run_on(&self, connection: &Connection) -> Result<()> {
        let Self { name, words } = self;
        let prompts = connection.client.list_prompts().await.map_err(list_error::<prompts::List>)?;
        let Some(prompt) = prompts.iter().find(|prompt| prompt.name == *name) else {
            let failure = CliError::usage(format!("the server has no prompt named `{name}`")).at_step("list");
            return Err(match did_you_mean(name, prompts.iter().map(|prompt| prompt.name.as_str())) {
                Some(advice) => failure.hint(advice),
                None => failure.hint("`list` shows what the server offers"),
            });
        };
        let declared = prompt.arguments.as_deref().unwrap_or_default();
        let arguments =
            arguments::prompt_arguments(words, declared).map_err(|failure| failure.at_step("arguments"))?;
        let filled = connection.client.get_prompt(name, &arguments).await;
        let filled = connection.check_result(filled, "prompt")?;
        let console = &connection.console;
        if console.json {
            return console.print_json(&filled);
        }
        for message in &filled.messages {
            let role = if matches!(message.role, Role::User) { "user:" } else { "assistant:" };
            let role = console.paint(Style::Bold, role);
            for part in output::parts_from_blocks(std::slice::from_ref(&message.content)) {
                match part {
                    OutputPart::Text(words) => {
                        console.print_line(&format!("{role} {}", output::readable_text(console, &words)))?
                    }
                    OutputPart::Blob { kind, mime_type, .. } => {
                        console.print_line(&format!("{role} ({kind}, {})", console.sanitized(&mime_type)))?;
                    }
                }
            }
        }
        Ok(())
    }
}
