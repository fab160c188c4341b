//! The routes from the client to the server: direct, through our bridge, through other bridges.

use std::net::{TcpListener, TcpStream};
use std::process::{ChildStdin, Command};
use std::time::{Duration, Instant};

use super::programs::Programs;
use crate::BoxError;
use crate::load::BurstClient;
use crate::load::http_clients::{HttpSseClient, StreamableHttpClient};
use crate::load::process::Process;
use crate::load::stdio_client::StdioClient;

/// A route to the server.
pub(super) struct Route {
    pub(super) name: RouteName,
    pub(super) client: Box<dyn BurstClient>,
    /// The process of the bridge; that of the server on a direct route.
    pub(super) process: Process,
    /// Kept open, since a program may exit when its standard input ends.
    _stdin: Option<ChildStdin>,
}

/// The bridge and the transports on both of its sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RouteName {
    pub(super) route: &'static str,
    pub(super) bridge: &'static str,
}

impl std::fmt::Display for RouteName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, {}", self.route, self.bridge)
    }
}

/// Opens every route whose name contains one of the words. The HTTP server runs until the returned process is dropped.
pub(super) fn open_all(built: &Programs, only: &[String]) -> Result<(Process, Vec<Route>), BoxError> {
    let (server, url, stdin) = Process::start_listening(bare_server(built, "http"))?;
    drop(stdin);
    let mut ways = Vec::new();
    for (name, open) in ROUTES {
        let shown = name.to_string();
        if only.is_empty() || only.iter().any(|word| shown.contains(word)) {
            ways.push(open(built, &url, *name).map_err(|error| format!("{shown}: {error}"))?);
        }
    }
    match ways.is_empty() {
        true => Err("no route has a name with one of the words of `--only`".into()),
        false => Ok((server, ways)),
    }
}

type OpenRoute = fn(&Programs, &str, RouteName) -> Result<Route, BoxError>;

const ROUTES: &[(RouteName, OpenRoute)] = &[
    (DIRECT_STDIO, |built, _, name| over_stdio(name, bare_server(built, "stdio"))),
    (DIRECT_LIBRARY, |built, _, name| {
        let mut command = Command::new(&built.bench);
        command.args(["serve", "library"]);
        over_stdio(name, command)
    }),
    (DIRECT_HTTP, |built, _, name| {
        let (process, url, stdin) = Process::start_listening(bare_server(built, "http"))?;
        Ok(Route { name, client: Box::new(StreamableHttpClient::open(&url)?), process, _stdin: Some(stdin) })
    }),
    (STDIO_STDIO, |built, _, name| {
        let mut command = bridge_command(built, HANDSHAKE);
        append_stdio_server(&mut command, built);
        over_stdio(name, command)
    }),
    (STDIO_STDIO_NEWEST, |built, _, name| {
        let mut command = bridge_command(built, NEWEST);
        append_stdio_server(&mut command, built);
        over_stdio(name, command)
    }),
    (STDIO_STDIO_COPIED, |built, _, name| {
        let mut command = Command::new(&built.bench);
        command.arg("copy").arg(&built.bench).args(["serve", "stdio", "0"]);
        over_stdio(name, command)
    }),
    (STDIO_LIBRARY, |built, _, name| over_stdio(name, bridge_to_library(built, HANDSHAKE))),
    (STDIO_LIBRARY_NEWEST, |built, _, name| over_stdio(name, bridge_to_library(built, NEWEST))),
    (STDIO_HTTP, |built, url, name| {
        let mut command = bridge_command(built, HANDSHAKE);
        command.arg(url);
        over_stdio(name, command)
    }),
    (STDIO_HTTP_MCP_REMOTE, |built, url, name| {
        let mut command = built.node_command("mcp-remote", "dist/proxy.js")?;
        command.args([url, "--transport", "http-only", "--silent"]);
        // It stores its data about servers there.
        command.env("MCP_REMOTE_CONFIG_DIR", built.folder.join("mcp-remote"));
        over_stdio(name, command)
    }),
    (STDIO_HTTP_SUPERGATEWAY, |built, url, name| {
        let mut command = built.node_command("supergateway", "dist/index.js")?;
        command.args(["--streamableHttp", url, "--logLevel", "none"]);
        over_stdio(name, command)
    }),
    (HTTP_STDIO, |built, _, name| {
        let (process, url, stdin) = Process::start_listening(listening_bridge(built))?;
        Ok(Route { name, client: Box::new(StreamableHttpClient::open(&url)?), process, _stdin: Some(stdin) })
    }),
    (HTTP_STDIO_SUPERGATEWAY, |built, _, name| {
        // Without this, it starts a server for each request.
        let (process, port, stdin) =
            supergateway(built, &["--outputTransport", "streamableHttp", "--stateful"])?;
        let client = StreamableHttpClient::open(&format!("http://127.0.0.1:{port}/mcp"))?;
        Ok(Route { name, client: Box::new(client), process, _stdin: Some(stdin) })
    }),
    (SSE_STDIO, |built, _, name| {
        let (process, url, stdin) = Process::start_listening(listening_bridge(built))?;
        let url = url.strip_suffix("/mcp").ok_or("our bridge is somewhere else")?;
        Ok(Route {
            name,
            client: Box::new(HttpSseClient::open(&format!("{url}/sse"))?),
            process,
            _stdin: Some(stdin),
        })
    }),
    (SSE_STDIO_SUPERGATEWAY, |built, _, name| {
        let (process, port, stdin) = supergateway(built, &["--outputTransport", "sse"])?;
        let client = HttpSseClient::open(&format!("http://127.0.0.1:{port}/sse"))?;
        Ok(Route { name, client: Box::new(client), process, _stdin: Some(stdin) })
    }),
];

