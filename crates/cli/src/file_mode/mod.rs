//! Files for their owner alone, and their replacement, by platform.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::{
    create_private_dir, is_private, make_private, open_private, replace, sync_folder_of, writable_command,
};
#[cfg(windows)]
pub(crate) use windows::{
    create_private_dir, is_private, make_private, open_private, replace, sync_folder_of, writable_command,
};
