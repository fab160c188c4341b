//! Failures of handlers: the log has the cause, with the item that failed; the peer gets a number or "Internal error".

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tsugite_core::jsonrpc::Id;
use tsugite_core::revision::RpcError;

use super::ask_error::AskError;
use super::handler_error::{HandlerError, InvocationError};
use super::subject::Subject;
use crate::error::Chain;
use crate::shared::failure_causes::FailureCause;
use crate::shared::log;
use crate::shared::panic::PanicError;

/// Logs why a handler failed. Returns the error as the peer may see it, and the cause if the peer does not see it.
pub(crate) fn report(
    error: InvocationError,
    subject: &Subject<'_>,
    id: &Id<'_>,
) -> (InvocationError, Option<FailureCause>) {
    match error {
        InvocationError::Internal(cause) => {
            log_internal(subject, id, &cause);
            (InvocationError::Rpc(RpcError::Internal), Some(cause))
        }
        InvocationError::Handler(error) => {
            if let Some(cause) = error.hidden_cause() {
                let text = log_hidden(subject, cause);
                return (InvocationError::Handler(HandlerError::new(text)), Some(cause.clone()));
            }
            let misused = error.as_ask().filter(|ask| matches!(ask, AskError::Misused(_)));
            let cause = misused.map(|ask| Arc::new(ask.clone()) as FailureCause);
            cause.iter().for_each(|cause| log_internal(subject, id, cause));
            (InvocationError::Handler(error), cause)
        }
        error @ (InvocationError::Rpc(_) | InvocationError::NotFound) => (error, None),
    }
}

/// Logs the panic of a handler, which the peer hears of as an internal error.
pub(crate) fn report_panic(panic: PanicError, subject: &Subject<'_>, id: &Id<'_>) -> FailureCause {
    log::error!(kind = subject.kind, name = &*subject.name, %id, error = %panic.message, "{subject} panicked");
    Arc::new(panic)
}

/// Logs an error that the peer hears of as an internal error.
fn log_internal(subject: &Subject<'_>, id: &Id<'_>, cause: &FailureCause) {
    log::error!(kind = subject.kind, name = &*subject.name, %id, error = %Chain(&**cause), "{subject} failed");
}

/// Logs an error under a number. Returns the sentence that gives the number to the peer.
fn log_hidden(subject: &Subject<'_>, cause: &FailureCause) -> String {
    static NEXT_NUMBER: AtomicU64 = AtomicU64::new(1);
    let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
    log::error!(kind = subject.kind, name = &*subject.name, number, error = %Chain(&**cause), "{subject} failed");
    format!("{} failed (number {number} in the server's log)", subject.kind)
}
