//! The ways from the client to the server: directly, over our bridge, over those of others.

use std::net::{TcpListener, TcpStream};
use std::process::{ChildStdin, Command};
use std::time::{Duration, Instant};

use super::Client;
use super::built::Built;
use super::lines::Lines;
use super::process::Process;
use super::sockets::{Posts, Stream};
use crate::Failed;

/// A way to the server.
pub(super) struct Way {
    pub(super) name: Name,
    pub(super) client: Box<dyn Client>,
    /// What stands between the client and the server; the server itself where nothing does.
    pub(super) process: Process,
    /// A program may end with its standard input.
    _stdin: Option<ChildStdin>,
}

/// What is spoken on both sides of whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) route: &'static str,
    pub(super) who: &'static str,
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, {}", self.route, self.who)
    }
}

/// Opens every way whose name holds one of the words. The server over HTTP is there for as long as what comes with them.
pub(super) fn all(built: &Built, only: &[String]) -> Result<(Process, Vec<Way>), Failed> {
    let (server, url, stdin) = Process::at_its_address(serve(built, "http"))?;
    drop(stdin);
    let mut ways = Vec::new();
    for (name, open) in WAYS {
        let shown = name.to_string();
        if only.is_empty() || only.iter().any(|word| shown.contains(word)) {
            ways.push(open(built, &url, *name).map_err(|error| format!("{shown}: {error}"))?);
        }
    }
    match ways.is_empty() {
        true => Err("there is no such way".into()),
        false => Ok((server, ways)),
    }
}

type Open = fn(&Built, &str, Name) -> Result<Way, Failed>;

const WAYS: &[(Name, Open)] = &[
    (DIRECT_STDIO, |built, _, name| over_pipes(name, serve(built, "stdio"))),
    (DIRECT_LIBRARY, |built, _, name| {
        let mut command = Command::new(&built.bench);
        command.args(["serve", "library"]);
        over_pipes(name, command)
    }),
    (DIRECT_HTTP, |built, _, name| {
        let (process, url, stdin) = Process::at_its_address(serve(built, "http"))?;
        Ok(Way { name, client: Box::new(Posts::open(&url)?), process, _stdin: Some(stdin) })
    }),
    (STDIO_STDIO, |built, _, name| {
        let mut command = bridge(built, HANDSHAKE);
        to_stdio(&mut command, built);
        over_pipes(name, command)
    }),
    (STDIO_STDIO_NEWEST, |built, _, name| {
        let mut command = bridge(built, NEWEST);
        to_stdio(&mut command, built);
        over_pipes(name, command)
    }),
    (STDIO_STDIO_COPIED, |built, _, name| {
        let mut command = Command::new(&built.bench);
        command.arg("copy").arg(&built.bench).args(["serve", "stdio", "0"]);
        over_pipes(name, command)
    }),
    (STDIO_LIBRARY, |built, _, name| over_pipes(name, to_library(built, HANDSHAKE))),
    (STDIO_LIBRARY_NEWEST, |built, _, name| over_pipes(name, to_library(built, NEWEST))),
    (STDIO_HTTP, |built, url, name| {
        let mut command = bridge(built, HANDSHAKE);
        command.arg(url);
        over_pipes(name, command)
    }),
    (STDIO_HTTP_MCP_REMOTE, |built, url, name| {
        let mut command = built.node("mcp-remote", "dist/proxy.js")?;
        command.args([url, "--transport", "http-only", "--silent"]);
        // It keeps what it knows of servers there.
        command.env("MCP_REMOTE_CONFIG_DIR", built.folder.join("mcp-remote"));
        over_pipes(name, command)
    }),
    (STDIO_HTTP_SUPERGATEWAY, |built, url, name| {
        let mut command = built.node("supergateway", "dist/index.js")?;
        command.args(["--streamableHttp", url, "--logLevel", "none"]);
        over_pipes(name, command)
    }),
    (HTTP_STDIO, |built, _, name| {
        let (process, url, stdin) = Process::at_its_address(listening(built))?;
        Ok(Way { name, client: Box::new(Posts::open(&url)?), process, _stdin: Some(stdin) })
    }),
    (HTTP_STDIO_SUPERGATEWAY, |built, _, name| {
        // Otherwise it starts a server for each request.
        let (process, port, stdin) =
            supergateway(built, &["--outputTransport", "streamableHttp", "--stateful"])?;
        let client = Posts::open(&format!("http://127.0.0.1:{port}/mcp"))?;
        Ok(Way { name, client: Box::new(client), process, _stdin: Some(stdin) })
    }),
    (SSE_STDIO, |built, _, name| {
        let (process, url, stdin) = Process::at_its_address(listening(built))?;
        let url = url.strip_suffix("/mcp").ok_or("our bridge is somewhere else")?;
        Ok(Way { name, client: Box::new(Stream::open(&format!("{url}/sse"))?), process, _stdin: Some(stdin) })
    }),
    (SSE_STDIO_SUPERGATEWAY, |built, _, name| {
        let (process, port, stdin) = supergateway(built, &["--outputTransport", "sse"])?;
        let client = Stream::open(&format!("http://127.0.0.1:{port}/sse"))?;
        Ok(Way { name, client: Box::new(client), process, _stdin: Some(stdin) })
    }),
];

