//! Clients of other projects against servers of other projects, with `tsugite bridge` between them.
//!
//! Not every client against every server: [`PAIRS`] says which, and the tests below what they must cover. The scripts are
//! those that drive the clients against our servers, and those that are the servers for our client.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::Place;
use crate::count::Count;
use crate::peers::clients::Peer as Client;
use crate::peers::judge;
use crate::peers::servers::{Peer as Server, ready};
use crate::peers::table::{Behind, Row, Table};
use crate::run;
use crate::server::Listening;

/// Lets the client of each pair talk to the server, two pairs at a time: most of the time is somebody's beginning.
pub(super) fn run(place: &Place<'_>, count: &mut Count) -> Result<(), String> {
    let folder = place.folder.join("bridge");
    let table = Mutex::new(Table::new("client of `tsugite bridge`", rows()));
    let pairs = Mutex::new(PAIRS.iter().enumerate());
    let next = || pairs.lock().ok().and_then(|mut pairs| pairs.next());
    let work = || {
        while let Some((number, pair)) = next() {
            let row = pair.row();
            println!("-- {}", row.name());
            let file = folder.join(row.file());
            let ended = visit(place, pair, &row, &file);
            let Ok(mut table) = table.lock() else { return };
            // What it said before it was stopped counts too.
            table.hear(number, &fs::read_to_string(&file).unwrap_or_default());
            if let Err(failure) = ended {
                table.complain_of(number, &failure);
            }
        }
    };
    thread::scope(|scope| {
        let other = scope.spawn(work);
        work();
        other.join().map_err(|_| "a thread has panicked")
    })?;
    let table = table.into_inner().map_err(|_| "a thread has panicked")?;
    judge(&table, &folder.join("table.md"), count)
}

fn visit(place: &Place<'_>, pair: &Pair, row: &Row, file: &Path) -> Result<(), String> {
    let trace = file.with_extension("trace.jsonl");
    // What was said another time is not to be heard if nobody speaks now.
    let _ = (fs::remove_file(file), fs::remove_file(&trace));
    let mut server = pair.server.peer.server(place.installed);
    let (server, target) = match pair.server.transport {
        "stdio" => {
            server.arg("--stdio");
            let words = ["--".into()].into_iter().chain(words(&server));
            (None, words.collect())
        }
        transport => {
            server.args([&format!("--{transport}"), "0"]);
            let server = Listening::start(server, &file.with_extension("server.txt"), ready)?;
            let path = if transport == "sse" { "sse" } else { "mcp" };
            let url = format!("http://127.0.0.1:{}/{path}", server.place);
            (Some(server), vec![url])
        }
    };
    let mut bridge = run::program(&place.program, ["bridge", "--trace"]);
    bridge.arg(&trace);
    match pair.server.revision {
        // It finds that out by itself.
        NEW => {}
        revision => drop(bridge.args(["--rev", revision])),
    }
    talk(place, pair, row, bridge, &target, file)?;
    if let Some(mut server) = server
        && let Some(status) = server.running.ended()?
    {
        return Err(format!("the server has ended with {status} while the bridge talked to it"));
    }
    let spoken = spoken(&fs::read_to_string(&trace).unwrap_or_default());
    if spoken.as_deref() == Some(pair.server.revision) {
        return Ok(());
    }
    Err(format!("the bridge and the server have spoken {}", spoken.as_deref().unwrap_or("no revision")))
}

/// Starts the bridge, or lets the client do so, and runs the client.
fn talk(
    place: &Place<'_>,
    pair: &Pair,
    row: &Row,
    mut bridge: Command,
    target: &[String],
    file: &Path,
) -> Result<(), String> {
    let mut script = pair.client.peer.script(place.installed);
    script.args(["--offers", if pair.server.peer == Server::Everything { "everything" } else { "theirs" }]);
    if pair.client.transport == "stdio" {
        bridge.args(target);
        script.arg(json!(words(&bridge).collect::<Vec<_>>()).to_string());
        return drive(script, row, file);
    }
    bridge.args(["--listen", "127.0.0.1:0"]).args(target);
    let mut bridge = Listening::tsugite(bridge, &file.with_extension("bridge.txt"))?;
    script.arg(format!("http://127.0.0.1:{}/mcp", bridge.place));
    drive(script, row, file)?;
    match bridge.running.ended()? {
        None => Ok(()),
        Some(status) => Err(format!("the bridge has ended with {status} while a client talked to it")),
    }
}

