//! The settings of a store, and the names of its keys.

use std::sync::Arc;
use std::time::Duration;

use redis::RedisError;

use crate::address::Address;
use crate::error::{Error, Reason};
use crate::tls::TlsFiles;

#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) address: Address,
    /// The address for messages, without credentials.
    pub(crate) name: Arc<str>,
    pub(crate) prefix: String,
    pub(crate) timeout: Duration,
    pub(crate) tls: TlsFiles,
}

impl Settings {
    pub(crate) fn new(address: Address) -> Self {
        Self {
            name: address.to_string().into(),
            address,
            prefix: "tsugite".to_owned(),
            timeout: Duration::from_secs(2),
            tls: TlsFiles::default(),
        }
    }

    pub(crate) fn error(&self, reason: Reason) -> Error {
        Error::new(&self.name, reason)
    }

    pub(crate) fn redis_error(&self, error: &RedisError) -> Error {
        Error::from_redis(&self.name, error)
    }

    pub(crate) fn timeout_error(&self) -> Error {
        self.error(Reason::Timeout(self.timeout))
    }

    pub(crate) fn record_key(&self, key: &str) -> String {
        self.key("record", key)
    }

    pub(crate) fn limit_key(&self, key: &str) -> String {
        self.key("limit", key)
    }

    /// The state of a log, and its events.
    pub(crate) fn log_keys(&self, log: &str) -> [String; 2] {
        [self.key("log", log), self.key("events", log)]
    }

    pub(crate) fn inbox_key(&self, replica: &str) -> String {
        self.key("inbox", replica)
    }

    pub(crate) fn broadcast_key(&self) -> String {
        format!("{}:broadcast", self.prefix)
    }

    pub(crate) fn lease_key(&self, replica: &str) -> String {
        self.key("lease", replica)
    }

    fn key(&self, kind: &str, name: &str) -> String {
        format!("{}:{kind}:{name}", self.prefix)
    }
}

/// A time to live in milliseconds: at least 1, since 0 would delete, and at most 100 years, which Redis can add to the
/// time of day.
pub(crate) fn milliseconds(ttl: Duration) -> u64 {
    const MAX: u64 = 100 * 365 * 24 * 60 * 60 * 1000;
    let rounded_up = ttl.as_nanos().div_ceil(1_000_000);
    u64::try_from(rounded_up).unwrap_or(MAX).clamp(1, MAX)
}
