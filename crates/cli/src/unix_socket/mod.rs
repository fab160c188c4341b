//! Serving on a Unix socket, on platforms that have them.

#[cfg(unix)]
mod unix;
#[cfg(not(unix))]
mod unsupported;

#[cfg(unix)]
pub(crate) use unix::{Listener, bind};
#[cfg(not(unix))]
pub(crate) use unsupported::{Listener, bind};
