//! The server's current lists, for completion and for change notes.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tokio::sync::Notify;
use tsugite::client::Change;

use crate::catalog::Catalog;
use crate::connection::Connection;
use crate::error::Result;

/// The catalog as of the last refresh, and the state of the connection.
pub(super) struct LiveCatalog {
    current: Mutex<Arc<Catalog>>,
    changed: Arc<Notify>,
    /// Whether the loss of the connection has been reported.
    disconnected: AtomicBool,
    /// The process id of a server that was started, at the last check.
    process_id: Mutex<Option<u32>>,
    /// The number of guards that suppress change notes.
    mute_count: AtomicUsize,
}

/// Suppresses change notes until it is dropped.
pub(super) struct MuteGuard(Arc<LiveCatalog>);

impl LiveCatalog {
    /// Creates an empty catalog, which is refreshed when `changed` is notified.
    pub(super) fn new(changed: Arc<Notify>) -> Self {
        Self {
            current: Mutex::default(),
            changed,
            disconnected: AtomicBool::new(false),
            process_id: Mutex::default(),
            mute_count: AtomicUsize::new(0),
        }
    }

    /// Returns the catalog as of the last refresh.
    pub(super) fn current(&self) -> Arc<Catalog> {
        Arc::clone(&self.current.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Schedules a refresh after a list change.
    pub(super) fn notify_changed(&self, change: &Change) {
        if !matches!(change, Change::Resource { .. } | Change::ElicitationComplete { .. }) {
            self.changed.notify_one();
        }
    }

    /// Fetches the catalog, and returns the previous one.
    pub(super) async fn refresh(&self, connection: &Connection) -> Result<Arc<Catalog>> {
        let can = connection.server_details().await?.capabilities;
        let catalog = Arc::new(Catalog::fetch(&connection.client, &can).await?);
        self.disconnected.store(false, Ordering::Release);
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(std::mem::replace(&mut current, catalog))
    }

    /// Suppresses change notes while the guard lives.
    pub(super) fn mute(self: &Arc<Self>) -> MuteGuard {
        self.mute_count.fetch_add(1, Ordering::AcqRel);
        MuteGuard(Arc::clone(self))
    }

    /// Records that the loss of the connection has been reported.
    pub(super) fn mark_disconnected(&self) {
        self.disconnected.store(true, Ordering::Release);
    }

    /// Records that the server responds. After a lost connection the catalog is refreshed, as it may have changed.
    pub(super) fn mark_connected(&self) {
        if self.disconnected.swap(false, Ordering::AcqRel) {
            self.changed.notify_one();
        }
    }

    /// Reports a connection that was lost while idle, once, and a server that was started again.
    pub(super) fn check_connection(&self, connection: &Connection) {
        let process_id = connection.client.process_id();
        let mut known = self.process_id.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *known, process_id);
        drop(known);
        let was_reported = self.disconnected.load(Ordering::Acquire);
        if before.is_some() && before != process_id && !was_reported {
            connection.console.note("note: the server exited and was started again");
        }
        if !connection.client.is_connected() && !self.disconnected.swap(true, Ordering::AcqRel) {
            connection.console.note("note: the connection was lost; the next command reconnects");
        }
    }
}

impl Drop for MuteGuard {
    fn drop(&mut self) {
        self.0.mute_count.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Refreshes the catalog after each change, and prints the difference.
pub(super) async fn refresh_loop(connection: Connection, catalog: Arc<LiveCatalog>) {
    loop {
        catalog.changed.notified().await;
        // The next command reports an error.
        if let Ok(before) = catalog.refresh(&connection).await
            && let Some(note) = difference(&before, &catalog.current())
            && catalog.mute_count.load(Ordering::Acquire) == 0
        {
            connection.console.note(&note);
        }
        // Limits the rate, as a server may send changes without end.
        tokio::time::sleep(REFRESH_INTERVAL).await;
    }
}

/// Formats the difference as `note: tools: + surprise`, with a line for each list that changed.
fn difference(before: &Catalog, now: &Catalog) -> Option<String> {
    let mut note = String::new();
    compare_lists(&mut note, "tools", &before.tools, &now.tools, |tool| &tool.name);
    compare_lists(&mut note, "resources", &before.resources, &now.resources, |resource| &resource.uri);
    let templates = (&before.resource_templates, &now.resource_templates);
    compare_lists(&mut note, "templates", templates.0, templates.1, |template| &template.uri_template);
    compare_lists(&mut note, "prompts", &before.prompts, &now.prompts, |prompt| &prompt.name);
    (!note.is_empty()).then(|| note.trim_end().to_owned())
}

fn compare_lists<T: Serialize>(
    note: &mut String,
    list: &str,
    before: &[T],
    now: &[T],
    name: fn(&T) -> &String,
) {
    let missing = |one: &[T], other: &[T], sign: char| -> Vec<String> {
        let gone = one.iter().filter(|item| other.iter().all(|known| name(known) != name(item)));
        gone.map(|item| format!("{sign} {}", name(item))).collect()
    };
    let mut words = missing(now, before, '+');
    words.extend(missing(before, now, '-'));
    let more = words.len().saturating_sub(MAX_SHOWN_NAMES);
    words.truncate(MAX_SHOWN_NAMES);
    if more > 0 {
        words.push(format!("and {more} more"));
    }
    let same = || serde_json::to_string(before).ok() == serde_json::to_string(now).ok();
    // Writing to a `String` cannot fail.
    let _ = match words.is_empty() {
        false => writeln!(note, "note: {list}: {}", words.join(", ")),
        true if same() => Ok(()),
        true => writeln!(note, "note: {list} changed"),
    };
}

/// Names to show of a change.
const MAX_SHOWN_NAMES: usize = 10;
/// The shortest interval between two refreshes.
const REFRESH_INTERVAL: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn with_tools(tools: &[(&str, &str)]) -> Catalog {
        let tool = |(name, about): &(&str, &str)| json!({"name": name, "description": about, "inputSchema": {"type": "object"}});
        let tools = tools.iter().map(|one| serde_json::from_value(tool(one)).unwrap()).collect();
        Catalog { tools, ..Catalog::default() }
    }

    #[test]
    fn added_and_removed_names_are_noted() {
        let old = with_tools(&[("a", "x"), ("b", "x")]);
        assert_eq!(difference(&old, &old), None);
        assert_eq!(
            difference(&old, &with_tools(&[("b", "x"), ("c", "x")])).unwrap(),
            "note: tools: + c, - a"
        );
        assert_eq!(difference(&old, &with_tools(&[("a", "x"), ("b", "y")])).unwrap(), "note: tools changed");
        let many: Vec<String> = (0..30).map(|number| number.to_string()).collect();
        let many: Vec<(&str, &str)> = many.iter().map(|name| (name.as_str(), "x")).collect();
        let note = difference(&with_tools(&[]), &with_tools(&many)).unwrap();
        assert!(note.ends_with("+ 9, and 20 more"), "{note}");
    }
}
