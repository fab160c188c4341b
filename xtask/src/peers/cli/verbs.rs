//! The verbs of `tsugite` against servers of other projects, over stdio, HTTP and HTTP+SSE.
//!
//! Each verb is its own process, as in use, and over stdio so is the server.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::{CliRun, REVISIONS};
use crate::count::Count;
use crate::peers::report;
use crate::peers::servers::{self, ServerPeer, parse_ready};
use crate::peers::table::{Row, Table};
use crate::process;
use crate::server::ListeningServer;

/// Runs every verb against every server, over every transport and on every revision.
pub(super) fn run(place: &CliRun<'_>, count: &mut Count) -> Result<(), String> {
    let folder = place.output_dir.join("servers");
    let mut table = Table::new("server for `tsugite`", rows());
    for (number, (peer, transport, revision)) in cases().enumerate() {
        let row = row(peer, transport, revision);
        if row.features().is_empty() {
            continue;
        }
        println!("-- tsugite to {}", row.name());
        match run_verbs(place, peer, &row, &folder.join(row.file())) {
            Ok(cells) => cells.into_iter().for_each(|(verb, outcome)| table.record(number, verb, outcome)),
            Err(failure) => table.add_row_failure(number, &failure),
        }
    }
    report(&table, &folder.join("table.md"), count)
}

type Cells = Vec<(&'static str, Result<(), String>)>;

fn run_verbs(place: &CliRun<'_>, peer: ServerPeer, row: &Row, file: &Path) -> Result<Cells, String> {
    let mut server = peer.server(place.installed);
    if row.transport == "stdio" {
        server.arg("--stdio");
        let visit = VerbRun { program: &place.program, peer, row, target: Target::Command(server), file };
        return visit.run_all();
    }
    server.args([&format!("--{}", row.transport), "0"]);
    let mut server = ListeningServer::start(server, &file.with_extension("server.txt"), parse_ready)?;
    let path = if row.transport == "sse" { "sse" } else { "mcp" };
    let target = Target::Url(format!("http://127.0.0.1:{}/{path}", server.endpoint));
    let cells = VerbRun { program: &place.program, peer, row, target, file }.run_all()?;
    match server.process.try_wait()? {
        None => Ok(cells),
        Some(status) => Err(format!("the server exited with {status} during the run")),
    }
}

enum Target {
    Url(String),
    Command(Command),
}

struct VerbRun<'a> {
    program: &'a Path,
    peer: ServerPeer,
    row: &'a Row,
    target: Target,
    /// The file for logs.
    file: &'a Path,
}

