//! The data of an error with which a bridge says that the server behind it failed.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tsugite_core::jsonrpc::{ErrorObject, code};

/// The facts about a request that failed at the server behind a bridge.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UpstreamFailure {
    /// The HTTP status. Without one the server could not be reached, or its response did not arrive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) retry_after_ms: Option<u64>,
    pub(crate) may_have_run: bool,
}

impl UpstreamFailure {
    /// The error for the client of the bridge.
    pub(crate) fn to_error(&self, text: String) -> ErrorObject {
        ErrorObject::new(code::INTERNAL_ERROR, text).data(self)
    }

    /// Reads the data of an error. `None` if the error says something else.
    pub(crate) fn from_error(error: &ErrorObject) -> Option<Self> {
        let data = error.data.as_ref().filter(|_| error.code == code::INTERNAL_ERROR)?;
        data.read().ok()
    }

    /// Whether the same request may succeed later.
    pub(crate) fn may_pass(&self) -> bool {
        self.status.is_none_or(status_may_pass)
    }

    /// How long the server asks to wait.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        self.retry_after_ms.map(Duration::from_millis)
    }
}

/// Whether the same request may succeed after this HTTP status.
pub(crate) fn status_may_pass(status: u16) -> bool {
    matches!(status, 429 | 502 | 503 | 504)
}
