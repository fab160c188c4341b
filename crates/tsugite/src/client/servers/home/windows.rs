//! The home folder on Windows.

/// The variables that may name the home folder, the first one first. Shells of Unix set `HOME`.
pub(in crate::client::servers) const HOME_VARIABLES: &[&str] = &["USERPROFILE", "HOME"];
