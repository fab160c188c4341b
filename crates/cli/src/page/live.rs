//! The page while it is served: what it tells changes with what it tells of.

use std::sync::{Arc, Mutex, PoisonError};

use tsugite::client::{Client, ChangeFilter};

use super::{About, Runs, page};
use crate::offered::Offered;
use crate::session;

/// What the page tells at the moment. Clones tell the same.
#[derive(Clone)]
pub(crate) struct Live(Arc<Mutex<About>>);

impl Live {
    pub(crate) fn new(about: About) -> Self {
        Self(Arc::new(Mutex::new(about)))
    }

    /// The page, for the host that was asked.
    pub(crate) fn page(&self, host: &str) -> String {
        page(host, &self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Tells something else from now on.
    pub(crate) fn change(&self, change: impl FnOnce(&mut About)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Tells of this server at the given place, and of each change of its lists. Never ends while it runs.
    pub(crate) async fn follow(self, client: Client, place: usize) {
        // Whoever listens first misses nothing.
        let mut changes = client.listen(ChangeFilter::lists()).await.ok();
        loop {
            let runs = Runs::seen_by(&client).await;
            self.change(|about| match about.servers.get_mut(place) {
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

impl Runs {
    /// A server of which nothing is known yet.
    pub(crate) fn beginning(name: &str) -> Self {
        let state = Err("it is being started".to_owned());
        Self { name: name.to_owned(), version: None, title: None, state }
    }

    /// One of several servers, of which all together are known.
    pub(crate) fn behind(name: &str, trouble: Option<String>, all: Option<&Offered>) -> Self {
        let state = match (trouble, all) {
            (Some(trouble), _) => Err(trouble),
            (None, Some(all)) => Ok(all.under(name)),
            (None, None) => return Self::beginning(name),
        };
        Self { name: name.to_owned(), version: None, title: None, state }
    }

    /// What a client sees of a server.
    pub(crate) async fn seen_by(client: &Client) -> Self {
        let nobody = |state| Self { name: "somebody".to_owned(), version: None, title: None, state };
        let about = match session::About::by(client).await {
            Ok(about) => about,
            Err(failure) => return nobody(Err(failure.what)),
        };
        let state = Offered::by(client, &about.capabilities).await.map_err(|failure| failure.what);
        match about.server {
            Some(server) => {
                Self { name: server.name, version: Some(server.version), title: server.title, state }
            }
            None => nobody(state),
        }
    }
}
