//! `tsugite serve`: the built-in demo server, over HTTP or on standard input and output.

use std::net::SocketAddr;

use clap::Args;
use tsugite::Server;
use tsugite::transport::http::Http;

use crate::demo;
use crate::fail::{Exit, Failure, Result};
use crate::options::Rev;
use crate::screen::Screen;
use crate::signals;

/// Run the demo server: every feature, in every revision, with a start page at /
#[derive(Debug, Args)]
#[command(
    after_help = "The first line on standard output is the address of the server.\n\nExamples:\n  tsugite serve\n  tsugite serve --listen 127.0.0.1:0\n  tsugite serve --stdio"
)]
pub(crate) struct Serve {
    /// Where to listen; port 0 is any that is free
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8808", conflicts_with = "stdio")]
    listen: String,
    /// Serve one client on standard input and output
    #[arg(long)]
    stdio: bool,
    /// Also serve requests that name this host; loopback names and the address itself are served anyway
    #[arg(long = "allow-host", value_name = "HOST", conflicts_with = "stdio")]
    hosts: Vec<String>,
    /// Serve one revision only, to try clients with
    #[arg(long, value_name = "REVISION", default_value = "auto", value_parser = crate::options::revision)]
    rev: Rev,
    /// Say more on standard error
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub(super) verbose: u8,
}

impl Serve {
    pub(crate) async fn run(self) -> Result<()> {
        let listen = (!self.stdio).then_some(self.listen);
        let door = Door { listen, hosts: self.hosts };
        let server = match self.rev {
            Rev::Auto => demo::server(),
            Rev::Only(revision) => demo::server().revisions([revision].into_iter().collect()),
        };
        door.serve(server, "the demo server", Some(demo::page)).await
    }
}

/// Where a server is served: at an address, or on standard input and output.
pub(super) struct Door {
    pub(super) listen: Option<String>,
    pub(super) hosts: Vec<String>,
}

impl Door {
    /// Serves until somebody wants it to stop, or until the only client is gone.
    pub(super) async fn serve(
        self,
        server: Server,
        what: &str,
        page: Option<fn(&str) -> String>,
    ) -> Result<()> {
        let broken = |error: tsugite::Error| {
            Failure::new(Exit::Connect, "the server cannot go on").at("serve").seen(error.to_string())
        };
        let Some(listen) = self.listen else { return server.serve_stdio().await.map_err(broken) };
        let addresses: Vec<SocketAddr> = match tokio::net::lookup_host(&listen).await {
            Ok(addresses) => addresses.collect(),
            Err(error) => {
                let failure = Failure::usage(format!("--listen {listen}: {error}"));
                return Err(failure.hint("an address is HOST:PORT, such as 127.0.0.1:8808"));
            }
        };
        // For clients of 2024-11-05.
        let mut http = Http::new().http_sse();
        if let Some(page) = page {
            http = http.page("/", page);
        }
        let http = self.hosts.into_iter().fold(http, Http::allow_host);
        let listener = server.http(http).bind_http(addresses.as_slice()).await.map_err(|error| {
            Failure::new(Exit::Connect, format!("cannot listen at {listen}"))
                .at("listen")
                .seen(error.to_string())
                .hint("--listen 127.0.0.1:0 takes a port that is free")
        })?;
        let local = listener.local_addr();
        let shown = match local.ip().is_unspecified() {
            true => SocketAddr::from(([127, 0, 0, 1], local.port())),
            false => local,
        };
        let screen = Screen::new(false);
        // Whoever has read the address may send a signal at once.
        let stop = signals::asked_to_stop();
        // Whoever does not read the address wants to be served all the same.
        let _ = screen.line(&format!("http://{shown}/mcp"));
        screen.note(&match page {
            Some(_) => format!("{what}, for every revision; http://{shown}/ says how to connect"),
            None => format!("{what}, for every revision"),
        });
        if !local.ip().is_loopback() {
            screen.note("anybody who can reach this address can use the server");
        }
        listener.serve_until(stop).await.map_err(broken)
    }
}
