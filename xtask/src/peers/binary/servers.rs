//! The verbs of `tsugite` against servers of other projects, over stdio, HTTP and HTTP+SSE.
//!
//! Each verb is a process of its own, as people run it, and over stdio so is the server each time.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::{Place, REVISIONS};
use crate::count::Count;
use crate::peers::judge;
use crate::peers::servers::{self, Peer, ready};
use crate::peers::table::{Row, Table};
use crate::run;
use crate::server::Listening;

/// Runs every verb against every server, over every transport and on every revision.
pub(super) fn run(place: &Place<'_>, count: &mut Count) -> Result<(), String> {
    let folder = place.folder.join("servers");
    let mut table = Table::new("server for `tsugite`", rows());
    for (number, (peer, transport, revision)) in places().enumerate() {
        let row = row(peer, transport, revision);
        if row.features().is_empty() {
            continue;
        }
        println!("-- tsugite to {}", row.name());
        match visit(place, peer, &row, &folder.join(row.file())) {
            Ok(cells) => cells.into_iter().for_each(|(verb, outcome)| table.note(number, verb, outcome)),
            Err(failure) => table.complain_of(number, &failure),
        }
    }
    judge(&table, &folder.join("table.md"), count)
}

type Cells = Vec<(&'static str, Result<(), String>)>;

fn visit(place: &Place<'_>, peer: Peer, row: &Row, file: &Path) -> Result<Cells, String> {
    let mut server = peer.server(place.installed);
    if row.transport == "stdio" {
        server.arg("--stdio");
        let visit = Visit { program: &place.program, peer, row, target: Target::Command(server), file };
        return visit.all();
    }
    server.args([&format!("--{}", row.transport), "0"]);
    let mut server = Listening::start(server, &file.with_extension("server.txt"), ready)?;
    let path = if row.transport == "sse" { "sse" } else { "mcp" };
    let target = Target::Url(format!("http://127.0.0.1:{}/{path}", server.place));
    let cells = Visit { program: &place.program, peer, row, target, file }.all()?;
    match server.running.ended()? {
        None => Ok(cells),
        Some(status) => Err(format!("the server has ended with {status} while tsugite talked to it")),
    }
}

enum Target {
    Url(String),
    Command(Command),
}

struct Visit<'a> {
    program: &'a Path,
    peer: Peer,
    row: &'a Row,
    target: Target,
    /// For what is said.
    file: &'a Path,
}

