//! Passwords on a Windows console.

use std::io;

use winapi_util::HandleRef;
use winapi_util::console::{mode, set_mode};

/// Typed text is not shown until this is dropped.
pub(super) struct HiddenInput {
    saved: u32,
}

impl HiddenInput {
    pub(super) fn new() -> io::Result<Self> {
        let saved = mode(HandleRef::stdin())?;
        set_mode(HandleRef::stdin(), saved & !ENABLE_ECHO_INPUT)?;
        Ok(Self { saved })
    }
}

impl Drop for HiddenInput {
    fn drop(&mut self) {
        // There is nothing left to do if the console cannot be restored.
        let _ = set_mode(HandleRef::stdin(), self.saved);
    }
}

const ENABLE_ECHO_INPUT: u32 = 0x0004;
