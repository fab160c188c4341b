//! Names of environment variables on Windows.

/// The variables that may name the home folder, the first one first. Shells of Unix set `HOME`.
pub(crate) const HOME_VARIABLES: &[&str] = &["USERPROFILE", "HOME"];

/// Whether two names are the same variable: the system writes `Path` where others write `PATH`.
pub(crate) fn same_name(one: &str, other: &str) -> bool {
    one.eq_ignore_ascii_case(other)
}
