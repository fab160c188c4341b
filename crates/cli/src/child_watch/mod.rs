//! Ends the servers that this program started if it is killed, on platforms where that is possible.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod unsupported;

#[cfg(target_os = "linux")]
pub(crate) use linux::{register, run_if_requested};
#[cfg(not(target_os = "linux"))]
pub(crate) use unsupported::{register, run_if_requested};
