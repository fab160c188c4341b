//! Escape sequences on Windows, where the console must be told to understand them.

use winapi_util::console::{mode, set_mode};
use winapi_util::{AsHandleRef, HandleRef};

/// Makes the consoles of standard output and standard error understand escape sequences. Returns which of them do.
pub(crate) fn enable_escapes() -> (bool, bool) {
    (enable(&HandleRef::stdout()), enable(&HandleRef::stderr()))
}

fn enable(console: &impl AsHandleRef) -> bool {
    let Ok(before) = mode(console) else { return false };
    set_mode(console, before | ENABLE_VIRTUAL_TERMINAL_PROCESSING).is_ok()
}

const ENABLE_VIRTUAL_TERMINAL_PROCESSING: u32 = 0x0004;
