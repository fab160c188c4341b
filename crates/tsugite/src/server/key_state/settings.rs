//! The settings of tools that are `once`, each with its default.

use std::time::Duration;

use tsugite_core::protocol::Idempotency;

use crate::server::Server;
use crate::server::record_limits::{RecordLimit, RecordLimits};
use crate::store::{MAX_VALUE_BYTES, StoreScope};

/// The settings of tools that are `once`.
#[derive(Debug, Clone)]
pub(crate) struct OnceSettings {
    pub(crate) retention: Duration,
    pub(crate) wait: Duration,
    max_keys: usize,
    max_keys_per_caller: usize,
    max_bytes: usize,
    max_bytes_per_caller: usize,
    pub(crate) max_result_bytes: usize,
}

impl Default for OnceSettings {
    fn default() -> Self {
        Self {
            retention: Duration::from_secs(3_600),
            wait: Duration::from_secs(20),
            max_keys: 100_000,
            max_keys_per_caller: 10_000,
            max_bytes: 256 << 20,
            max_bytes_per_caller: 64 << 20,
            max_result_bytes: 1 << 20,
        }
    }
}

impl OnceSettings {
    pub(crate) fn limits(&self) -> RecordLimits {
        RecordLimits {
            records: RecordLimit::new("max_once_keys", self.max_keys),
            records_per_caller: RecordLimit::new("max_once_keys_per_caller", self.max_keys_per_caller),
            bytes: RecordLimit::new("max_once_bytes", self.max_bytes),
            bytes_per_caller: RecordLimit::new("max_once_bytes_per_caller", self.max_bytes_per_caller),
        }
    }

    /// How long a call that runs is kept without being refreshed.
    pub(crate) fn running_ttl(&self) -> Duration {
        self.retention.saturating_add(2 * REFRESH_INTERVAL)
    }

    /// The declaration of a tool about its keys.
    pub(crate) fn definition(&self, scope: StoreScope) -> Idempotency {
        let retention = u64::try_from(self.retention.as_millis()).unwrap_or(u64::MAX);
        Idempotency::new(retention, scope != StoreScope::Process)
    }
}

impl Server {
    /// Sets how long the outcome of a call with an idempotency key is remembered, for tools that are
    /// [`once`](crate::server::Tool::once). Default: 1 hour, at most a year. It lives in [`Server::store`].
    #[must_use]
    #[doc(alias("idempotency", "ttl"))]
    pub fn once_retention(self, time: Duration) -> Self {
        let time = time.clamp(Duration::from_millis(1), MAX_RETENTION);
        self.configure(|config| config.once.retention = time)
    }

    /// Sets how long a call waits for the end of another one with the same key, before it is told that it still runs.
    /// Default: 20 seconds, less than the time for which clients wait without progress.
    #[must_use]
    pub fn once_wait(self, time: Duration) -> Self {
        let time = time.min(MAX_RETENTION);
        self.configure(|config| config.once.wait = time)
    }

    /// Sets how many calls with a key that this process ran are remembered at once. Default: 100,000. A call beyond it is
    /// rejected before it runs.
    #[must_use]
    pub fn max_once_keys(self, keys: usize) -> Self {
        self.configure(|config| config.once.max_keys = keys.max(1))
    }

    /// Sets how many of them one caller may have. Default: 10,000. A caller is a
    /// [`Principal`](crate::server::Principal), else the network address of the client. If neither is known, as on stdio,
    /// only the limits for all callers hold.
    #[must_use]
    pub fn max_once_keys_per_caller(self, keys: usize) -> Self {
        self.configure(|config| config.once.max_keys_per_caller = keys.max(1))
    }

    /// Sets how many bytes the remembered outcomes may have together. Default: 256 MiB. An outcome beyond it is sent and not
    /// remembered: a second call is told so and does not run.
    #[must_use]
    pub fn max_once_bytes(self, bytes: usize) -> Self {
        self.configure(|config| config.once.max_bytes = bytes.max(1))
    }

    /// Sets how many bytes the remembered outcomes of one caller may have together. Default: 64 MiB.
    #[must_use]
    pub fn max_once_bytes_per_caller(self, bytes: usize) -> Self {
        self.configure(|config| config.once.max_bytes_per_caller = bytes.max(1))
    }

    /// Sets the size of the largest outcome that is remembered. Default: 1 MiB, at most 8 MiB.
    #[must_use]
    pub fn max_once_result_bytes(self, bytes: usize) -> Self {
        self.configure(|config| config.once.max_result_bytes = bytes.min(MAX_VALUE_BYTES / 2))
    }
}

/// How often the record of a call that runs is refreshed.
pub(crate) const REFRESH_INTERVAL: Duration = Duration::from_secs(5 * 60);
/// Longer times overflow the clocks of some stores.
const MAX_RETENTION: Duration = Duration::from_secs(365 * 24 * 60 * 60);
