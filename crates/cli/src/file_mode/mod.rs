//! Files for their owner alone, and whether a file may be executed, by platform.

#[cfg(unix)]
mod unix;

#[cfg(unix)]
pub(crate) use unix::{create_private_dir, is_executable, make_private, open_private};
