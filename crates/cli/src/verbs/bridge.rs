//! `tsugite bridge`: a server, for clients of any transport and any revision.

use clap::Args;
use tsugite::bridge::Bridge as Span;

use crate::connection;
use crate::error::Result;
use crate::options::{CALL_TIMEOUT_HELP, CommonOptions};
use crate::serve_options::ServeOptions;
use crate::targets;

/// Serve a server on another transport, and for every revision
#[derive(Debug, Args)]
#[command(
    override_usage = "tsugite bridge [OPTIONS] TARGET\n       tsugite bridge [OPTIONS] -- COMMAND…",
    mut_arg("timeout", |timeout| timeout.help(CALL_TIMEOUT_HELP)),
    after_help = "Without --listen the server is served on standard input and output, for hosts that can only start programs.\n\nExamples:\n  tsugite bridge https://host/mcp                             a remote server, as a local program\n  tsugite bridge --listen 127.0.0.1:8808 -- my-server --fast  a local program, as a remote server\n  tsugite bridge --rev 2025-11-25 cursor:github               speak one revision to the server"
)]
pub(crate) struct Bridge {
    #[arg(hide = true)]
    words: Vec<String>,
    /// Serve over HTTP at this address instead; port 0 is any that is free
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Also serve requests that name this host; loopback names and the address itself are served anyway
    #[arg(long = "allow-host", value_name = "HOST", requires = "listen")]
    hosts: Vec<String>,
    #[command(flatten)]
    pub(super) common: CommonOptions,
}

impl Bridge {
    pub(crate) async fn run(self) -> Result<()> {
        let (found, words) = targets::resolve(self.words, &self.common, "bridge")?;
        super::expect_no_more(&words)?;
        let mut bridge = Span::to(connection::client_builder(found.target, &self.common)?);
        if let Some(limit) = self.common.timeout {
            bridge = bridge.timeout(limit);
        }
        let door = ServeOptions { listen: self.listen, allowed_hosts: self.hosts };
        let what = format!("a bridge to {}", found.display_name);
        door.serve(bridge.server(), &what, None, bridge.close()).await
    }
}
