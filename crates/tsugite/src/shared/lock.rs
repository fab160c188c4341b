//! Locks that a panic elsewhere has not spoilt: what they hold is whole between any two statements.

use std::sync::{Mutex, MutexGuard};

/// Locks.
#[inline(always)]
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
