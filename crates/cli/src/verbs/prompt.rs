//! `tsugite prompt`: a prompt, filled in.

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

/// Fill in a prompt
#[derive(Debug, Args)]
#[command(
    override_usage = "tsugite prompt [OPTIONS] TARGET NAME [k=v]…\n       tsugite prompt [OPTIONS] NAME [k=v]… -- COMMAND…",
    after_help = "Examples:\n  tsugite prompt demo review code='let x = 1;' language=rust\n  tsugite prompt demo review @arguments.json --json"
)]
pub(crate) struct Prompt {
    #[arg(hide = true)]
    words: Vec<String>,
    #[command(flatten)]
    replies: PresetAnswers,
    #[command(flatten)]
    pub(super) common: CommonOptions,
}

/// A prompt to fill in.
pub(crate) struct PromptRequest {
    name: String,
    words: Vec<String>,
}

impl Prompt {
    pub(crate) async fn run(self) -> Result<()> {
        let (found, rest) = targets::resolve(self.words, &self.common, "prompt")?;
        let job = PromptRequest::new(rest)?;
        let session = Connection::open(found, &self.common, self.replies).await?;
        let outcome = job.run_on(&session).await;
        session.finish(outcome).await
    }
}

impl PromptRequest {
    /// `words` are the name of the prompt and its arguments.
    pub(crate) fn new(mut words: Vec<String>) -> Result<Self> {
        let name = take_first(&mut words, "prompt", "the name of a prompt", "review code=x")?;
        Ok(Self { name, words })
    }

    pub(crate) async fn run_on(&self, session: &Connection) -> Result<()> {
        let Self { name, words } = self;
        let prompts = session.client.list_prompts().await.map_err(list_error::<prompts::List>)?;
        let Some(prompt) = prompts.iter().find(|prompt| prompt.name == *name) else {
            let failure = CliError::usage(format!("the server has no prompt `{name}`")).at_step("list");
            return Err(match did_you_mean(name, prompts.iter().map(|prompt| prompt.name.as_str())) {
                Some(advice) => failure.hint(advice),
                None => failure.hint("`list` shows what there is"),
            });
        };
        let asked = prompt.arguments.as_deref().unwrap_or_default();
        let arguments =
            arguments::prompt_arguments(words, asked).map_err(|failure| failure.at_step("arguments"))?;
        let filled = session.client.get_prompt(name, &arguments).await;
        let filled = session.check_result(filled, "prompt")?;
        let screen = &session.console;
        if screen.json {
            return screen.print_json(&filled);
        }
        for message in &filled.messages {
            let role = if matches!(message.role, Role::User) { "user:" } else { "assistant:" };
            let role = screen.paint(Style::Bold, role);
            for piece in output::parts_from_blocks(std::slice::from_ref(&message.content)) {
                match piece {
                    OutputPart::Text(words) => {
                        screen.print_line(&format!("{role} {}", screen.sanitized(&words)))?
                    }
                    OutputPart::Blob { kind, mime_type, .. } => {
                        screen.print_line(&format!("{role} ({kind}, {})", screen.sanitized(&mime_type)))?;
                    }
                }
            }
        }
        Ok(())
    }
}
