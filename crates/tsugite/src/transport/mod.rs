//! How messages travel.

pub mod memory;
mod stdio;
