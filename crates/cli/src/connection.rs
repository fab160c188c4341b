//! Builds a client from a target and the common options, and connects it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tsugite::client::servers::{ConnectionConfig, UrlTransport};
use tsugite::client::{Client, ClientBuilder, Command, ErrorKind, Stderr};
use tsugite::jsonrpc::code;
use tsugite::protocol::logging::Level;
use tsugite::protocol::{Implementation, ServerCapabilities};
use tsugite::revision::Revision;

use crate::child_watch;
use crate::console::Console;
use crate::demo;
use crate::error::{CliError, ExitStatus, Result};
use crate::followed_task::{FollowedTask, add_task_hints};
use crate::headers;
use crate::login::LoginServer;
use crate::options::{CommonOptions, RevisionArg, Transport};
use crate::server_requests::{PresetAnswers, ServerRequestHandler, TerminalPrompter};
use crate::targets::{ResolvedTarget, Target};
use crate::trace::Trace;

/// A connection to a server, on which a verb works.
#[derive(Clone)]
pub(crate) struct Connection {
    pub(crate) client: Client,
    pub(crate) console: Arc<Console>,
    /// How long connecting took.
    pub(crate) connect_elapsed: Duration,
    /// The name of the transport.
    pub(crate) transport: &'static str,
    pub(crate) request_handler: Arc<ServerRequestHandler>,
    /// The task that the current command follows.
    pub(crate) task: Arc<FollowedTask>,
    /// The word that names the target on a command line, without secrets; empty for a command.
    pub(crate) target_word: String,
    /// The value of `--rev`, if it was given.
    pub(crate) revision_option: Option<Revision>,
    /// The names of other options without which the server cannot be reached in the same way.
    pub(crate) other_options: Vec<&'static str>,
}

/// The server's own description, from `initialize` or `server/discover`.
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
        answers: PresetAnswers,
    ) -> Result<Self> {
        let console = Arc::new(Console::new(common.json));
        let handler = ServerRequestHandler::new(answers, Arc::clone(&console), Arc::new(TerminalPrompter));
        Self::open_with(found, common, Arc::new(handler), console, |builder| builder).await
    }

    /// Connects to a server. `handler` answers the requests of the server, `configure` changes the client builder.
    pub(crate) async fn open_with(
        found: ResolvedTarget,
        common: &CommonOptions,
        handler: Arc<ServerRequestHandler>,
        console: Arc<Console>,
        configure: impl FnOnce(ClientBuilder) -> ClientBuilder,
    ) -> Result<Self> {
        let ResolvedTarget { target, display_name, word } = found;
        let transport = match &target {
            Target::Demo | Target::InProcess(_) => "memory",
            Target::Command(_) | Target::Configured(ConnectionConfig::Command { .. }) => "stdio",
            _ => "http",
        };
        let login = LoginServer::from_target(&target, &word, common)?.map(|server| server.command());
        // Calls may become tasks, whichever command makes them.
        let builder = client_builder(target, &word, common).await?.tasks();
        let builder = configure(handler.register(builder)?);
        let started = Instant::now();
        let client = builder
            .await
            .map_err(|error| CliError::from_connect_error(error, &display_name, login.as_deref()))?;
        let connect_elapsed = started.elapsed();
        let task = Arc::default();
        Ok(Self {
            client,
            console,
            connect_elapsed,
            transport,
            request_handler: handler,
            task,
            target_word: word,
            revision_option: match common.rev {
                RevisionArg::Only(revision) => Some(revision),
                RevisionArg::Auto => None,
            },
            other_options: common.reaching_options(),
        })
    }

    /// Returns the server's own description.
    pub(crate) async fn server_details(&self) -> Result<ServerDetails> {
        ServerDetails::fetch(&self.client).await
    }

    /// Closes the connection and returns the outcome of a verb. After a connection or protocol error it does not close.
    pub(crate) async fn finish(self, outcome: Result<()>) -> Result<()> {
        match outcome {
            Err(failure) if failure.exit != ExitStatus::Tool => Err(failure),
            outcome => {
                self.close().await?;
                outcome
            }
        }
    }

    /// Closes the connection, and warns about preset answers that were not used.
    pub(crate) async fn close(self) -> Result<()> {
        self.client.close().await;
        self.console.clear_progress();
        self.request_handler.finish()
    }

    /// Converts the outcome of a call. An invalid preset answer is reported first, as it caused the error of the server.
    pub(crate) fn check_result<T>(
        &self,
        outcome: Result<T, tsugite::client::ClientError>,
        step: &'static str,
    ) -> Result<T> {
        match self.request_handler.answer_error() {
            Some(error) => Err(error),
            None => outcome.map_err(|error| {
                let failure = CliError::from_client_error(error.clone(), step);
                add_task_hints(failure, self, &error)
            }),
        }
    }
}

