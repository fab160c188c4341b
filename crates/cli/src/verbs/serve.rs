//! `tsugite serve`: the built-in demo server, or any number of others behind one address.

use std::path::{Path, PathBuf};

use clap::Args;
use tsugite::Server;
use tsugite::bridge::Bridge;
use tsugite::client::{ChangeFilter, Client};
use tsugite::protocol::Implementation;

use crate::catalog::Catalog;
use crate::connection;
use crate::console::Console;
use crate::demo;
use crate::error::{CliError, Result};
use crate::options::{CALL_TIMEOUT_HELP, CommonOptions, RevisionArg};
use crate::page::{PageServer, SharedStartPage, StartPage};
use crate::serve_options::ServeOptions;
use crate::target::{self, NamedTarget};

/// Run the demo server, or several servers behind one address, with a start page at /
#[derive(Debug, Args)]
#[command(
    override_usage = "tsugite serve [OPTIONS] [TARGET]… [-- COMMAND…]",
    mut_arg("timeout", |timeout| timeout.help(CALL_TIMEOUT_HELP)),
    after_help = "Without a target this is the demo server: every feature, in every revision. With targets, all of them stand behind one\naddress, and their names begin with theirs: the tool `add` of `demo` is `demo_add`. NAME=TARGET names one.\nThe first line on standard output is the address of the server.\n\nExamples:\n  tsugite serve\n  tsugite serve --listen 127.0.0.1:0\n  tsugite serve --stdio\n  tsugite serve --config mcp.json\n  tsugite serve github files=FILE.json:fs -- my-server"
)]
pub(crate) struct Serve {
    /// The servers to put behind the address
    #[arg(value_name = "TARGET")]
    words: Vec<String>,
    /// All servers that a file lists
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where to listen; port 0 is any that is free
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8808", conflicts_with = "stdio")]
    listen: String,
    /// Serve one client on standard input and output
    #[arg(long)]
    stdio: bool,
    /// Also serve requests that name this host; loopback names and the address itself are served anyway
    #[arg(long = "allow-host", value_name = "HOST", conflicts_with = "stdio")]
    hosts: Vec<String>,
    #[command(flatten)]
    pub(super) common: CommonOptions,
}

impl Serve {
    pub(crate) async fn run(self) -> Result<()> {
        let named = self.resolve_targets()?;
        let listen = (!self.stdio).then_some(self.listen);
        let door = ServeOptions { listen, allowed_hosts: self.hosts };
        match named {
            None => serve_demo(door, &self.common).await,
            Some(named) => serve_many(door, named, &self.common).await,
        }
    }

    /// The servers that were named; none for the demo server.
    fn resolve_targets(&self) -> Result<Option<Vec<NamedTarget>>> {
        let screen = Console::new(false);
        let mut named = target::resolve_many(&self.words, &self.common)?;
        if let Some(path) = &self.config {
            for listed in target::resolve_file(path, &self.common)? {
                match listed {
                    Ok(server) => named.push(server),
                    // One that cannot be used does not keep the others from being served.
                    Err(failure) => screen.note(&format!("left out: {}", failure.summary())),
                }
            }
        } else if named.is_empty() {
            return Ok(None);
        }
        if named.is_empty() {
            let failure = CliError::usage("there is no server to serve").at_step("name");
            let path = self.config.as_deref().unwrap_or_else(|| Path::new("the file")).display().to_string();
            return Err(failure.detail(format!("{path} lists none that can be used")));
        }
        for (index, server) in named.iter().enumerate() {
            if named.iter().take(index).any(|other| other.name == server.name) {
                let failure = CliError::usage(format!("two servers are called `{}`", server.name));
                return Err(failure.hint("NAME=TARGET gives one another name"));
            }
        }
        Ok(Some(named))
    }
}

async fn serve_demo(door: ServeOptions, common: &CommonOptions) -> Result<()> {
    let server = match common.rev {
        RevisionArg::Auto => demo::server(),
        RevisionArg::Only(revision) => demo::server().revisions([revision].into_iter().collect()),
    };
    let page = SharedStartPage::new(StartPage {
        name: "tsugite-demo".to_owned(),
        servers: Vec::new(),
        example: Some("add a=1 b=2".to_owned()),
        is_public: false,
    });
    if door.listen.is_some() {
        let client =
            Client::in_process(&server).await.map_err(|error| CliError::from_client_error(error, "serve"))?;
        let runs = PageServer::from_client(&client).await;
        page.update(|about| about.servers.push(runs));
        tokio::spawn(page.clone().watch_server(client, 0));
    }
    door.serve(server, "the demo server", Some(page), std::future::ready(())).await
}

async fn serve_many(door: ServeOptions, named: Vec<NamedTarget>, common: &CommonOptions) -> Result<()> {
    let info = Implementation::new("tsugite", env!("CARGO_PKG_VERSION")).title("Tsugite");
    let mut bridge = Bridge::to_many().info(info);
    if let Some(limit) = common.timeout {
        bridge = bridge.timeout(limit);
    }
    let names: Vec<String> = named.iter().map(|server| server.name.clone()).collect();
    for server in named {
        bridge = bridge.target(server.name, connection::client_builder(server.target, common)?);
    }
    let server = bridge.server();
    let page = SharedStartPage::new(StartPage {
        name: "tsugite".to_owned(),
        servers: names.iter().map(|name| PageServer::starting(name)).collect(),
        example: None,
        is_public: false,
    });
    let bridge = std::sync::Arc::new(bridge);
    // A server that hangs holds up nobody but the page.
    let following = door.listen.is_some().then(|| {
        tokio::spawn(keep_page_updated(page.clone(), server.clone(), bridge.clone(), names.clone()))
    });
    let what = match names.as_slice() {
        [name] => format!("the server {name}"),
        names => format!("{} servers ({})", names.len(), names.join(", ")),
    };
    let stop = async {
        // First, so that the page does not report the closed bridge as a fault.
        if let Some(following) = following {
            following.abort();
            let _ = following.await;
        }
        bridge.close().await;
    };
    door.serve(server, &what, Some(page), stop).await
}

/// Tells on the page how each server is, now and whenever something changes.
async fn keep_page_updated(
    page: SharedStartPage,
    server: Server,
    bridge: std::sync::Arc<Bridge>,
    names: Vec<String>,
) {
    let client = match Client::in_process(&server).await {
        Ok(client) => client,
        Err(error) => return tracing::warn!(%error, "the page does not show how the servers are"),
    };
    let mut changes = client.listen(ChangeFilter::lists()).await.ok();
    loop {
        let all = match connection::ServerDetails::fetch(&client).await {
            Ok(about) => Catalog::fetch(&client, &about.capabilities).await.ok(),
            Err(_) => None,
        };
        let errors = bridge.target_errors();
        let servers = names.iter().map(|name| {
            let error = errors.iter().find(|error| error.prefix.as_deref() == Some(name.as_str()));
            PageServer::behind_bridge(name, error.map(|error| error.message.clone()), all.as_ref())
        });
        let servers: Vec<PageServer> = servers.collect();
        page.update(|about| about.servers = servers);
        let next = match &mut changes {
            Some(changes) => changes.next().await,
            None => None,
        };
        let Some(Ok(_)) = next else { return };
    }
}
