//! What each client must be able to do in each revision, and whether it did.
//!
//! Every cell is written down here, also those that cannot be: one that nobody reports is a failure.

use std::collections::HashMap;
use std::fmt::Write;

use serde_json::Value;

use crate::count::Count;

/// A client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Peer {
    TypeScript2,
    TypeScript1,
    Python,
}

impl Peer {
    pub(crate) const ALL: [Self; 3] = [Self::TypeScript2, Self::TypeScript1, Self::Python];

    /// Where it comes from, and what its script calls it.
    pub(crate) fn package(self) -> &'static str {
        match self {
            Self::TypeScript2 => "@modelcontextprotocol/client",
            Self::TypeScript1 => "@modelcontextprotocol/sdk",
            Self::Python => "mcp",
        }
    }

    /// For files.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::TypeScript2 => "typescript-2",
            Self::TypeScript1 => "typescript-1",
            Self::Python => "python",
        }
    }

    /// What it must be able to do.
    pub(crate) fn features(self, revision: &str) -> Vec<&'static str> {
        FEATURES.into_iter().filter(|feature| expected(self, revision, feature).is_ok()).collect()
    }
}

pub(crate) const REVISIONS: [&str; 5] =
    ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

pub(crate) const FEATURES: [&str; 7] =
    ["list", "call", "progress", "elicitation", "resources", "prompts", "resumption"];

/// That a cell must work, or why it cannot.
fn expected(peer: Peer, revision: &str, feature: &str) -> Result<(), &'static str> {
    match (peer, revision, feature) {
        (_, "2024-11-05", "elicitation") => Err("2024-11-05 has no elicitation"),
        (_, "2024-11-05", "resumption") => Err("2024-11-05 has no resumption: HTTP+SSE ends with its stream"),
        (Peer::TypeScript1, "2026-07-28", _) => Err("1.x does not speak 2026-07-28"),
        (_, "2025-03-26", "elicitation") => Err("2025-03-26 has no elicitation"),
        (_, "2026-07-28", "resumption") => {
            Err("2026-07-28 has no resumption: a lost stream is a cancelled call")
        }
        _ => Ok(()),
    }
}

/// What the clients have reported.
#[derive(Debug, Default)]
pub(crate) struct Table {
    cells: HashMap<(Peer, String, String), Result<(), String>>,
    strays: Vec<String>,
}

impl Table {
    /// Takes what a script said: one line of JSON for each cell.
    pub(crate) fn hear(&mut self, peer: Peer, revision: &str, said: &str) {
        for line in said.lines().filter(|line| !line.trim().is_empty()) {
            if let Err(why) = self.hear_line(peer, revision, line) {
                self.complain(format!("{} on {revision}: {why}: {line}", peer.package()));
            }
        }
    }

    /// Takes what went wrong and is no cell. It is a failure too.
    pub(crate) fn complain(&mut self, what: String) {
        self.strays.push(what);
    }

    fn hear_line(&mut self, peer: Peer, revision: &str, line: &str) -> Result<(), &'static str> {
        let cell: Value = serde_json::from_str(line).map_err(|_| "this is no JSON")?;
        let text = |key: &str| cell.get(key).and_then(Value::as_str).ok_or("this says too little");
        let ok = cell.get("ok").and_then(Value::as_bool).ok_or("this says too little")?;
        let feature = text("feature")?;
        if (text("peer")?, text("revision")?) != (peer.package(), revision) {
            return Err("this is another peer or revision");
        }
        if !peer.features(revision).contains(&feature) {
            return Err("nobody has asked for this");
        }
        let outcome = if ok { Ok(()) } else { Err(text("note")?.to_owned()) };
        let place = (peer, revision.to_owned(), feature.to_owned());
        match self.cells.insert(place, outcome) {
            None => Ok(()),
            Some(_) => Err("this was said before"),
        }
    }

    /// What is in a cell that must work.
    fn outcome(&self, peer: Peer, revision: &str, feature: &str) -> Result<(), &str> {
        match self.cells.get(&(peer, revision.to_owned(), feature.to_owned())) {
            Some(Ok(())) => Ok(()),
            Some(Err(why)) => Err(why),
            None => Err("missing: its script has not said a word of it"),
        }
    }

    /// How many cells work, and how many do not although they must.
    pub(crate) fn count(&self) -> Count {
        let passed = due().filter(|(peer, revision, feature)| self.outcome(*peer, revision, feature).is_ok());
        Count { passed: passed.count() as u64, failed: self.failures().len() as u64, skipped: 0 }
    }

    /// Everything as Markdown that is also good to read in a terminal. `version` knows the version of a client.
    pub(crate) fn shown(&self, version: impl Fn(Peer) -> String) -> String {
        let mut reasons = Vec::new();
        let mut rows = vec![["client", "revision"].into_iter().chain(FEATURES).map(str::to_owned).collect()];
        for peer in Peer::ALL {
            for revision in REVISIONS {
                let mut row = vec![format!("{} {}", peer.package(), version(peer)), revision.to_owned()];
                row.extend(FEATURES.map(|feature| self.mark(peer, revision, feature, &mut reasons)));
                rows.push(row);
            }
        }
        let mut text = aligned(&rows);
        text.push('\n');
        for (number, reason) in (1..).zip(&reasons) {
            let _ = writeln!(text, "{number}. {reason}");
        }
        for failure in self.failures() {
            let _ = writeln!(text, "- {failure}");
        }
        text
    }

    /// A cell, and the reasons for those that cannot be, each once.
    fn mark(&self, peer: Peer, revision: &str, feature: &str, reasons: &mut Vec<&'static str>) -> String {
        match expected(peer, revision, feature) {
            Ok(()) if self.outcome(peer, revision, feature).is_ok() => "works".to_owned(),
            Ok(()) => "FAILS".to_owned(),
            Err(reason) => {
                if !reasons.contains(&reason) {
                    reasons.push(reason);
                }
                let number = 1 + reasons.iter().take_while(|known| **known != reason).count();
                format!("— ({number})")
            }
        }
    }

    fn failures(&self) -> Vec<String> {
        let failures = due().filter_map(|(peer, revision, feature)| {
            let why = self.outcome(peer, revision, feature).err()?;
            Some(format!("{} on {revision}, {feature}: {why}", peer.package()))
        });
        failures.chain(self.strays.iter().cloned()).collect()
    }
}

