//! `tsugite serve`: the built-in demo server, or any number of others behind one address.

use std::path::{Path, PathBuf};

use clap::Args;
use tsugite::Server;
use tsugite::bridge::Bridge;
use tsugite::client::{Client, ChangeFilter};
use tsugite::core::protocol::Implementation;

use crate::demo;
use crate::door::Door;
use crate::fail::{Failure, Result};
use crate::offered::Offered;
use crate::options::{CALLS, Common, Rev};
use crate::page::{About, Live, Runs};
use crate::screen::Screen;
use crate::session;
use crate::target::{self, Named};

/// Run the demo server, or several servers behind one address, with a start page at /
#[derive(Debug, Args)]
#[command(
    override_usage = "tsugite serve [OPTIONS] [TARGET]… [-- COMMAND…]",
    mut_arg("timeout", |timeout| timeout.help(CALLS)),
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
    pub(super) common: Common,
}

impl Serve {
    pub(crate) async fn run(self) -> Result<()> {
        let named = self.targets()?;
        let listen = (!self.stdio).then_some(self.listen);
        let door = Door { listen, hosts: self.hosts };
        match named {
            None => serve_demo(door, &self.common).await,
            Some(named) => serve_many(door, named, &self.common).await,
        }
    }

    /// The servers that were named; none for the demo server.
    fn targets(&self) -> Result<Option<Vec<Named>>> {
        let screen = Screen::new(false);
        let mut named = target::several(&self.words, &self.common)?;
        if let Some(path) = &self.config {
            for listed in target::all_in(path, &self.common)? {
                match listed {
                    Ok(server) => named.push(server),
                    // One that cannot be used does not keep the others from being served.
                    Err(failure) => screen.note(&format!("left out: {}", failure.in_one_line())),
                }
            }
        } else if named.is_empty() {
            return Ok(None);
        }
        if named.is_empty() {
            let failure = Failure::usage("there is no server to serve").at("name");
            let path = self.config.as_deref().unwrap_or_else(|| Path::new("the file")).display().to_string();
            return Err(failure.seen(format!("{path} lists none that can be used")));
        }
        for (index, server) in named.iter().enumerate() {
            if named.iter().take(index).any(|other| other.name == server.name) {
                let failure = Failure::usage(format!("two servers are called `{}`", server.name));
                return Err(failure.hint("NAME=TARGET gives one another name"));
            }
        }
        Ok(Some(named))
    }
}

async fn serve_demo(door: Door, common: &Common) -> Result<()> {
    let server = match common.rev {
        Rev::Auto => demo::server(),
        Rev::Only(revision) => demo::server().revisions([revision].into_iter().collect()),
    };
    let page = Live::new(About {
        name: "tsugite-demo".to_owned(),
        servers: Vec::new(),
        example: Some("add a=1 b=2".to_owned()),
        is_open: false,
    });
    if door.listen.is_some() {
        let client = Client::in_process(&server).await.map_err(|error| Failure::of(error, "serve"))?;
        let runs = Runs::seen_by(&client).await;
        page.change(|about| about.servers.push(runs));
        tokio::spawn(page.clone().follow(client, 0));
    }
    door.serve(server, "the demo server", Some(page), std::future::ready(())).await
}

async fn serve_many(door: Door, named: Vec<Named>, common: &Common) -> Result<()> {
    let info = Implementation::new("tsugite", env!("CARGO_PKG_VERSION")).title("Tsugite");
    let mut bridge = Bridge::to_many().info(info);
    if let Some(limit) = common.timeout {
        bridge = bridge.timeout(limit);
    }
    let names: Vec<String> = named.iter().map(|server| server.name.clone()).collect();
    for server in named {
        bridge = bridge.target(server.name, session::connecting(server.target, common)?);
    }
    let server = bridge.server();
    let page = Live::new(About {
        name: "tsugite".to_owned(),
        servers: names.iter().map(|name| Runs::beginning(name)).collect(),
        example: None,
        is_open: false,
    });
    let bridge = std::sync::Arc::new(bridge);
    // A server that hangs holds up nobody but the page.
    let following = door
        .listen
        .is_some()
        .then(|| tokio::spawn(follow(page.clone(), server.clone(), bridge.clone(), names.clone())));
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
async fn follow(page: Live, server: Server, bridge: std::sync::Arc<Bridge>, names: Vec<String>) {
    let client = match Client::in_process(&server).await {
        Ok(client) => client,
        Err(error) => return tracing::warn!(%error, "the page does not show how the servers are"),
    };
    let mut changes = client.listen(ChangeFilter::lists()).await.ok();
    loop {
        let all = match session::About::by(&client).await {
            Ok(about) => Offered::by(&client, &about.capabilities).await.ok(),
            Err(_) => None,
        };
        let troubles = bridge.target_errors();
        let servers = names.iter().map(|name| {
            let trouble = troubles.iter().find(|(known, _)| known == name).and_then(|(_, why)| why.clone());
            Runs::behind(name, trouble, all.as_ref())
        });
        let servers: Vec<Runs> = servers.collect();
        page.change(|about| about.servers = servers);
        let next = match &mut changes {
            Some(changes) => changes.next().await,
            None => None,
        };
        let Some(Ok(_)) = next else { return };
    }
}
