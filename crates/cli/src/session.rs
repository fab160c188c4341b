//! From a target to a client: what the options say is put together, and a failure says how far it came.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tsugite::client::servers::{UrlTransport, ConnectionConfig};
use tsugite::client::{Client, Command, ClientBuilder, ErrorKind, Stderr};
use tsugite::core::jsonrpc::code;
use tsugite::core::protocol::logging::Level;
use tsugite::core::protocol::{Implementation, ServerCapabilities};

use crate::asking::{AtTerminal, Interview, Replies};
use crate::demo;
use crate::fail::{Exit, Failure, Result};
use crate::options::{Common, Rev, Transport};
use crate::screen::Screen;
use crate::target::{Found, Target};
use crate::trace::Trace;

/// A server that was connected to. What verbs do is done on one of these.
#[derive(Clone)]
pub(crate) struct Session {
    pub(crate) client: Client,
    pub(crate) screen: Arc<Screen>,
    /// How long connecting took.
    pub(crate) took: Duration,
    /// What carries the messages.
    pub(crate) over: &'static str,
    pub(crate) interview: Arc<Interview>,
}

/// What a server says of itself.
pub(crate) struct About {
    pub(crate) server: Option<Implementation>,
    pub(crate) capabilities: ServerCapabilities,
    pub(crate) instructions: Option<String>,
}

impl Session {
    /// Connects to a server.
    pub(crate) async fn open(found: Found, common: &Common, replies: Replies) -> Result<Self> {
        let screen = Arc::new(Screen::new(common.json));
        let interview = Interview::new(replies, Arc::clone(&screen), Arc::new(AtTerminal));
        Self::attended(found, common, Arc::new(interview), screen, |connecting| connecting).await
    }

    /// Connects to a server whose questions go to `interview`, after `more` was settled.
    pub(crate) async fn attended(
        found: Found,
        common: &Common,
        interview: Arc<Interview>,
        screen: Arc<Screen>,
        more: impl FnOnce(ClientBuilder) -> ClientBuilder,
    ) -> Result<Self> {
        let Found { target, place } = found;
        let over = match &target {
            Target::Demo => "memory",
            Target::Command(_) | Target::Listed(ConnectionConfig::Command { .. }) => "stdio",
            _ => "http",
        };
        let connecting = more(interview.attend(connecting(target, common)?)?);
        let begun = Instant::now();
        let client = connecting.await.map_err(|error| Failure::connecting(error, &place))?;
        let took = begun.elapsed();
        Ok(Self { client, screen, took, over, interview })
    }

    /// What the server says of itself.
    pub(crate) async fn about(&self) -> Result<About> {
        About::by(&self.client).await
    }

    /// Says good-bye after what came of a verb. One that broke off is not waited for.
    pub(crate) async fn finish(self, outcome: Result<()>) -> Result<()> {
        match outcome {
            Err(failure) if failure.exit != Exit::Tool => Err(failure),
            outcome => {
                self.close().await?;
                outcome
            }
        }
    }

    /// Says good-bye, and what was answered that nobody asked.
    pub(crate) async fn close(self) -> Result<()> {
        self.client.close().await;
        self.screen.hide_bar();
        self.interview.done()
    }

    /// What a server gave, or why it did not. What was wrong with an answer of ours comes before what came of it.
    pub(crate) fn gave<T>(
        &self,
        outcome: Result<T, tsugite::client::ClientError>,
        step: &'static str,
    ) -> Result<T> {
        match self.interview.mistake() {
            Some(mistake) => Err(mistake),
            None => outcome.map_err(|error| Failure::of(error, step)),
        }
    }
}

impl About {
    /// What the server of this client says of itself; asked, if nothing was said yet.
    pub(crate) async fn by(client: &Client) -> Result<Self> {
        if let Some(capabilities) = client.server_capabilities() {
            let (server, instructions) = (client.server_info(), client.instructions());
            return Ok(Self { server, capabilities, instructions });
        }
        let found = client.discover().await.map_err(|error| Failure::of(error, "handshake"))?;
        let server = found.meta.as_ref().and_then(|meta| meta.server_info());
        Ok(Self { server, capabilities: found.capabilities, instructions: found.instructions })
    }
}

