//! What the server offers now, for whoever completes it and whoever hears of changes.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tokio::sync::Notify;
use tsugite::client::Change;

use crate::fail::Result;
use crate::offered::Offered;
use crate::session::Session;

/// What is offered, and what is known of the server beside.
#[derive(Default)]
pub(super) struct Names {
    offered: Mutex<Arc<Offered>>,
    changed: Notify,
    /// Whether it was told that the server is gone.
    away: AtomicBool,
    /// Who tells changes in their own words.
    quiet: AtomicUsize,
}

/// While this lives, changes are not told.
pub(super) struct Quiet(Arc<Names>);

impl Names {
    /// What was offered when it was last asked for.
    pub(super) fn now(&self) -> Arc<Offered> {
        Arc::clone(&self.offered.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The server says that something has changed.
    pub(super) fn has_changed(&self, change: &Change) {
        if !matches!(change, Change::Resource { .. } | Change::ElicitationComplete { .. }) {
            self.changed.notify_one();
        }
    }

    /// Asks what is offered, and gives what was offered before.
    pub(super) async fn refresh(&self, session: &Session) -> Result<Arc<Offered>> {
        let can = session.about().await?.capabilities;
        let offered = Arc::new(Offered::by(&session.client, &can).await?);
        self.away.store(false, Ordering::Release);
        let mut now = self.offered.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(std::mem::replace(&mut now, offered))
    }

    /// Keeps changes to itself for a while.
    pub(super) fn quiet(self: &Arc<Self>) -> Quiet {
        self.quiet.fetch_add(1, Ordering::AcqRel);
        Quiet(Arc::clone(self))
    }

    /// The server is gone, and somebody has said so.
    pub(super) fn is_away(&self) {
        self.away.store(true, Ordering::Release);
    }

    /// The server is there. If it was gone, it may offer something else now.
    pub(super) fn is_there(&self) {
        if self.away.swap(false, Ordering::AcqRel) {
            self.changed.notify_one();
        }
    }

    /// Says so if the connection was lost while nobody used it.
    pub(super) fn look_after(&self, session: &Session) {
        if !session.client.is_connected() && !self.away.swap(true, Ordering::AcqRel) {
            session.screen.note("note: the server is gone; the next command connects anew");
        }
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        self.0.quiet.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Asks for names whenever they have changed, and says what is different.
pub(super) async fn keep_fresh(session: Session, names: Arc<Names>) {
    loop {
        names.changed.notified().await;
        // Whoever cannot be asked is told of by the next command.
        if let Ok(before) = names.refresh(&session).await
            && let Some(told) = difference(&before, &names.now())
            && names.quiet.load(Ordering::Acquire) == 0
        {
            session.screen.note(&told);
        }
        // A server may say so without end.
        tokio::time::sleep(PAUSE).await;
    }
}

/// `note: tools: + surprise`, a line for each list that is not what it was.
fn difference(before: &Offered, now: &Offered) -> Option<String> {
    let mut told = String::new();
    compare(&mut told, "tools", &before.tools, &now.tools, |tool| &tool.name);
    compare(&mut told, "resources", &before.resources, &now.resources, |resource| &resource.uri);
    let templates = (&before.resource_templates, &now.resource_templates);
    compare(&mut told, "templates", templates.0, templates.1, |template| &template.uri_template);
    compare(&mut told, "prompts", &before.prompts, &now.prompts, |prompt| &prompt.name);
    (!told.is_empty()).then(|| told.trim_end().to_owned())
}

fn compare<T: Serialize>(told: &mut String, list: &str, before: &[T], now: &[T], name: fn(&T) -> &String) {
    let missing = |one: &[T], other: &[T], sign: char| -> Vec<String> {
        let gone = one.iter().filter(|item| other.iter().all(|known| name(known) != name(item)));
        gone.map(|item| format!("{sign} {}", name(item))).collect()
    };
    let mut words = missing(now, before, '+');
    words.extend(missing(before, now, '-'));
    let more = words.len().saturating_sub(SHOWN);
    words.truncate(SHOWN);
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
const SHOWN: usize = 10;
/// How long at least between two questions.
const PAUSE: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn with_tools(tools: &[(&str, &str)]) -> Offered {
        let tool = |(name, about): &(&str, &str)| json!({"name": name, "description": about, "inputSchema": {"type": "object"}});
        let tools = tools.iter().map(|one| serde_json::from_value(tool(one)).unwrap()).collect();
        Offered { tools, ..Offered::default() }
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
