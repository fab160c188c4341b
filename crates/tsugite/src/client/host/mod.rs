//! A [`Host`] connects to many servers: it has one client for each, and lists and calls everything they offer.

mod changes;
mod host_builder;
mod merged_list;
mod permissions;

use std::sync::{Arc, Mutex};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;
use tsugite_core::protocol::prompts::GetResult;
use tsugite_core::protocol::resources::ReadResult;
use tsugite_core::protocol::tools::CallResult;

pub use changes::{HostChanges, ServerChange};
pub use host_builder::HostBuilder;
pub use merged_list::{MergedList, ServerItem};
pub use permissions::Permissions;

use super::{Client, ClientBuilder, ClientError, ErrorKind, Result};
use crate::lock::lock;
use crate::shared::list_kind::{ListKind, inner_name, outer_name};
use crate::shared::log;
use changes::HostChangeFeed;

/// An application with one client per server. Each client has its own revision, capabilities and permissions. Cheap to
/// clone.
///
/// Tools, prompts and resources have the name of their server as a prefix: the tool `read` of the server `files` is
/// `files_read`, its resource `notes://today` is `notes://files/today`.
///
/// ```
/// use serde_json::json;
/// use tsugite::client::{Client, Host, Permissions};
/// use tsugite::prelude::*;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tsugite::Result<()> {
/// # let calculator = Server::new("c", "1").tool(Tool::new("one").handler(async || 1));
/// # let weather = Server::new("w", "1").tool(Tool::new("forecast").handler(async || "rain"));
/// let host = Host::builder()
///     .server("calculator", Client::in_process(&calculator))
///     .server_with("weather", Client::in_process(&weather), Permissions::new().only_tools(["forecast"]))
///     .connect()
///     .await;
/// for tool in host.list_tools().await.items {
///     println!("{}: {}", tool.server, tool.name); // calculator: calculator_one
/// }
/// let forecast: String = host.call("weather_forecast", json!({})).await?;
/// # assert_eq!(forecast, "rain"); Ok(()) }
/// ```
#[derive(Clone)]
#[doc(alias("MultiServerClient", "ClientSessionGroup", "MultiServerMCPClient"))]
pub struct Host {
    inner: Arc<HostInner>,
}

struct HostInner {
    servers: Mutex<Vec<Arc<HostServer>>>,
    failures: Mutex<Vec<ServerFailure>>,
    change_feeds: Mutex<Vec<std::sync::Weak<HostChangeFeed>>>,
}

struct HostServer {
    name: String,
    /// The name as a prefix: letters, digits, `_`, `-` and `.`.
    prefix: String,
    client: Client,
    permissions: Permissions,
}

/// A server that failed to connect, or to list its items.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerFailure {
    /// The name of the server.
    pub server: String,
    /// The reason.
    pub error: Arc<ClientError>,
}

/// A tool of one of the servers of a [`Host`], as [`Host::find_tool`] returns it.
#[derive(Debug, Clone)]
pub struct HostTool {
    /// The client of the server that has the tool.
    pub client: Client,
    /// The tool's name on that server.
    pub name: String,
}

impl Host {
    /// Returns a builder without servers.
    pub fn builder() -> HostBuilder {
        HostBuilder::default()
    }

    /// Connects to another server.
    ///
    /// Fails if a server with that name, or with the same prefix, exists already.
    pub async fn add(
        &self,
        name: impl Into<String>,
        builder: ClientBuilder,
        permissions: Permissions,
    ) -> Result<Client> {
        let name = name.into();
        check_unused(&self.connected_servers(), &name)?;
        let client = builder.await?;
        self.register(name.clone(), client.clone(), permissions)?;
        lock(&self.inner.failures).retain(|failure| failure.server != name);
        Ok(client)
    }

    /// Removes a server and closes its connection gracefully. Returns false if there is none of that name.
    pub async fn remove(&self, name: &str) -> bool {
        let server = {
            let mut servers = lock(&self.inner.servers);
            let index = servers.iter().position(|server| server.name == name);
            index.map(|index| servers.remove(index))
        };
        match server {
            Some(server) => {
                server.client.close().await;
                true
            }
            None => false,
        }
    }

