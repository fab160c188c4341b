//! Runs a server behind a bridge, and starts it again when files change. Clients of the bridge stay connected.

use std::path::PathBuf;
use std::sync::Arc;

use tsugite::bridge::{Bridge, Pause};
use tsugite::client::{Client, ClientBuilder, ClientError, ErrorKind};
use tsugite::revision::Revision;

use crate::catalog::Catalog;
use crate::connection::ServerDetails;
use crate::console::write_note;
use crate::error::{CliError, Result};
use crate::watch::FileWatcher;

/// A server that is started again when its files change.
pub(crate) struct DevServer {
    bridge: Arc<Bridge>,
    builder: ClientBuilder,
    /// The command, for messages.
    name: String,
    watcher: FileWatcher,
    /// The revision that the server is known to support.
    revision: Option<Revision>,
    /// Keeps the clients of the bridge waiting while the server starts.
    pause: Option<Pause>,
}

impl DevServer {
    /// Prepares the server, which is `name` in messages. Clients of the bridge wait until it has started.
    pub(crate) async fn new(
        builder: ClientBuilder,
        revision: Option<Revision>,
        name: String,
        watched: Vec<PathBuf>,
    ) -> Self {
        let watcher = FileWatcher::new(watched);
        if watcher.is_incomplete() {
            write_note(
                "note: there are too many files to watch all of them; --watch PATH names those that matter",
            );
        }
        let bridge = Arc::new(Bridge::to(builder.clone()));
        let pause = Some(bridge.pause().await);
        Self { bridge, builder, name, watcher, revision, pause }
    }

    pub(crate) fn bridge(&self) -> Arc<Bridge> {
        Arc::clone(&self.bridge)
    }

    /// Starts the server, after each change of the files again, and never returns.
    pub(crate) async fn run(mut self) {
        loop {
            self.start().await;
            self.wait_for_change().await;
        }
    }

    /// Starts the server, if need be after each change of the files again. Returns its revision once it runs.
    pub(crate) async fn start_until_it_runs(&mut self) -> Revision {
        loop {
            if let Some(revision) = self.start().await {
                return revision;
            }
            self.wait_for_change().await;
        }
    }

    /// Waits for a change, and disconnects the server.
    pub(crate) async fn wait_for_change(&mut self) {
        let path = self.watcher.next().await;
        self.note_change(&path);
        self.pause = Some(self.bridge.pause().await);
    }

    /// Starts the server once; a change of the files meanwhile begins anew. Returns its revision; `None` if it fails,
    /// until the next change.
    async fn start(&mut self) -> Option<Revision> {
        let outcome = loop {
            tokio::select! {
                path = self.watcher.next() => self.note_change(&path),
                outcome = check(&self.builder, self.revision, &self.name) => break outcome,
            }
        };
        let pause = self.pause.take();
        match outcome {
            Ok((revision, summary)) => {
                self.revision = Some(revision);
                if let Some(pause) = pause {
                    pause.resume();
                }
                write_note(&format!("{} runs: {summary}", self.name));
                Some(revision)
            }
            Err(failure) => {
                if let Some(pause) = pause {
                    pause.fail("it does not start");
                }
                write_note(&format!("error: {} does not start: {}", self.name, reason(&failure)));
                write_note("waiting for a change of its files");
                None
            }
        }
    }

    fn note_change(&self, path: &std::path::Path) {
        let path = path.strip_prefix(".").unwrap_or(path);
        write_note(&format!("{} changed; starting {} again", path.display(), self.name));
    }
}

/// Starts the server, asks what it offers, and ends it again: the bridge starts it for each client that has a session, and
/// may have none.
async fn check(builder: &ClientBuilder, known: Option<Revision>, name: &str) -> Result<(Revision, String)> {
    let client =
        connect(builder, known).await.map_err(|error| CliError::from_connect_error(error, name, None))?;
    let listed = async {
        let details = ServerDetails::fetch(&client).await?;
        let catalog = Catalog::fetch(&client, &details.capabilities).await?;
        let server = details.server.map(|server| format!("{} {}", server.name, server.version));
        let revision = client.revision();
        let summary = format!(
            "{}, revision {}: {}",
            server.as_deref().unwrap_or("a server without a name"),
            revision.as_str(),
            catalog.counts()
        );
        Ok((revision, summary))
    };
    let outcome = listed.await;
    client.close().await;
    outcome
}

/// Connects with the revision that is known, so that a server that ends at once is not started again to try another.
async fn connect(builder: &ClientBuilder, known: Option<Revision>) -> Result<Client, ClientError> {
    if let Some(revision) = known {
        match builder.clone().revisions([revision].into_iter().collect()).await {
            Err(error)
                if matches!(error.kind(), ErrorKind::Protocol(_) | ErrorKind::ErrorResponse { .. }) => {}
            connected => return connected,
        }
    }
    builder.clone().await
}

/// Returns why the server failed. Its standard error is on the screen already.
fn reason(failure: &CliError) -> String {
    let detail = failure.detail.as_deref().unwrap_or(&failure.message);
    detail.split("; end of its standard error: ").next().unwrap_or(detail).to_owned()
}
