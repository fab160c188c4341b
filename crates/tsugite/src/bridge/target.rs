//! A server behind the bridge: how it is reached, what it is called, and how it is.

use std::sync::Mutex;

use tokio::task::JoinHandle;

use crate::client::{ClientBuilder, ProbeRecord};
use crate::lock::lock;

/// A server behind the bridge.
pub(super) struct Target {
    /// What its names begin with; nothing where it is the only one.
    pub(super) prefix: Option<String>,
    builder: ClientBuilder,
    /// What was found out about it: the next connection need not ask again.
    probe_record: Mutex<Option<ProbeRecord>>,
    last_error: Mutex<Option<String>>,
    /// Connections that are being ended politely.
    closing: Mutex<Vec<JoinHandle<()>>>,
}

impl Target {
    pub(super) fn new(prefix: Option<String>, builder: ClientBuilder) -> Self {
        Self {
            prefix,
            builder,
            probe_record: Mutex::default(),
            last_error: Mutex::default(),
            closing: Mutex::default(),
        }
    }

    pub(super) fn builder(&self) -> ClientBuilder {
        match *lock(&self.probe_record) {
            Some(verdict) => self.builder.clone().probe_record(verdict),
            None => self.builder.clone(),
        }
    }

    /// What was found out about it; nothing when that turned out to be wrong.
    pub(super) fn set_probe_record(&self, verdict: Option<ProbeRecord>) {
        *lock(&self.probe_record) = verdict;
    }

    /// A connection is being ended.
    pub(super) fn register_closing(&self, leaving: JoinHandle<()>) {
        let mut all = lock(&self.closing);
        all.retain(|one| !one.is_finished());
        all.push(leaving);
    }

    /// Waits until all of them are ended.
    pub(super) async fn wait_closed(&self) {
        let leaving = std::mem::take(&mut *lock(&self.closing));
        for one in leaving {
            let _ = one.await;
        }
    }

    /// What it is called in messages.
    pub(super) fn display_name(&self) -> String {
        match &self.prefix {
            Some(prefix) => format!("the server `{prefix}`"),
            None => "the server behind this bridge".to_owned(),
        }
    }

    pub(super) fn clear_error(&self) {
        lock(&self.last_error).take();
    }

    pub(super) fn set_error(&self, why: &str) {
        *lock(&self.last_error) = Some(why.to_owned());
    }

    /// Why it could not be reached when that was last tried.
    pub(super) fn last_error(&self) -> Option<String> {
        lock(&self.last_error).clone()
    }
}
