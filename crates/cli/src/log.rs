//! Writes the log events of the library to standard error: warnings always, more with `-v`.

use std::fmt::{self, Write as _};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::console::write_note;

/// Installs the subscriber. `verbose` 0 logs warnings, 1 adds debug events, 2 logs everything. With `server_stderr`, lines
/// that a child process writes to standard error are printed in any case.
pub(crate) fn init(verbose: u8, server_stderr: bool) {
    let max_level = match verbose {
        0 => Level::WARN,
        1 => Level::DEBUG,
        _ => Level::TRACE,
    };
    // It cannot fail: no other subscriber has been installed.
    let _ = tracing::subscriber::set_global_default(StderrSubscriber { max_level, server_stderr });
}

struct StderrSubscriber {
    max_level: Level,
    server_stderr: bool,
}

impl Subscriber for StderrSubscriber {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // The verbs print the address of a server themselves.
        let is_address =
            *metadata.level() == Level::INFO && metadata.target().starts_with("tsugite::transport::http");
        let is_wanted = *metadata.level() <= self.max_level && !is_address || self.is_server_line(metadata);
        is_wanted && metadata.target().starts_with("tsugite") && metadata.is_event()
    }

    fn event(&self, event: &Event<'_>) {
        if self.is_server_line(event.metadata()) {
            let mut line = ServerLine(String::new());
            event.record(&mut line);
            return write_note(&line.0);
        }
        let level = match *event.metadata().level() {
            Level::ERROR => "error",
            Level::WARN => "warning",
            Level::INFO => "info",
            _ => "debug",
        };
        let mut line = LogLine { text: format!("{level}:"), verbose: self.max_level > Level::WARN };
        event.record(&mut line);
        write_note(&line.text);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

impl StderrSubscriber {
    fn is_server_line(&self, metadata: &Metadata<'_>) -> bool {
        self.server_stderr && metadata.target().ends_with(SERVER_STDERR_MODULE)
    }
}

/// The module that logs each line of a child's standard error.
const SERVER_STDERR_MODULE: &str = "child::stderr_tail";

/// A line of a child's standard error.
struct ServerLine(String);

impl Visit for ServerLine {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "line" {
            self.0.push_str(value);
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
}

/// A log line: the message, then the fields.
struct LogLine {
    text: String,
    /// Whether fields that are meant for developers are included.
    verbose: bool,
}

impl Visit for LogLine {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            // The line that the server wrote instead of a message.
            "line" => self.text.extend([": ", value]),
            "parse_error" if !self.verbose => {}
            _ => self.record_debug(field, &value),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a `String` cannot fail.
        let _ = match field.name() {
            "message" => write!(self.text, " {value:?}"),
            name => write!(self.text, " {name}={value:?}"),
        };
    }
}
