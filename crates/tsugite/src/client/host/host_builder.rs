//! [`HostBuilder`]: collects the servers of a host and connects to all of them.

use std::future::IntoFuture;
use std::path::Path;
use std::sync::{Arc, Mutex};

use tokio::task::JoinSet;

use super::{Host, HostInner, Permissions, ServerFailure, check_prefix_unused};
use crate::client::servers::{ConnectionConfig, ServersFile, ServersFileError, UrlTransport};
use crate::client::{Client, ClientBuilder, ClientError, Command, Result};

/// Builds a [`Host`].
#[derive(Default)]
#[must_use = "the host connects only when `connect` is called"]
pub struct HostBuilder {
    servers: Vec<HostServerBuilder>,
    failures: Vec<ServerFailure>,
    configure: Option<ConfigureFn>,
}

type ConfigureFn = Box<dyn Fn(&str, ClientBuilder) -> ClientBuilder + Send + Sync>;

struct HostServerBuilder {
    name: String,
    client: ClientBuilder,
    permissions: Permissions,
}

impl HostBuilder {
    /// Adds a server. Its name becomes the prefix of its tools, prompts and resources, and must differ from the prefixes of the
    /// others.
    pub fn server(self, name: impl Into<String>, builder: ClientBuilder) -> Self {
        self.server_with(name, builder, Permissions::new())
    }

    /// Adds a server with permissions.
    pub fn server_with(
        mut self,
        name: impl Into<String>,
        builder: ClientBuilder,
        permissions: Permissions,
    ) -> Self {
        self.servers.push(HostServerBuilder { name: name.into(), client: builder, permissions });
        self
    }

    /// Adds the servers of a host's configuration file: `mcpServers` of Claude and Cursor, `servers` of VS Code.
    ///
    /// An invalid entry becomes a [failure](Host::failures) and does not affect the others; disabled entries are left
    /// out. Fails if the file itself cannot be read.
    pub fn file(self, path: impl AsRef<Path>) -> Result<Self, ServersFileError> {
        Ok(self.servers_file(ServersFile::read(path.as_ref())?))
    }

    /// Adds the servers of a configuration file that was already read.
    pub fn servers_file(mut self, file: ServersFile) -> Self {
        for entry in file.servers.into_iter().filter(|entry| !entry.disabled) {
            match entry.connection {
                Ok(config) => self = self.server(entry.name, client_builder(config)),
                Err(error) => {
                    let error = Arc::new(ClientError::config(error.to_string()));
                    self.failures.push(ServerFailure { server: entry.name, error });
                }
            }
        }
        self
    }

    /// Sets a function that configures the client of each server before it connects, for example with handlers.
    pub fn configure_each(
        mut self,
        set: impl Fn(&str, ClientBuilder) -> ClientBuilder + Send + Sync + 'static,
    ) -> Self {
        self.configure = Some(Box::new(set));
        self
    }

    /// Connects to all servers concurrently. A server that fails does not affect the others: see [`Host::failures`]. A server
    /// whose name, or prefix, is that of an earlier one is such a failure.
    pub async fn connect(self) -> Host {
        let inner = HostInner {
            servers: Mutex::default(),
            failures: Mutex::new(self.failures),
            change_feeds: Mutex::default(),
        };
        let host = Host { inner: Arc::new(inner) };
        let mut tasks = JoinSet::new();
        let mut names: Vec<String> = Vec::new();
        for (index, entry) in self.servers.into_iter().enumerate() {
            let HostServerBuilder { name, client: builder, permissions } = entry;
            if let Err(error) = check_prefix_unused(names.iter().map(String::as_str), &name) {
                host.record_failure(name, error);
                continue;
            }
            names.push(name.clone());
            let builder = match &self.configure {
                Some(configure) => configure(&name, builder),
                None => builder,
            };
            tasks.spawn(async move {
                // A panic while connecting counts as a failure of that server.
                let client = tokio::spawn(builder.into_future()).await;
                let client = client.unwrap_or_else(|_| {
                    Err(ClientError::config("the task that connects to the server panicked"))
                });
                (index, name, permissions, client)
            });
        }
        let mut connected = Vec::new();
        while let Some(done) = tasks.join_next().await {
            connected.extend(done);
        }
        connected.sort_by_key(|(index, ..)| *index);
        for (_, name, permissions, client) in connected {
            match client {
                Ok(client) => {
                    if let Err(error) = host.register(name.clone(), client, permissions) {
                        host.record_failure(name, error);
                    }
                }
                Err(error) => host.record_failure(name, error),
            }
        }
        host
    }
}

/// The client builder for an entry of a configuration file.
fn client_builder(config: ConnectionConfig) -> ClientBuilder {
    match config {
        ConnectionConfig::Command { program, args, env, unset, cwd } => {
            let mut command = Command::new(program).args(args);
            for name in unset {
                command = command.env_remove(name);
            }
            command = command.envs(env);
            if let Some(folder) = cwd {
                command = command.current_dir(folder);
            }
            Client::spawn(command)
        }
        ConnectionConfig::Url { url, headers, transport, .. } => {
            let mut builder = Client::connect(url);
            for (name, value) in headers {
                builder = builder.header(name, value);
            }
            match transport {
                UrlTransport::Sse => builder.http_sse(),
                UrlTransport::StreamableHttp => builder.streamable_http(),
                _ => builder,
            }
        }
    }
}
