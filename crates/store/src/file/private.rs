//! Creation of a file for its owner alone, by platform.

#[cfg(unix)]
mod unix;

#[cfg(unix)]
pub(super) use unix::create_private;
