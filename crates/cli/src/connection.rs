//! From a target to a client: what the options say is put together, and a failure says how far it came.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tsugite::client::servers::{ConnectionConfig, UrlTransport};
use tsugite::client::{Client, ClientBuilder, Command, ErrorKind, Stderr};
use tsugite::jsonrpc::code;
use tsugite::protocol::logging::Level;
use tsugite::protocol::{Implementation, ServerCapabilities};

use crate::console::Console;
use crate::demo;
use crate::error::{CliError, ExitStatus, Result};
use crate::options::{CommonOptions, RevisionArg, Transport};
use crate::server_requests::{PresetAnswers, ServerRequestHandler, TerminalPrompter};
use crate::targets::{ResolvedTarget, Target};
use crate::trace::Trace;

/// A server that was connected to. What verbs do is done on one of these.
#[derive(Clone)]
pub(crate) struct Connection {
    pub(crate) client: Client,
    pub(crate) console: Arc<Console>,
    /// How long connecting took.
    pub(crate) connect_elapsed: Duration,
    /// What carries the messages.
    pub(crate) transport: &'static str,
    pub(crate) request_handler: Arc<ServerRequestHandler>,
}

/// What a server says of itself.
pub(crate) struct ServerDetails {
    pub(crate) server: Option<Implementation>,
    pub(crate) capabilities: ServerCapabilities,
    pub(crate) instructions: Option<String>,
}

impl Connection {
    /// Connects to a server.
    pub(crate) async fn open(
        found: ResolvedTarget,
        common: &CommonOptions,
        replies: PresetAnswers,
    ) -> Result<Self> {
        let screen = Arc::new(Console::new(common.json));
        let interview = ServerRequestHandler::new(replies, Arc::clone(&screen), Arc::new(TerminalPrompter));
        Self::open_with(found, common, Arc::new(interview), screen, |connecting| connecting).await
    }

    /// Connects to a server whose questions go to `request_handler`, after `more` was settled.
    pub(crate) async fn open_with(
        found: ResolvedTarget,
        common: &CommonOptions,
        interview: Arc<ServerRequestHandler>,
        screen: Arc<Console>,
        more: impl FnOnce(ClientBuilder) -> ClientBuilder,
    ) -> Result<Self> {
        let ResolvedTarget { target, display_name: place } = found;
        let over = match &target {
            Target::Demo => "memory",
            Target::Command(_) | Target::Configured(ConnectionConfig::Command { .. }) => "stdio",
            _ => "http",
        };
        let connecting = more(interview.register(client_builder(target, common)?)?);
        let begun = Instant::now();
        let client = connecting.await.map_err(|error| CliError::from_connect_error(error, &place))?;
        let took = begun.elapsed();
        Ok(Self {
            client,
            console: screen,
            connect_elapsed: took,
            transport: over,
            request_handler: interview,
        })
    }

    /// What the server says of itself.
    pub(crate) async fn server_details(&self) -> Result<ServerDetails> {
        ServerDetails::fetch(&self.client).await
    }

    /// Says good-bye after what came of a verb. One that broke off is not waited for.
    pub(crate) async fn finish(self, outcome: Result<()>) -> Result<()> {
        match outcome {
            Err(failure) if failure.exit != ExitStatus::Tool => Err(failure),
            outcome => {
                self.close().await?;
                outcome
            }
        }
    }

    /// Says good-bye, and what was answered that nobody asked.
    pub(crate) async fn close(self) -> Result<()> {
        self.client.close().await;
        self.console.clear_progress();
        self.request_handler.finish()
    }

    /// What a server gave, or why it did not. What was wrong with an answer of ours comes before what came of it.
    pub(crate) fn check_result<T>(
        &self,
        outcome: Result<T, tsugite::client::ClientError>,
        step: &'static str,
    ) -> Result<T> {
        match self.request_handler.answer_error() {
            Some(mistake) => Err(mistake),
            None => outcome.map_err(|error| CliError::from_client_error(error, step)),
        }
    }
}

