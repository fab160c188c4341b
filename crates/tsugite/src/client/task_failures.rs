//! Requests about a task that fail in a way that may pass: how long to wait, and when to give up.
//!
//! A task outlives the connection and often the server process, so one failed request says nothing about it.

use std::time::Duration;

use serde::Deserialize;
use tsugite_core::jsonrpc::{ErrorObject, code};

use super::client_error::{ClientError, ConnectStep, ErrorKind, Result};
use crate::shared::upstream_failure::{UpstreamFailure, status_may_pass};

/// A failure after which the same request may succeed.
pub(crate) struct PassingFailure {
    /// How long the server asks to wait.
    retry_after: Option<Duration>,
}

impl PassingFailure {
    /// The failure of a request of ours. `None` if it is final.
    pub(super) fn from_client_error(error: &ClientError) -> Option<Self> {
        match error.kind() {
            ErrorKind::Status { status, retry_after, .. } => {
                status_may_pass(*status).then_some(Self { retry_after: *retry_after })
            }
            ErrorKind::Connect { step, .. } => {
                (*step != ConnectStep::Spawn).then_some(Self { retry_after: None })
            }
            ErrorKind::ConnectionLost { .. } | ErrorKind::TimedOut { .. } => Some(Self { retry_after: None }),
            ErrorKind::ErrorResponse { error, .. } => Self::from_error_response(error),
            _ => None,
        }
    }

    /// The failure that an error response reports. Such a response is an answer of the server and final, unless the server
    /// says that it cannot answer now or asks to wait, or a bridge says that it did not reach its server.
    pub(crate) fn from_error_response(error: &ErrorObject) -> Option<Self> {
        if let Some(failure) = UpstreamFailure::from_error(error) {
            return failure.may_pass().then(|| Self { retry_after: failure.retry_after() });
        }
        let requested = error.data.as_ref().and_then(|data| data.read::<RequestedPause>().ok());
        let retry_after = requested.map(|pause| Duration::from_millis(pause.retry_after_ms));
        (error.code == code::UNAVAILABLE || retry_after.is_some()).then_some(Self { retry_after })
    }

    /// How long the server asks to wait.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }
}

/// The data of an error with which a server asks to wait, such as that of `RateLimit`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RequestedPause {
    retry_after_ms: u64,
}

/// The failures in a row of one kind of request.
#[derive(Default)]
pub(crate) struct TaskFailures {
    in_a_row: u32,
}

impl TaskFailures {
    /// Records a failed request, and returns how long to wait before the next one. Returns the error if it is final.
    pub(super) fn record(&mut self, error: ClientError, interval: Duration) -> Result<Duration> {
        let Some(pause) = self.next_pause(PassingFailure::from_client_error(&error), interval) else {
            return Err(error);
        };
        tracing::debug!(%error, ?pause, "a request about a task failed and is sent again");
        Ok(pause)
    }

    /// Records a failed request, and returns how long to wait before the next one: as long as the server asks, or the poll
    /// interval, which doubles with each failure. `None` if the failure is final, or one too many.
    pub(crate) fn next_pause(
        &mut self,
        failure: Option<PassingFailure>,
        interval: Duration,
    ) -> Option<Duration> {
        let growth = 1_u32.checked_shl(self.in_a_row).unwrap_or(u32::MAX);
        self.in_a_row = self.in_a_row.saturating_add(1);
        let failure = failure.filter(|_| self.in_a_row < MAX_FAILURES)?;
        let pause = failure.retry_after.unwrap_or_else(|| interval.saturating_mul(growth));
        Some(pause.clamp(interval, MAX_PAUSE.max(interval)))
    }

    /// The number of failures since the last success.
    pub(super) fn in_a_row(&self) -> u32 {
        self.in_a_row
    }

    /// Records a request that the server answered.
    pub(crate) fn reset(&mut self) {
        self.in_a_row = 0;
    }
}

