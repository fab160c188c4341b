//! Holds the connections to servers closed while the servers are replaced, for example built again.

use std::sync::Arc;

use super::gate::Gate;
use super::target::Target;

/// The servers of a bridge, disconnected by [`Bridge::pause`](super::Bridge::pause).
///
/// Dropping it connects them again, as [`Pause::resume`] does.
#[must_use = "dropping it connects the servers again"]
pub struct Pause {
    targets: Vec<Arc<Target>>,
}

impl Pause {
    pub(super) fn begin(targets: &[Arc<Target>]) -> Self {
        let targets = targets.to_vec();
        targets.iter().for_each(|target| target.set_gate(Gate::Paused));
        Self { targets }
    }

    /// Connects the servers again. Requests that waited are sent, and clients are told that every list may have changed.
    pub fn resume(self) {
        drop(self);
    }

    /// Leaves the servers disconnected until the bridge is paused again and resumed. Requests fail with `reason`, which
    /// clients see.
    pub fn fail(mut self, reason: impl Into<String>) {
        let reason = reason.into();
        for target in self.targets.drain(..) {
            target.set_gate(Gate::Failed(reason.clone()));
        }
    }
}

impl Drop for Pause {
    fn drop(&mut self) {
        self.targets.iter().for_each(|target| target.set_gate(Gate::Open));
    }
}

impl std::fmt::Debug for Pause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pause").field("targets", &self.targets.len()).finish()
    }
}
