//! Sends the progress and log notifications of a call within their limit.
//!
//! Beyond a burst progress is coalesced: the newest value is sent as soon as the rate allows, and the last one in any case.
//! Logs are dropped and counted, and one line before the response says how many.

use std::sync::{Arc, Weak};

use tokio::runtime::Handle;
use tokio::time::Instant;
use tsugite_core::jsonrpc::RawJson;
use tsugite_core::protocol::logging::{Level, Log, LogParams};
use tsugite_core::protocol::progress::{Progress, ProgressParams};
use tsugite_core::revision::write_notification;

use super::call_state::CallState;
use super::notification_limit::NotificationLimit;
use crate::lock::lock;
use crate::shared::boxed::boxed;

impl CallState {
    /// Sends progress, or holds it until the rate allows.
    pub(super) fn send_progress(self: &Arc<Self>, params: ProgressParams) {
        let mut state = lock(&self.notifications.0);
        match state.admit(self.settings.notification_limit, Instant::now()) {
            Ok(()) => {
                state.held_progress = None;
                self.write_progress(params);
            }
            Err(next) => {
                state.held_progress = Some(params);
                // A thread outside of the runtime has no timer: then the next notification or the end sends it.
                if !state.has_sender
                    && let Ok(runtime) = Handle::try_current()
                {
                    state.has_sender = true;
                    runtime.spawn(boxed(send_held_progress(Arc::downgrade(self), next)));
                }
            }
        }
    }

    /// Whether a log message may be sent. Counts it if not.
    pub(super) fn admit_log(&self) -> bool {
        let mut state = lock(&self.notifications.0);
        let admitted = state.admit(self.settings.notification_limit, Instant::now()).is_ok();
        state.dropped_logs += u64::from(!admitted);
        admitted
    }

    /// Ends a call whose handler has completed: sends what the limit holds back, then nothing more.
    pub(super) fn complete(&self) {
        let mut state = lock(&self.notifications.0);
        if !self.has_ended() {
            if let Some(params) = state.held_progress.take() {
                self.write_progress(params);
            }
            if state.dropped_logs > 0 && self.can_notify() {
                self.write_dropped_logs(state.dropped_logs);
            }
        }
        // Under the lock, so that no held progress follows the response.
        self.end();
    }

    /// Sends the held progress if the rate allows. Returns when to try again.
    fn try_send_held(&self) -> Option<Instant> {
        let mut state = lock(&self.notifications.0);
        let admitted = match &state.held_progress {
            Some(_) if !self.has_ended() => state.admit(self.settings.notification_limit, Instant::now()),
            _ => Ok(()),
        };
        if let Err(next) = admitted {
            return Some(next);
        }
        state.has_sender = false;
        if let Some(params) = state.held_progress.take().filter(|_| !self.has_ended()) {
            self.write_progress(params);
        }
        None
    }

    fn write_progress(&self, mut params: ProgressParams) {
        if !self.can_notify() {
            return;
        }
        self.set_related_task(&mut params.meta);
        let revision = self.settings.revision;
        self.settings.outbox.push(|out| drop(write_notification::<Progress>(out, params, revision)));
    }

    fn write_dropped_logs(&self, count: u64) {
        let NotificationLimit { burst, per_second } = self.settings.notification_limit;
        let text = format!(
            "{count} log messages of this request were dropped: more than {burst} at once, and more than {per_second} \
             a second after that"
        );
        let level = self.settings.client.log_level.unwrap_or(Level::Warning).max(Level::Warning);
        let Ok(data) = RawJson::from_value(&text) else { return };
        let (revision, mut params) = (self.settings.revision, LogParams::new(level, data));
        self.set_related_task(&mut params.meta);
        self.settings.outbox.push(|out| drop(write_notification::<Log>(out, params, revision)));
    }
}

/// Waits until the rate allows and sends the progress that is held then.
async fn send_held_progress(call: Weak<CallState>, mut at: Instant) {
    loop {
        tokio::time::sleep_until(at).await;
        let Some(call) = call.upgrade() else { return };
        match call.try_send_held() {
            Some(next) => at = next,
            None => return,
        }
    }
}