impl VerbRun<'_> {
    /// Runs every verb, two at a time, since over stdio most of the time is the start of the server.
    fn run_all(&self) -> Result<Cells, String> {
        let verbs = Mutex::new(self.row.features());
        let next = || verbs.lock().ok().and_then(|mut verbs| verbs.pop());
        let work = || {
            let mut cells = Cells::new();
            while let Some(verb) = next() {
                cells.push((verb, self.run_one(verb)));
            }
            cells
        };
        thread::scope(|scope| {
            let other = scope.spawn(work);
            let mut cells = work();
            cells.extend(other.join().map_err(|_| "a thread has panicked")?);
            Ok(cells)
        })
    }

    fn run_one(&self, verb: &str) -> Result<(), String> {
        let is_everything = self.peer == ServerPeer::Everything;
        match verb {
            "info" => {
                let said = self.run_json("info", &[])?;
                let over = match self.row.transport {
                    "http" => "streamable-http",
                    "sse" => "http+sse",
                    other => other,
                };
                expect_member(&said, "/revision", self.row.revision)?;
                expect_member(&said, "/transport", over)?;
                let name = if is_everything { "mcp-servers/everything" } else { "peers" };
                expect_member(&said, "/server/name", name)
            }
            "list" => {
                let said = self.run_json("list", &[])?;
                let names = |list: &str| {
                    let list = said.get(list).and_then(Value::as_array).into_iter().flatten();
                    list.filter_map(|one| one.get("name")?.as_str()).collect::<Vec<_>>()
                };
                let (tool, prompt) =
                    if is_everything { ("get-sum", "args-prompt") } else { ("add", "greet") };
                let resources = names("resources");
                let has_all = names("tools").contains(&tool) && names("prompts").contains(&prompt);
                let pages = is_everything || resources == ["one", "two", "bytes"];
                if has_all && pages { Ok(()) } else { Err(said.to_string()) }
            }
            "call" if is_everything => {
                let said = self.run_json("call", &["get-sum", "a=40", "b=2"])?;
                expect_member(&said, "/content/0/text", "The sum of 40 and 2 is 42.")
            }
            "call" => {
                let said = self.run_json("call", &["add", "a=40", "b=2"])?;
                expect_member(&said, "/content/0/text", "42")?;
                let failed = self.run("call", &["fail"])?;
                if failed.0 == Some(4) { Ok(()) } else { Err(format!("`fail` exited with {:?}", failed.0)) }
            }
            "question" if is_everything => {
                let said = self.run_text("call", &["trigger-elicitation-request", "--answer", "name=Ada"])?;
                if said.contains("Ada") { Ok(()) } else { Err(said) }
            }
            "question" => {
                expect_text(&self.run_text("call", &["ask", "--answer", "name=Ada"])?, "hello Ada\n")
            }
            "read" if is_everything => {
                let said = self.run_text("read", &["demo://resource/dynamic/text/1"])?;
                if said.contains("Resource 1") { Ok(()) } else { Err(said) }
            }
            "read" => expect_text(&self.run_text("read", &["memo://one"])?, "the first memo"),
            "prompt" if is_everything => {
                let said = self.run_json("prompt", &["args-prompt", "city=Kyoto"])?;
                expect_member(&said, "/messages/0/content/text", "What's weather in Kyoto?")
            }
            "prompt" => {
                let said = self.run_json("prompt", &["greet", "who=Kiku"])?;
                expect_member(&said, "/messages/0/content/text", "Greet Kiku.")
            }
            "complete" if is_everything => {
                let said = self.run_text("complete", &["completable-prompt", "department", "E"])?;
                expect_text(&said, "Engineering\n")
            }
            "complete" => expect_text(&self.run_text("complete", &["greet", "who", "A"])?, "Ada\nAlan\n"),
            _ => Err("unknown verb".to_owned()),
        }
    }

    fn run_json(&self, verb: &str, words: &[&str]) -> Result<Value, String> {
        let words: Vec<&str> = words.iter().copied().chain(["--json"]).collect();
        let said = self.run_text(verb, &words)?;
        serde_json::from_str(&said).map_err(|error| format!("{error}: {said}"))
    }

    /// The standard output of a successful run.
    fn run_text(&self, verb: &str, words: &[&str]) -> Result<String, String> {
        let (code, said, errors) = self.run(verb, words)?;
        if code == Some(0) { Ok(said) } else { Err(format!("exited with {code:?}: {}", errors.trim())) }
    }

    fn run(&self, verb: &str, words: &[&str]) -> Result<(Option<i32>, String, String), String> {
        let mut command = process::program(self.program, [verb]);
        // No user configuration.
        command.env("HOME", self.file.with_extension("home"));
        if let Target::Url(url) = &self.target {
            command.arg(url);
        }
        command.args(words);
        match self.row.revision {
            // `tsugite` detects it.
            "2026-07-28" => {}
            revision => drop(command.args(["--rev", revision])),
        }
        if self.row.transport == "sse" {
            command.args(["--transport", "sse"]);
        }
        if let Target::Command(server) = &self.target {
            command.arg("--").arg(server.get_program()).args(server.get_args());
        }
        let plain: String =
            words.iter().flat_map(|word| word.chars()).filter(|letter| letter.is_alphanumeric()).collect();
        let file = self.file.with_extension(format!("{verb}-{plain}.txt"));
        let errors = file.with_extension("errors.txt");
        command.stderr(process::create_log(&errors)?);
        let (status, said) = process::output_with_timeout(VERB_TIMEOUT, command, &file)?;
        let errors = fs::read_to_string(&errors).unwrap_or_default();
        Ok((status.code(), said, errors))
    }
}

fn expect_member(said: &Value, path: &str, expected: &str) -> Result<(), String> {
    match said.pointer(path).and_then(Value::as_str) {
        Some(seen) if seen == expected => Ok(()),
        _ => Err(format!("{path} should be {expected:?} in {said}")),
    }
}

fn expect_text(seen: &str, expected: &str) -> Result<(), String> {
    if seen == expected { Ok(()) } else { Err(format!("{seen:?} instead of {expected:?}")) }
}

/// One row for each server, transport, and revision that has the transport.
pub(in crate::peers) fn rows() -> Vec<Row> {
    cases().map(|(peer, transport, revision)| row(peer, transport, revision)).collect()
}

fn cases() -> impl Iterator<Item = (ServerPeer, &'static str, &'static str)> {
    servers::cases().filter(|(_, _, revision)| REVISIONS.contains(revision))
}

fn row(peer: ServerPeer, transport: &'static str, revision: &'static str) -> Row {
    let cells = VERBS.map(|verb| (verb, expected(peer, revision, verb)));
    Row { package: peer.package(), transport, revision, bridged_to: None, cells: cells.into() }
}

/// `Ok` if a cell must work, or the reason why it cannot.
fn expected(peer: ServerPeer, revision: &str, verb: &str) -> Result<(), &'static str> {
    match (peer, revision, verb) {
        (ServerPeer::TypeScript1 | ServerPeer::Everything, "2026-07-28", _) => {
            Err("1.x does not speak 2026-07-28")
        }
        (_, "2024-11-05", "question") => Err("2024-11-05 has no elicitation"),
        _ => Ok(()),
    }
}

/// The verbs; `question` is a call whose tool asks the user.
const VERBS: [&str; 7] = ["info", "list", "call", "question", "read", "prompt", "complete"];

/// The time limit of a verb, including the start of a server.
const VERB_TIMEOUT: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_server_covers_all_its_features() {
        let rows = rows();
        assert_eq!(rows.len(), 24);
        assert_eq!(rows.iter().filter(|row| row.features().is_empty()).count(), 4);
        assert_eq!(Table::new("server", rows).count(), Count { passed: 0, failed: 132, skipped: 0 });
    }
}
