//! The table of features that each peer must support, and the results.
//!
//! Every cell is expected in advance, also the unsupported ones: a cell without a report is a failure.

use std::collections::HashMap;
use std::fmt::Write;

use serde_json::Value;

use crate::count::Count;

/// A peer that speaks one revision over one transport.
#[derive(Debug)]
pub(crate) struct Row {
    /// The package of the peer, and its name in reports.
    pub(crate) package: &'static str,
    pub(crate) transport: &'static str,
    pub(crate) revision: &'static str,
    /// The server behind the bridge, if there is one.
    pub(crate) bridged_to: Option<BridgedServer>,
    /// For each feature: it must work, or the reason why it cannot.
    pub(crate) cells: Vec<(&'static str, Result<(), &'static str>)>,
}

/// A peer on the other side of a bridge.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BridgedServer {
    pub(crate) package: &'static str,
    pub(crate) transport: &'static str,
    pub(crate) revision: &'static str,
}

impl Row {
    /// The features that must work.
    pub(crate) fn features(&self) -> Vec<&'static str> {
        self.cells.iter().filter(|(_, expected)| expected.is_ok()).map(|(feature, _)| *feature).collect()
    }

    /// A name for messages.
    pub(crate) fn name(&self) -> String {
        let name = format!("{} over {} on {}", self.package, self.transport, self.revision);
        match &self.bridged_to {
            Some(BridgedServer { package, transport, revision }) => {
                format!("{name} to {package} over {transport} on {revision}")
            }
            None => name,
        }
    }

    /// A file name.
    pub(crate) fn file(&self) -> String {
        let place = |package: &str, transport, revision| {
            format!("{}-{transport}-{revision}", package.rsplit('/').next().unwrap_or(package))
        };
        let name = place(self.package, self.transport, self.revision);
        match &self.bridged_to {
            Some(behind) => {
                format!("{name}-to-{}.txt", place(behind.package, behind.transport, behind.revision))
            }
            None => format!("{name}.txt"),
        }
    }
}

/// The reported results.
#[derive(Debug)]
pub(crate) struct Table {
    /// The kind of the peers: clients or servers.
    kind: &'static str,
    rows: Vec<Row>,
    /// The results, by the number of the row and the feature.
    cells: HashMap<(usize, String), Result<(), String>>,
    other_failures: Vec<String>,
}

impl Table {
    pub(crate) fn new(kind: &'static str, rows: Vec<Row>) -> Self {
        Self { kind, rows, cells: HashMap::new(), other_failures: Vec::new() }
    }

    /// Reads the report of a row: one line of JSON for each cell.
    pub(crate) fn read_report(&mut self, number: usize, said: &str) {
        for line in said.lines().filter(|line| !line.trim().is_empty()) {
            if let Err(why) = self.read_report_line(number, line) {
                self.add_row_failure(number, &format!("{why}: {line}"));
            }
        }
    }

    /// Adds a failure that belongs to no cell.
    pub(crate) fn add_failure(&mut self, what: String) {
        self.other_failures.push(what);
    }

    /// Like [`add_failure`](Self::add_failure), for one row.
    pub(crate) fn add_row_failure(&mut self, number: usize, what: &str) {
        let name = self.rows.get(number).map(Row::name).unwrap_or_default();
        self.add_failure(format!("{name}: {what}"));
    }

