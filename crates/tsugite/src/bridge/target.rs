//! A server behind the bridge: how it is reached, what it is called, and how it is.

use std::sync::Mutex;

use tokio::task::JoinHandle;

use crate::client::{ClientBuilder, ProbeRecord};
use crate::lock::lock;

/// A server behind the bridge.
pub(super) struct Target {
    /// What its names begin with; nothing where it is the only one.
    pub(super) prefix: Option<String>,
    way: ClientBuilder,
    /// What was found out about it: the next connection need not ask again.
    verdict: Mutex<Option<ProbeRecord>>,
    trouble: Mutex<Option<String>>,
    /// Connections that are being ended politely.
    leaving: Mutex<Vec<JoinHandle<()>>>,
}

impl Target {
    pub(super) fn new(prefix: Option<String>, way: ClientBuilder) -> Self {
        Self { prefix, way, verdict: Mutex::default(), trouble: Mutex::default(), leaving: Mutex::default() }
    }

    pub(super) fn dial(&self) -> ClientBuilder {
        match *lock(&self.verdict) {
            Some(verdict) => self.way.clone().probe_record(verdict),
            None => self.way.clone(),
        }
    }

    /// What was found out about it; nothing when that turned out to be wrong.
    pub(super) fn learn(&self, verdict: Option<ProbeRecord>) {
        *lock(&self.verdict) = verdict;
    }

    /// A connection is being ended.
    pub(super) fn leaves(&self, leaving: JoinHandle<()>) {
        let mut all = lock(&self.leaving);
        all.retain(|one| !one.is_finished());
        all.push(leaving);
    }

    /// Waits until all of them are ended.
    pub(super) async fn left(&self) {
        let leaving = std::mem::take(&mut *lock(&self.leaving));
        for one in leaving {
            let _ = one.await;
        }
    }

    /// What it is called in messages.
    pub(super) fn shown(&self) -> String {
        match &self.prefix {
            Some(prefix) => format!("the server `{prefix}`"),
            None => "the server behind this bridge".to_owned(),
        }
    }

    pub(super) fn is_up(&self) {
        lock(&self.trouble).take();
    }

    pub(super) fn is_down(&self, why: &str) {
        *lock(&self.trouble) = Some(why.to_owned());
    }

    /// Why it could not be reached when that was last tried.
    pub(super) fn trouble(&self) -> Option<String> {
        lock(&self.trouble).clone()
    }
}
