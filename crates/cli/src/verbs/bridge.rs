//! `tsugite bridge`: serves a server on another transport, for every revision.

use clap::Args;
use tsugite::bridge::Bridge as ServerBridge;
use tsugite::client::ErrorKind;

use crate::connection;
use crate::console::Console;
use crate::error::{CliError, Result};
use crate::login::ServedLogins;
use crate::options::{CALL_TIMEOUT_HELP, CommonOptions};
use crate::serve_options::{HttpOptions, ServeOptions};
use crate::state;
use crate::targets::{self, Target};

/// Serve a server on another transport, for every revision
#[derive(Debug, Args)]
#[command(
    override_usage = "tsugite bridge [OPTIONS] TARGET\n       tsugite bridge [OPTIONS] -- COMMAND…",
    mut_arg("hosts", |option| option.requires("listen")),
    mut_arg("origins", |option| option.requires("listen")),
    mut_arg("path", |option| option.requires("listen")),
    mut_arg("no_sessions", |option| option.requires("listen")),
    mut_arg("no_sse", |option| option.requires("listen")),
    mut_arg("token", |option| option.requires("listen")),
    mut_arg("no_auth", |option| option.requires("listen")),
    mut_arg("tls_cert", |option| option.requires("listen")),
    mut_arg("tls_key", |option| option.requires("listen")),
    mut_arg("tls_client_ca", |option| option.requires("listen")),
    mut_arg("issuer", |option| option.requires("listen")),
    mut_arg("timeout", |timeout| timeout.help(CALL_TIMEOUT_HELP)),
    after_help = "Without --listen the server is served on standard input and output, for hosts that only start programs.\n\nExamples:\n  tsugite bridge https://host/mcp                             a remote server as a local program\n  tsugite bridge --listen 127.0.0.1:8808 -- my-server --fast  a local program as a remote server\n  tsugite bridge --rev 2025-11-25 cursor:github               use one revision with the server"
)]
pub(crate) struct Bridge {
    #[arg(hide = true)]
    words: Vec<String>,
    /// Serve over HTTP at this address, or at unix:PATH for a socket of this user; port 0 picks a free port
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    #[command(flatten)]
    http: HttpOptions,
    #[command(flatten)]
    pub(super) common: CommonOptions,
}

impl Bridge {
    pub(crate) async fn run(mut self) -> Result<()> {
        let words = std::mem::take(&mut self.words);
        let (found, words) = targets::resolve(words, &self.common, "bridge").await?;
        super::expect_no_more(&words)?;
        let is_configured = matches!(found.target, Target::Configured(_));
        // Standard input and a Unix socket are reached by this user only.
        let address = self.listen.as_deref().filter(|listen| !listen.starts_with("unix:"));
        let is_protected =
            address.is_none() || self.http.has_token() || (is_configured && !self.http.is_open());
        let find = async || {
            let target = (&found.target, found.word.as_str());
            ServedLogins::find(std::iter::once(target), &self.common).await
        };
        let mut logins = find().await?;
        let is_for_others = self.http.no_auth() || self.http.issuer().is_some();
        if logins.is_possible() && !is_protected && logins.personal.is_none() && !is_for_others {
            self.log_in_if_required(&found.target, &found.word).await?;
            logins = find().await?;
        }
        let is_personal = address.is_some() && logins.personal.is_some();
        if is_personal {
            logins.check(self.http.no_auth())?;
            logins.check_issuer(self.http.issuer())?;
        }
        let configured_servers = match is_configured {
            true => Some(format!("bridge {}", found.display_name)),
            false => is_personal.then(|| format!("bridge {}", logins.names())),
        };
        self.common.login.mode = logins.mode(is_protected);
        let mut bridge =
            ServerBridge::to(connection::client_builder(found.target, &found.word, &self.common).await?);
        if let Some(limit) = self.common.timeout {
            bridge = bridge.timeout(limit);
        }
        let options = ServeOptions {
            listen: self.listen,
            http: self.http,
            configured_servers,
            is_personal,
            auth: None,
        };
        let description = format!("a bridge to {}", found.display_name);
        options.serve(state::apply_keys(bridge.server())?, &description, None, bridge.close()).await
    }

    /// Connects once on a terminal, to log in before clients come: then they need a token. Another failure is left to them.
    async fn log_in_if_required(&self, target: &Target, word: &str) -> Result<()> {
        if !Console::new(false).is_interactive() {
            return Ok(());
        }
        let builder = connection::client_builder(target.clone(), word, &self.common).await?;
        match builder.await {
            Ok(client) => {
                client.close().await;
                Ok(())
            }
            Err(error) if matches!(error.kind(), ErrorKind::Authorization(_)) => {
                Err(CliError::from_connect_error(error, word, None))
            }
            Err(_) => Ok(()),
        }
    }
}
