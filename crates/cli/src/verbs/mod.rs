//! The verbs of the command line, one file each.
//!
//! A verb parses its words, connects, and works on the connection. That last part does not depend on the target, so
//! that the shell can use it.

mod auth;
mod bridge;
pub(crate) mod call;
pub(crate) mod complete;
mod completions;
mod config;
mod dev;
pub(crate) mod info;
pub(crate) mod list;
pub(crate) mod listen;
mod login;
mod man;
pub(crate) mod ping;
pub(crate) mod prompt;
pub(crate) mod raw;
pub(crate) mod read;
mod serve;
mod shell;
pub(crate) mod tasks;
mod trust;
mod users;

use clap::Subcommand;

use crate::error::{CliError, Result};
use crate::options::CommonOptions;
use crate::url_hints;

/// A verb and its arguments.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Serve(serve::Serve),
    Bridge(bridge::Bridge),
    List(list::List),
    Call(call::Call),
    Read(read::Read),
    Prompt(prompt::Prompt),
    Complete(complete::Complete),
    Listen(listen::Listen),
    Ping(ping::Ping),
    Info(info::Info),
    Raw(raw::Raw),
    Tasks(tasks::Tasks),
    Shell(shell::Shell),
    Dev(dev::Dev),
    Login(login::Login),
    Logout(login::Logout),
    Auth(auth::Auth),
    Users(users::Users),
    Completions(completions::Completions),
    Man(man::Man),
    Config(config::Config),
    Trust(trust::Trust),
}

impl Verb {
    pub(crate) async fn run(self) -> Result<()> {
        match self {
            Verb::Serve(verb) => verb.run().await,
            Verb::Bridge(verb) => verb.run().await,
            Verb::List(verb) => verb.run().await,
            Verb::Call(verb) => verb.run().await,
            Verb::Read(verb) => verb.run().await,
            Verb::Prompt(verb) => verb.run().await,
            Verb::Complete(verb) => verb.run().await,
            Verb::Listen(verb) => verb.run().await,
            Verb::Ping(verb) => verb.run().await,
            Verb::Info(verb) => verb.run().await,
            Verb::Raw(verb) => verb.run().await,
            Verb::Tasks(verb) => verb.run().await,
            Verb::Shell(verb) => verb.run().await,
            Verb::Dev(verb) => verb.run().await,
            Verb::Login(verb) => verb.run().await,
            Verb::Logout(verb) => verb.run().await,
            Verb::Auth(verb) => verb.run().await,
            Verb::Users(verb) => verb.run().await,
            Verb::Completions(verb) => verb.run(),
            Verb::Man(verb) => verb.run(),
            Verb::Config(verb) => verb.run().await,
            Verb::Trust(verb) => verb.run(),
        }
    }

    pub(crate) fn verbose(&self) -> u8 {
        self.common_options().map_or(0, |common| common.verbose)
    }

    pub(crate) fn wants_json(&self) -> bool {
        match self {
            Verb::Config(verb) => verb.wants_json(),
            Verb::Trust(verb) => verb.wants_json(),
            Verb::Auth(verb) => verb.wants_json(),
            Verb::Users(verb) => verb.wants_json(),
            other => other.common_options().is_some_and(|common| common.json),
        }
    }

    /// Whether the verb handles signals itself.
    pub(crate) fn handles_signals(&self) -> bool {
        matches!(
            self,
            Verb::Serve(_) | Verb::Bridge(_) | Verb::Call(_) | Verb::Tasks(_) | Verb::Shell(_) | Verb::Dev(_)
        )
    }

    /// Whether lines that the server writes to standard error are shown as they come.
    pub(crate) fn shows_server_stderr(&self) -> bool {
        matches!(self, Verb::Dev(_))
    }

    fn common_options(&self) -> Option<&CommonOptions> {
        match self {
            Verb::Completions(_)
            | Verb::Man(_)
            | Verb::Config(_)
            | Verb::Trust(_)
            | Verb::Auth(_)
            | Verb::Users(_) => None,
            Verb::Serve(verb) => Some(&verb.common),
            Verb::Bridge(verb) => Some(&verb.common),
            Verb::List(verb) => Some(&verb.common),
            Verb::Call(verb) => Some(&verb.common),
            Verb::Read(verb) => Some(&verb.common),
            Verb::Prompt(verb) => Some(&verb.common),
            Verb::Complete(verb) => Some(&verb.common),
            Verb::Listen(verb) => Some(&verb.common),
            Verb::Ping(verb) => Some(&verb.common),
            Verb::Info(verb) => Some(&verb.common),
            Verb::Raw(verb) => Some(&verb.common),
            Verb::Tasks(verb) => Some(verb.common_options()),
            Verb::Shell(verb) => Some(&verb.common),
            Verb::Dev(verb) => Some(&verb.common),
            Verb::Login(verb) => Some(&verb.common),
            Verb::Logout(verb) => Some(&verb.common),
        }
    }
}

/// Removes and returns the first word after the target; fails if there is none.
pub(crate) fn take_first(words: &mut Vec<String>, verb: &str, what: &str, example: &str) -> Result<String> {
    if words.is_empty() {
        return Err(CliError::usage(format!("`{verb}` needs {what}")).hint(format!("for example: {example}")));
    }
    Ok(words.remove(0))
}

/// Fails if there are more words.
fn expect_no_more(words: &[String]) -> Result<()> {
    match words.first() {
        None => Ok(()),
        Some(word) => {
            let word = url_hints::redacted(word);
            Err(CliError::usage(format!("unexpected argument {word:?}")).hint("`--help` shows the usage"))
        }
    }
}
