//! The home folder on Unix.

/// The variables that may name the home folder, the first one first.
pub(in crate::client::servers) const HOME_VARIABLES: &[&str] = &["HOME"];
