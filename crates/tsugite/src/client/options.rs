//! The options of one call.

use std::sync::Arc;
use std::time::Duration;

use tsugite_core::protocol::Meta;
use tsugite_core::session::call_timer::Timeouts;

use super::cache::Caching;
use super::client_settings::ClientSettings;
use super::forwarded_request::RequestIdObserver;
use super::pending_calls::ProgressCallback;

/// The options of one call.
#[derive(Clone, Default)]
pub(super) struct Options {
    pub(super) idle_timeout: Option<Duration>,
    pub(super) total_timeout: Option<Duration>,
    pub(super) on_progress: Option<ProgressCallback>,
    /// Whether to ask for progress even without a callback, because progress extends the idle timeout.
    pub(super) request_progress: bool,
    pub(super) headers: Vec<(String, String)>,
    pub(super) meta: Option<Meta>,
    pub(super) caching: Caching,
    /// Whether the caller declared that running the call twice is safe.
    pub(super) idempotent: bool,
    /// Receives the id before the request is sent.
    pub(super) request_id_observer: Option<Arc<dyn RequestIdObserver>>,
}

impl Options {
    pub(super) fn timeouts(&self, settings: &ClientSettings) -> Timeouts {
        let mut timeouts = settings.timeouts;
        if let Some(idle) = self.idle_timeout {
            timeouts.idle_timeout = idle;
            // A longer idle timeout also extends the total timeout, which could otherwise never be reached.
            timeouts.total_timeout = timeouts.total_timeout.map(|total| total.max(idle));
        }
        if self.total_timeout.is_some() {
            timeouts.total_timeout = self.total_timeout;
        }
        timeouts
    }

    pub(super) fn wants_progress(&self) -> bool {
        self.request_progress || self.on_progress.is_some()
    }
}
