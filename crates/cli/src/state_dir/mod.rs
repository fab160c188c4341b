//! The folder in which the program keeps its state, by platform.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::{NO_STATE_DIR, state_dir};
#[cfg(windows)]
pub(crate) use windows::{NO_STATE_DIR, state_dir};
