//! The start page while it is served, updated when the servers change.

use std::sync::{Arc, Mutex, PoisonError};

use tsugite::client::{ChangeFilter, Client};

use super::{PageServer, StartPage, Visitor, render};
use crate::catalog::Catalog;
use crate::connection;

/// The current contents of the page. Clones share them.
#[derive(Clone)]
pub(crate) struct SharedStartPage(Arc<Mutex<StartPage>>);

impl SharedStartPage {
    pub(crate) fn new(about: StartPage) -> Self {
        Self(Arc::new(Mutex::new(about)))
    }

    /// Renders the page for a visitor. `host` is the host of the request.
    pub(crate) fn render(&self, host: &str, visitor: Visitor<'_>) -> String {
        render(host, visitor, &self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes the contents.
    pub(crate) fn update(&self, change: impl FnOnce(&mut StartPage)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Keeps the server at `index` up to date with every change of its lists. Returns when the server is gone, or cannot
    /// report changes.
    pub(crate) async fn watch_server(self, client: Client, index: usize) {
        // Listen before the first fetch, so that no change is missed.
        let mut changes = client.listen(ChangeFilter::lists()).await.ok();
        loop {
            let server = PageServer::from_client(&client).await;
            self.update(|about| match about.servers.get_mut(index) {
                Some(known) => *known = server,
                None => about.servers.push(server),
            });
            match &mut changes {
                None => return,
                Some(changes) => match changes.next().await {
                    Some(Ok(_)) => {}
                    _ => return,
                },
            }
        }
    }
}

impl PageServer {
    /// Returns a server that is still starting.
    pub(crate) fn starting(name: &str) -> Self {
        let catalog = Err("it is starting".to_owned());
        Self { name: name.to_owned(), version: None, title: None, catalog }
    }

    /// Returns one of several servers behind a bridge. `all` is the catalog of the bridge.
    pub(crate) fn behind_bridge(name: &str, error: Option<String>, all: Option<&Catalog>) -> Self {
        let state = match (error, all) {
            (Some(error), _) => Err(error),
            (None, Some(all)) => Ok(all.with_prefix(name)),
            (None, None) => return Self::starting(name),
        };
        Self { name: name.to_owned(), version: None, title: None, catalog: state }
    }

    /// Fetches the description and the lists of a client's server.
    pub(crate) async fn from_client(client: &Client) -> Self {
        let unnamed =
            |state| Self { name: "unnamed server".to_owned(), version: None, title: None, catalog: state };
        let about = match connection::ServerDetails::fetch(client).await {
            Ok(about) => about,
            Err(failure) => return unnamed(Err(failure.message)),
        };
        let state = Catalog::fetch(client, &about.capabilities).await.map_err(|failure| failure.message);
        match about.server {
            Some(server) => {
                Self { name: server.name, version: Some(server.version), title: server.title, catalog: state }
            }
            None => unnamed(state),
        }
    }
}