fn drive(mut script: Command, row: &Row, file: &Path) -> Result<(), String> {
    script.arg(row.revision).args(row.features());
    let (status, _) = run::output_within(A_ROW, script, file)?;
    if status.success() { Ok(()) } else { Err(format!("its script ended with {status}")) }
}

fn words(command: &Command) -> impl Iterator<Item = String> {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned())
}

/// The revision a server was asked something in after it was greeted, or else greeted in.
fn spoken(trace: &str) -> Option<String> {
    let mut greeted = None;
    for line in trace.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        let text = |path| line.pointer(path).and_then(Value::as_str).map(str::to_owned);
        let claimed = text("/message/params/_meta/io.modelcontextprotocol~1protocolVersion");
        if claimed.is_some() && text("/message/method").is_some_and(|method| method != "server/discover") {
            return claimed;
        }
        greeted = greeted.or_else(|| text("/message/result/protocolVersion"));
    }
    greeted
}

/// A client and the server it talks to.
struct Pair {
    client: Side<Client>,
    server: Side<Server>,
}

struct Side<P> {
    peer: P,
    transport: &'static str,
    revision: &'static str,
}

impl Pair {
    const fn new(
        client: (Client, &'static str, &'static str),
        server: (Server, &'static str, &'static str),
    ) -> Self {
        let client = Side { peer: client.0, transport: client.1, revision: client.2 };
        let server = Side { peer: server.0, transport: server.1, revision: server.2 };
        Self { client, server }
    }

    fn row(&self) -> Row {
        let Side { peer, transport, revision } = self.server;
        Row {
            package: self.client.peer.package(),
            transport: self.client.transport,
            revision: self.client.revision,
            behind: Some(Behind { package: peer.package(), transport, revision }),
            cells: FEATURES.map(|feature| (feature, self.expected(feature))).into(),
        }
    }

    /// That a cell must work, or why it cannot.
    fn expected(&self, feature: &str) -> Result<(), &'static str> {
        let oldest = [self.client.revision, self.server.revision].contains(&OLDEST);
        match (self.server.peer, feature) {
            (_, "elicitation") if oldest => Err("2024-11-05 has no elicitation"),
            (Server::Everything, "cancellation") => {
                Err("server-everything does not tell whether it was cancelled")
            }
            _ => Ok(()),
        }
    }
}

/// One row for each pair.
pub(in crate::peers) fn rows() -> Vec<Row> {
    PAIRS.iter().map(Pair::row).collect()
}

/// Who talks to whom. The tests say what must be among them.
const PAIRS: [Pair; 20] = [
    // Both without sessions.
    Pair::new((Client::TypeScript2, "stdio", NEW), (Server::Python, "http", NEW)),
    Pair::new((Client::TypeScript2, "http", NEW), (Server::TypeScript2, "http", NEW)),
    Pair::new((Client::Python, "http", NEW), (Server::TypeScript2, "stdio", NEW)),
    Pair::new((Client::Python, "stdio", NEW), (Server::Python, "stdio", NEW)),
    // The server asks in the middle of a call, which is parked.
    Pair::new((Client::TypeScript2, "stdio", NEW), (Server::TypeScript1, "stdio", OLD)),
    Pair::new((Client::TypeScript2, "http", NEW), (Server::Everything, "http", OLD)),
    Pair::new((Client::TypeScript2, "http", NEW), (Server::Everything, "stdio", OLD)),
    Pair::new((Client::Python, "stdio", NEW), (Server::TypeScript2, "http", OLD)),
    Pair::new((Client::Python, "http", NEW), (Server::Python, "stdio", OLD)),
    Pair::new((Client::Python, "http", NEW), (Server::TypeScript1, "sse", OLDEST)),
    // The server asks in its answer, and the client is asked in the middle of its call.
    Pair::new((Client::TypeScript1, "stdio", OLD), (Server::TypeScript2, "stdio", NEW)),
    Pair::new((Client::TypeScript1, "http", OLD), (Server::Python, "stdio", NEW)),
    Pair::new((Client::TypeScript2, "stdio", OLD), (Server::Python, "http", NEW)),
    Pair::new((Client::Python, "http", OLD), (Server::TypeScript2, "http", NEW)),
    Pair::new((Client::TypeScript1, "sse", OLDEST), (Server::TypeScript2, "http", NEW)),
    // Both with sessions.
    Pair::new((Client::TypeScript1, "http", OLD), (Server::Everything, "stdio", OLD)),
    Pair::new((Client::TypeScript2, "stdio", OLD), (Server::Everything, "http", OLD)),
    Pair::new((Client::Python, "stdio", OLD), (Server::TypeScript1, "http", OLD)),
    Pair::new((Client::TypeScript1, "stdio", OLD), (Server::Python, "stdio", OLD)),
    Pair::new((Client::TypeScript1, "http", OLD), (Server::TypeScript2, "http", OLD)),
];

