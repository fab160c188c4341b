//! Asks the system whether a process group accepts signals.

use rustix::process::{Pid, test_kill_process_group};

/// Whether all processes of a group have ended: macOS and the BSDs send no signal to zombies, and report an error if a group
/// has nothing else.
pub(super) fn group_has_exited(group: Pid) -> bool {
    test_kill_process_group(group).is_err()
}
