//! Many servers at once: one client for each, and one place to list and call what all of them offer.

mod changes;
mod permissions;

use std::collections::HashMap;
use std::future::IntoFuture;
use std::path::Path;
use std::sync::{Arc, Mutex};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;
use tsugite_core::protocol::prompts::{GetResult, Prompt};
use tsugite_core::protocol::resources::{ReadResult, Resource, ResourceTemplate};
use tsugite_core::protocol::tools::{CallResult, Tool};

pub use changes::{HostChanges, ServerChange};
pub use permissions::Permissions;

use super::servers::{ConnectionConfig, ServersFile, ServersFileError, UrlTransport};
use super::{Client, ClientBuilder, ClientError, Command, ErrorKind, Paginated, Paginator, Result};
use crate::lock::lock;
use crate::shared::list_kind::ListKind as Of;
use crate::shared::list_kind::{inner_name, outer_name};
use changes::HostChangeFeed;

/// One application with a client per server, each with its own revision, capabilities and permissions, none knowing of
/// the others. Cheap to clone.
///
/// What a server offers has the server's name before its own: the tool `read` of the server `files` is `files_read`, its
/// resource `notes://today` is `notes://files/today`.
///
/// ```
/// use serde_json::json;
/// use tsugite::client::{Client, Host, Permissions};
/// use tsugite::prelude::*;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tsugite::ToolResult<()> {
/// # let calculator = Server::new("c", "1").tool(Tool::new("one").handler(async || 1));
/// # let weather = Server::new("w", "1").tool(Tool::new("forecast").handler(async || "rain"));
/// let host = Host::builder()
///     .server("calculator", Client::in_process(&calculator))
///     .server_with("weather", Client::in_process(&weather), Permissions::new().only_tools(["forecast"]))
///     .connect()
///     .await;
/// for tool in host.list_tools().await.items {
///     println!("{}: {}", tool.server, tool.item.name); // calculator: calculator_one
/// }
/// let forecast: String = host.call("weather_forecast", json!({})).await?;
/// # assert_eq!(forecast, "rain"); Ok(()) }
/// ```
#[derive(Clone)]
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
    /// The name as it stands before others: letters, digits, `_`, `-` and `.`.
    prefix: String,
    client: Client,
    permissions: Permissions,
}

/// A server that could not be connected to, or asked.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerFailure {
    /// Which.
    pub server: String,
    /// Why.
    pub error: Arc<ClientError>,
}

/// Something of one of the servers.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ServerItem<T> {
    /// Whose.
    pub server: String,
    /// What, under the name it has here.
    pub item: T,
}

/// What all servers offer, and which of them could not be asked.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct MergedList<T> {
    /// Server by server, in the order in which they were added.
    pub items: Vec<ServerItem<T>>,
    /// The rest.
    pub failures: Vec<ServerFailure>,
}

/// A tool of one of the servers of a [`Host`], as [`Host::find_tool`] returns it.
#[derive(Debug, Clone)]
pub struct HostTool {
    /// The client of the server that has the tool.
    pub client: Client,
    /// The tool's name on that server.
    pub name: String,
}