    /// The names of the servers, in the order in which they were added.
    pub fn servers(&self) -> Vec<String> {
        self.connected_servers().iter().map(|server| server.name.clone()).collect()
    }

    /// The client of a server. It is not limited by the host's permissions.
    pub fn client(&self, name: &str) -> Option<Client> {
        self.connected_servers().iter().find(|server| server.name == name).map(|server| server.client.clone())
    }

    /// The servers that could not be connected.
    pub fn failures(&self) -> Vec<ServerFailure> {
        lock(&self.inner.failures).clone()
    }

    /// Calls a tool by its prefixed name, and deserializes its output. See [`Client::call`].
    pub async fn call<T: DeserializeOwned + Send + 'static>(
        &self,
        name: &str,
        arguments: impl Serialize,
    ) -> Result<T> {
        let HostTool { client, name } = self.find_tool(name)?;
        client.call(name, arguments).await
    }

    /// Calls a tool by its prefixed name. See [`Client::call_raw`].
    pub async fn call_raw(&self, name: &str, arguments: impl Serialize) -> Result<CallResult> {
        let HostTool { client, name } = self.find_tool(name)?;
        client.call_raw(name, arguments).await
    }

    /// Gets a prompt by its prefixed name.
    pub async fn get_prompt(&self, name: &str, arguments: impl Serialize) -> Result<GetResult> {
        let (server, name) = self.resolve(ListKind::Prompt, name)?;
        match server.permissions.allows_prompts() {
            true => server.client.get_prompt(name, arguments).await,
            false => Err(forbidden_error(&server.name, "prompts")),
        }
    }

    /// Reads a resource by its prefixed URI.
    pub async fn read_resource(&self, uri: &str) -> Result<ReadResult> {
        let (server, uri) = self.resolve(ListKind::Resource, uri)?;
        if !server.permissions.allows_resources() {
            return Err(forbidden_error(&server.name, "resources"));
        }
        let mut read = server.client.read_resource(uri).await?;
        for contents in &mut read.contents {
            contents.uri = outer_name(ListKind::Resource, &server.prefix, &contents.uri);
        }
        Ok(read)
    }

    /// Finds the server of a tool and the tool's name there, for a call with options of its own.
    ///
    /// Fails if no server has the prefix of the name, or if the permissions of the server forbid the tool.
    pub fn find_tool(&self, name: &str) -> Result<HostTool> {
        let (server, name) = self.resolve(ListKind::Tool, name)?;
        match server.permissions.allows_tool(&name) {
            true => Ok(HostTool { client: server.client.clone(), name }),
            false => Err(forbidden_error(&server.name, "this tool")),
        }
    }

    /// Returns the changes in the lists of all servers, as one stream.
    pub fn changes(&self) -> HostChanges {
        let feed = Arc::new(HostChangeFeed::default());
        {
            let mut feeds = lock(&self.inner.change_feeds);
            feeds.retain(|feed| feed.strong_count() > 0);
            feeds.push(Arc::downgrade(&feed));
        }
        for server in self.connected_servers() {
            feed.add_server(&server.name, &server.client);
        }
        HostChanges::new(self.clone(), feed)
    }

    /// Closes the connections of all servers gracefully and concurrently.
    pub async fn close(&self) {
        let servers = std::mem::take(&mut *lock(&self.inner.servers));
        let mut closing = JoinSet::new();
        for server in servers {
            closing.spawn(async move { server.client.close().await });
        }
        while closing.join_next().await.is_some() {}
        for feed in lock(&self.inner.change_feeds).drain(..).filter_map(|feed| feed.upgrade()) {
            feed.close();
        }
    }

    fn connected_servers(&self) -> Vec<Arc<HostServer>> {
        lock(&self.inner.servers).clone()
    }

    /// Adds a connected server.
    fn register(&self, name: String, client: Client, permissions: Permissions) -> Result<()> {
        let mut servers = lock(&self.inner.servers);
        check_unused(&servers, &name)?;
        let prefix = sanitize_prefix(&name);
        servers.push(Arc::new(HostServer {
            name: name.clone(),
            prefix,
            client: client.clone(),
            permissions,
        }));
        drop(servers);
        for feed in lock(&self.inner.change_feeds).iter().filter_map(std::sync::Weak::upgrade) {
            feed.add_server(&name, &client);
        }
        Ok(())
    }

    fn record_failure(&self, server: String, error: ClientError) {
        lock(&self.inner.failures).push(ServerFailure { server, error: Arc::new(error) });
    }

    /// Finds the server of a prefixed name, and the name there. Where prefixes overlap (`a` and `a_b`), the longest one
    /// wins, whatever the servers list.
    fn resolve(&self, kind: ListKind, name: &str) -> Result<(Arc<HostServer>, String)> {
        self.connected_servers()
            .into_iter()
            .filter_map(|server| inner_name(kind, &server.prefix, name).map(|inner| (server, inner)))
            .max_by_key(|(server, _)| server.prefix.len())
            .ok_or_else(|| {
                ClientError::config(format!(
                    "no server has a prefix that matches {:?}",
                    super::client_error::truncate(name, 200)
                ))
            })
    }

    /// Whether a prefixed name leads to this server. If not, another server has a longer prefix.
    fn leads_to(&self, server: &HostServer, kind: ListKind, name: &str) -> bool {
        let is_own = self.resolve(kind, name).is_ok_and(|(found, _)| found.name == server.name);
        if !is_own {
            log::warn!(
                server = server.name,
                name,
                "left out an item: a server with a longer prefix has its name"
            );
        }
        is_own
    }
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").field("servers", &self.servers()).finish_non_exhaustive()
    }
}

