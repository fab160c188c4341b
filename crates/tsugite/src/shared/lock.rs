//! Locking a mutex that a panic may have poisoned: the values behind our locks are consistent between any two statements.

use std::sync::{Mutex, MutexGuard};

/// Locks a mutex, poisoned or not.
#[inline(always)]
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