    fn read_report_line(&mut self, number: usize, line: &str) -> Result<(), &'static str> {
        let row = self.rows.get(number).ok_or("there is no such row")?;
        let cell: Value = serde_json::from_str(line).map_err(|_| "this is no JSON")?;
        let text = |key: &str| cell.get(key).and_then(Value::as_str).ok_or("this says too little");
        let ok = cell.get("ok").and_then(Value::as_bool).ok_or("this says too little")?;
        let feature = text("feature")?;
        if (text("peer")?, text("revision")?) != (row.package, row.revision) {
            return Err("wrong peer or revision");
        }
        let outcome = if ok { Ok(()) } else { Err(text("note")?.to_owned()) };
        self.insert(number, feature, outcome)
    }

    /// Sets the result of a cell directly.
    pub(crate) fn record(&mut self, number: usize, feature: &'static str, outcome: Result<(), String>) {
        if let Err(why) = self.insert(number, feature, outcome) {
            self.add_row_failure(number, &format!("{why}: {feature}"));
        }
    }

    fn insert(
        &mut self,
        number: usize,
        feature: &str,
        outcome: Result<(), String>,
    ) -> Result<(), &'static str> {
        if !self.rows.get(number).is_some_and(|row| row.features().contains(&feature)) {
            return Err("unexpected feature");
        }
        match self.cells.insert((number, feature.to_owned()), outcome) {
            None => Ok(()),
            Some(_) => Err("reported twice"),
        }
    }

    /// The result of a cell that must work.
    fn outcome(&self, number: usize, feature: &str) -> Result<(), &str> {
        match self.cells.get(&(number, feature.to_owned())) {
            Some(Ok(())) => Ok(()),
            Some(Err(why)) => Err(why),
            None => Err("missing: no report"),
        }
    }

    /// The number of cells that work, and of those that must work and do not.
    pub(crate) fn count(&self) -> Count {
        let passed =
            self.required_cells().filter(|(number, _, feature)| self.outcome(*number, feature).is_ok());
        Count { passed: passed.count() as u64, failed: self.failures().len() as u64, skipped: 0 }
    }

    /// The table as Markdown that is readable in a terminal. `version` returns the version of a package.
    pub(crate) fn to_markdown(&self, version: impl Fn(&str) -> String) -> String {
        let mut reasons = Vec::new();
        let features =
            self.rows.first().map_or(&[][..], |row| &row.cells).iter().map(|(feature, _)| *feature);
        let others =
            self.rows.first().and_then(|row| row.bridged_to).map(|_| ["server", "transport", "revision"]);
        let head = [self.kind, "transport", "revision"].into_iter().chain(others.into_iter().flatten());
        let head = head.chain(features);
        let mut rows = vec![head.map(str::to_owned).collect::<Vec<_>>()];
        for (number, row) in self.rows.iter().enumerate() {
            let place = |package: &str, transport: &str, revision: &str| {
                [format!("{package} {}", version(package)), transport.to_owned(), revision.to_owned()]
            };
            let mut cells = Vec::from(place(row.package, row.transport, row.revision));
            if let Some(behind) = &row.bridged_to {
                cells.extend(place(behind.package, behind.transport, behind.revision));
            }
            cells.extend(row.cells.iter().map(|cell| self.cell_text(number, cell, &mut reasons)));
            rows.push(cells);
        }
        let mut text = format_table(&rows);
        text.push('\n');
        for (number, reason) in (1..).zip(&reasons) {
            let _ = writeln!(text, "{number}. {reason}");
        }
        for failure in self.failures() {
            let _ = writeln!(text, "- {failure}");
        }
        text
    }

    /// The text of a cell; reasons for unsupported cells are numbered, each once.
    fn cell_text(
        &self,
        number: usize,
        (feature, expected): &(&'static str, Result<(), &'static str>),
        reasons: &mut Vec<&'static str>,
    ) -> String {
        match expected {
            Ok(()) if self.outcome(number, feature).is_ok() => "works".to_owned(),
            Ok(()) => "FAILS".to_owned(),
            Err(reason) => {
                if !reasons.contains(reason) {
                    reasons.push(reason);
                }
                let place = 1 + reasons.iter().take_while(|known| *known != reason).count();
                format!("— ({place})")
            }
        }
    }

    fn failures(&self) -> Vec<String> {
        let failures = self.required_cells().filter_map(|(number, row, feature)| {
            let why = self.outcome(number, feature).err()?;
            Some(format!("{}, {feature}: {why}", row.name()))
        });
        failures.chain(self.other_failures.iter().cloned()).collect()
    }

    /// Every cell that must work.
    fn required_cells(&self) -> impl Iterator<Item = (usize, &Row, &'static str)> {
        self.rows
            .iter()
            .enumerate()
            .flat_map(|(number, row)| row.features().into_iter().map(move |feature| (number, row, feature)))
    }
}

