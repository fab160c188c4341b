//! Opens the connection to a server, and opens it again whenever it is lost: at once after a long life, with backoff after
//! a short one.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::backoff::{STABLE_CONNECTION_AGE, backoff};
use super::bridge_errors::public_reason;
use super::client_identity::ClientIdentity;
use super::description::ServerDescription;
use super::gate::Gate;
use super::start_rate::StartRate;
use super::target::Target;
use super::upstream::{Downstream, Upstream, UpstreamState};
use super::upstream_events::UpstreamEvents;
use crate::client::{Client, ClientError, ErrorKind};
use crate::shared::log;

/// Starts a task that opens a connection and keeps it open until the upstream is dropped or closed.
pub(super) fn open_upstream(
    target: &Arc<Target>,
    downstream: Downstream,
    identity: ClientIdentity,
    call_timeout: Duration,
    rate: Arc<StartRate>,
) -> Arc<Upstream> {
    let declared = (&identity.capabilities).into();
    let upstream = Arc::new(Upstream::new(target, downstream, declared, call_timeout));
    let task =
        tokio::spawn(maintain_connection(Arc::downgrade(&upstream), Arc::clone(target), identity, rate));
    upstream.set_connect_task(task.abort_handle());
    upstream
}

/// Keeps a connection open until the upstream is dropped or closed.
async fn maintain_connection(
    upstream: Weak<Upstream>,
    target: Arc<Target>,
    identity: ClientIdentity,
    rate: Arc<StartRate>,
) {
    let mut gate = target.gate();
    let Some((client, mut failures)) = connect(&upstream, &target, &mut gate, identity, &rate).await else {
        return;
    };
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
        // A pause that began while the connection was opened did not find it.
        if !gate.borrow().is_open()
            && let Some(upstream) = upstream.upgrade()
        {
            upstream.pause().await;
        }
        if state.wait_for(|state| matches!(state, UpstreamState::Connecting)).await.is_err() {
            return;
        }
        failures = if since.elapsed() > STABLE_CONNECTION_AGE { 0 } else { failures + 1 };
        loop {
            let Some(()) = wait_for_attempt(&upstream, &mut gate, &mut failures).await else { return };
            if !rate.wait().await {
                let Some(upstream) = upstream.upgrade() else { return };
                upstream.mark_rate_limited();
                failures += 1;
                continue;
            }
            let Some(outcome) = unless_paused(&gate, client.reconnect()).await else { continue };
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
    gate: &mut watch::Receiver<Gate>,
    identity: ClientIdentity,
    rate: &StartRate,
) -> Option<(Client, u32)> {
    let observer = Arc::new(UpstreamEvents(Weak::clone(upstream)));
    let mut failures = 0;
    loop {
        wait_for_attempt(upstream, gate, &mut failures).await?;
        if !rate.wait().await {
            upstream.upgrade()?.mark_rate_limited();
            failures += 1;
            continue;
        }
        if failures > 0 {
            tracing::debug!(server = target.display_name(), failures, "a server is tried again");
        }
        let builder = target.builder().with_observer(
            observer.clone(),
            identity.info.clone(),
            identity.capabilities.clone(),
        );
        match unless_paused(gate, builder.into_future()).await {
            None => continue,
            Some(Ok(client)) => {
                target.set_probe_record(client.probe_record());
                return Some((client, failures));
            }
            Some(Err(error)) => {
                target.set_probe_record(None);
                upstream.upgrade()?.mark_unreachable(&error, upstream);
            }
        }
        failures += 1;
    }
}

/// Waits for the delay after a failure, and while the target is paused. A pause ends the delay. `None` if the upstream is
/// gone.
async fn wait_for_attempt(
    upstream: &Weak<Upstream>,
    gate: &mut watch::Receiver<Gate>,
    failures: &mut u32,
) -> Option<()> {
    if *failures > 0 {
        // The pause itself is waited for below.
        let _ = unless_paused(gate, tokio::time::sleep(backoff(*failures))).await;
    }
    let mut was_paused = false;
    loop {
        let current = gate.borrow_and_update().clone();
        let strong = upstream.upgrade()?;
        match current {
            Gate::Open => {
                if strong.release() || was_paused {
                    strong.mark_connecting();
                    *failures = 0;
                }
                return Some(());
            }
            Gate::Paused => strong.mark_connecting(),
            Gate::Failed(why) => drop(strong.state.send_replace(UpstreamState::Unreachable(why))),
        }
        drop(strong);
        was_paused = true;
        gate.changed().await.ok()?;
    }
}

/// Runs `work` until the target is paused; then drops it and returns `None`.
async fn unless_paused<T>(gate: &watch::Receiver<Gate>, work: impl Future<Output = T>) -> Option<T> {
    let mut gate = gate.clone();
    tokio::select! {
        biased;
        _ = gate.wait_for(|gate| !gate.is_open()) => None,
        done = work => Some(done),
    }
}

impl Upstream {
    pub(super) fn mark_connected(&self) {
        self.target.clear_error();
        if let Some(description) = self.client.get().and_then(ServerDescription::from_client) {
            self.target.set_description(self.declared, description);
        }
        self.state.send_replace(UpstreamState::Connected);
    }

    /// Marks it disconnected if it was lost before it was marked connected.
    fn recheck_connection(&self, client: &Client) {
        if !client.is_connected() {
            self.mark_disconnected("the connection was lost");
        }
    }

    /// Reports that it is not opened now, because too many others are. It is tried again.
    fn mark_rate_limited(&self) {
        let why = "too many connections are being opened; try again later".to_owned();
        self.state.send_replace(UpstreamState::Unreachable(why));
    }

    fn mark_unreachable(&self, error: &ClientError, weak: &Weak<Self>) {
        let why = public_reason(error);
        let server = self.target.display_name();
        match self.target.set_error(&why) {
            true => log::warn!(server, %error, "a server behind the bridge cannot be reached"),
            false => tracing::debug!(server, %error, "a server behind the bridge still cannot be reached"),
        }
        if self.target.prefix.is_none() {
            // The next client is told why, before it has a session.
            self.target.forget_description(self.declared);
        }
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
