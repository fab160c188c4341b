//! How messages travel.

#[cfg(feature = "client")]
pub mod child;
#[cfg(feature = "http")]
pub mod http;
pub mod memory;
mod signal;
mod stderr_log;
mod stdio;
