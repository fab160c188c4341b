//! Clients of other projects against servers of other projects, with `tsugite bridge` between them.
//!
//! Not every client runs with every server: [`PAIRS`] lists the pairs, and the tests check their coverage. The scripts are
//! those that drive the clients against our servers, and those that are the servers for our client.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::CliRun;
use crate::count::Count;
use crate::peers::clients::ClientPeer as Client;
use crate::peers::report;
use crate::peers::servers::{ServerPeer as Server, parse_ready};
use crate::peers::table::{BridgedServer, Row, Table};
use crate::process;
use crate::server::ListeningServer;

/// Runs the client of each pair with its server, two pairs at a time, since most of the time is startup.
pub(super) fn run(place: &CliRun<'_>, count: &mut Count) -> Result<(), String> {
    let folder = place.output_dir.join("bridge");
    let table = Mutex::new(Table::new("client of `tsugite bridge`", rows()));
    let pairs = Mutex::new(PAIRS.iter().enumerate());
    let next = || pairs.lock().ok().and_then(|mut pairs| pairs.next());
    let work = || {
        while let Some((number, pair)) = next() {
            let row = pair.row();
            println!("-- {}", row.name());
            let file = folder.join(row.file());
            let ended = run_pair(place, pair, &row, &file);
            let Ok(mut table) = table.lock() else { return };
            // Reports before a timeout count, too.
            table.read_report(number, &fs::read_to_string(&file).unwrap_or_default());
            if let Err(failure) = ended {
                table.add_row_failure(number, &failure);
            }
        }
    };
    thread::scope(|scope| {
        let other = scope.spawn(work);
        work();
        other.join().map_err(|_| "a thread has panicked")
    })?;
    let table = table.into_inner().map_err(|_| "a thread has panicked")?;
    report(&table, &folder.join("table.md"), count)
}

fn run_pair(place: &CliRun<'_>, pair: &PeerPair, row: &Row, file: &Path) -> Result<(), String> {
    let trace = file.with_extension("trace.jsonl");
    // Reports of an earlier run must not count.
    let _ = (fs::remove_file(file), fs::remove_file(&trace));
    let mut server = pair.server.peer.server(place.installed);
    let (server, target) = match pair.server.transport {
        "stdio" => {
            server.arg("--stdio");
            let words = ["--".into()].into_iter().chain(command_words(&server));
            (None, words.collect())
        }
        transport => {
            server.args([&format!("--{transport}"), "0"]);
            let server = ListeningServer::start(server, &file.with_extension("server.txt"), parse_ready)?;
            let path = if transport == "sse" { "sse" } else { "mcp" };
            let url = format!("http://127.0.0.1:{}/{path}", server.endpoint);
            (Some(server), vec![url])
        }
    };
    let mut bridge = process::program(&place.program, ["bridge", "--trace"]);
    bridge.arg(&trace);
    match pair.server.revision {
        // The bridge detects it.
        NEWEST => {}
        revision => drop(bridge.args(["--rev", revision])),
    }
    run_client(place, pair, row, bridge, &target, file)?;
    if let Some(mut server) = server
        && let Some(status) = server.process.try_wait()?
    {
        return Err(format!("the server exited with {status} during the run"));
    }
    let spoken = negotiated_revision(&fs::read_to_string(&trace).unwrap_or_default());
    if spoken.as_deref() == Some(pair.server.revision) {
        return Ok(());
    }
    Err(format!("the bridge and the server used {}", spoken.as_deref().unwrap_or("no revision")))
}

/// Starts the bridge, unless the client does, and runs the client.
fn run_client(
    place: &CliRun<'_>,
    pair: &PeerPair,
    row: &Row,
    mut bridge: Command,
    target: &[String],
    file: &Path,
) -> Result<(), String> {
    let mut script = pair.client.peer.script(place.installed);
    script.args(["--offers", if pair.server.peer == Server::Everything { "everything" } else { "theirs" }]);
    if pair.client.transport == "stdio" {
        bridge.args(target);
        script.arg(json!(command_words(&bridge).collect::<Vec<_>>()).to_string());
        return run_script(script, row, file);
    }
    bridge.args(["--listen", "127.0.0.1:0"]).args(target);
    let mut bridge = ListeningServer::start_tsugite(bridge, &file.with_extension("bridge.txt"))?;
    script.arg(format!("http://127.0.0.1:{}/mcp", bridge.endpoint));
    run_script(script, row, file)?;
    match bridge.process.try_wait()? {
        None => Ok(()),
        Some(status) => Err(format!("the bridge exited with {status} during the run")),
    }
}

