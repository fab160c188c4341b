//! The delays between attempts to reach a server.

use std::time::Duration;

/// The delay before the next attempt: doubles with each failure, up to a minute.
pub(super) fn backoff(failures: u32) -> Duration {
    match failures {
        0 => Duration::ZERO,
        _ => Duration::from_millis(250).saturating_mul(1 << failures.min(8)).min(Duration::from_secs(60)),
    }
}

/// A connection or subscription that lasted this long was stable: the delays begin anew.
pub(super) const STABLE_CONNECTION_AGE: Duration = Duration::from_secs(30);