/// How a server is reached, for whoever connects by itself.
pub(crate) fn connecting(target: Target, common: &Common) -> Result<ClientBuilder> {
    settle(way(target, common)?, common)
}

/// Whether the server says that there is no such method.
pub(crate) fn is_unknown_method(error: &tsugite::client::ClientError) -> bool {
    matches!(error.kind(), ErrorKind::ErrorResponse { error, .. } if error.code == code::METHOD_NOT_FOUND)
}

fn way(target: Target, common: &Common) -> Result<ClientBuilder> {
    let connecting = match target {
        Target::Demo => {
            return only_started(Client::in_process(&demo::server()), common).and_then(without_env(common));
        }
        Target::Command(words) => return only_started(spawn(Command::from(words), common), common),
        Target::Listed(ConnectionConfig::Command { program, args, env, unset, cwd, .. }) => {
            let mut command = Command::new(program).args(args);
            for name in unset {
                command = command.env_remove(name);
            }
            command = command.envs(env);
            if let Some(folder) = cwd {
                command = command.current_dir(folder);
            }
            return only_started(spawn(command, common), common);
        }
        Target::Listed(ConnectionConfig::Url { url, headers, transport, .. }) => {
            let connecting = headers
                .into_iter()
                .fold(Client::connect(url), |connecting, (name, value)| connecting.header(name, value));
            match (transport, common.transport) {
                (UrlTransport::Sse, Transport::Auto) => connecting.http_sse(),
                (UrlTransport::StreamableHttp, Transport::Auto) => connecting.streamable_http(),
                _ => connecting,
            }
        }
        Target::Url(url) => without_env(common)(Client::connect(url))?,
        Target::Listed(_) => return Err(Failure::usage("this server is reached in a way that is not known")),
    };
    let connecting =
        common.headers.iter().fold(connecting, |connecting, (name, value)| connecting.header(name, value));
    let connecting = match common.timeout {
        Some(limit) => connecting.connect_timeout(limit),
        None => connecting,
    };
    Ok(match common.transport {
        Transport::Auto => connecting,
        Transport::Http => connecting.streamable_http(),
        Transport::Sse => connecting.http_sse(),
    })
}

fn spawn(command: Command, common: &Common) -> ClientBuilder {
    let command = common.env.iter().fold(command, |command, (name, value)| match value {
        Some(value) => command.env(name, value),
        None => command.pass_env(name),
    });
    Client::spawn(match common.verbose {
        0 => command,
        _ => command.stderr(Stderr::Inherit),
    })
}

/// What is for URLs is not for servers that are started.
fn only_started(connecting: ClientBuilder, common: &Common) -> Result<ClientBuilder> {
    match (common.headers.is_empty(), common.transport) {
        (false, _) => Err(Failure::usage("-H is for servers with a URL")),
        (_, Transport::Auto) => Ok(connecting),
        _ => Err(Failure::usage("--transport is for servers with a URL")),
    }
}

/// And the other way round.
fn without_env(common: &Common) -> impl FnOnce(ClientBuilder) -> Result<ClientBuilder> {
    let wrong = !common.env.is_empty();
    move |connecting| match wrong {
        true => Err(Failure::usage("-e is for servers that are started, and for files with variables")),
        false => Ok(connecting),
    }
}

fn settle(connecting: ClientBuilder, common: &Common) -> Result<ClientBuilder> {
    let mut connecting =
        connecting.client_info(Implementation::new("tsugite", env!("CARGO_PKG_VERSION")).title("Tsugite"));
    if let Rev::Only(revision) = common.rev {
        connecting = connecting.revision(revision);
    }
    if let Some(limit) = common.timeout {
        connecting = connecting.timeout(limit).total_timeout(limit.max(WHOLE)).probe_timeout(limit.min(PROBE));
    }
    if common.verbose > 0 {
        connecting = connecting.log_level(Level::Debug);
    }
    if let Some(path) = &common.trace {
        let trace = Trace::begin(path)?;
        connecting = connecting.on_wire(move |direction, text| trace.write(direction, text));
    }
    Ok(connecting)
}

/// How long a call may take in all, unless more silence is allowed.
const WHOLE: Duration = Duration::from_secs(10 * 60);
/// How long a server may be silent when it is asked which revision it speaks.
const PROBE: Duration = Duration::from_secs(5);
