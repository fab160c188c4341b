//! Errors as clients are told them: of a message that cannot cross the bridge, and of a server that fails.

use tsugite_core::jsonrpc::{ErrorObject, code};
use tsugite_core::revision::{RpcError, UnsupportedByRevisionError};

use super::target::Target;
use crate::client::task_failures::PassingFailure;
use crate::client::{ClientError, ConnectStep, ErrorKind};
use crate::shared::upstream_failure::UpstreamFailure;

/// The error for a message that the other side's revision cannot express.
pub(super) fn unsupported_error(error: &UnsupportedByRevisionError, method: &str) -> RpcError {
    match error {
        UnsupportedByRevisionError::Method(_) => RpcError::MethodNotFound { method: method.to_owned() },
        other => RpcError::InvalidParams(format!("this cannot cross the bridge: {other}").into()),
    }
}

/// The error for a call that failed at a server: why, and whether it may have run.
pub(super) fn upstream_error(target: &Target, error: &ClientError) -> RpcError {
    let (status, retry_after) = match error.kind() {
        ErrorKind::Status { status, retry_after, .. } => (Some(*status), *retry_after),
        ErrorKind::Unauthorized(challenge) => (Some(challenge.status), None),
        _ => (None, None),
    };
    let failure = UpstreamFailure {
        status,
        retry_after_ms: retry_after.map(|delay| u64::try_from(delay.as_millis()).unwrap_or(u64::MAX)),
        may_have_run: error.may_have_run(),
    };
    let text = format!("{}: {}", target.display_name(), public_reason(error));
    RpcError::Other(failure.to_error(text))
}

/// The error for a server that cannot be reached, so that the call did not run.
pub(super) fn unreachable_error(target: &Target, why: &str) -> RpcError {
    let failure = UpstreamFailure { status: None, retry_after_ms: None, may_have_run: false };
    RpcError::Other(failure.to_error(format!("{} cannot be reached: {why}", target.display_name())))
}

/// The failure of a request about a task, if the same request may succeed later.
pub(super) fn passing_failure(error: &RpcError) -> Option<PassingFailure> {
    match error {
        RpcError::Other(error) | RpcError::Forwarded(error) => PassingFailure::from_error_response(error),
        _ => None,
    }
}

/// The error for a limit of the bridge, which the text explains.
pub(super) fn limit_error(text: String, limit: usize) -> RpcError {
    RpcError::Other(ErrorObject::new(code::INTERNAL_ERROR, text).data(&serde_json::json!({"limit": limit})))
}

/// The reason of a failure as clients are told it, without the server's address and standard error.
pub(super) fn public_reason(error: &ClientError) -> String {
    let mut reason = match error.kind() {
        ErrorKind::Connect { step, .. } => match step {
            ConnectStep::Dns => "its name is not known",
            ConnectStep::Tcp => "nothing answers at its address",
            ConnectStep::Proxy => "the proxy does not reach it",
            ConnectStep::Tls => "no encryption could be agreed on",
            ConnectStep::Http => "it does not speak HTTP",
            ConnectStep::Spawn => "it could not be started",
            ConnectStep::Revision => "no common revision was found",
            ConnectStep::Handshake => "the handshake failed",
            ConnectStep::FirstResponse => "it does not answer",
        }
        .to_owned(),
        ErrorKind::Unauthorized(_) => "it wants other credentials than the bridge has".to_owned(),
        ErrorKind::Status { status, retry_after: Some(delay), .. } => {
            format!("it answered with HTTP status {status}; it asks to wait {} s", delay.as_secs_f64())
        }
        ErrorKind::Status { status, .. } => format!("it answered with HTTP status {status}"),
        ErrorKind::Config(_) => "the bridge is not set up to reach it".to_owned(),
        ErrorKind::ConnectionLost { .. } => "the connection was lost".to_owned(),
        // It says itself whether the call may have run.
        _ => return error.to_string(),
    };
    if error.may_have_run() {
        reason.push_str("; the call may have run");
    }
    reason
}

/// The error for a server whose answer about a task cannot be read.
pub(super) fn malformed_task_error(target: &Target) -> RpcError {
    let name = target.display_name();
    RpcError::internal_with_message(format!("{name} does not describe the task in a way that can be read"))
}

/// The error for a server whose description of itself cannot be read.
pub(super) fn malformed_result_error(target: &Target) -> RpcError {
    RpcError::internal_with_message(format!(
        "{} does not say what it is in a way that can be read",
        target.display_name()
    ))
}
