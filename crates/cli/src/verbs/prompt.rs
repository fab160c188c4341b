//! `tsugite prompt`: a prompt, filled in.

use clap::Args;
use tsugite::core::protocol::{Role, prompts};

use super::first;
use crate::arguments;
use crate::asking::Replies;
use crate::fail::{Failure, Result};
use crate::near::did_you_mean;
use crate::offered::not_listed;
use crate::options::Common;
use crate::output::{self, Piece};
use crate::screen::Style;
use crate::session::Session;
use crate::target;

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
    replies: Replies,
    #[command(flatten)]
    pub(super) common: Common,
}

/// A prompt to fill in.
pub(crate) struct Job {
    name: String,
    words: Vec<String>,
}

impl Prompt {
    pub(crate) async fn run(self) -> Result<()> {
        let (found, rest) = target::find(self.words, &self.common, "prompt")?;
        let job = Job::new(rest)?;
        let session = Session::open(found, &self.common, self.replies).await?;
        let outcome = job.on(&session).await;
        session.finish(outcome).await
    }
}

impl Job {
    /// `words` are the name of the prompt and its arguments.
    pub(crate) fn new(mut words: Vec<String>) -> Result<Self> {
        let name = first(&mut words, "prompt", "the name of a prompt", "review code=x")?;
        Ok(Self { name, words })
    }

    pub(crate) async fn on(&self, session: &Session) -> Result<()> {
        let Self { name, words } = self;
        let prompts = session.client.list_prompts().await.map_err(not_listed::<prompts::List>)?;
        let Some(prompt) = prompts.iter().find(|prompt| prompt.name == *name) else {
            let failure = Failure::usage(format!("the server has no prompt `{name}`")).at("list");
            return Err(match did_you_mean(name, prompts.iter().map(|prompt| prompt.name.as_str())) {
                Some(advice) => failure.hint(advice),
                None => failure.hint("`list` shows what there is"),
            });
        };
        let asked = prompt.arguments.as_deref().unwrap_or_default();
        let arguments = arguments::for_prompt(words, asked).map_err(|failure| failure.at("arguments"))?;
        let filled = session.client.get_prompt(name, &arguments).await;
        let filled = session.gave(filled, "prompt")?;
        let screen = &session.screen;
        if screen.json {
            return screen.json(&filled);
        }
        for message in &filled.messages {
            let role = if matches!(message.role, Role::User) { "user:" } else { "assistant:" };
            let role = screen.paint(Style::Bold, role);
            for piece in output::of_blocks(std::slice::from_ref(&message.content)) {
                match piece {
                    Piece::Words(words) => screen.line(&format!("{role} {}", screen.words(&words)))?,
                    Piece::Blob { kind, mime_type, .. } => {
                        screen.line(&format!("{role} ({kind}, {})", screen.words(&mime_type)))?;
                    }
                }
            }
        }
        Ok(())
    }
}
