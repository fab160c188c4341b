//! The exit status of a child.

use std::fmt;

/// The exit status of a child. `Display` is a predicate for a sentence, such as "the server ended with code 3".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChildExitStatus {
    /// The child ended by itself.
    Code(i32),
    /// A signal killed the child.
    Signal(i32),
    /// The status is lost: the application ignores SIGCHLD, or waits for children it did not start.
    Unknown,
}

impl ChildExitStatus {
    /// The status of a child that ended with a code or by a signal.
    pub(super) fn new(code: Option<i32>, signal: Option<i32>) -> Self {
        match (code, signal) {
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
            ChildExitStatus::Unknown => f.write_str("ended with an unknown status"),
        }
    }
}
