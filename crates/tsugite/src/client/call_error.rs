//! Why a call over one connection failed: finally, or because the connection was lost and the call may be repeated.

use tsugite_core::revision::UnsupportedByRevisionError;

use super::client_error::{ClientError, ErrorKind};

/// The reason why a call over one connection has no response.
pub(super) enum CallError {
    /// Trying again would not help.
    Fatal(ClientError),
    /// The connection, or the session, is gone.
    Disconnected { may_have_run: bool, reason: String },
}

impl CallError {
    pub(super) fn disconnected(reason: impl Into<String>) -> Self {
        CallError::Disconnected { may_have_run: true, reason: reason.into() }
    }

    pub(super) fn not_sent(reason: impl Into<String>) -> Self {
        CallError::Disconnected { may_have_run: false, reason: reason.into() }
    }

    /// Adds that an earlier attempt of the call may have run.
    pub(super) fn after_attempts(self, earlier_may_have_run: bool) -> Self {
        match self {
            CallError::Fatal(error) => CallError::Fatal(error.after_attempts(earlier_may_have_run)),
            CallError::Disconnected { may_have_run, reason } => {
                CallError::Disconnected { may_have_run: may_have_run || earlier_may_have_run, reason }
            }
        }
    }
}

impl From<ClientError> for CallError {
    fn from(error: ClientError) -> Self {
        CallError::Fatal(error)
    }
}

impl From<ErrorKind> for CallError {
    fn from(kind: ErrorKind) -> Self {
        CallError::Fatal(kind.into())
    }
}

impl From<UnsupportedByRevisionError> for CallError {
    fn from(error: UnsupportedByRevisionError) -> Self {
        CallError::Fatal(error.into())
    }
}

impl From<CallError> for ClientError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Fatal(error) => error,
            CallError::Disconnected { may_have_run, reason } => {
                ErrorKind::ConnectionLost { may_have_run, reason }.into()
            }
        }
    }
}
