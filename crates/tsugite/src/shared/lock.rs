//! Locks a mutex that a panic may have poisoned. Our critical sections leave their data consistent at every statement, so
//! a poisoned mutex is safe to use.

use std::sync::{Mutex, MutexGuard};

/// Locks a mutex, poisoned or not.
#[inline(always)]
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