/// A bridge that the client starts.
fn over_stdio(name: RouteName, command: Command) -> Result<Route, BoxError> {
    let (process, stdin, stdout) = Process::start(command)?;
    Ok(Route { name, client: Box::new(StdioClient::open(stdin, stdout)?), process, _stdin: None })
}

/// The bare server.
fn bare_server(built: &Programs, how: &str) -> Command {
    let mut command = Command::new(&built.bench);
    command.args(["serve", how, "0"]);
    command
}

fn bridge_command(built: &Programs, revision: &str) -> Command {
    let mut command = Command::new(&built.tsugite);
    command.args(["bridge", "--rev", revision]);
    command
}

fn listening_bridge(built: &Programs) -> Command {
    let mut command = bridge_command(built, HANDSHAKE);
    command.args(["--listen", "127.0.0.1:0"]);
    append_stdio_server(&mut command, built);
    command
}

fn append_stdio_server(command: &mut Command, built: &Programs) {
    command.arg("--").arg(&built.bench).args(["serve", "stdio", "0"]);
}

fn bridge_to_library(built: &Programs, revision: &str) -> Command {
    let mut command = bridge_command(built, revision);
    command.arg("--").arg(&built.bench).args(["serve", "library"]);
    command
}

/// Starts supergateway in front of the stdio server, waits for it, and returns it with its port.
fn supergateway(built: &Programs, args: &[&str]) -> Result<(Process, u16, ChildStdin), BoxError> {
    // It needs a fixed port, so find a free one.
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let mut command = built.node_command("supergateway", "dist/index.js")?;
    command.arg("--stdio").arg(format!("'{}' serve stdio 0", built.bench.display()));
    command.args(["--port", &port.to_string(), "--logLevel", "none"]).args(args);
    let (process, stdin, _) = Process::start(command)?;
    let since = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        if since.elapsed() > START_TIMEOUT {
            return Err("it does not listen".into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok((process, port, stdin))
}

pub(super) const DIRECT_STDIO: RouteName = RouteName { route: "stdio", bridge: "no bridge" };
pub(super) const DIRECT_LIBRARY: RouteName =
    RouteName { route: "stdio, a server of the library", bridge: "no bridge" };
pub(super) const DIRECT_HTTP: RouteName = RouteName { route: "HTTP", bridge: "no bridge" };
pub(super) const STDIO_STDIO: RouteName = RouteName { route: "stdio to stdio", bridge: "tsugite" };
pub(super) const STDIO_STDIO_NEWEST: RouteName =
    RouteName { route: "stdio to stdio", bridge: "tsugite, to 2026-07-28" };
pub(super) const STDIO_STDIO_COPIED: RouteName =
    RouteName { route: "stdio to stdio", bridge: "bytes copied" };
pub(super) const STDIO_LIBRARY: RouteName =
    RouteName { route: "stdio to stdio, a server of the library", bridge: "tsugite" };
pub(super) const STDIO_LIBRARY_NEWEST: RouteName =
    RouteName { route: "stdio to stdio, a server of the library", bridge: "tsugite, to 2026-07-28" };
pub(super) const STDIO_HTTP: RouteName = RouteName { route: "stdio to HTTP", bridge: "tsugite" };
pub(super) const STDIO_HTTP_MCP_REMOTE: RouteName =
    RouteName { route: "stdio to HTTP", bridge: "mcp-remote" };
pub(super) const STDIO_HTTP_SUPERGATEWAY: RouteName =
    RouteName { route: "stdio to HTTP", bridge: "supergateway" };
pub(super) const HTTP_STDIO: RouteName = RouteName { route: "HTTP to stdio", bridge: "tsugite" };
pub(super) const HTTP_STDIO_SUPERGATEWAY: RouteName =
    RouteName { route: "HTTP to stdio", bridge: "supergateway" };
pub(super) const SSE_STDIO: RouteName = RouteName { route: "HTTP+SSE to stdio", bridge: "tsugite" };
pub(super) const SSE_STDIO_SUPERGATEWAY: RouteName =
    RouteName { route: "HTTP+SSE to stdio", bridge: "supergateway" };

/// The revision of the client and of the other bridges.
const HANDSHAKE: &str = "2025-11-25";
/// The revision that our bridge translates to.
const NEWEST: &str = "2026-07-28";
const START_TIMEOUT: Duration = Duration::from_secs(30);
