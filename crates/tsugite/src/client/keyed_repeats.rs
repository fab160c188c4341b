//! When a call is sent again for its idempotency key.
//!
//! Once an attempt may have run, failures that may pass do not end the call: the server may be starting again. The pauses
//! double. They end with the call, or before the server may forget the key.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::Client;
use super::client_error::{ClientError, ErrorKind, Result};
use super::options::Options;
use super::task_failures::PassingFailure;

/// The repeats of one call.
pub(super) struct KeyedRepeats {
    /// When the call times out.
    call_end: Option<Instant>,
    /// How often the call waited for the server.
    waits: u32,
    /// The last error, once an attempt may have run and the call goes on for its key.
    last_error: Option<ClientError>,
}

impl KeyedRepeats {
    pub(super) fn new(total_timeout: Option<Duration>) -> Self {
        let call_end = total_timeout.and_then(|total| Instant::now().checked_add(total));
        Self { call_end, waits: 0, last_error: None }
    }

    /// Records that the call goes on for its key after an attempt that may have run.
    pub(super) fn go_on_after(&mut self, error: ClientError) {
        self.last_error = Some(error);
    }

    /// Whether the call goes on for its key.
    pub(super) fn are_active(&self) -> bool {
        self.last_error.is_some()
    }

    /// The last error of a call that is not sent again after all.
    pub(super) fn into_error(self) -> ClientError {
        self.last_error.unwrap_or_else(|| ErrorKind::Closed.into())
    }

    /// Waits after a failure that may pass. Returns the error if it is final, or if the call or the key may end before the
    /// next attempt.
    pub(super) async fn wait_for_server(
        &mut self,
        error: ClientError,
        key_end: Option<Instant>,
    ) -> Result<()> {
        let Some(failure) = PassingFailure::from_client_error(&error) else { return Err(error) };
        let growth = 1_u32.checked_shl(self.waits).unwrap_or(u32::MAX);
        let backoff = FIRST_PAUSE.saturating_mul(growth).min(MAX_PAUSE);
        self.waits = self.waits.saturating_add(1);
        let pause = failure.retry_after().map_or(backoff, |requested| requested.max(backoff));
        let end = [self.call_end, key_end].into_iter().flatten().min();
        self.wait(error, pause, end).await
    }

    /// Waits while the server says that an earlier attempt still runs. A call that runs is not forgotten.
    pub(super) async fn wait_for_outcome(&mut self, error: ClientError) -> Result<()> {
        self.wait(error, RUNNING_PAUSE, self.call_end).await
    }

    async fn wait(&mut self, error: ClientError, pause: Duration, end: Option<Instant>) -> Result<()> {
        let next = Instant::now().checked_add(pause);
        if next.is_none_or(|next| end.is_some_and(|end| next >= end)) {
            return Err(error);
        }
        tracing::debug!(%error, ?pause, "sending the call again with its key");
        Box::pin(sleep(pause)).await;
        self.go_on_after(error);
        Ok(())
    }

    /// The options of the next attempt, which ends with the call.
    pub(super) fn remaining_options(&self, options: &Options, client: &Client) -> Box<Options> {
        let idle = options.timeouts(&client.inner.shared.settings).idle_timeout;
        let remaining = self.call_end.map(|end| end.saturating_duration_since(Instant::now()));
        let mut options = options.clone();
        if let Some(remaining) = remaining {
            options.idle_timeout = Some(idle.min(remaining));
            options.total_timeout = Some(remaining);
        }
        Box::new(options)
    }
}

/// The pause before the first repeat, which doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const MAX_PAUSE: Duration = Duration::from_secs(5);
/// The time before a call is sent again whose earlier attempt still runs. The server waits for its end, too.
const RUNNING_PAUSE: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::client_error::{ConnectStep, ErrorKind};

    const CALL: Option<Duration> = Some(Duration::from_secs(600));

    fn refused() -> ClientError {
        ClientError::connect(ConnectStep::Tcp, "connection refused")
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_double_until_the_call_ends() {
        let mut repeats = KeyedRepeats::new(CALL);
        let start = Instant::now();
        let mut pauses = Vec::new();
        for _ in 0..1_000 {
            let before = Instant::now();
            if repeats.wait_for_server(refused(), None).await.is_err() {
                break;
            }
            pauses.push(before.elapsed().as_millis());
        }
        assert!(pauses.starts_with(&[100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]), "{pauses:?}");
        let spent = start.elapsed();
        assert!(spent < Duration::from_secs(600) && spent > Duration::from_secs(590), "{spent:?}");
        assert!(repeats.are_active());
    }

    #[tokio::test(start_paused = true)]
    async fn key_that_would_be_forgotten_ends_the_repeats() {
        let mut repeats = KeyedRepeats::new(CALL);
        let key_end = Some(Instant::now() + Duration::from_millis(300));
        assert!(repeats.wait_for_server(refused(), key_end).await.is_ok());
        assert!(repeats.wait_for_server(refused(), key_end).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn requested_pause_is_kept_or_ends_the_repeats() {
        for (requested, pause) in [(0, Some(100)), (7, Some(7_000)), (601, None), (u64::MAX, None)] {
            let start = Instant::now();
            let busy = ClientError::status(503, String::new(), Some(Duration::from_secs(requested)));
            let waited = KeyedRepeats::new(CALL).wait_for_server(busy, None).await;
            assert_eq!(waited.ok().map(|()| start.elapsed().as_millis()), pause);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn final_errors_end_the_repeats() {
        for error in [
            ClientError::status(500, String::new(), None),
            ClientError::connect(ConnectStep::Spawn, "?"),
            ErrorKind::Closed.into(),
        ] {
            assert!(KeyedRepeats::new(CALL).wait_for_server(error, None).await.is_err());
        }
    }
}
