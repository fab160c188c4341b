//! How messages travel.

mod log;
pub mod memory;
mod stdio;
