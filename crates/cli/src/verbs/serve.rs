//! `tsugite serve`: serves the built-in demo server, or several servers at one address.

use std::path::{Path, PathBuf};

use clap::Args;
use tsugite::Server;
use tsugite::bridge::Bridge;
use tsugite::client::{ChangeFilter, Client};
use tsugite::protocol::Implementation;

use crate::auth_setup::AuthSetup;
use crate::catalog::Catalog;
use crate::connection;
use crate::console::Console;
use crate::demo;
use crate::error::{CliError, Result};
use crate::login::ServedLogins;
use crate::options::{CALL_TIMEOUT_HELP, CommonOptions, RevisionArg};
use crate::page::{PageServer, SharedStartPage, StartPage};
use crate::serve_options::{HttpOptions, ServeOptions};
use crate::state::{State, StateOptions};
use crate::targets::{self, NamedTarget, Target};

/// Serve the demo server, or several servers at one address, with a start page at /
#[derive(Debug, Args)]
#[command(
    override_usage = "tsugite serve [OPTIONS] [TARGET]… [-- COMMAND…]",
    mut_arg("hosts", |option| option.conflicts_with("stdio")),
    mut_arg("origins", |option| option.conflicts_with("stdio")),
    mut_arg("proxies", |option| option.conflicts_with("stdio")),
    mut_arg("path", |option| option.conflicts_with("stdio")),
    mut_arg("no_sessions", |option| option.conflicts_with("stdio")),
    mut_arg("no_sse", |option| option.conflicts_with("stdio")),
    mut_arg("token", |option| option.conflicts_with("stdio")),
    mut_arg("no_auth", |option| option.conflicts_with("stdio")),
    mut_arg("token", |option| option.conflicts_with("auth")),
    mut_arg("no_auth", |option| option.conflicts_with("auth")),
    mut_arg("issuer", |option| option.conflicts_with("auth")),
    mut_arg("tls_cert", |option| option.conflicts_with("stdio")),
    mut_arg("tls_key", |option| option.conflicts_with("stdio")),
    mut_arg("tls_client_ca", |option| option.conflicts_with("stdio")),
    mut_arg("issuer", |option| option.conflicts_with("stdio")),
    mut_arg("timeout", |timeout| timeout.help(CALL_TIMEOUT_HELP)),
    after_help = "Without a target this serves the demo server. With targets, all of them share one address, and the name of each server\nprefixes its tools: the tool `add` of `demo` is `demo_add`. NAME=TARGET sets that name.\nThe first line on standard output is the URL of the server.\n\nExamples:\n  tsugite serve\n  tsugite serve --listen 127.0.0.1:0\n  tsugite serve --stdio\n  tsugite serve --config mcp.json\n  tsugite serve github files=FILE.json:fs -- my-server\n  tsugite serve --state state.redb\n  tsugite serve --auth auth.json --state state.redb"
)]
pub(crate) struct Serve {
    /// The servers to serve
    #[arg(value_name = "TARGET")]
    words: Vec<String>,
    /// Serve all servers of a configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The address to listen on, or unix:PATH for a socket of this user; port 0 picks a free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8808", conflicts_with = "stdio")]
    listen: String,
    /// Serve one client on standard input and output
    #[arg(long)]
    stdio: bool,
    /// Serve only users who log in: run an authorization server with the users and settings in this file
    #[arg(long, value_name = "FILE", conflicts_with = "stdio")]
    auth: Option<PathBuf>,
    #[command(flatten)]
    http: HttpOptions,
    #[command(flatten)]
    state: StateOptions,
    #[command(flatten)]
    pub(super) common: CommonOptions,
}

impl Serve {
    pub(crate) async fn run(mut self) -> Result<()> {
        let named = self.resolve_targets().await?;
        let listen = (!self.stdio).then_some(self.listen);
        let mut configured_servers =
            named.as_deref().and_then(|named| configured_servers(named, self.config.as_deref()));
        let targets = named.iter().flatten().map(|server| (&server.target, server.word.as_str()));
        let logins = ServedLogins::find(targets, &self.common).await?;
        // Standard input and a Unix socket are reached by this user only.
        let is_local = listen.as_ref().is_none_or(|listen| listen.starts_with("unix:"));
        let is_protected =
            is_local || self.http.has_token() || (configured_servers.is_some() && !self.http.is_open());
        self.common.login.mode = logins.mode(is_protected);
        let is_personal = !is_local && logins.personal.is_some();
        if is_personal {
            logins.check(self.http.no_auth())?;
            logins.check_issuer(self.http.issuer())?;
            configured_servers.get_or_insert_with(|| format!("serve {}", logins.names()));
        }
        if let (Some(word), Some(_)) = (&logins.personal, &self.auth) {
            return Err(CliError::usage(format!(
                "--auth would let other users act as you: you are logged in to {word}"
            ))
            .at_step("login")
            .hint("`tsugite logout` forgets the login"));
        }
        let state = self.state.open()?;
        let auth = self.auth.map(|path| AuthSetup::read(&path, state.clone())).transpose()?;
        let options = ServeOptions { listen, http: self.http, configured_servers, is_personal, auth };
        match named {
            None => serve_demo(options, &state, &self.common).await,
            Some(named) => serve_many(options, &state, named, &self.common).await,
        }
    }

