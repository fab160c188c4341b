//! The reasons why an operation fails.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::RedisError;

/// A failed operation: the server and the reason. It names no key, no value and no password.
#[derive(Debug, Clone)]
pub(crate) struct Error {
    address: Arc<str>,
    reason: Reason,
}

#[derive(Debug, Clone)]
pub(crate) enum Reason {
    /// The server did not answer in time.
    Timeout(Duration),
    /// The last attempt to connect failed, and the next one has not succeeded yet.
    Down(Arc<Error>),
    /// The connection could not be opened, or was lost.
    Connection(Arc<str>),
    /// The server is not one that can be used.
    Unsuitable(Arc<str>),
    /// The server refused a command.
    Refused(Arc<str>),
    /// The server has reached its memory limit.
    OutOfMemory,
    /// The server sent a reply of another form than expected.
    UnexpectedReply,
}

impl Error {
    pub(crate) fn new(address: &Arc<str>, reason: Reason) -> Self {
        Self { address: address.clone(), reason }
    }

    pub(crate) fn from_redis(address: &Arc<str>, error: &RedisError) -> Self {
        let reason = match error.code() {
            Some("OOM") => Reason::OutOfMemory,
            Some(_) => Reason::Refused(error.to_string().into()),
            None => Reason::Connection(error.to_string().into()),
        };
        Self::new(address, reason)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = &self.address;
        match &self.reason {
            Reason::Timeout(timeout) => write!(f, "Redis at {address} did not answer within {timeout:?}"),
            Reason::Down(cause) => write!(f, "connecting failed and is tried again: {cause}"),
            Reason::Connection(cause) => write!(f, "no connection to Redis at {address}: {cause}"),
            Reason::Unsuitable(cause) => write!(f, "Redis at {address} cannot be used: {cause}"),
            Reason::Refused(cause) => write!(f, "Redis at {address} refused a command: {cause}"),
            Reason::OutOfMemory => write!(
                f,
                "Redis at {address} has reached its `maxmemory`, nothing was written; raise it, or store less"
            ),
            Reason::UnexpectedReply => write!(f, "Redis at {address} sent a reply of an unexpected form"),
        }
    }
}

impl std::error::Error for Error {}
