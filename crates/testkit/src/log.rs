//! A capture of what the library logs.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Metadata, Subscriber};

/// The messages of the warnings and errors that this thread logs until this is dropped.
pub struct Warnings {
    events: Arc<Mutex<Vec<Captured>>>,
    _guard: DefaultGuard,
}

impl Warnings {
    /// Begins to capture. Tasks on other threads are not seen, so the runtime of the test has one thread.
    pub fn capture() -> Self {
        Self::capture_from(Level::WARN)
    }

    /// Also captures the events of lower levels, down to this one.
    pub fn capture_from(lowest: Level) -> Self {
        let events = Arc::<Mutex<Vec<Captured>>>::default();
        let guard = tracing::subscriber::set_default(Capture(events.clone(), lowest));
        Self { events, _guard: guard }
    }

    /// The messages since the last call.
    pub fn take(&self) -> Vec<String> {
        self.take_events().into_iter().map(|event| event.message).collect()
    }

    /// The messages since the last call, each followed by its fields.
    pub fn take_with_fields(&self) -> Vec<String> {
        self.take_events().into_iter().map(|event| event.message + &event.fields).collect()
    }

    fn take_events(&self) -> Vec<Captured> {
        std::mem::take(&mut lock(&self.events))
    }
}

#[derive(Default)]
struct Captured {
    message: String,
    fields: String,
}

struct Capture(Arc<Mutex<Vec<Captured>>>, Level);

impl Subscriber for Capture {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.1
    }

    fn event(&self, event: &Event<'_>) {
        let mut captured = Captured::default();
        event.record(&mut captured);
        lock(&self.0).push(captured);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

impl Visit for Captured {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            name => self.fields.push_str(&format!(" {name}={value:?}")),
        }
    }
}

fn lock(events: &Mutex<Vec<Captured>>) -> MutexGuard<'_, Vec<Captured>> {
    events.lock().unwrap_or_else(PoisonError::into_inner)
}