/// With an interval of one second, the tenth failure comes after about eight minutes.
const MAX_FAILURES: u32 = 10;
/// A server cannot make the client forget the task.
const MAX_PAUSE: Duration = Duration::from_secs(300);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const INTERVAL: Duration = Duration::from_secs(1);

    fn status(status: u16, retry_after: Option<u64>) -> ClientError {
        ClientError::status(status, String::new(), retry_after.map(Duration::from_secs))
    }

    #[test]
    fn failures_in_a_row_are_limited() {
        let mut failures = TaskFailures::default();
        for seconds in [1, 2, 4, 8, 16, 32, 64, 128, 256] {
            let pause = failures.record(status(503, None), INTERVAL);
            assert_eq!(pause.ok(), Some(Duration::from_secs(seconds)));
        }
        assert!(failures.record(status(503, None), INTERVAL).is_err());
        failures.reset();
        assert_eq!(failures.record(status(503, None), INTERVAL).ok(), Some(INTERVAL));
    }

    #[test]
    fn retry_after_is_kept_within_limits() {
        for (asked, pause) in [(0, 1), (7, 7), (10_000, 300)] {
            let paused = TaskFailures::default().record(status(429, Some(asked)), INTERVAL);
            assert_eq!(paused.ok(), Some(Duration::from_secs(pause)));
        }
    }

    #[test]
    fn failure_behind_a_bridge_passes() {
        let response = |code: i64, data: serde_json::Value| {
            let error = ErrorObject::new(code, "?").data(&data);
            ClientError::from_error_response(error, "tasks/get", tsugite_core::revision::Revision::NEWEST)
        };
        let busy = json!({"status": 503, "retryAfterMs": 7_000, "mayHaveRun": true});
        let paused = TaskFailures::default().record(response(-32603, busy), INTERVAL);
        assert_eq!(paused.ok(), Some(Duration::from_secs(7)));
        let unreachable = json!({"mayHaveRun": false});
        let paused = TaskFailures::default().record(response(-32603, unreachable.clone()), INTERVAL);
        assert_eq!(paused.ok(), Some(INTERVAL));
        for error in [
            response(-32603, json!({"status": 500, "mayHaveRun": true})),
            response(-32603, json!({"limit": 1})),
            response(-32602, unreachable),
        ] {
            assert!(TaskFailures::default().record(error, INTERVAL).is_err());
        }
    }

    #[test]
    fn refusal_of_a_busy_server_passes() {
        let response = |error: ErrorObject| {
            ClientError::from_error_response(error, "tasks/get", tsugite_core::revision::Revision::NEWEST)
        };
        let limited = |wait: u64| ErrorObject::new(-32603, "?").data(&json!({"retryAfterMs": wait}));
        for (error, pause) in [
            (ErrorObject::new(-32803, "?"), 1),
            (ErrorObject::new(-32803, "?").data(&json!({"retryAfterMs": 3_000})), 3),
            (limited(32), 1),
            (limited(7_000), 7),
            (limited(u64::MAX), 300),
        ] {
            let paused = TaskFailures::default().record(response(error), INTERVAL);
            assert_eq!(paused.ok(), Some(Duration::from_secs(pause)));
        }
        for data in [json!({"retryAfterMs": -1}), json!({"retryAfterMs": "soon"}), json!("1")] {
            let error = response(ErrorObject::new(-32603, "?").data(&data));
            assert!(TaskFailures::default().record(error, INTERVAL).is_err(), "{data}");
        }
    }

    #[test]
    fn other_errors_are_final() {
        for error in [
            status(500, None),
            status(404, None),
            ErrorKind::Closed.into(),
            ClientError::connect(ConnectStep::Spawn, "?"),
        ] {
            assert!(TaskFailures::default().record(error, INTERVAL).is_err());
        }
        for error in [
            ClientError::connect(ConnectStep::Tcp, "?"),
            ErrorKind::ConnectionLost { may_have_run: true, reason: String::new() }.into(),
        ] {
            assert!(TaskFailures::default().record(error, INTERVAL).is_ok());
        }
    }
}
