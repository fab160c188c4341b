//! Environment variables on Windows.

use std::ffi::OsStr;

/// Whether two names are the same variable: the system writes `Path` where others write `PATH`.
pub(in crate::transport::child) fn same_name(one: &OsStr, other: &OsStr) -> bool {
    one.eq_ignore_ascii_case(other)
}

/// The variables that every server inherits: those that the official SDKs pass, and those without which sockets, scripts or
/// temporary files fail.
pub(in crate::transport::child) const DEFAULT_ENV: [&str; 24] = [
    "ALLUSERSPROFILE",
    "APPDATA",
    "COMPUTERNAME",
    "COMSPEC",
    "HOME",
    "HOMEDRIVE",
    "HOMEPATH",
    "LANG",
    "LOCALAPPDATA",
    "NUMBER_OF_PROCESSORS",
    "OS",
    "PATH",
    "PATHEXT",
    "PROCESSOR_ARCHITECTURE",
    "PROGRAMDATA",
    "PROGRAMFILES",
    "PROGRAMFILES(X86)",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "TEMP",
    "TMP",
    "USERDOMAIN",
    "USERNAME",
    "USERPROFILE",
];
