//! The page while it is served: what it tells changes with what it tells of.

use std::sync::{Arc, Mutex, PoisonError};

use tsugite::client::{ChangeFilter, Client};

use super::{PageServer, StartPage, render};
use crate::catalog::Catalog;
use crate::connection;

/// What the page tells at the moment. Clones tell the same.
#[derive(Clone)]
pub(crate) struct SharedStartPage(Arc<Mutex<StartPage>>);

impl SharedStartPage {
    pub(crate) fn new(about: StartPage) -> Self {
        Self(Arc::new(Mutex::new(about)))
    }

    /// The page, for the host that was asked.
    pub(crate) fn render(&self, host: &str) -> String {
        render(host, &self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Tells something else from now on.
    pub(crate) fn update(&self, change: impl FnOnce(&mut StartPage)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Tells of this server at the given place, and of each change of its lists. Never ends while it runs.
    pub(crate) async fn watch_server(self, client: Client, place: usize) {
        // Whoever listens first misses nothing.
        let mut changes = client.listen(ChangeFilter::lists()).await.ok();
        loop {
            let runs = PageServer::from_client(&client).await;
            self.update(|about| match about.servers.get_mut(place) {
                Some(known) => *known = runs,
                None => about.servers.push(runs),
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
    /// A server of which nothing is known yet.
    pub(crate) fn starting(name: &str) -> Self {
        let catalog = Err("it is being started".to_owned());
        Self { name: name.to_owned(), version: None, title: None, catalog }
    }

    /// One of several servers, of which all together are known.
    pub(crate) fn behind_bridge(name: &str, trouble: Option<String>, all: Option<&Catalog>) -> Self {
        let state = match (trouble, all) {
            (Some(trouble), _) => Err(trouble),
            (None, Some(all)) => Ok(all.with_prefix(name)),
            (None, None) => return Self::starting(name),
        };
        Self { name: name.to_owned(), version: None, title: None, catalog: state }
    }

    /// What a client sees of a server.
    pub(crate) async fn from_client(client: &Client) -> Self {
        let nobody = |state| Self { name: "somebody".to_owned(), version: None, title: None, catalog: state };
        let about = match connection::ServerDetails::fetch(client).await {
            Ok(about) => about,
            Err(failure) => return nobody(Err(failure.message)),
        };
        let state = Catalog::fetch(client, &about.capabilities).await.map_err(|failure| failure.message);
        match about.server {
            Some(server) => {
                Self { name: server.name, version: Some(server.version), title: server.title, catalog: state }
            }
            None => nobody(state),
        }
    }
}