/// A host that is about to connect.
#[derive(Default)]
#[must_use = "nothing happens before `connect`"]
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
    /// Adds a server.
    pub fn server(self, name: impl Into<String>, connecting: ClientBuilder) -> Self {
        self.server_with(name, connecting, Permissions::new())
    }

    /// Adds a server that may be used for some things only.
    pub fn server_with(
        mut self,
        name: impl Into<String>,
        connecting: ClientBuilder,
        permissions: Permissions,
    ) -> Self {
        self.servers.push(HostServerBuilder { name: name.into(), client: connecting, permissions });
        self
    }

    /// Adds the servers that a host's file lists: `mcpServers` of Claude and Cursor, `servers` of VS Code.
    ///
    /// An entry that is wrong becomes a [failure](Host::failures) and harms no other; disabled ones are left out. Fails
    /// when the file itself cannot be read.
    pub fn file(self, path: impl AsRef<Path>) -> Result<Self, ServersFileError> {
        Ok(self.servers_file(ServersFile::read(path.as_ref())?))
    }

    /// Adds the servers of a list that was read already.
    pub fn servers_file(mut self, file: ServersFile) -> Self {
        for listed in file.servers.into_iter().filter(|listed| !listed.disabled) {
            match listed.connection {
                Ok(way) => self = self.server(listed.name, client_builder(way)),
                Err(wrong) => {
                    let error = Arc::new(ClientError::config(wrong.to_string()));
                    self.failures.push(ServerFailure { server: listed.name, error });
                }
            }
        }
        self
    }

    /// What is to be set for each server before it is connected to: handlers, for instance.
    pub fn configure_each(
        mut self,
        set: impl Fn(&str, ClientBuilder) -> ClientBuilder + Send + Sync + 'static,
    ) -> Self {
        self.configure = Some(Box::new(set));
        self
    }

    /// Connects to all of them at once. One that fails does not harm the others: see [`RequestSource::failures`].
    pub async fn connect(self) -> Host {
        let inner = HostInner {
            servers: Mutex::default(),
            failures: Mutex::new(self.failures),
            change_feeds: Mutex::default(),
        };
        let host = Host { inner: Arc::new(inner) };
        let mut connecting = JoinSet::new();
        for (place, planned) in self.servers.into_iter().enumerate() {
            let HostServerBuilder { name, client: how, permissions } = planned;
            let how = match &self.configure {
                Some(set) => set(&name, how),
                None => how,
            };
            connecting.spawn(async move {
                // One that panics has failed, like any other.
                let client = tokio::spawn(how.into_future()).await;
                let client = client
                    .unwrap_or_else(|_| Err(ClientError::config("something panicked while connecting")));
                (place, name, permissions, client)
            });
        }
        let mut connected = Vec::new();
        while let Some(done) = connecting.join_next().await {
            connected.extend(done);
        }
        connected.sort_by_key(|(place, ..)| *place);
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

impl Host {
    /// A host without servers yet.
    pub fn builder() -> HostBuilder {
        HostBuilder::default()
    }

    /// Connects to another server.
    ///
    /// Fails when there is one of that name already.
    pub async fn add(
        &self,
        name: impl Into<String>,
        connecting: ClientBuilder,
        permissions: Permissions,
    ) -> Result<Client> {
        let name = name.into();
        if self.client(&name).is_some() {
            return Err(duplicate_name_error(&name));
        }
        let client = connecting.await?;
        self.register(name.clone(), client.clone(), permissions)?;
        lock(&self.inner.failures).retain(|failure| failure.server != name);
        Ok(client)
    }

    /// Lets a server go, politely. False if there is none of that name.
    pub async fn remove(&self, name: &str) -> bool {
        let member = {
            let mut members = lock(&self.inner.servers);
            let place = members.iter().position(|member| member.name == name);
            place.map(|place| members.remove(place))
        };
        match member {
            Some(member) => {
                member.client.close().await;
                true
            }
            None => false,
        }
    }

    /// The servers there are, in the order in which they were added.
    pub fn servers(&self) -> Vec<String> {
        self.connected_servers().iter().map(|member| member.name.clone()).collect()
    }

    /// The client of a server: everything one server can do is done with it, and without the host's permissions.
    pub fn client(&self, name: &str) -> Option<Client> {
        self.connected_servers().iter().find(|member| member.name == name).map(|member| member.client.clone())
    }

    /// The servers that could not be connected to.
    pub fn failures(&self) -> Vec<ServerFailure> {
        lock(&self.inner.failures).clone()
    }

    /// Which tools there are, of all servers.
    pub async fn list_tools(&self) -> MergedList<Tool> {
        self.list(Client::list_tools, |member, tool| {
            if !member.permissions.allows_tool(&tool.name) {
                return false;
            }
            tool.name = outer_name(Of::Tool, &member.prefix, &tool.name);
            true
        })
        .await
    }

    /// Which prompts there are, of all servers.
    pub async fn list_prompts(&self) -> MergedList<Prompt> {
        self.list(Client::list_prompts, |member, prompt| {
            prompt.name = outer_name(Of::Prompt, &member.prefix, &prompt.name);
            member.permissions.allows_prompts()
        })
        .await
    }

    /// Which resources there are, of all servers.
    pub async fn list_resources(&self) -> MergedList<Resource> {
        self.list(Client::list_resources, |member, resource| {
            resource.uri = outer_name(Of::Resource, &member.prefix, &resource.uri);
            member.permissions.allows_resources()
        })
        .await
    }

    /// Which templates for resources there are, of all servers.
    pub async fn list_resource_templates(&self) -> MergedList<ResourceTemplate> {
        self.list(Client::list_resource_templates, |member, template| {
            template.uri_template = outer_name(Of::Resource, &member.prefix, &template.uri_template);
            member.permissions.allows_resources()
        })
        .await
    }

    /// Calls a tool by the name it has here, and reads what it gives into a type. See [`Client::call`].
    pub async fn call<T: DeserializeOwned + Send + 'static>(
        &self,
        name: &str,
        arguments: impl Serialize,
    ) -> Result<T> {
        let HostTool { client, name } = self.find_tool(name)?;
        client.call(name, arguments).await
    }

    /// Calls a tool by the name it has here. See [`Client::call_raw`].
    pub async fn call_raw(&self, name: &str, arguments: impl Serialize) -> Result<CallResult> {
        let HostTool { client, name } = self.find_tool(name)?;
        client.call_raw(name, arguments).await
    }

    /// Has a prompt filled in, by the name it has here.
    pub async fn get_prompt(&self, name: &str, arguments: impl Serialize) -> Result<GetResult> {
        let (member, name) = self.resolve(Of::Prompt, name)?;
        match member.permissions.allows_prompts() {
            true => member.client.get_prompt(name, arguments).await,
            false => Err(forbidden_error(&member.name, "prompts")),
        }
    }

    /// Reads a resource by the URI it has here.
    pub async fn read_resource(&self, uri: &str) -> Result<ReadResult> {
        let (member, uri) = self.resolve(Of::Resource, uri)?;
        if !member.permissions.allows_resources() {
            return Err(forbidden_error(&member.name, "resources"));
        }
        let mut read = member.client.read_resource(uri).await?;
        for contents in &mut read.contents {
            contents.uri = outer_name(Of::Resource, &member.prefix, &contents.uri);
        }
        Ok(read)
    }

    /// Finds the server of a tool and the tool's name there, for a call with options of its own.
    ///
    /// Fails if no server has the prefix of the name, or if the permissions of the server forbid the tool.
    pub fn find_tool(&self, name: &str) -> Result<HostTool> {
        let (member, name) = self.resolve(Of::Tool, name)?;
        match member.permissions.allows_tool(&name) {
            true => Ok(HostTool { client: member.client.clone(), name }),
            false => Err(forbidden_error(&member.name, "this tool")),
        }
    }

    /// What changes in the lists of any server, as one stream.
    pub fn changes(&self) -> HostChanges {
        let feed = Arc::new(HostChangeFeed::default());
        {
            let mut feeds = lock(&self.inner.change_feeds);
            feeds.retain(|feed| feed.strong_count() > 0);
            feeds.push(Arc::downgrade(&feed));
        }
        for member in self.connected_servers() {
            feed.add_server(&member.name, &member.client);
        }
        HostChanges::new(self.clone(), feed)
    }

    /// Lets all servers go, politely and at once.
    pub async fn close(&self) {
        let members = std::mem::take(&mut *lock(&self.inner.servers));
        let mut closing = JoinSet::new();
        for member in members {
            closing.spawn(async move { member.client.close().await });
        }
        while closing.join_next().await.is_some() {}
        for feed in lock(&self.inner.change_feeds).drain(..).filter_map(|feed| feed.upgrade()) {
            feed.close();
        }
    }

    fn connected_servers(&self) -> Vec<Arc<HostServer>> {
        lock(&self.inner.servers).clone()
    }

    /// A server is connected to.
    fn register(&self, name: String, client: Client, permissions: Permissions) -> Result<()> {
        let mut members = lock(&self.inner.servers);
        if members.iter().any(|member| member.name == name) {
            return Err(duplicate_name_error(&name));
        }
        let plain = sanitize_prefix(&name);
        let mut prefix = plain.clone();
        let mut number = 2;
        while members.iter().any(|member| member.prefix == prefix) {
            prefix = format!("{plain}-{number}");
            number += 1;
        }
        members.push(Arc::new(HostServer {
            name: name.clone(),
            prefix,
            client: client.clone(),
            permissions,
        }));
        drop(members);
        for feed in lock(&self.inner.change_feeds).iter().filter_map(std::sync::Weak::upgrade) {
            feed.add_server(&name, &client);
        }
        Ok(())
    }

    fn record_failure(&self, server: String, error: ClientError) {
        lock(&self.inner.failures).push(ServerFailure { server, error: Arc::new(error) });
    }

    /// Whose `name` is. Where prefixes overlap (`a` and `a_b`), whoever has shown it has it, and else the longer.
    fn resolve(&self, of: Of, name: &str) -> Result<(Arc<HostServer>, String)> {
        let mut found: Vec<_> = self
            .connected_servers()
            .into_iter()
            .filter_map(|member| Some((inner_name(of, &member.prefix, name)?, member)))
            .map(|(inner, member)| (member, inner))
            .collect();
        found.sort_by_key(|(member, _)| std::cmp::Reverse(member.prefix.len()));
        let shown = found
            .iter()
            .position(|(member, inner)| of == Of::Tool && member.client.inner.shared.tools.contains(inner));
        let place = shown.unwrap_or(0);
        match place < found.len() {
            true => Ok(found.swap_remove(place)),
            false => Err(ClientError::config(format!(
                "no server here has {:?}",
                super::client_error::truncate(name, 200)
            ))),
        }
    }

    /// Asks all servers at once.
    async fn list<M: Paginated>(
        &self,
        list: fn(&Client) -> Paginator<M>,
        admit: fn(&HostServer, &mut M::Item) -> bool,
    ) -> MergedList<M::Item> {
        let mut asking = JoinSet::new();
        for (place, member) in self.connected_servers().into_iter().enumerate() {
            asking.spawn(async move {
                let items = match member.supports_list::<M>() {
                    true => list(&member.client).await,
                    false => Ok(Vec::new()),
                };
                (place, member, items)
            });
        }
        let mut answers = HashMap::new();
        while let Some(answer) = asking.join_next().await {
            if let Ok((place, member, items)) = answer {
                answers.insert(place, (member, items));
            }
        }
        let mut answers: Vec<_> = answers.into_iter().collect();
        answers.sort_by_key(|(place, _)| *place);
        let mut offers = MergedList { items: Vec::new(), failures: Vec::new() };
        for (_, (member, items)) in answers {
            match items {
                Ok(items) => {
                    for mut item in items {
                        if admit(&member, &mut item) {
                            offers.items.push(ServerItem { server: member.name.clone(), item });
                        }
                    }
                }
                Err(error) => {
                    offers
                        .failures
                        .push(ServerFailure { server: member.name.clone(), error: Arc::new(error) });
                }
            }
        }
        offers
    }
}

