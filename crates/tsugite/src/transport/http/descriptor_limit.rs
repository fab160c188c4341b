//! The number of files that this process may open, on Unix.

use rustix::process::{Resource, getrlimit};

/// `None` if there is no limit.
pub(super) fn max_open_files() -> Option<usize> {
    getrlimit(Resource::Nofile).current.and_then(|files| usize::try_from(files).ok())
}