impl ServerDetails {
    /// What the server of this client says of itself; asked, if nothing was said yet.
    pub(crate) async fn fetch(client: &Client) -> Result<Self> {
        if let Some(capabilities) = client.server_capabilities() {
            let (server, instructions) = (client.server_info(), client.instructions());
            return Ok(Self { server, capabilities, instructions });
        }
        let found =
            client.discover().await.map_err(|error| CliError::from_client_error(error, "handshake"))?;
        let server = found.meta.as_ref().and_then(|meta| meta.server_info());
        Ok(Self { server, capabilities: found.capabilities, instructions: found.instructions })
    }
}

/// How a server is reached, for whoever connects by itself.
pub(crate) fn client_builder(target: Target, common: &CommonOptions) -> Result<ClientBuilder> {
    apply_common_options(builder_for_target(target, common)?, common)
}

/// Whether the server says that there is no such method.
pub(crate) fn is_method_not_found(error: &tsugite::client::ClientError) -> bool {
    matches!(error.kind(), ErrorKind::ErrorResponse { error, .. } if error.code == code::METHOD_NOT_FOUND)
}

fn builder_for_target(target: Target, common: &CommonOptions) -> Result<ClientBuilder> {
    let connecting = match target {
        Target::Demo => {
            return reject_url_options(Client::in_process(&demo::server()), common)
                .and_then(reject_env_options(common));
        }
        Target::Command(words) => return reject_url_options(spawn(Command::from(words), common), common),
        Target::Configured(ConnectionConfig::Command { program, args, env, unset, cwd, .. }) => {
            let mut command = Command::new(program).args(args);
            for name in unset {
                command = command.env_remove(name);
            }
            command = command.envs(env);
            if let Some(folder) = cwd {
                command = command.current_dir(folder);
            }
            return reject_url_options(spawn(command, common), common);
        }
        Target::Configured(ConnectionConfig::Url { url, headers, transport, .. }) => {
            let connecting = headers
                .into_iter()
                .fold(Client::connect(url), |connecting, (name, value)| connecting.header(name, value));
            match (transport, common.transport) {
                (UrlTransport::Sse, Transport::Auto) => connecting.http_sse(),
                (UrlTransport::StreamableHttp, Transport::Auto) => connecting.streamable_http(),
                _ => connecting,
            }
        }
        Target::Url(url) => reject_env_options(common)(Client::connect(url))?,
        Target::Configured(_) => {
            return Err(CliError::usage("this server is reached in a way that is not known"));
        }
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

fn spawn(command: Command, common: &CommonOptions) -> ClientBuilder {
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
fn reject_url_options(connecting: ClientBuilder, common: &CommonOptions) -> Result<ClientBuilder> {
    match (common.headers.is_empty(), common.transport) {
        (false, _) => Err(CliError::usage("-H is for servers with a URL")),
        (_, Transport::Auto) => Ok(connecting),
        _ => Err(CliError::usage("--transport is for servers with a URL")),
    }
}

/// And the other way round.
fn reject_env_options(common: &CommonOptions) -> impl FnOnce(ClientBuilder) -> Result<ClientBuilder> {
    let wrong = !common.env.is_empty();
    move |connecting| match wrong {
        true => Err(CliError::usage("-e is for servers that are started, and for files with variables")),
        false => Ok(connecting),
    }
}

fn apply_common_options(connecting: ClientBuilder, common: &CommonOptions) -> Result<ClientBuilder> {
    let mut connecting =
        connecting.client_info(Implementation::new("tsugite", env!("CARGO_PKG_VERSION")).title("Tsugite"));
    if let RevisionArg::Only(revision) = common.rev {
        connecting = connecting.revision(revision);
    }
    if let Some(limit) = common.timeout {
        connecting = connecting
            .timeout(limit)
            .total_timeout(limit.max(MAX_CALL_TIMEOUT))
            .probe_timeout(limit.min(PROBE_TIMEOUT));
    }
    if common.verbose > 0 {
        connecting = connecting.log_level(Level::Debug);
    }
    if let Some(path) = &common.trace {
        let trace = Trace::create(path)?;
        connecting = connecting.on_wire(move |direction, text| trace.write(direction, text));
    }
    Ok(connecting)
}

/// How long a call may take in all, unless more silence is allowed.
const MAX_CALL_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// How long a server may be silent when it is asked which revision it speaks.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