fn format_table(rows: &[Vec<String>]) -> String {
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

    const PACKAGES: [&str; 2] = ["@scope/a", "b"];

    fn rows() -> Vec<Row> {
        let row = |package, revision, last| Row {
            package,
            transport: "http",
            revision,
            bridged_to: None,
            cells: vec![("list", Ok(())), ("call", Ok(())), ("progress", last)],
        };
        let [a, b] = PACKAGES;
        vec![
            row(a, "2025-11-25", Ok(())),
            row(a, "2024-11-05", Err("unsupported")),
            row(b, "2025-11-25", Ok(())),
        ]
    }

    fn report_line(row: &Row, feature: &str, ok: bool) -> String {
        let (peer, revision) = (row.package, row.revision);
        let cell = json!({ "peer": peer, "revision": revision, "feature": feature, "ok": ok, "note": "why" });
        format!("{cell}\n")
    }

    /// A table in which every required cell works.
    fn all_passing() -> Table {
        let mut table = Table::new("client", rows());
        for (number, row) in rows().iter().enumerate() {
            for feature in row.features() {
                table.read_report(number, &report_line(row, feature, true));
            }
        }
        table
    }

    #[test]
    fn missing_cell_fails() {
        let mut table = all_passing();
        assert_eq!(table.count(), Count { passed: 8, failed: 0, skipped: 0 });
        table.cells.remove(&(2, "call".to_owned()));
        assert_eq!(table.count(), Count { passed: 7, failed: 1, skipped: 0 });
        let failures = table.failures();
        assert!(failures[0].starts_with("b over http on 2025-11-25, call: missing"), "{failures:?}");
        let silence = Table::new("client", rows());
        assert_eq!(silence.count(), Count { passed: 0, failed: 8, skipped: 0 });
    }

    #[test]
    fn failed_cell_has_a_reason() {
        let mut table = Table::new("client", rows());
        table.read_report(0, &report_line(&rows()[0], "list", false));
        assert_eq!(table.outcome(0, "list"), Err("why"));
    }

    #[test]
    fn unexpected_output_fails() {
        let rows = rows();
        let twice = report_line(&rows[0], "list", true);
        let not_asked = report_line(&rows[1], "progress", true);
        let for_another = report_line(&rows[2], "list", true);
        for (number, said) in [
            (0, twice.as_str()),
            (0, for_another.as_str()),
            (1, not_asked.as_str()),
            (0, "Traceback"),
            (0, "{}"),
            (9, "{}"),
        ] {
            let mut table = all_passing();
            table.read_report(number, said);
            assert_eq!(table.count(), Count { passed: 8, failed: 1, skipped: 0 }, "{said}");
        }
    }

    #[test]
    fn observed_result_becomes_a_cell() {
        let mut table = Table::new("client", rows());
        table.record(0, "list", Ok(()));
        assert_eq!(table.count(), Count { passed: 1, failed: 7, skipped: 0 });
        for (number, feature) in [(0, "list"), (1, "progress"), (9, "list")] {
            let mut table = all_passing();
            table.record(number, feature, Ok(()));
            assert_eq!(table.count(), Count { passed: 8, failed: 1, skipped: 0 }, "{number} {feature}");
        }
    }

    #[test]
    fn table_has_a_line_for_each_row() {
        let mut table = all_passing();
        table.cells.insert((0, "call".to_owned()), Err("no answer".to_owned()));
        let shown = table.to_markdown(|_| "9.9.9".to_owned());
        assert!(shown.starts_with("| client         | transport | revision   | list "), "{shown}");
        assert_eq!(shown.lines().filter(|line| line.contains(" 9.9.9 ")).count(), 3);
        assert_eq!((shown.matches("works").count(), shown.matches("FAILS").count()), (7, 1));
        assert!(shown.ends_with("- @scope/a over http on 2025-11-25, call: no answer\n"), "{shown}");
        assert!(shown.contains("\n1. unsupported\n"), "{shown}");
    }

    #[test]
    fn row_has_its_own_file() {
        assert_eq!(rows()[0].file(), "a-http-2025-11-25.txt");
        assert_eq!(rows()[2].file(), "b-http-2025-11-25.txt");
    }

    #[test]
    fn row_names_both_sides_of_a_bridge() {
        let mut rows = rows();
        let behind = BridgedServer { package: "@scope/c", transport: "stdio", revision: "2026-07-28" };
        rows.iter_mut().for_each(|row| row.bridged_to = Some(behind));
        assert_eq!(rows[0].file(), "a-http-2025-11-25-to-c-stdio-2026-07-28.txt");
        assert_eq!(rows[2].name(), "b over http on 2025-11-25 to @scope/c over stdio on 2026-07-28");
        let shown = Table::new("client", rows).to_markdown(|_| "9.9.9".to_owned());
        let mut lines = shown.lines().map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
        let head = ["", "client", "transport", "revision", "server", "transport", "revision", "list"];
        assert!(lines.next().unwrap().starts_with(&head), "{shown}");
        let row = ["", "b 9.9.9", "http", "2025-11-25", "@scope/c 9.9.9", "stdio", "2026-07-28", "FAILS"];
        assert!(lines.any(|line| line.starts_with(&row)), "{shown}");
    }
}
