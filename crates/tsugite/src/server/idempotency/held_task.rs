//! The task that a call with a key has become, until the client has its id.

use std::sync::Mutex;

use crate::lock::lock;
use crate::server::key_state::BeginTask;

/// A task whose id is stored under the key. It begins when this is dropped: after the response, or when nothing waits for the
/// response any more.
#[derive(Default)]
pub(super) struct HeldTask(Mutex<Option<BeginTask>>);

impl HeldTask {
    pub(super) fn set(&self, begin: BeginTask) {
        *lock(&self.0) = Some(begin);
    }
}

impl Drop for HeldTask {
    fn drop(&mut self) {
        if let Some(begin) = lock(&self.0).take() {
            begin();
        }
    }
}