/// A bridge that a client starts.
fn over_pipes(name: Name, command: Command) -> Result<Way, Failed> {
    let (process, stdin, stdout) = Process::start(command)?;
    Ok(Way { name, client: Box::new(Lines::open(stdin, stdout)?), process, _stdin: None })
}

/// The bare server.
fn serve(built: &Built, how: &str) -> Command {
    let mut command = Command::new(&built.bench);
    command.args(["serve", how, "0"]);
    command
}

fn bridge(built: &Built, revision: &str) -> Command {
    let mut command = Command::new(&built.tsugite);
    command.args(["bridge", "--rev", revision]);
    command
}

fn listening(built: &Built) -> Command {
    let mut command = bridge(built, HANDSHAKE);
    command.args(["--listen", "127.0.0.1:0"]);
    to_stdio(&mut command, built);
    command
}

fn to_stdio(command: &mut Command, built: &Built) {
    command.arg("--").arg(&built.bench).args(["serve", "stdio", "0"]);
}

fn to_library(built: &Built, revision: &str) -> Command {
    let mut command = bridge(built, revision);
    command.arg("--").arg(&built.bench).args(["serve", "library"]);
    command
}

/// Supergateway in front of the server over stdio, when it is there, and its port.
fn supergateway(built: &Built, args: &[&str]) -> Result<(Process, u16, ChildStdin), Failed> {
    // It must be told a port, so one is found that nobody uses.
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let mut command = built.node("supergateway", "dist/index.js")?;
    command.arg("--stdio").arg(format!("'{}' serve stdio 0", built.bench.display()));
    command.args(["--port", &port.to_string(), "--logLevel", "none"]).args(args);
    let (process, stdin, _) = Process::start(command)?;
    let since = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        if since.elapsed() > PATIENCE {
            return Err("it does not listen".into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok((process, port, stdin))
}

pub(super) const DIRECT_STDIO: Name = Name { route: "stdio", who: "no bridge" };
pub(super) const DIRECT_LIBRARY: Name = Name { route: "stdio, a server of the library", who: "no bridge" };
pub(super) const DIRECT_HTTP: Name = Name { route: "HTTP", who: "no bridge" };
pub(super) const STDIO_STDIO: Name = Name { route: "stdio to stdio", who: "tsugite" };
pub(super) const STDIO_STDIO_NEWEST: Name = Name { route: "stdio to stdio", who: "tsugite, to 2026-07-28" };
pub(super) const STDIO_STDIO_COPIED: Name = Name { route: "stdio to stdio", who: "bytes copied" };
pub(super) const STDIO_LIBRARY: Name =
    Name { route: "stdio to stdio, a server of the library", who: "tsugite" };
pub(super) const STDIO_LIBRARY_NEWEST: Name =
    Name { route: "stdio to stdio, a server of the library", who: "tsugite, to 2026-07-28" };
pub(super) const STDIO_HTTP: Name = Name { route: "stdio to HTTP", who: "tsugite" };
pub(super) const STDIO_HTTP_MCP_REMOTE: Name = Name { route: "stdio to HTTP", who: "mcp-remote" };
pub(super) const STDIO_HTTP_SUPERGATEWAY: Name = Name { route: "stdio to HTTP", who: "supergateway" };
pub(super) const HTTP_STDIO: Name = Name { route: "HTTP to stdio", who: "tsugite" };
pub(super) const HTTP_STDIO_SUPERGATEWAY: Name = Name { route: "HTTP to stdio", who: "supergateway" };
pub(super) const SSE_STDIO: Name = Name { route: "HTTP+SSE to stdio", who: "tsugite" };
pub(super) const SSE_STDIO_SUPERGATEWAY: Name = Name { route: "HTTP+SSE to stdio", who: "supergateway" };

/// What the client speaks, and the others with it.
const HANDSHAKE: &str = "2025-11-25";
/// What a bridge of ours can translate it into.
const NEWEST: &str = "2026-07-28";
const PATIENCE: Duration = Duration::from_secs(30);
