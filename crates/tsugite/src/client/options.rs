//! What one call wants differently.

use std::sync::Arc;
use std::time::Duration;

use tsugite_core::protocol::Meta;
use tsugite_core::session::call_timer::Timeouts;

use super::cache::Caching;
use super::calls::OnProgress;
use super::relay::Started;
use super::settings::Settings;

/// The options of one call.
#[derive(Clone, Default)]
pub(super) struct Options {
    pub(super) idle: Option<Duration>,
    pub(super) total: Option<Duration>,
    pub(super) on_progress: Option<OnProgress>,
    /// Whether progress is asked for even if nobody listens: it keeps the call alive.
    pub(super) asks_progress: bool,
    pub(super) headers: Vec<(String, String)>,
    pub(super) meta: Option<Meta>,
    pub(super) caching: Caching,
    /// Whether the caller knows that doing it twice does no harm.
    pub(super) repeatable: bool,
    /// Told the id before the call leaves.
    pub(super) started: Option<Arc<dyn Started>>,
}

impl Options {
    pub(super) fn patience(&self, settings: &Settings) -> Timeouts {
        let mut patience = settings.patience;
        if let Some(idle) = self.idle {
            patience.idle_timeout = idle;
            // Whoever is ready to wait this long for a sign of life is ready to wait this long in all.
            patience.total_timeout = patience.total_timeout.map(|total| total.max(idle));
        }
        if self.total.is_some() {
            patience.total_timeout = self.total;
        }
        patience
    }

    pub(super) fn wants_progress(&self) -> bool {
        self.asks_progress || self.on_progress.is_some()
    }
}
