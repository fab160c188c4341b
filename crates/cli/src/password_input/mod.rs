//! Reads a password from a terminal, which does not show it.

#[cfg(unix)]
mod unix;

#[cfg(unix)]
pub(crate) use unix::read;
