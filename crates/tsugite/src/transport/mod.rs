//! Transports: stdio, HTTP, in memory, and child processes for clients.

#[cfg(feature = "client")]
pub mod child;
#[cfg(feature = "http")]
pub mod http;
mod line_stream;
pub mod memory;
mod signal;
mod stderr_log;
mod stdio;
