//! A capture of what the library logs.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Metadata, Subscriber};

/// The messages of the warnings and errors that this thread logs until this is dropped.
pub struct Warnings {
    messages: Arc<Mutex<Vec<String>>>,
    _guard: DefaultGuard,
}

impl Warnings {
    /// Begins to capture. Tasks on other threads are not seen, so the runtime of the test has one thread.
    pub fn capture() -> Self {
        let messages = Arc::<Mutex<Vec<String>>>::default();
        let guard = tracing::subscriber::set_default(Capture(messages.clone()));
        Self { messages, _guard: guard }
    }

    /// The messages since the last call.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.messages))
    }
}

struct Capture(Arc<Mutex<Vec<String>>>);

impl Subscriber for Capture {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn event(&self, event: &Event<'_>) {
        event.record(&mut Message(&mut lock(&self.0)));
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

struct Message<'a>(&'a mut Vec<String>);

impl Visit for Message<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0.push(format!("{value:?}"));
        }
    }
}

fn lock(messages: &Mutex<Vec<String>>) -> MutexGuard<'_, Vec<String>> {
    messages.lock().unwrap_or_else(PoisonError::into_inner)
}
