//! Requests about a task that fail in a way that may pass: how long to wait, and when to give up.
//!
//! A task outlives the connection and often the server process, so one failed request says nothing about it.

use std::time::Duration;

use super::client_error::{ClientError, ConnectStep, ErrorKind, Result};

/// The failures in a row of one kind of request.
#[derive(Default)]
pub(super) struct TaskFailures {
    in_a_row: u32,
}

impl TaskFailures {
    /// Records a failed request, and returns how long to wait before the next one: as long as the server asks, or the poll
    /// interval, which doubles with each failure. Returns the error if it is final.
    pub(super) fn record(&mut self, error: ClientError, interval: Duration) -> Result<Duration> {
        let growth = 1_u32.checked_shl(self.in_a_row).unwrap_or(u32::MAX);
        self.in_a_row = self.in_a_row.saturating_add(1);
        if !may_pass(error.kind()) || self.in_a_row >= MAX_FAILURES {
            return Err(error);
        }
        let asked = match error.kind() {
            ErrorKind::Status { retry_after, .. } => *retry_after,
            _ => None,
        };
        let pause = asked.unwrap_or_else(|| interval.saturating_mul(growth));
        let pause = pause.clamp(interval, MAX_PAUSE.max(interval));
        tracing::debug!(%error, ?pause, "a request about a task failed and is sent again");
        Ok(pause)
    }

    /// Records a request that the server answered.
    pub(super) fn reset(&mut self) {
        self.in_a_row = 0;
    }
}

/// Whether the same request may succeed later. An error response of the server is its answer.
fn may_pass(error: &ErrorKind) -> bool {
    match error {
        ErrorKind::Status { status, .. } => matches!(status, 429 | 502 | 503 | 504),
        ErrorKind::Connect { step, .. } => *step != ConnectStep::Spawn,
        ErrorKind::ConnectionLost { .. } | ErrorKind::TimedOut { .. } => true,
        _ => false,
    }
}

/// With an interval of one second, the tenth failure comes after about eight minutes.
const MAX_FAILURES: u32 = 10;
/// A server cannot make the client forget the task.
const MAX_PAUSE: Duration = Duration::from_secs(300);

#[cfg(test)]
mod tests {
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
