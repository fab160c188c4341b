//! What the server offers now, for whoever completes it and whoever hears of changes.

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

/// What is offered, and what is known of the server beside.
#[derive(Default)]
pub(super) struct LiveCatalog {
    current: Mutex<Arc<Catalog>>,
    changed: Notify,
    /// Whether it was told that the server is gone.
    disconnected: AtomicBool,
    /// Who tells changes in their own words.
    mute_count: AtomicUsize,
}

/// While this lives, changes are not told.
pub(super) struct MuteGuard(Arc<LiveCatalog>);

impl LiveCatalog {
    /// What was offered when it was last asked for.
    pub(super) fn current(&self) -> Arc<Catalog> {
        Arc::clone(&self.current.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The server says that something has changed.
    pub(super) fn notify_changed(&self, change: &Change) {
        if !matches!(change, Change::Resource { .. } | Change::ElicitationComplete { .. }) {
            self.changed.notify_one();
        }
    }

    /// Asks what is offered, and gives what was offered before.
    pub(super) async fn refresh(&self, session: &Connection) -> Result<Arc<Catalog>> {
        let can = session.server_details().await?.capabilities;
        let offered = Arc::new(Catalog::fetch(&session.client, &can).await?);
        self.disconnected.store(false, Ordering::Release);
        let mut now = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(std::mem::replace(&mut now, offered))
    }

    /// Keeps changes to itself for a while.
    pub(super) fn mute(self: &Arc<Self>) -> MuteGuard {
        self.mute_count.fetch_add(1, Ordering::AcqRel);
        MuteGuard(Arc::clone(self))
    }

    /// The server is gone, and somebody has said so.
    pub(super) fn mark_disconnected(&self) {
        self.disconnected.store(true, Ordering::Release);
    }

    /// The server is there. If it was gone, it may offer something else now.
    pub(super) fn mark_connected(&self) {
        if self.disconnected.swap(false, Ordering::AcqRel) {
            self.changed.notify_one();
        }
    }

    /// Says so if the connection was lost while nobody used it.
    pub(super) fn check_connection(&self, session: &Connection) {
        if !session.client.is_connected() && !self.disconnected.swap(true, Ordering::AcqRel) {
            session.console.note("note: the server is gone; the next command connects anew");
        }
    }
}

impl Drop for MuteGuard {
    fn drop(&mut self) {
        self.0.mute_count.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Asks for names whenever they have changed, and says what is different.
pub(super) async fn refresh_loop(session: Connection, names: Arc<LiveCatalog>) {
    loop {
        names.changed.notified().await;
        // Whoever cannot be asked is told of by the next command.
        if let Ok(before) = names.refresh(&session).await
            && let Some(told) = difference(&before, &names.current())
            && names.mute_count.load(Ordering::Acquire) == 0
        {
            session.console.note(&told);
        }
        // A server may say so without end.
        tokio::time::sleep(REFRESH_INTERVAL).await;
    }
}

/// `note: tools: + surprise`, a line for each list that is not what it was.
fn difference(before: &Catalog, now: &Catalog) -> Option<String> {
    let mut told = String::new();
    compare_lists(&mut told, "tools", &before.tools, &now.tools, |tool| &tool.name);
    compare_lists(&mut told, "resources", &before.resources, &now.resources, |resource| &resource.uri);
    let templates = (&before.resource_templates, &now.resource_templates);
    compare_lists(&mut told, "templates", templates.0, templates.1, |template| &template.uri_template);
    compare_lists(&mut told, "prompts", &before.prompts, &now.prompts, |prompt| &prompt.name);
    (!told.is_empty()).then(|| told.trim_end().to_owned())
}

fn compare_lists<T: Serialize>(
    told: &mut String,
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
        false => writeln!(told, "note: {list}: {}", words.join(", ")),
        true if same() => Ok(()),
        true => writeln!(told, "note: {list} have changed"),
    };
}

/// Names that are told of a change.
const MAX_SHOWN_NAMES: usize = 10;
/// How long at least between two questions.
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
    fn what_is_new_and_what_is_gone_is_told() {
        let old = with_tools(&[("a", "x"), ("b", "x")]);
        assert_eq!(difference(&old, &old), None);
        assert_eq!(
            difference(&old, &with_tools(&[("b", "x"), ("c", "x")])).unwrap(),
            "note: tools: + c, - a"
        );
        assert_eq!(
            difference(&old, &with_tools(&[("a", "x"), ("b", "y")])).unwrap(),
            "note: tools have changed"
        );
        let many: Vec<String> = (0..30).map(|number| number.to_string()).collect();
        let many: Vec<(&str, &str)> = many.iter().map(|name| (name.as_str(), "x")).collect();
        let told = difference(&with_tools(&[]), &with_tools(&many)).unwrap();
        assert!(told.ends_with("+ 9, and 20 more"), "{told}");
    }
}