fn run_script(mut script: Command, row: &Row, file: &Path) -> Result<(), String> {
    script.arg(row.revision).args(row.features());
    let (status, _) = process::output_with_timeout(ROW_TIMEOUT, script, file)?;
    if status.success() { Ok(()) } else { Err(format!("the script exited with {status}")) }
}

fn command_words(command: &Command) -> impl Iterator<Item = String> {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned())
}

/// The revision of the last handshake or request in a trace.
fn negotiated_revision(trace: &str) -> Option<String> {
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
struct PeerPair {
    client: PeerConfig<Client>,
    server: PeerConfig<Server>,
}

struct PeerConfig<P> {
    peer: P,
    transport: &'static str,
    revision: &'static str,
}

impl PeerPair {
    const fn new(
        client: (Client, &'static str, &'static str),
        server: (Server, &'static str, &'static str),
    ) -> Self {
        let client = PeerConfig { peer: client.0, transport: client.1, revision: client.2 };
        let server = PeerConfig { peer: server.0, transport: server.1, revision: server.2 };
        Self { client, server }
    }

    fn row(&self) -> Row {
        let PeerConfig { peer, transport, revision } = self.server;
        Row {
            package: self.client.peer.package(),
            transport: self.client.transport,
            revision: self.client.revision,
            bridged_to: Some(BridgedServer { package: peer.package(), transport, revision }),
            cells: FEATURES.map(|feature| (feature, self.expected(feature))).into(),
        }
    }

    /// `Ok` if a cell must work, or the reason why it cannot.
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
    PAIRS.iter().map(PeerPair::row).collect()
}

/// The pairs. The tests check their coverage.
const PAIRS: [PeerPair; 20] = [
    // Both stateless.
    PeerPair::new((Client::TypeScript2, "stdio", NEWEST), (Server::Python, "http", NEWEST)),
    PeerPair::new((Client::TypeScript2, "http", NEWEST), (Server::TypeScript2, "http", NEWEST)),
    PeerPair::new((Client::Python, "http", NEWEST), (Server::TypeScript2, "stdio", NEWEST)),
    PeerPair::new((Client::Python, "stdio", NEWEST), (Server::Python, "stdio", NEWEST)),
    // The server sends a request during a call, which is suspended.
    PeerPair::new((Client::TypeScript2, "stdio", NEWEST), (Server::TypeScript1, "stdio", NEWEST_HANDSHAKE)),
    PeerPair::new((Client::TypeScript2, "http", NEWEST), (Server::Everything, "http", NEWEST_HANDSHAKE)),
    PeerPair::new((Client::TypeScript2, "http", NEWEST), (Server::Everything, "stdio", NEWEST_HANDSHAKE)),
    PeerPair::new((Client::Python, "stdio", NEWEST), (Server::TypeScript2, "http", NEWEST_HANDSHAKE)),
    PeerPair::new((Client::Python, "http", NEWEST), (Server::Python, "stdio", NEWEST_HANDSHAKE)),
    PeerPair::new((Client::Python, "http", NEWEST), (Server::TypeScript1, "sse", OLDEST)),
    // The server requires input in its result, and the client gets a request during its call.
    PeerPair::new((Client::TypeScript1, "stdio", NEWEST_HANDSHAKE), (Server::TypeScript2, "stdio", NEWEST)),
    PeerPair::new((Client::TypeScript1, "http", NEWEST_HANDSHAKE), (Server::Python, "stdio", NEWEST)),
    PeerPair::new((Client::TypeScript2, "stdio", NEWEST_HANDSHAKE), (Server::Python, "http", NEWEST)),
    PeerPair::new((Client::Python, "http", NEWEST_HANDSHAKE), (Server::TypeScript2, "http", NEWEST)),
    PeerPair::new((Client::TypeScript1, "sse", OLDEST), (Server::TypeScript2, "http", NEWEST)),
    // Both with a handshake.
    PeerPair::new(
        (Client::TypeScript1, "http", NEWEST_HANDSHAKE),
        (Server::Everything, "stdio", NEWEST_HANDSHAKE),
    ),
    PeerPair::new(
        (Client::TypeScript2, "stdio", NEWEST_HANDSHAKE),
        (Server::Everything, "http", NEWEST_HANDSHAKE),
    ),
    PeerPair::new(
        (Client::Python, "stdio", NEWEST_HANDSHAKE),
        (Server::TypeScript1, "http", NEWEST_HANDSHAKE),
    ),
    PeerPair::new(
        (Client::TypeScript1, "stdio", NEWEST_HANDSHAKE),
        (Server::Python, "stdio", NEWEST_HANDSHAKE),
    ),
    PeerPair::new(
        (Client::TypeScript1, "http", NEWEST_HANDSHAKE),
        (Server::TypeScript2, "http", NEWEST_HANDSHAKE),
    ),
];

/// The stateless revision, and the newest and the oldest handshake revision.
const NEWEST: &str = "2026-07-28";
const NEWEST_HANDSHAKE: &str = "2025-11-25";
const OLDEST: &str = "2024-11-05";

/// The features of a run, including resource subscriptions and completion. Permanent changes come last.
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

/// The time limit of a script; each feature has its own limit in it.
const ROW_TIMEOUT: Duration = Duration::from_secs(240);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_peer_is_covered_over_each_transport() {
        for transport in ["stdio", "http"] {
            for peer in Client::ALL {
                let there = |pair: &PeerPair| (pair.client.peer, pair.client.transport) == (peer, transport);
                assert!(PAIRS.iter().any(there), "{peer:?} over {transport}");
            }
            for peer in Server::ALL {
                let there = |pair: &PeerPair| (pair.server.peer, pair.server.transport) == (peer, transport);
                assert!(PAIRS.iter().any(there), "{peer:?} over {transport}");
            }
        }
    }

    #[test]
    fn every_pair_of_eras_is_covered_over_all_transports() {
        for (client, server) in [
            (NEWEST, NEWEST),
            (NEWEST, NEWEST_HANDSHAKE),
            (NEWEST_HANDSHAKE, NEWEST),
            (NEWEST_HANDSHAKE, NEWEST_HANDSHAKE),
        ] {
            for (near, far) in [("stdio", "stdio"), ("stdio", "http"), ("http", "stdio"), ("http", "http")] {
                let wanted = ((near, client), (far, server));
                let there = |pair: &PeerPair| {
                    let (client, server) = (&pair.client, &pair.server);
                    ((client.transport, client.revision), (server.transport, server.revision)) == wanted
                };
                assert!(PAIRS.iter().any(there), "{wanted:?}");
            }
        }
    }

    #[test]
    fn elicitation_is_covered_across_eras_for_every_server() {
        let meet = |peer, client, server| {
            let wanted = (peer, client, server);
            PAIRS.iter().any(|pair| (pair.server.peer, pair.client.revision, pair.server.revision) == wanted)
        };
        assert!(Server::ALL.into_iter().all(|peer| meet(peer, NEWEST, NEWEST_HANDSHAKE)));
        // The other two do not support it.
        assert!([Server::TypeScript2, Server::Python].into_iter().all(|peer| meet(
            peer,
            NEWEST_HANDSHAKE,
            NEWEST
        )));
    }

    #[test]
    fn each_pair_covers_all_its_features() {
        assert_eq!(Table::new("client", rows()).count(), Count { passed: 0, failed: 214, skipped: 0 });
        let mut files: Vec<_> = rows().iter().map(Row::file).collect();
        files.sort();
        files.dedup();
        assert_eq!(files.len(), PAIRS.len());
    }

    #[test]
    fn revision_is_parsed_from_a_trace() {
        let greeting = r#"{"message":{"id":1,"result":{"protocolVersion":"2025-11-25"}}}"#;
        assert_eq!(negotiated_revision(greeting).as_deref(), Some("2025-11-25"));
        assert_eq!(negotiated_revision(r#"{"message":{"method":"tools/call","params":{}}}"#), None);
        let meta = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;
        let probe = format!(r#"{{"message":{{"method":"server/discover","params":{{"_meta":{meta}}}}}}}"#);
        assert_eq!(negotiated_revision(&format!("{probe}\n{greeting}")).as_deref(), Some("2025-11-25"));
        assert_eq!(
            negotiated_revision(&probe.replace("server/discover", "tools/call")).as_deref(),
            Some("2026-07-28")
        );
    }
}
