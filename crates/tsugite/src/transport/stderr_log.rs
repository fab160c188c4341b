//! Writes warnings and errors to stderr if the application has no `tracing` subscriber.

use std::fmt::{self, Write as _};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Writes warnings and errors of this library to stderr, unless the application has a subscriber of its own.
pub(super) fn fall_back_to_stderr() {
    if !tracing::dispatcher::has_been_set() {
        // Fails if a subscriber was set meanwhile; that one is used.
        drop(tracing::subscriber::set_global_default(StderrSubscriber));
    }
}

struct StderrSubscriber;

impl Subscriber for StderrSubscriber {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN && metadata.target().starts_with("tsugite") && metadata.is_event()
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = LogLine(format!("{}:", event.metadata().level()));
        event.record(&mut line);
        eprintln!("{}", line.0);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// One line: the message, then the fields.
struct LogLine(String);

impl Visit for LogLine {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a `String` cannot fail.
        let _ = match field.name() {
            "message" => write!(self.0, " {value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}
