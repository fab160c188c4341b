//! Errors as clients are told them: of a message that cannot cross the bridge, and of a server that fails.

use tsugite_core::revision::{RpcError, UnsupportedByRevisionError};

use super::target::Target;
use crate::client::{ClientError, ConnectStep, ErrorKind};

/// The error for a message that the other side's revision cannot express.
pub(super) fn unsupported_error(error: &UnsupportedByRevisionError, method: &str) -> RpcError {
    match error {
        UnsupportedByRevisionError::Method(_) => RpcError::MethodNotFound { method: method.to_owned() },
        other => RpcError::InvalidParams(format!("this cannot cross the bridge: {other}").into()),
    }
}

/// The reason of a failure as clients are told it, without the server's address and standard error.
pub(super) fn public_reason(error: &ClientError) -> String {
    match error.kind() {
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
        ErrorKind::Status { status, .. } => format!("it answered with HTTP status {status}"),
        ErrorKind::Config(_) => "the bridge is not set up to reach it".to_owned(),
        ErrorKind::ConnectionLost { may_have_run: true, .. } => {
            "the connection was lost, and the call may have run".to_owned()
        }
        ErrorKind::ConnectionLost { .. } => "the connection was lost".to_owned(),
        _ => error.to_string(),
    }
}

/// The error for a server whose description of itself cannot be read.
pub(super) fn malformed_result_error(target: &Target) -> RpcError {
    RpcError::internal_with_message(format!(
        "{} does not say what it is in a way that can be read",
        target.display_name()
    ))
}