/// The name with each character that a prefix cannot contain replaced by `_`.
fn sanitize_prefix(name: &str) -> String {
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '.');
    let plain: String = name.chars().map(|letter| if allowed(letter) { letter } else { '_' }).collect();
    if plain.is_empty() { "server".to_owned() } else { plain }
}

/// Fails if one of the servers has this name, or its prefix.
fn check_unused(servers: &[Arc<HostServer>], name: &str) -> Result<()> {
    check_prefix_unused(servers.iter().map(|server| server.name.as_str()), name)
}

/// Fails if one of the names is this name, or has the same prefix.
fn check_prefix_unused<'a>(mut names: impl Iterator<Item = &'a str>, name: &str) -> Result<()> {
    let prefix = sanitize_prefix(name);
    match names.find(|other| sanitize_prefix(other) == prefix) {
        None => Ok(()),
        Some(other) if other == name => {
            Err(ClientError::config(format!("a server named {name:?} exists already")))
        }
        Some(other) => Err(ClientError::config(format!(
            "the server {name:?} has the prefix {prefix:?}, as the server {other:?} has; rename one of them"
        ))),
    }
}

fn forbidden_error(server: &str, what: &str) -> ClientError {
    ErrorKind::Forbidden(format!("the permissions of the server {server:?} do not allow {what}")).into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::client::servers::ServersFile;
    use crate::prelude::{Resource as Served, Server, Tool as ServedTool};

    fn server(tool: &str, output: &'static str) -> Server {
        Server::new("s", "1")
            .tool(ServedTool::new(tool).handler(move || async move { output }))
            .resource(Served::text("notes://today", output))
    }

    #[tokio::test]
    async fn tools_and_resources_are_prefixed_with_their_server() {
        // TOOL-044, SEC-004, F-04
        let host = Host::builder()
            .server("a", Client::in_process(&server("one", "from a")))
            .server("b c", Client::in_process(&server("one", "from b")))
            .connect()
            .await;
        let tools = host.list_tools().await;
        let names: Vec<_> = tools.items.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["a_one", "b_c_one"]);
        assert_eq!(host.call::<String>("b_c_one", json!({})).await.unwrap(), "from b");
        let read = host.read_resource("notes://a/today").await.unwrap();
        assert_eq!(read.contents[0].uri, "notes://a/today");
        assert!(host.call::<String>("c_one", json!({})).await.is_err());
        host.close().await;
        assert!(host.servers().is_empty());
    }

    #[tokio::test]
    async fn failing_server_does_not_affect_the_others() {
        // SEC-004
        let file = r#"{"mcpServers": {
            "gone": {"command": "/no/such/command"},
            "wrong": {"command": "x", "env": {"KEY": "${NOT_SET}"}}}}"#;
        let host = Host::builder()
            .servers_file(ServersFile::parse(file, |_| None).unwrap())
            .server("a", Client::in_process(&server("one", "from a")))
            .connect()
            .await;
        assert_eq!(host.servers(), ["a"]);
        let mut failed: Vec<_> = host.failures().into_iter().map(|failure| failure.server).collect();
        failed.sort();
        assert_eq!(failed, ["gone", "wrong"]);
    }

    #[tokio::test]
    async fn forbidden_tool_is_neither_listed_nor_called() {
        // F-02
        let both = server("one", "1").tool(ServedTool::new("two").handler(async || "2"));
        let permissions = Permissions::new().without_tools(["two"]).resources(false);
        let host = Host::builder().server_with("a", Client::in_process(&both), permissions).connect().await;
        assert_eq!(host.list_tools().await.items.len(), 1);
        let refused = host.call::<String>("a_two", json!({})).await.unwrap_err();
        assert!(matches!(refused.kind(), ErrorKind::Forbidden(_)));
        assert!(host.list_resources().await.items.is_empty());
        assert!(host.read_resource("notes://a/today").await.is_err());
    }

    #[tokio::test]
    async fn longest_of_overlapping_prefixes_wins() {
        let prompt =
            |text: &'static str| crate::prelude::Prompt::new("get").handler(move || async move { text });
        let host = Host::builder()
            .server("a", Client::in_process(&server("b_two", "a's").prompt(prompt("a's"))))
            .server("a_b", Client::in_process(&server("one", "a_b's").prompt(prompt("a_b's"))))
            .connect()
            .await;
        for _ in 0..2 {
            assert_eq!(host.call::<String>("a_b_one", json!({})).await.unwrap(), "a_b's");
            assert_eq!(host.call::<String>("a_b_two", json!({})).await.unwrap_err().code(), Some(-32602));
            // The list of the shorter prefix does not change the server of a name.
            let tools = host.list_tools().await.items;
            assert_eq!(tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["a_b_one"]);
        }
        let got = host.get_prompt("a_b_get", json!({})).await.unwrap();
        assert!(format!("{got:?}").contains("a_b's"), "{got:?}");
        let read = host.read_resource("notes://a_b/today").await.unwrap();
        assert_eq!(read.text(), "a_b's");
    }

    #[tokio::test]
    async fn server_with_the_prefix_of_another_is_refused() {
        let host = Host::builder()
            .server("b c", Client::in_process(&server("one", "first")))
            .server("b_c", Client::in_process(&server("one", "second")))
            .server("b c", Client::in_process(&server("one", "third")))
            .connect()
            .await;
        assert_eq!(host.servers(), ["b c"]);
        let failures = host.failures();
        let failed: Vec<_> = failures.iter().map(|failure| failure.server.as_str()).collect();
        assert_eq!(failed, ["b_c", "b c"]);
        assert!(failures[0].error.to_string().contains("prefix \"b_c\""), "{}", failures[0].error);
        let added = host.add("b?c", Client::in_process(&server("one", "4")), Permissions::new()).await;
        assert!(added.unwrap_err().to_string().contains("prefix"));
        assert_eq!(host.call::<String>("b_c_one", json!({})).await.unwrap(), "first");
    }

    #[tokio::test]
    async fn changes_of_all_servers_arrive_in_one_stream() {
        let (first, second) = (server("one", "1"), server("one", "2"));
        let host = Host::builder()
            .server("a", Client::in_process(&first))
            .server("b", Client::in_process(&second).revision(crate::revision::Revision::V2025_06_18))
            .connect()
            .await;
        let mut changes = host.changes();
        changes.ready().await;
        for (name, server) in [("a", &first), ("b", &second)] {
            server.add(ServedTool::new("more").handler(async || "more")).unwrap();
            let changed = changes.next().await.unwrap();
            assert_eq!((changed.server.as_str(), changed.change), (name, crate::client::Change::Tools));
        }
        host.close().await;
        assert!(changes.next().await.is_none());
    }
}
