//! Windows has no signals that another process could send.

use std::io;

/// Does nothing.
pub(in crate::script) fn ignore() -> io::Result<()> {
    Ok(())
}
