//! Names of environment variables on Unix.

/// The variables that may name the home folder, the first one first.
pub(crate) const HOME_VARIABLES: &[&str] = &["HOME"];

/// Whether two names are the same variable.
pub(crate) fn same_name(one: &str, other: &str) -> bool {
    one == other
}
