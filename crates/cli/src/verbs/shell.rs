//! `tsugite shell`: opens an interactive shell on one connection.

use std::sync::Arc;

use clap::Args;

use super::expect_no_more;
use crate::error::Result;
use crate::options::CommonOptions;
use crate::server_requests::PresetAnswers;
use crate::shell;
use crate::targets;

/// Open an interactive shell: list, call and read on one connection
#[derive(Debug, Args)]
#[command(
    override_usage = "tsugite shell [OPTIONS] TARGET\n       tsugite shell [OPTIONS] -- COMMAND…",
    after_help = "`help` lists the commands; Tab completes, with names and values from the server. Without a terminal, commands are read\nfrom standard input line by line, and the exit code is that of the last command that failed.\n\nExamples:\n  tsugite shell demo\n  tsugite shell -- npx -y @modelcontextprotocol/server-everything\n  printf 'add a=1 b=2\\nread demo://motto\\n' | tsugite shell demo"
)]
pub(crate) struct Shell {
    #[arg(hide = true)]
    words: Vec<String>,
    #[command(flatten)]
    answers: PresetAnswers,
    #[command(flatten)]
    pub(super) common: CommonOptions,
}

impl Shell {
    pub(crate) async fn run(self) -> Result<()> {
        let label = prompt_label(self.words.first().map(String::as_str), &self.common);
        let (found, rest) = targets::resolve(self.words, &self.common, "shell").await?;
        expect_no_more(&rest)?;
        shell::run(found, self.common, self.answers, &label, Arc::default()).await
    }
}

/// Returns a short name of the server for the prompt.
pub(super) fn prompt_label(word: Option<&str>, common: &CommonOptions) -> String {
    let program = common.command.first().map(|program| {
        let path = std::path::Path::new(program);
        path.file_name().unwrap_or(program).to_string_lossy().into_owned()
    });
    let name = match (program, word) {
        (Some(program), _) => program,
        (None, Some(word)) => match word.split_once("://") {
            Some((_, rest)) => {
                let host = rest.split(['/', '?', '#']).next().unwrap_or(rest);
                // Without user name and password.
                host.rsplit('@').next().unwrap_or(host).to_owned()
            }
            None => word.to_owned(),
        },
        (None, None) => String::new(),
    };
    name.chars().take(MAX_LABEL_CHARS).collect()
}

/// The longest name in the prompt, in characters.
const MAX_LABEL_CHARS: usize = 40;
