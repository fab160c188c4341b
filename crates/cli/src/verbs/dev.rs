//! `tsugite dev`: runs a server under development, and starts it again when its files change.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio::sync::Notify;

use super::shell::prompt_label;
use crate::connection;
use crate::dev::DevServer;
use crate::error::{CliError, ExitStatus, Result};
use crate::options::{CommonOptions, RevisionArg};
use crate::serve_options::{HttpOptions, ServeOptions};
use crate::server_requests::PresetAnswers;
use crate::targets::{ResolvedTarget, Target};
use crate::{shell, signals};

/// Run a server under development: start it again when its files change, in a shell or at an address
#[derive(Debug, Args)]
#[command(
    override_usage = "tsugite dev [OPTIONS] -- COMMAND…",
    mut_arg("timeout", |timeout| timeout.help("How long to wait for the server to start or to respond [default: 600]")),
    after_help = "Without --listen this opens the shell of `tsugite shell` on the server. With it, the server is at one address over HTTP,\nand its clients keep their sessions when it starts again. What it writes to standard error is shown. The server\ninherits all environment variables. Hidden files, target, node_modules and files such as *.log and *.db are not watched.\n\nExamples:\n  tsugite dev -- cargo run\n  tsugite dev --watch src -- python server.py\n  tsugite dev --listen 127.0.0.1:8808 -- cargo run"
)]
pub(crate) struct Dev {
    #[arg(hide = true)]
    words: Vec<String>,
    /// Serve over HTTP at this address; port 0 picks a free port
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Also accept requests for this host name; loopback names and the address itself are always accepted
    #[arg(long = "allow-host", value_name = "HOST", requires = "listen")]
    hosts: Vec<String>,
    /// Watch this file or folder instead of the current folder
    #[arg(long = "watch", value_name = "PATH")]
    watched: Vec<PathBuf>,
    #[command(flatten)]
    answers: PresetAnswers,
    #[command(flatten)]
    pub(super) common: CommonOptions,
}

impl Dev {
    pub(crate) async fn run(mut self) -> Result<()> {
        self.check_words()?;
        if self.listen.is_some() && !self.answers.is_empty() {
            return Err(CliError::usage("--answer, --sample and --root only apply to the shell")
                .hint("with --listen the clients answer the requests of the server"));
        }
        let watched = match self.watched.is_empty() {
            true => vec![PathBuf::from(".")],
            false => std::mem::take(&mut self.watched),
        };
        for path in &watched {
            if let Err(error) = std::fs::metadata(path) {
                return Err(CliError::usage(format!("--watch {}: {error}", path.display())));
            }
        }
        self.common.timeout.get_or_insert(START_TIMEOUT);
        let words: Vec<_> = self.common.command.iter().map(|word| word.to_string_lossy()).collect();
        let name = format!("`{}`", words.join(" "));
        let builder = connection::dev_client_builder(&self.common)?;
        let revision = match self.common.rev {
            RevisionArg::Auto => None,
            RevisionArg::Only(revision) => Some(revision),
        };
        let server = DevServer::new(builder, revision, name.clone(), watched).await;
        match self.listen.take() {
            Some(listen) => {
                let options = ServeOptions {
                    listen: Some(listen),
                    http: HttpOptions::with_hosts(self.hosts),
                    configured_servers: None,
                    is_personal: false,
                    auth: None,
                };
                serve(server, options, &name).await
            }
            None => self.open_shell(server, name).await,
        }
    }

    fn check_words(&self) -> Result<()> {
        match (self.words.as_slice(), self.common.command.is_empty()) {
            ([], false) => Ok(()),
            ([], true) => {
                Err(CliError::usage("`dev` needs a command").hint("for example: tsugite dev -- cargo run"))
            }
            (words, true) => Err(CliError::usage("`dev` needs `--` before the command")
                .hint(format!("tsugite dev -- {}", words.join(" ")))),
            ([word, ..], false) => Err(CliError::usage(format!("unexpected argument {word:?}"))
                .hint("the command is all that follows `--`")),
        }
    }

    async fn open_shell(self, mut server: DevServer, name: String) -> Result<()> {
        let bridge = server.bridge();
        let stop = signals::shutdown_requested();
        let revision = tokio::select! {
            biased;
            () = stop => return Err(CliError::silent(ExitStatus::Interrupted)),
            revision = server.start_until_it_runs() => revision,
        };
        let label = prompt_label(None, &self.common);
        let found = ResolvedTarget {
            target: Target::InProcess(bridge.server()),
            display_name: name,
            word: String::new(),
        };
        // The shell speaks the revision of the server; all other options are those of the server.
        let common = CommonOptions {
            rev: RevisionArg::Only(revision),
            timeout: self.common.timeout,
            json: self.common.json,
            verbose: self.common.verbose,
            ..CommonOptions::defaults()
        };
        let changed = Arc::new(Notify::new());
        let restarted = Arc::clone(&changed);
        let restarts = tokio::spawn(async move {
            loop {
                server.wait_for_change().await;
                server.start_until_it_runs().await;
                restarted.notify_one();
            }
        });
        let outcome = shell::run(found, common, self.answers, &label, changed).await;
        restarts.abort();
        // Wait until the task has ended a server that it was starting.
        let _ = restarts.await;
        bridge.close().await;
        outcome
    }
}

/// Serves the server at an address until a signal asks to stop.
async fn serve(server: DevServer, options: ServeOptions, name: &str) -> Result<()> {
    let bridge = server.bridge();
    let served = bridge.server();
    let restarts = tokio::spawn(server.run());
    let after = async {
        restarts.abort();
        let _ = restarts.await;
        bridge.close().await;
    };
    options.serve(served, &format!("{name}, started again when its files change"), None, after).await
}

/// How long a server may take to start: the command may build it first.
const START_TIMEOUT: Duration = Duration::from_secs(600);
