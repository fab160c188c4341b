//! Warnings and errors of this library: to the `tracing` subscriber, or to stderr where there is none.
//!
//! The library never sets a subscriber, so an application may set its own at any time. Which of the two receives an
//! event is decided when it is logged: the subscriber of the current thread, if it has one, and stderr otherwise.

use std::collections::HashSet;
use std::fmt;
use std::panic::catch_unwind;
use std::sync::Mutex;

use tracing::subscriber::NoSubscriber;

use super::lock::lock;

/// Logs an error, with the fields and the message of `tracing::error!`.
macro_rules! log_error {
    ($($event:tt)+) => { $crate::shared::log::log_event!(error "ERROR"; $($event)+) };
}

/// Logs a warning, with the fields and the message of `tracing::warn!`.
macro_rules! log_warn {
    ($($event:tt)+) => { $crate::shared::log::log_event!(warn "WARN"; $($event)+) };
}

/// Logs an event of interest to an operator, with the fields and the message of `tracing::info!`.
#[allow(unused_macros, reason = "used only by the HTTP transport")]
macro_rules! log_info {
    ($($event:tt)+) => { $crate::shared::log::log_event!(info "INFO"; $($event)+) };
}

/// Logs a detail for an analysis, with the fields and the message of `tracing::debug!`. It never goes to stderr.
#[allow(unused_macros, reason = "used only by the HTTP transport")]
macro_rules! log_debug {
    ($($event:tt)+) => { tracing::debug!($($event)+) };
}

macro_rules! log_event {
    ($level:ident $name:literal; $($event:tt)+) => {
        if $crate::shared::log::has_subscriber() {
            tracing::$level!($($event)+)
        } else {
            let fields = String::new();
            $crate::shared::log::stderr_event!($name fields; $($event)+)
        }
    };
}

/// Collects the fields of an event in a string, one per step, and writes them after the message.
macro_rules! stderr_event {
    (@field $level:literal $fields:ident, $name:ident, $value:expr; $($rest:tt)+) => {{
        let fields = $fields + &format!(" {}={}", stringify!($name), $value);
        $crate::shared::log::stderr_event!($level fields; $($rest)+)
    }};
    ($level:literal $fields:ident; % $name:ident, $($rest:tt)+) => {
        $crate::shared::log::stderr_event!(@field $level $fields, $name, $name; $($rest)+)
    };
    ($level:literal $fields:ident; ? $name:ident, $($rest:tt)+) => {
        $crate::shared::log::stderr_event!(@field $level $fields, $name, format_args!("{:?}", $name); $($rest)+)
    };
    ($level:literal $fields:ident; $name:ident = % $value:expr, $($rest:tt)+) => {
        $crate::shared::log::stderr_event!(@field $level $fields, $name, $value; $($rest)+)
    };
    ($level:literal $fields:ident; $name:ident = ? $value:expr, $($rest:tt)+) => {
        $crate::shared::log::stderr_event!(@field $level $fields, $name, format_args!("{:?}", $value); $($rest)+)
    };
    ($level:literal $fields:ident; $name:ident = $value:expr, $($rest:tt)+) => {
        $crate::shared::log::stderr_event!(@field $level $fields, $name, format_args!("{:?}", $value); $($rest)+)
    };
    ($level:literal $fields:ident; $name:ident, $($rest:tt)+) => {
        $crate::shared::log::stderr_event!(@field $level $fields, $name, format_args!("{:?}", $name); $($rest)+)
    };
    ($level:literal $fields:ident; $($message:tt)+) => {
        $crate::shared::log::write_to_stderr($level, format_args!($($message)+), &$fields)
    };
}

#[allow(unused_imports, reason = "used only by the HTTP transport")]
pub(crate) use {log_debug as debug, log_info as info};
pub(crate) use {log_error as error, log_event, log_warn as warn, stderr_event};

/// Whether the current thread has a subscriber, of its own or the global one.
pub(crate) fn has_subscriber() -> bool {
    tracing::dispatcher::get_default(|dispatch| !dispatch.is::<NoSubscriber>())
}

/// Writes an event as one line.
#[cold]
pub(crate) fn write_to_stderr(level: &str, message: fmt::Arguments<'_>, fields: &str) {
    let line = stderr_line(level, message, fields);
    // `eprintln!`, because test harnesses capture it. It panics if stderr is gone, which must not end a request.
    let _ = catch_unwind(|| eprintln!("{line}"));
}

/// The level, the message and the fields. A line break in them must not look like another event.
fn stderr_line(level: &str, message: fmt::Arguments<'_>, fields: &str) -> String {
    format!("{level}: {message}{fields}").replace('\r', "\\r").replace('\n', "\\n")
}

/// Whether this is the first time that `topic` is logged about `name` in this process. Always false once
/// [`MAX_REMEMBERED`] names were logged.
pub(crate) fn is_first(topic: &'static str, name: &str) -> bool {
    static LOGGED: Mutex<Option<HashSet<(&'static str, String)>>> = Mutex::new(None);
    let mut logged = lock(&LOGGED);
    let logged = logged.get_or_insert_default();
    logged.len() < MAX_REMEMBERED && logged.insert((topic, name.to_owned()))
}

const MAX_REMEMBERED: usize = 1_000;

/// Records the log of the current thread, for tests.
#[cfg(test)]
pub(crate) mod recorder {
    use std::fmt;
    use std::fmt::Write as _;
    use std::sync::{Arc, Mutex};

    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::subscriber::DefaultGuard;
    use tracing::{Event, Level, Metadata, Subscriber};

    use super::lock;

    /// The warnings and errors since it was started, each with its fields.
    pub(crate) struct Recorder {
        lines: Arc<Mutex<Vec<String>>>,
        _guard: DefaultGuard,
    }

    impl Recorder {
        pub(crate) fn start() -> Self {
            let lines = Arc::<Mutex<Vec<String>>>::default();
            let guard = tracing::subscriber::set_default(Recording(lines.clone()));
            Self { lines, _guard: guard }
        }

        pub(crate) fn take(&self) -> Vec<String> {
            std::mem::take(&mut lock(&self.lines))
        }
    }

    struct Recording(Arc<Mutex<Vec<String>>>);

    impl Subscriber for Recording {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            *metadata.level() <= Level::WARN
        }

        fn event(&self, event: &Event<'_>) {
            let mut line = Line(event.metadata().level().to_string());
            event.record(&mut line);
            lock(&self.0).push(line.0);
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    struct Line(String);

    impl Visit for Line {
        fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
            // Writing to a `String` cannot fail.
            let _ = write!(self.0, " {}={value:?}", field.name());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_has_the_level_the_message_and_the_fields() {
        let line = stderr_line("WARN", format_args!("a {} failed", "tool"), " name=\"x\" number=1");
        assert_eq!(line, "WARN: a tool failed name=\"x\" number=1");
    }

    #[test]
    fn error_with_line_breaks_stays_on_one_line() {
        let line = stderr_line("ERROR", format_args!("failed"), " error=one\r\nERROR: forged");
        assert_eq!(line, "ERROR: failed error=one\\r\\nERROR: forged");
    }

    #[test]
    fn name_is_first_once_for_each_topic() {
        assert!(is_first("a test", "one"));
        assert!(!is_first("a test", "one"));
        assert!(is_first("a test", "two"));
        assert!(is_first("another test", "one"));
    }
}