impl HostServer {
    /// Whether the server says that it has such a list. One that said nothing is asked.
    fn supports_list<M: Paginated>(&self) -> bool {
        let Some(offered) = self.client.server_capabilities() else { return true };
        match M::NAME.split('/').next() {
            Some("tools") => offered.tools.is_some(),
            Some("prompts") => offered.prompts.is_some(),
            Some("resources") => offered.resources.is_some(),
            _ => true,
        }
    }
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").field("servers", &self.servers()).finish_non_exhaustive()
    }
}

/// How a file's entry is connected to.
pub(crate) fn client_builder(way: ConnectionConfig) -> ClientBuilder {
    match way {
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
        ConnectionConfig::Url { url, headers, transport } => {
            let mut connecting = Client::connect(url);
            for (name, value) in headers {
                connecting = connecting.header(name, value);
            }
            match transport {
                UrlTransport::Sse => connecting.http_sse(),
                UrlTransport::StreamableHttp => connecting.streamable_http(),
                _ => connecting,
            }
        }
    }
}

/// A name as it can stand before another.
fn sanitize_prefix(name: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '.');
    let plain: String = name.chars().map(|letter| if plain(letter) { letter } else { '_' }).collect();
    if plain.is_empty() { "server".to_owned() } else { plain }
}

