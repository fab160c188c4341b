//! The lists of all servers of a host, merged into one.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;

use tokio::task::JoinSet;
use tsugite_core::protocol::prompts::Prompt;
use tsugite_core::protocol::resources::{Resource, ResourceTemplate};
use tsugite_core::protocol::tools::Tool;

use super::{Host, HostServer, ServerFailure};
use crate::client::{Client, Paginated, Paginator};
use crate::shared::list_kind::{ListKind, outer_name};

/// An item of one of the servers. It has the members of the item itself: `tool.name`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ServerItem<T> {
    /// The name of the server.
    pub server: String,
    /// The item, with its prefixed name.
    pub item: T,
}

impl<T> Deref for ServerItem<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.item
    }
}

/// The items of all servers, and the servers whose list could not be read.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct MergedList<T> {
    /// The items, server by server, in the order in which the servers were added.
    pub items: Vec<ServerItem<T>>,
    /// The servers whose list could not be read.
    pub failures: Vec<ServerFailure>,
}

impl Host {
    /// Lists the tools of all servers.
    pub async fn list_tools(&self) -> MergedList<Tool> {
        self.list(Client::list_tools, |host, server, tool| {
            if !server.permissions.allows_tool(&tool.name) {
                return false;
            }
            tool.name = outer_name(ListKind::Tool, &server.prefix, &tool.name);
            host.leads_to(server, ListKind::Tool, &tool.name)
        })
        .await
    }

    /// Lists the prompts of all servers.
    pub async fn list_prompts(&self) -> MergedList<Prompt> {
        self.list(Client::list_prompts, |host, server, prompt| {
            prompt.name = outer_name(ListKind::Prompt, &server.prefix, &prompt.name);
            server.permissions.allows_prompts() && host.leads_to(server, ListKind::Prompt, &prompt.name)
        })
        .await
    }

    /// Lists the resources of all servers.
    pub async fn list_resources(&self) -> MergedList<Resource> {
        self.list(Client::list_resources, |host, server, resource| {
            resource.uri = outer_name(ListKind::Resource, &server.prefix, &resource.uri);
            server.permissions.allows_resources() && host.leads_to(server, ListKind::Resource, &resource.uri)
        })
        .await
    }

    /// Lists the resource templates of all servers.
    pub async fn list_resource_templates(&self) -> MergedList<ResourceTemplate> {
        self.list(Client::list_resource_templates, |host, server, template| {
            template.uri_template = outer_name(ListKind::Resource, &server.prefix, &template.uri_template);
            server.permissions.allows_resources()
                && host.leads_to(server, ListKind::Resource, &template.uri_template)
        })
        .await
    }

    /// Reads the lists of all servers concurrently.
    async fn list<M: Paginated>(
        &self,
        list: fn(&Client) -> Paginator<M>,
        accept: fn(&Host, &HostServer, &mut M::Item) -> bool,
    ) -> MergedList<M::Item> {
        let mut tasks = JoinSet::new();
        for (index, server) in self.connected_servers().into_iter().enumerate() {
            tasks.spawn(async move {
                let items = match server.supports_list::<M>() {
                    true => list(&server.client).await,
                    false => Ok(Vec::new()),
                };
                (index, server, items)
            });
        }
        let mut results = HashMap::new();
        while let Some(result) = tasks.join_next().await {
            if let Ok((index, server, items)) = result {
                results.insert(index, (server, items));
            }
        }
        let mut results: Vec<_> = results.into_iter().collect();
        results.sort_by_key(|(index, _)| *index);
        let mut merged = MergedList { items: Vec::new(), failures: Vec::new() };
        for (_, (server, items)) in results {
            match items {
                Ok(items) => {
                    for mut item in items {
                        if accept(self, &server, &mut item) {
                            merged.items.push(ServerItem { server: server.name.clone(), item });
                        }
                    }
                }
                Err(error) => {
                    merged
                        .failures
                        .push(ServerFailure { server: server.name.clone(), error: Arc::new(error) });
                }
            }
        }
        merged
    }
}

impl HostServer {
    /// Whether the server declares such a list. A server with unknown capabilities is asked.
    fn supports_list<M: Paginated>(&self) -> bool {
        let Some(capabilities) = self.client.server_capabilities() else { return true };
        match M::NAME.split('/').next() {
            Some("tools") => capabilities.tools.is_some(),
            Some("prompts") => capabilities.prompts.is_some(),
            Some("resources") => capabilities.resources.is_some(),
            _ => true,
        }
    }
}
