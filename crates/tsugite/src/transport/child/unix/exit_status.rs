//! How a child ended.

use std::fmt;

use rustix::process::WaitIdStatus;

/// How a child ended. In words it goes on from what it is said of: "the server ended with code 3".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChildExitStatus {
    /// By itself.
    Code(i32),
    /// By a signal.
    Signal(i32),
    /// Nobody can say: the application ignores SIGCHLD, or waits for children it did not start.
    Unknown,
}

impl ChildExitStatus {
    pub(super) fn new(status: &WaitIdStatus) -> Self {
        match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => ChildExitStatus::Code(code),
            (None, Some(signal)) => ChildExitStatus::Signal(signal),
            (None, None) => ChildExitStatus::Unknown,
        }
    }
}

impl fmt::Display for ChildExitStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChildExitStatus::Code(code) => write!(f, "ended with code {code}"),
            ChildExitStatus::Signal(signal) => write!(f, "was killed by signal {signal}"),
            ChildExitStatus::Unknown => f.write_str("ended, and nobody knows how"),
        }
    }
}
