//! The errors of calls with a key. Each says what happened to the first call, and what the client can do.

use std::time::Duration;

use tsugite_core::jsonrpc::{ErrorObject, code};
use tsugite_core::protocol::KeyFault;
use tsugite_core::protocol::idempotency::KEY;
use tsugite_core::protocol::mrtr::REQUEST_STATE;
use tsugite_core::revision::RpcError;

use crate::error::Chain;
use crate::server::record_limits::RecordLimit;
use crate::shared::log;

/// Why a call is refused although its key is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The tool, the arguments or the revision differ.
    OtherCall,
    /// The call answers other questions than the ones that are open, or answers them differently.
    OtherRound,
    /// The handler was stopped.
    MayHaveRun,
}

impl Refusal {
    pub(super) fn to_rpc_error(self) -> RpcError {
        let reason = match self {
            Refusal::OtherCall => {
                "with another tool, other arguments or another revision; a new call needs a new key"
                    .to_owned()
            }
            Refusal::OtherRound => format!(
                "in another round or with other answers; send `{REQUEST_STATE}` and the answers as they were, or call from \
                 the start"
            ),
            Refusal::MayHaveRun => return may_have_run(),
        };
        let text = format!("Invalid params: the key in `_meta` (`{KEY}`) was used {reason}");
        RpcError::Other(KeyFault::OtherCall.error(code::INVALID_PARAMS, text))
    }
}

/// The first call began and its outcome is not known.
pub(super) fn may_have_run() -> RpcError {
    let text = "The first call with this key was stopped before it ended: it may have run, and does not run again. Find out \
                what it did, and use a new key for a new call";
    RpcError::Other(KeyFault::MayHaveRun.error(code::INTERNAL_ERROR, text))
}

/// The first call has not ended in the time that others wait for it.
pub(super) fn running(waited: Duration) -> RpcError {
    let text = format!(
        "The first call with this key still runs after {waited:?} (`once_wait`); call again with the same key"
    );
    RpcError::Other(KeyFault::Running.error(code::INTERNAL_ERROR, text))
}

/// The first call has ended, and its outcome was too large.
pub(super) fn not_kept() -> RpcError {
    let text = "The first call with this key has run. Its result was too large to be remembered \
                (`max_once_result_bytes`, `max_once_bytes`)";
    RpcError::Other(KeyFault::ResultNotKept.error(code::INTERNAL_ERROR, text))
}

/// The call has run, and its outcome is not stored, so a second call could not be answered with it.
pub(super) fn not_stored() -> RpcError {
    let text = "The call has run, but its result could not be stored: it does not run again with this key";
    RpcError::Other(KeyFault::MayHaveRun.error(code::INTERNAL_ERROR, text))
}

/// The store failed before the call began. Over HTTP 503.
pub(super) fn unavailable(error: &(dyn std::error::Error + 'static)) -> RpcError {
    log::error!(error = %Chain(error), "the key of a call cannot be looked up");
    let text = "Service unavailable: the key of the call cannot be looked up now, so the call did not run; try again later";
    RpcError::Other(ErrorObject::new(code::UNAVAILABLE, text))
}

/// Too many calls are remembered. Over HTTP 503.
pub(super) fn limit(limit: RecordLimit) -> RpcError {
    let text = format!(
        "Service unavailable: too many calls are remembered: the limit `{}` is {}; try again when some are forgotten, or \
         call without a key",
        limit.setting, limit.value
    );
    RpcError::Other(ErrorObject::new(code::UNAVAILABLE, text))
}
