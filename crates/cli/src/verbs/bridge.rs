//! `tsugite bridge`: serves a server on another transport, for every revision.

use clap::Args;
use tsugite::bridge::Bridge as ServerBridge;

use crate::connection;
use crate::error::Result;
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
    pub(crate) async fn run(self) -> Result<()> {
        let (found, words) = targets::resolve(self.words, &self.common, "bridge").await?;
        super::expect_no_more(&words)?;
        let configured_servers =
            matches!(found.target, Target::Configured(_)).then(|| format!("bridge {}", found.display_name));
        let mut bridge = ServerBridge::to(connection::client_builder(found.target, &self.common)?);
        if let Some(limit) = self.common.timeout {
            bridge = bridge.timeout(limit);
        }
        let options = ServeOptions { listen: self.listen, http: self.http, configured_servers };
        let description = format!("a bridge to {}", found.display_name);
        options.serve(state::apply_keys(bridge.server())?, &description, None, bridge.close()).await
    }
}
