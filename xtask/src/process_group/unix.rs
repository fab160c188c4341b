//! Process groups on Unix.

use std::fs::{self, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::process::{program, succeeds};

/// Makes a program lead a group of its own.
pub(crate) fn start_in_group(command: &mut Command) {
    command.process_group(0);
}

/// Kills a program and its group.
pub(crate) fn kill_group(id: u32) {
    // The shell has `kill` built in.
    succeeds(program("sh", ["-c", &format!("kill -s KILL -- -{id}")]));
}

/// Asks a program to end.
pub(crate) fn terminate(id: u32) {
    succeeds(program("sh", ["-c", &format!("kill -s TERM {id}")]));
}

/// Makes a file a program of its owner.
pub(crate) fn make_executable(file: &Path) -> io::Result<()> {
    fs::set_permissions(file, Permissions::from_mode(0o700))
}

/// Makes `options` create files that only their owner may read and write.
pub(crate) fn open_private(options: &mut OpenOptions) -> &mut OpenOptions {
    options.mode(0o600)
}