impl ServerDetails {
    /// Returns the description of the client's server; sends `server/discover` if it is not known yet.
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

/// Builds the client for a target, not yet connected. `word` names the target on a command line.
pub(crate) async fn client_builder(
    target: Target,
    word: &str,
    common: &CommonOptions,
) -> Result<ClientBuilder> {
    let server = LoginServer::from_target(&target, word, common)?;
    let builder = apply_common_options(builder_for_target(target, common)?, common)?;
    Ok(match server {
        Some(server) => builder.login(server.authorizer(&common.login).await?),
        None => builder,
    })
}

/// Builds the client for the command of a server under development, which has our environment and may take long to start.
pub(crate) fn dev_client_builder(common: &CommonOptions) -> Result<ClientBuilder> {
    let command = Command::from(common.command.clone()).inherit_env();
    let builder = apply_common_options(reject_url_options(spawn(command, common), common)?, common)?;
    Ok(match common.timeout {
        Some(limit) => builder.probe_timeout(limit),
        None => builder,
    })
}

/// Whether the server responded "method not found".
pub(crate) fn is_method_not_found(error: &tsugite::client::ClientError) -> bool {
    matches!(error.kind(), ErrorKind::ErrorResponse { error, .. } if error.code == code::METHOD_NOT_FOUND)
}

fn builder_for_target(target: Target, common: &CommonOptions) -> Result<ClientBuilder> {
    let builder = match target {
        Target::Demo => {
            return reject_url_options(Client::in_process(&demo::server()), common)
                .and_then(reject_env_options(common));
        }
        Target::InProcess(server) => return reject_url_options(Client::in_process(&server), common),
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
            let builder = headers
                .into_iter()
                .fold(Client::connect(url), |builder, (name, value)| builder.header(name, value));
            match (transport, common.transport) {
                (UrlTransport::Sse, Transport::Auto) => builder.http_sse(),
                (UrlTransport::StreamableHttp, Transport::Auto) => builder.streamable_http(),
                _ => builder,
            }
        }
        Target::Url(url) => reject_env_options(common)(Client::connect(url))?,
        Target::Configured(_) => {
            return Err(CliError::usage(
                "this version of tsugite does not support the transport of this server",
            ));
        }
    };
    let builder = builder.proxy_from_env();
    let headers = headers::from_options(common)?;
    let builder = headers.into_iter().fold(builder, |builder, (name, value)| builder.header(name, value));
    let builder = match common.timeout {
        Some(limit) => builder.connect_timeout(limit),
        None => builder,
    };
    Ok(match common.transport {
        Transport::Auto => builder,
        Transport::Http => builder.streamable_http(),
        Transport::Sse => builder.http_sse(),
    })
}

fn spawn(command: Command, common: &CommonOptions) -> ClientBuilder {
    let command = common.env.iter().fold(command, |command, (name, value)| match value {
        Some(value) => command.env(name, value),
        None => command.pass_env(name),
    });
    let command = command.on_spawn(child_watch::register);
    Client::spawn(match common.verbose {
        0 => command,
        _ => command.stderr(Stderr::Inherit),
    })
}

/// Rejects `-H`, `--bearer-env`, `--transport` and the options of a login for a server that is not reached by a URL.
fn reject_url_options(builder: ClientBuilder, common: &CommonOptions) -> Result<ClientBuilder> {
    if common.login.is_given() {
        return Err(CliError::usage("the options of a login only apply to servers with a URL"));
    }
    match (common.headers.is_empty() && common.bearer_env.is_none(), common.transport) {
        (false, _) => Err(CliError::usage("-H and --bearer-env only apply to servers with a URL")),
        (_, Transport::Auto) => Ok(builder),
        _ => Err(CliError::usage("--transport only applies to servers with a URL")),
    }
}

/// Rejects `-e` for a server that is not started as a process.
fn reject_env_options(common: &CommonOptions) -> impl FnOnce(ClientBuilder) -> Result<ClientBuilder> {
    let has_env = !common.env.is_empty();
    move |builder| match has_env {
        true => Err(CliError::usage(
            "-e only applies to servers that tsugite starts, and to configuration files with variables",
        )),
        false => Ok(builder),
    }
}

fn apply_common_options(builder: ClientBuilder, common: &CommonOptions) -> Result<ClientBuilder> {
    let mut builder =
        builder.client_info(Implementation::new("tsugite", env!("CARGO_PKG_VERSION")).title("Tsugite"));
    if let RevisionArg::Only(revision) = common.rev {
        builder = builder.revision(revision);
    }
    if let Some(limit) = common.timeout {
        builder = builder
            .timeout(limit)
            .total_timeout(limit.max(MAX_CALL_TIMEOUT))
            .probe_timeout(limit.min(PROBE_TIMEOUT));
    }
    if common.verbose > 0 {
        builder = builder.log_level(Level::Debug);
    }
    if let Some(path) = &common.trace {
        let trace = Trace::create(path)?;
        builder = builder.on_wire(move |direction, text| trace.write(direction, text));
    }
    Ok(builder)
}

/// The total time limit of a call, unless `--timeout` is longer.
const MAX_CALL_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// The time limit of the request that probes which revisions a server supports.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
