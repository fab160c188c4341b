//! Opens the connection to a server, and opens it again whenever it is lost: at once after a long life, with backoff after
//! a short one.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::Instant;

use super::target::Target;
use super::upstream::{ClientIdentity, Upstream, UpstreamState, public_reason};
use super::upstream_events::UpstreamEvents;
use crate::client::{Client, ClientError, ErrorKind};

/// Keeps a connection open until the upstream is dropped or closed.
pub(super) async fn maintain_connection(
    upstream: Weak<Upstream>,
    target: Arc<Target>,
    identity: ClientIdentity,
) {
    let Some((client, mut failures)) = connect(&upstream, &target, identity).await else { return };
    let Some(mut state) = upstream.upgrade().map(|upstream| {
        let _ = upstream.client.set(client.clone());
        let state = upstream.state.subscribe();
        upstream.mark_connected();
        upstream.recheck_connection(&client);
        if failures > 0 {
            UpstreamEvents(Arc::downgrade(&upstream)).notify_all_changed();
        }
        state
    }) else {
        return;
    };
    let mut since = Instant::now();
    loop {
        if state.wait_for(|state| matches!(state, UpstreamState::Connecting)).await.is_err() {
            return;
        }
        failures = if since.elapsed() > STABLE_CONNECTION_AGE { 0 } else { failures + 1 };
        loop {
            tokio::time::sleep(backoff(failures)).await;
            let outcome = client.reconnect().await;
            let Some(strong) = upstream.upgrade() else { return };
            match outcome {
                Ok(()) => {
                    since = Instant::now();
                    strong.mark_connected();
                    strong.recheck_connection(&client);
                    break;
                }
                Err(error) if matches!(error.kind(), ErrorKind::Closed) => return,
                Err(error) => strong.mark_unreachable(&error, &upstream),
            }
            failures += 1;
        }
    }
}

/// Connects for the first time, however often that has to be tried. Also returns how often it failed; `None` if the
/// upstream is gone.
async fn connect(
    upstream: &Weak<Upstream>,
    target: &Target,
    identity: ClientIdentity,
) -> Option<(Client, u32)> {
    let observer = Arc::new(UpstreamEvents(Weak::clone(upstream)));
    let mut failures = 0;
    loop {
        let builder = target.builder().with_observer(
            observer.clone(),
            identity.info.clone(),
            identity.capabilities.clone(),
        );
        match builder.await {
            Ok(client) => {
                target.set_probe_record(client.probe_record());
                return Some((client, failures));
            }
            Err(error) => {
                target.set_probe_record(None);
                upstream.upgrade()?.mark_unreachable(&error, upstream);
            }
        }
        failures += 1;
        tokio::time::sleep(backoff(failures)).await;
        if let Some(upstream) = upstream.upgrade() {
            tracing::debug!(server = upstream.target.display_name(), failures, "a server is tried again");
        }
    }
}

impl Upstream {
    pub(super) fn mark_connected(&self) {
        self.target.clear_error();
        self.state.send_replace(UpstreamState::Connected);
    }

    /// Marks it disconnected if it was lost before it was marked connected.
    fn recheck_connection(&self, client: &Client) {
        if !client.is_connected() {
            self.mark_disconnected("the connection was lost");
        }
    }

    fn mark_unreachable(&self, error: &ClientError, weak: &Weak<Self>) {
        tracing::warn!(server = self.target.display_name(), %error, "a server behind the bridge cannot be reached");
        let why = public_reason(error);
        self.target.set_error(&why);
        let before = self.state.send_replace(UpstreamState::Unreachable(why));
        // Among several servers its items disappear from the merged lists.
        if matches!(before, UpstreamState::Connecting)
            && self.target.prefix.is_some()
            && self.client.get().is_some()
        {
            UpstreamEvents(Weak::clone(weak)).notify_all_changed();
        }
    }
}

/// The delay before the next attempt: doubles with each failure, up to a minute.
fn backoff(failures: u32) -> Duration {
    match failures {
        0 => Duration::ZERO,
        _ => Duration::from_millis(250).saturating_mul(1 << failures.min(8)).min(Duration::from_secs(60)),
    }
}

/// A connection that lasted this long is opened again at once.
const STABLE_CONNECTION_AGE: Duration = Duration::from_secs(30);
