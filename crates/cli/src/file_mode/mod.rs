//! Files for their owner alone, and who may read or execute a file, by platform.

#[cfg(unix)]
mod unix;

#[cfg(unix)]
pub(crate) use unix::{create_private_dir, is_executable, is_private, make_private, open_private};
