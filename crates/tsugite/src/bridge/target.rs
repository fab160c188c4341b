//! A server behind the bridge: how it is reached, its name prefix, and its last error.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::description::{CapabilitySet, ServerDescription};
use super::gate::Gate;
use crate::client::{ClientBuilder, ProbeRecord};
use crate::lock::lock;

/// A server behind the bridge.
pub(super) struct Target {
    /// The prefix of its names; `None` if it is the only server.
    pub(super) prefix: Option<String>,
    builder: ClientBuilder,
    /// The revision and transport that were found: the next connection need not probe.
    probe_record: Mutex<Option<ProbeRecord>>,
    /// How it describes itself; `None` if it did not answer in time, as one server among several.
    descriptions: Mutex<HashMap<CapabilitySet, Option<Arc<ServerDescription>>>>,
    last_error: Mutex<Option<String>>,
    /// Whether connections may be opened.
    gate: watch::Sender<Gate>,
    /// Connections that are being closed.
    closing: Mutex<Vec<JoinHandle<()>>>,
}

impl Target {
    pub(super) fn new(prefix: Option<String>, builder: ClientBuilder) -> Self {
        Self {
            prefix,
            builder,
            probe_record: Mutex::default(),
            descriptions: Mutex::default(),
            last_error: Mutex::default(),
            gate: watch::Sender::default(),
            closing: Mutex::default(),
        }
    }

    pub(super) fn builder(&self) -> ClientBuilder {
        match *lock(&self.probe_record) {
            Some(verdict) => self.builder.clone().probe_record(verdict),
            None => self.builder.clone(),
        }
    }

    /// Whether each connection starts a server of its own.
    pub(super) fn starts_server(&self) -> bool {
        self.builder.starts_server()
    }

    /// Sets the revision and transport that were found; `None` if they turned out to be wrong.
    pub(super) fn set_probe_record(&self, verdict: Option<ProbeRecord>) {
        *lock(&self.probe_record) = verdict;
    }

    /// How it describes itself to clients with these capabilities. The outer `None` if it was not asked yet.
    pub(super) fn description(&self, declared: CapabilitySet) -> Option<Option<Arc<ServerDescription>>> {
        lock(&self.descriptions).get(&declared).cloned()
    }

    /// Keeps a description for later clients.
    pub(super) fn set_description(
        &self,
        declared: CapabilitySet,
        description: ServerDescription,
    ) -> Arc<ServerDescription> {
        let description = Arc::new(description);
        let before = lock(&self.descriptions).insert(declared, Some(Arc::clone(&description)));
        if before.flatten().is_some_and(|before| !before.is_equivalent(&description)) {
            tracing::info!(server = self.display_name(), "a server behind the bridge describes itself anew");
        }
        description
    }

    /// Records that it was asked and did not answer, unless a description is known.
    pub(super) fn mark_undescribed(&self, declared: CapabilitySet) {
        lock(&self.descriptions).entry(declared).or_default();
    }

    /// Forgets a description: the next client asks the server.
    pub(super) fn forget_description(&self, declared: CapabilitySet) {
        lock(&self.descriptions).remove(&declared);
    }

    /// Registers a connection that is being closed.
    pub(super) fn register_closing(&self, leaving: JoinHandle<()>) {
        let mut all = lock(&self.closing);
        all.retain(|one| !one.is_finished());
        all.push(leaving);
    }

    /// Waits until all of them are closed.
    pub(super) async fn wait_closed(&self) {
        let leaving = std::mem::take(&mut *lock(&self.closing));
        for one in leaving {
            let _ = one.await;
        }
    }

    /// Its name in messages.
    pub(super) fn display_name(&self) -> String {
        match &self.prefix {
            Some(prefix) => format!("the server `{prefix}`"),
            None => "the server behind this bridge".to_owned(),
        }
    }

    /// Sets whether connections may be opened. The server may be another one afterwards.
    pub(super) fn set_gate(&self, gate: Gate) {
        self.set_probe_record(None);
        lock(&self.descriptions).clear();
        self.gate.send_replace(gate);
    }

    pub(super) fn gate(&self) -> watch::Receiver<Gate> {
        self.gate.subscribe()
    }

    pub(super) fn clear_error(&self) {
        lock(&self.last_error).take();
    }

    /// Records why it cannot be reached. Returns whether that is news: many connections to one server may fail, each more
    /// than once.
    pub(super) fn set_error(&self, why: &str) -> bool {
        lock(&self.last_error).replace(why.to_owned()).as_deref() != Some(why)
    }

    /// The reason why the last attempt to reach it failed.
    pub(super) fn last_error(&self) -> Option<String> {
        lock(&self.last_error).clone()
    }
}