    /// Resolves the targets; `None` for the demo server.
    async fn resolve_targets(&self) -> Result<Option<Vec<NamedTarget>>> {
        let console = Console::new(false);
        let mut named = targets::resolve_many(&self.words, &self.common).await?;
        if let Some(path) = &self.config {
            for listed in targets::resolve_file(path, &self.common).await? {
                match listed {
                    Ok(server) => named.push(server),
                    // An invalid entry does not prevent the others from being served.
                    Err(failure) => console.note(&format!("skipped: {}", failure.summary())),
                }
            }
        } else if named.is_empty() {
            return Ok(None);
        }
        if named.is_empty() {
            let failure = CliError::usage("no server to serve").at_step("name");
            let path = self.config.as_deref().unwrap_or_else(|| Path::new("the file")).display().to_string();
            return Err(failure.detail(format!("{path} has no usable server")));
        }
        for (index, server) in named.iter().enumerate() {
            if named.iter().take(index).any(|other| other.name == server.name) {
                let failure = CliError::usage(format!("two servers are named `{}`", server.name));
                return Err(failure.hint("NAME=TARGET sets another name"));
            }
        }
        Ok(Some(named))
    }
}

/// Names the servers, if some of them come from a configuration file of the user.
fn configured_servers(named: &[NamedTarget], file: Option<&Path>) -> Option<String> {
    let is_configured = named.iter().any(|server| matches!(server.target, Target::Configured(_)));
    let names: Vec<&str> = named.iter().map(|server| server.name.as_str()).collect();
    let file = file.and_then(|path| path.canonicalize().ok()).unwrap_or_default();
    is_configured.then(|| format!("serve {} {}", file.display(), names.join(" ")))
}

async fn serve_demo(options: ServeOptions, state: &State, common: &CommonOptions) -> Result<()> {
    let server = match common.rev {
        RevisionArg::Auto => demo::server(),
        RevisionArg::Only(revision) => demo::server().revisions([revision].into_iter().collect()),
    };
    let server = state.apply(server);
    let page = SharedStartPage::new(StartPage {
        name: "tsugite-demo".to_owned(),
        servers: Vec::new(),
        example: Some("add a=1 b=2".to_owned()),
        is_public: false,
        path: "/mcp".to_owned(),
        has_sse: true,
        scheme: "http",
    });
    if options.listen.is_some() {
        let client =
            Client::in_process(&server).await.map_err(|error| CliError::from_client_error(error, "serve"))?;
        let page_server = PageServer::from_client(&client).await;
        page.update(|page| page.servers.push(page_server));
        tokio::spawn(page.clone().watch_server(client, 0));
    }
    options.serve(server, "the demo server", Some(page), std::future::ready(())).await
}

async fn serve_many(
    options: ServeOptions,
    state: &State,
    named: Vec<NamedTarget>,
    common: &CommonOptions,
) -> Result<()> {
    let info = Implementation::new("tsugite", env!("CARGO_PKG_VERSION")).title("Tsugite");
    let mut bridge = Bridge::to_many().info(info);
    if let Some(limit) = common.timeout {
        bridge = bridge.timeout(limit);
    }
    let names: Vec<String> = named.iter().map(|server| server.name.clone()).collect();
    for server in named {
        bridge = bridge
            .target(server.name, connection::client_builder(server.target, &server.word, common).await?);
    }
    let server = state.apply(bridge.server());
    let page = SharedStartPage::new(StartPage {
        name: "tsugite".to_owned(),
        servers: names.iter().map(|name| PageServer::starting(name)).collect(),
        example: None,
        is_public: false,
        path: "/mcp".to_owned(),
        has_sse: true,
        scheme: "http",
    });
    let bridge = std::sync::Arc::new(bridge);
    // In the background, so that a server that hangs delays only the page.
    let page_updates = options.listen.is_some().then(|| {
        tokio::spawn(keep_page_updated(page.clone(), server.clone(), bridge.clone(), names.clone()))
    });
    let description = match names.as_slice() {
        [name] => format!("the server {name}"),
        names => format!("{} servers ({})", names.len(), names.join(", ")),
    };
    let stop = async {
        // Before the bridge closes, so that the page does not report that as an error.
        if let Some(page_updates) = page_updates {
            page_updates.abort();
            let _ = page_updates.await;
        }
        bridge.close().await;
    };
    options.serve(server, &description, Some(page), stop).await
}

/// Updates the state of each server on the page, now and after every change.
async fn keep_page_updated(
    page: SharedStartPage,
    server: Server,
    bridge: std::sync::Arc<Bridge>,
    names: Vec<String>,
) {
    let client = match Client::in_process(&server).await {
        Ok(client) => client,
        Err(error) => {
            return tracing::warn!(%error, "cannot watch the servers; the start page does not show their state");
        }
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