/// Without sessions; and the newest and the oldest with.
const NEW: &str = "2026-07-28";
const OLD: &str = "2025-11-25";
const OLDEST: &str = "2024-11-05";

/// Resources are watched too, and arguments of prompts completed. What changes for good comes last.
const FEATURES: [&str; 11] = [
    "list",
    "call",
    "progress",
    "elicitation",
    "sampling",
    "roots",
    "cancellation",
    "logging",
    "resources",
    "prompts",
    "changes",
];

/// Each feature has a limit of its own in the script.
const A_ROW: Duration = Duration::from_secs(240);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_peer_is_there_over_each_transport() {
        for transport in ["stdio", "http"] {
            for peer in Client::ALL {
                let there = |pair: &Pair| (pair.client.peer, pair.client.transport) == (peer, transport);
                assert!(PAIRS.iter().any(there), "{peer:?} over {transport}");
            }
            for peer in Server::ALL {
                let there = |pair: &Pair| (pair.server.peer, pair.server.transport) == (peer, transport);
                assert!(PAIRS.iter().any(there), "{peer:?} over {transport}");
            }
        }
    }

    #[test]
    fn the_eras_meet_in_every_way_over_every_two_transports() {
        for (client, server) in [(NEW, NEW), (NEW, OLD), (OLD, NEW), (OLD, OLD)] {
            for (near, far) in [("stdio", "stdio"), ("stdio", "http"), ("http", "stdio"), ("http", "http")] {
                let wanted = ((near, client), (far, server));
                let there = |pair: &Pair| {
                    let (client, server) = (&pair.client, &pair.server);
                    ((client.transport, client.revision), (server.transport, server.revision)) == wanted
                };
                assert!(PAIRS.iter().any(there), "{wanted:?}");
            }
        }
    }

    #[test]
    fn every_server_asks_clients_of_the_other_era() {
        let meet = |peer, client, server| {
            let wanted = (peer, client, server);
            PAIRS.iter().any(|pair| (pair.server.peer, pair.client.revision, pair.server.revision) == wanted)
        };
        assert!(Server::ALL.into_iter().all(|peer| meet(peer, NEW, OLD)));
        // The other two do not speak it.
        assert!([Server::TypeScript2, Server::Python].into_iter().all(|peer| meet(peer, OLD, NEW)));
    }

    #[test]
    fn each_pair_is_asked_for_all_it_can_do() {
        assert_eq!(Table::new("client", rows()).count(), Count { passed: 0, failed: 214, skipped: 0 });
        let mut files: Vec<_> = rows().iter().map(Row::file).collect();
        files.sort();
        files.dedup();
        assert_eq!(files.len(), PAIRS.len());
    }

    #[test]
    fn a_trace_tells_the_revision() {
        let greeting = r#"{"message":{"id":1,"result":{"protocolVersion":"2025-11-25"}}}"#;
        assert_eq!(spoken(greeting).as_deref(), Some("2025-11-25"));
        assert_eq!(spoken(r#"{"message":{"method":"tools/call","params":{}}}"#), None);
        let meta = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;
        let probe = format!(r#"{{"message":{{"method":"server/discover","params":{{"_meta":{meta}}}}}}}"#);
        assert_eq!(spoken(&format!("{probe}\n{greeting}")).as_deref(), Some("2025-11-25"));
        assert_eq!(spoken(&probe.replace("server/discover", "tools/call")).as_deref(), Some("2026-07-28"));
    }
}
