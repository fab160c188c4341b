//! The means to wake the driver that polls a handler.

use std::sync::{Arc, Mutex};
use std::task::Waker;

use super::wake_signal::WakeSignal;
use crate::lock::lock;

/// Wakes the driver of a handler.
#[derive(Default)]
pub(in crate::server) struct DriverHandle(Mutex<Driver>);

#[derive(Default)]
enum Driver {
    #[default]
    NotStarted,
    /// The task that runs it, before the first question.
    Task(Waker),
    /// Its signal, from the first question on.
    Signal(Arc<WakeSignal>),
}

impl DriverHandle {
    /// Sets the task that runs the handler, for questions that other tasks ask.
    pub(in crate::server) fn set_task(&self, waker: &Waker) {
        let mut driver = lock(&self.0);
        if !matches!(&*driver, Driver::Task(current) if current.will_wake(waker)) {
            *driver = Driver::Task(waker.clone());
        }
    }

    pub(in crate::server) fn set_signal(&self, signal: &Arc<WakeSignal>) {
        *lock(&self.0) = Driver::Signal(signal.clone());
    }

    /// Whether `waker` wakes the handler itself, and not another task.
    pub(in crate::server) fn is_driver(&self, waker: &Waker) -> bool {
        waker.will_wake(Waker::noop())
            || match &*lock(&self.0) {
                Driver::NotStarted => false,
                Driver::Task(task) => task.will_wake(waker),
                Driver::Signal(signal) => signal.is_current(waker),
            }
    }

    /// A waker of the driver that does not count as one of the handler; `None` before the driver has started.
    pub(in crate::server) fn waker(&self) -> Option<Waker> {
        match &*lock(&self.0) {
            Driver::NotStarted => None,
            Driver::Task(task) => Some(task.clone()),
            Driver::Signal(signal) => Some(Waker::from(signal.clone())),
        }
    }

    pub(in crate::server) fn wake(&self) {
        if let Some(waker) = self.waker() {
            waker.wake();
        }
    }

    /// Makes the driver check again whether the handler can still be woken.
    pub(in crate::server) fn recheck(&self) {
        let signal = match &*lock(&self.0) {
            Driver::Signal(signal) => signal.clone(),
            Driver::NotStarted | Driver::Task(_) => return,
        };
        signal.recheck();
    }
}
