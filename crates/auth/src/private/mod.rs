//! Files for their owner alone, and where a user keeps them, by platform.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::{NO_STATE_DIR, check_private, create_dir, private, replace, state_dir, unfollowed};
#[cfg(windows)]
pub(crate) use windows::{NO_STATE_DIR, check_private, create_dir, private, replace, state_dir, unfollowed};
