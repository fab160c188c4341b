//! Trees of processes on Windows.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::process::Command;

use crate::process::{program, succeeds};

/// Leaves a program as it is: `taskkill` finds what it has started.
pub(crate) fn start_in_group(_: &mut Command) {}

/// Kills a program and everything it has started.
pub(crate) fn kill_group(id: u32) {
    succeeds(program("taskkill", ["/T", "/F", "/PID", &id.to_string()]));
}

/// Ends a program. There is no request to do so.
pub(crate) fn terminate(id: u32) {
    kill_group(id);
}

/// Leaves a file as it is: its ending makes it a program.
pub(crate) fn make_executable(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Leaves `options` as they are: access rights are inherited from the folder.
pub(crate) fn open_private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}