impl Visit<'_> {
    /// Every verb, two at a time: over stdio most of the time is the server's beginning.
    fn all(&self) -> Result<Cells, String> {
        let verbs = Mutex::new(self.row.features());
        let next = || verbs.lock().ok().and_then(|mut verbs| verbs.pop());
        let work = || {
            let mut cells = Cells::new();
            while let Some(verb) = next() {
                cells.push((verb, self.one(verb)));
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

    fn one(&self, verb: &str) -> Result<(), String> {
        let is_everything = self.peer == Peer::Everything;
        match verb {
            "info" => {
                let said = self.json("info", &[])?;
                let over = match self.row.transport {
                    "http" => "streamable-http",
                    "sse" => "http+sse",
                    other => other,
                };
                same(&said, "/revision", self.row.revision)?;
                same(&said, "/transport", over)?;
                let name = if is_everything { "mcp-servers/everything" } else { "peers" };
                same(&said, "/server/name", name)
            }
            "list" => {
                let said = self.json("list", &[])?;
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
                let said = self.json("call", &["get-sum", "a=40", "b=2"])?;
                same(&said, "/content/0/text", "The sum of 40 and 2 is 42.")
            }
            "call" => {
                let said = self.json("call", &["add", "a=40", "b=2"])?;
                same(&said, "/content/0/text", "42")?;
                let failed = self.run("call", &["fail"])?;
                if failed.0 == Some(4) { Ok(()) } else { Err(format!("`fail` ended with {:?}", failed.0)) }
            }
            "question" if is_everything => {
                let said = self.text("call", &["trigger-elicitation-request", "--answer", "name=Ada"])?;
                if said.contains("Ada") { Ok(()) } else { Err(said) }
            }
            "question" => is(&self.text("call", &["ask", "--answer", "name=Ada"])?, "hello Ada\n"),
            "read" if is_everything => {
                let said = self.text("read", &["demo://resource/dynamic/text/1"])?;
                if said.contains("Resource 1") { Ok(()) } else { Err(said) }
            }
            "read" => is(&self.text("read", &["memo://one"])?, "the first memo"),
            "prompt" if is_everything => {
                let said = self.json("prompt", &["args-prompt", "city=Kyoto"])?;
                same(&said, "/messages/0/content/text", "What's weather in Kyoto?")
            }
            "prompt" => {
                let said = self.json("prompt", &["greet", "who=Kiku"])?;
                same(&said, "/messages/0/content/text", "Greet Kiku.")
            }
            "complete" if is_everything => {
                let said = self.text("complete", &["completable-prompt", "department", "E"])?;
                is(&said, "Engineering\n")
            }
            "complete" => is(&self.text("complete", &["greet", "who", "A"])?, "Ada\nAlan\n"),
            _ => Err("nobody knows how to try this".to_owned()),
        }
    }

    fn json(&self, verb: &str, words: &[&str]) -> Result<Value, String> {
        let words: Vec<&str> = words.iter().copied().chain(["--json"]).collect();
        let said = self.text(verb, &words)?;
        serde_json::from_str(&said).map_err(|error| format!("{error}: {said}"))
    }

    /// Standard output of a run that went well.
    fn text(&self, verb: &str, words: &[&str]) -> Result<String, String> {
        let (code, said, errors) = self.run(verb, words)?;
        if code == Some(0) { Ok(said) } else { Err(format!("it ended with {code:?}: {}", errors.trim())) }
    }

    fn run(&self, verb: &str, words: &[&str]) -> Result<(Option<i32>, String, String), String> {
        let mut command = run::program(self.program, [verb]);
        // Nobody's configuration.
        command.env("HOME", self.file.with_extension("home"));
        if let Target::Url(url) = &self.target {
            command.arg(url);
        }
        command.args(words);
        match self.row.revision {
            // It finds that out by itself.
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
        command.stderr(run::log(&errors)?);
        let (status, said) = run::output_within(A_VERB, command, &file)?;
        let errors = fs::read_to_string(&errors).unwrap_or_default();
        Ok((status.code(), said, errors))
    }
}

fn same(said: &Value, path: &str, expected: &str) -> Result<(), String> {
    match said.pointer(path).and_then(Value::as_str) {
        Some(seen) if seen == expected => Ok(()),
        _ => Err(format!("{path} should be {expected:?} in {said}")),
    }
}

fn is(seen: &str, expected: &str) -> Result<(), String> {
    if seen == expected { Ok(()) } else { Err(format!("{seen:?} instead of {expected:?}")) }
}

/// One row for each server, transport, and revision that has the transport.
pub(in crate::peers) fn rows() -> Vec<Row> {
    places().map(|(peer, transport, revision)| row(peer, transport, revision)).collect()
}

fn places() -> impl Iterator<Item = (Peer, &'static str, &'static str)> {
    servers::places().filter(|(_, _, revision)| REVISIONS.contains(revision))
}

fn row(peer: Peer, transport: &'static str, revision: &'static str) -> Row {
    let cells = VERBS.map(|verb| (verb, expected(peer, revision, verb)));
    Row { package: peer.package(), transport, revision, behind: None, cells: cells.into() }
}

/// That a cell must work, or why it cannot.
fn expected(peer: Peer, revision: &str, verb: &str) -> Result<(), &'static str> {
    match (peer, revision, verb) {
        (Peer::TypeScript1 | Peer::Everything, "2026-07-28", _) => Err("1.x does not speak 2026-07-28"),
        (_, "2024-11-05", "question") => Err("2024-11-05 has no elicitation"),
        _ => Ok(()),
    }
}

/// A question is a call whose tool asks something.
const VERBS: [&str; 7] = ["info", "list", "call", "question", "read", "prompt", "complete"];

/// With the beginning of a server.
const A_VERB: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_server_is_asked_for_all_it_can_do() {
        let rows = rows();
        assert_eq!(rows.len(), 24);
        assert_eq!(rows.iter().filter(|row| row.features().is_empty()).count(), 4);
        assert_eq!(Table::new("server", rows).count(), Count { passed: 0, failed: 132, skipped: 0 });
    }
}