fn duplicate_name_error(name: &str) -> ClientError {
    ClientError::config(format!("there is a server {name:?} already"))
}

fn forbidden_error(server: &str, what: &str) -> ClientError {
    ErrorKind::Forbidden(format!("the server {server:?} may not be used for {what}")).into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::prelude::{Resource as Served, Server, Tool as ServedTool};

    fn server(tool: &str, says: &'static str) -> Server {
        Server::new("s", "1")
            .tool(ServedTool::new(tool).handler(move || async move { says }))
            .resource(Served::text("notes://today", says))
    }

    #[tokio::test]
    async fn tools_are_listed_and_called_under_server_names() {
        let host = Host::builder()
            .server("a", Client::in_process(&server("one", "from a")))
            .server("b c", Client::in_process(&server("one", "from b")))
            .connect()
            .await;
        let tools = host.list_tools().await;
        let names: Vec<_> = tools.items.iter().map(|tool| tool.item.name.as_str()).collect();
        assert_eq!(names, ["a_one", "b_c_one"]);
        assert_eq!(host.call::<String>("b_c_one", json!({})).await.unwrap(), "from b");
        let read = host.read_resource("notes://a/today").await.unwrap();
        assert_eq!(read.contents[0].uri, "notes://a/today");
        assert!(host.call::<String>("c_one", json!({})).await.is_err());
        host.close().await;
        assert!(host.servers().is_empty());
    }

    #[tokio::test]
    async fn failing_server_does_not_affect_others() {
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
    async fn disallowed_tool_is_neither_listed_nor_called() {
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
    async fn overlapping_names_go_to_the_server_with_the_tool() {
        let host = Host::builder()
            .server("a", Client::in_process(&server("b_one", "a's")))
            .server("a_b", Client::in_process(&server("two", "a_b's")))
            .connect()
            .await;
        host.list_tools().await;
        assert_eq!(host.call::<String>("a_b_one", json!({})).await.unwrap(), "a's");
        assert_eq!(host.call::<String>("a_b_two", json!({})).await.unwrap(), "a_b's");
    }

    #[tokio::test]
    async fn changes_of_all_servers_come_as_one_stream() {
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