/// Every cell that must work.
fn due() -> impl Iterator<Item = (Peer, &'static str, &'static str)> {
    Peer::ALL.into_iter().flat_map(|peer| {
        REVISIONS.into_iter().flat_map(move |revision| {
            peer.features(revision).into_iter().map(move |feature| (peer, revision, feature))
        })
    })
}

fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for (number, row) in rows.iter().enumerate() {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("| {cell:width$} "));
        let _ = writeln!(text, "{}|", cells.collect::<String>());
        if number == 0 {
            let rules = widths.iter().map(|width| format!("|{}", "-".repeat(width + 2)));
            let _ = writeln!(text, "{}|", rules.collect::<String>());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn cell(peer: Peer, revision: &str, feature: &str, ok: bool) -> String {
        let cell = json!({
            "peer": peer.package(), "revision": revision, "feature": feature, "ok": ok, "note": "why",
        });
        format!("{cell}\n")
    }

    /// Everything that must work works.
    fn good() -> Table {
        let mut table = Table::default();
        for peer in Peer::ALL {
            for revision in REVISIONS {
                for feature in peer.features(revision) {
                    table.hear(peer, revision, &cell(peer, revision, feature, true));
                }
            }
        }
        table
    }

    #[test]
    fn each_client_is_asked_for_all_it_can_do() {
        let asked = |peer: Peer| REVISIONS.map(|revision| peer.features(revision).len());
        assert_eq!(asked(Peer::TypeScript2), [6, 7, 7, 6, 5]);
        assert_eq!(asked(Peer::TypeScript1), [0, 7, 7, 6, 5]);
        assert_eq!(asked(Peer::Python), [6, 7, 7, 6, 5]);
        assert_eq!(good().count(), Count { passed: 87, failed: 0, skipped: 0 });
    }

    #[test]
    fn a_cell_that_nobody_reports_fails() {
        let mut table = good();
        table.cells.remove(&(Peer::Python, "2025-06-18".to_owned(), "call".to_owned()));
        assert_eq!(table.count(), Count { passed: 86, failed: 1, skipped: 0 });
        assert!(
            table.failures()[0].starts_with("mcp on 2025-06-18, call: missing"),
            "{:?}",
            table.failures()
        );
        assert_eq!(Table::default().count(), Count { passed: 0, failed: 87, skipped: 0 });
    }

    #[test]
    fn a_cell_that_fails_says_why() {
        let mut table = Table::default();
        table.hear(Peer::Python, "2025-06-18", &cell(Peer::Python, "2025-06-18", "list", false));
        assert_eq!(table.outcome(Peer::Python, "2025-06-18", "list"), Err("why"));
    }

    #[test]
    fn what_is_no_cell_fails_too() {
        let twice = cell(Peer::Python, "2025-06-18", "list", true);
        let not_asked = cell(Peer::Python, "2025-03-26", "elicitation", true);
        let for_another = cell(Peer::TypeScript1, "2025-06-18", "list", true);
        for (revision, said) in [
            ("2025-06-18", twice.as_str()),
            ("2025-06-18", for_another.as_str()),
            ("2025-03-26", not_asked.as_str()),
            ("2025-06-18", "Traceback"),
            ("2025-06-18", "{}"),
        ] {
            let mut table = good();
            table.hear(Peer::Python, revision, said);
            assert_eq!(table.count(), Count { passed: 87, failed: 1, skipped: 0 }, "{said}");
        }
    }

    #[test]
    fn the_table_has_a_row_for_each_client_and_revision() {
        let mut table = good();
        table.cells.insert(
            (Peer::TypeScript1, "2025-11-25".to_owned(), "call".to_owned()),
            Err("no answer".to_owned()),
        );
        let shown = table.shown(|_| "9.9.9".to_owned());
        assert_eq!(shown.lines().filter(|line| line.contains(" 9.9.9 ")).count(), 15);
        assert_eq!((shown.matches("works").count(), shown.matches("FAILS").count()), (86, 1));
        assert!(shown.ends_with("- @modelcontextprotocol/sdk on 2025-11-25, call: no answer\n"), "{shown}");
        assert!(shown.contains("\n3. 2024-11-05 has no elicitation"), "{shown}");
    }
}
