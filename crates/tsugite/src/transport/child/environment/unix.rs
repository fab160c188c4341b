//! Environment variables on Unix.

use std::ffi::OsStr;

/// Whether two names are the same variable.
pub(in crate::transport::child) fn same_name(one: &OsStr, other: &OsStr) -> bool {
    one == other
}

/// The variables that every server inherits. The official SDKs pass `HOME`, `LOGNAME`, `PATH`, `SHELL`, `TERM` and `USER`;
/// the others set the temporary directory, the language and the time zone.
pub(in crate::transport::child) const DEFAULT_ENV: [&str; 9] =
    ["HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"];
