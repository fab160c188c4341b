//! `cargo xtask conformance`: the official suite judges our server and our client, and we judge more strictly than it
//! does.
//!
//! The suite lets warnings pass, and scenarios in which it could decide nothing. Each requirement set is run on the wire
//! of its revision, the full suite on a wire of its choice, so none of the three stands for another.

mod client;
mod verdict;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::count::Count;
use crate::server::Server;
use crate::{binary, node, run};
use client::Stage;
use verdict::{Listed, Results, Tally};

/// What `cargo xtask test` does: our server, then our client.
pub(crate) fn everything(count: &mut Count) -> Result<(), String> {
    Plan::usual(Role::Server).run(count)?;
    Plan::usual(Role::Client).run(count)
}

/// Which sets to run, and against what.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    role: Role,
    sets: Vec<&'static Set>,
    /// A server that runs already, instead of ours.
    url: Option<String>,
}

impl Plan {
    fn usual(role: Role) -> Self {
        // All that the full suite would add for a client is about authorization and skills, which it has not.
        let sets = role.sets().iter().filter(|set| role == Role::Server || set.name != FULL);
        Self { role, sets: sets.collect(), url: None }
    }

    /// Reads `server [--url URL] [SET…]` and `client [SET…]`.
    pub(crate) fn by_hand(args: &[&str]) -> Result<Self, String> {
        let (role, url, names) = match args {
            ["server", "--url", url, names @ ..] => (Role::Server, Some((*url).to_owned()), names),
            ["server", names @ ..] => (Role::Server, None, names),
            ["client", names @ ..] => (Role::Client, None, names),
            _ => return Err(format!("conformance does not understand `{}`", args.join(" "))),
        };
        let mut sets = Vec::new();
        for name in names {
            let known = role.sets().iter().map(|set| set.name).collect::<Vec<_>>().join(", ");
            let set = role.sets().iter().find(|set| set.name == *name);
            sets.push(set.ok_or_else(|| format!("there is no set `{name}`, only {known}"))?);
        }
        Ok(if sets.is_empty() { Self { url, ..Self::usual(role) } } else { Self { role, sets, url } })
    }

    /// Adds every scenario to `count`. Fails when one did, or when there were not as many as there should be.
    pub(crate) fn run(&self, count: &mut Count) -> Result<(), String> {
        let role = self.role;
        let suite = Suite::install(role)?;
        // Held until the end: dropping it stops a server of ours.
        let judged = match (role, &self.url) {
            (Role::Client, _) => Judged::Client(binary::build("conformance-client", &suite.folder)?),
            (Role::Server, Some(url)) => Judged::ServerAt(url.clone()),
            (Role::Server, None) => Judged::OurServer(Server::start("conformance-server", &suite.folder)?),
        };
        let (mut lines, mut objections) = (Vec::new(), Vec::new());
        for set in &self.sets {
            println!("-- conformance {role} {}", set.name);
            let tally = suite.run(set, &judged)?;
            *count += tally.count();
            lines.push(format!("conformance {role} {}: {tally}", set.name));
            objections.extend(set.objection(&tally));
        }
        lines.iter().for_each(|line| println!("{line}"));
        match objections.is_empty() {
            true => Ok(()),
            false => {
                Err(format!("{}\n  try: see above, and {}", objections.join("; "), suite.folder.display()))
            }
        }
    }
}

/// Whom the suite judges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Server,
    Client,
}

impl Role {
    fn sets(self) -> &'static [Set] {
        match self {
            Role::Server => &SERVER_SETS,
            Role::Client => &CLIENT_SETS,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Role::Server => "server",
            Role::Client => "client",
        })
    }
}

/// What the suite is let loose on.
enum Judged {
    OurServer(Server),
    /// One that runs already, at this address.
    ServerAt(String),
    /// The program that each scenario starts.
    Client(PathBuf),
}

/// Scenarios that are run together, and how that must end: a suite that has shrunk would look like success.
#[derive(Debug, PartialEq, Eq)]
struct Set {
    name: &'static str,
    due: Tally,
}

impl Set {
    fn objection(&self, tally: &Tally) -> Option<String> {
        let Self { name, due } = self;
        let failed = tally.count().failed;
        if failed > 0 {
            return Some(format!("{name}: {failed} failed"));
        }
        (tally != due).then(|| format!("{name} is not the set we know, which ends with \"{due}\""))
    }

    /// What makes the suite list it.
    fn listing(&self, role: Role) -> Vec<&str> {
        match (self.name, role) {
            (FULL, Role::Server) => vec!["--server"],
            (FULL, Role::Client) => vec!["--client"],
            (revision, _) => vec!["--requirements", revision],
        }
    }

    /// What makes the suite run it whole.
    fn whole(&self) -> [&str; 2] {
        if self.name == FULL { ["--suite", "all"] } else { ["--requirements", self.name] }
    }

    /// What makes the suite run a scenario as the set does.
    fn wire(&self) -> Vec<&str> {
        if self.name == FULL { vec![] } else { vec!["--spec-version", self.name] }
    }
}

/// Numbers of a new version of the suite belong here, once somebody has looked why they differ.
static SERVER_SETS: [Set; 3] = [
    Set { name: "2025-11-25", due: Tally::due(30, 3, 0, 0) },
    Set { name: "2026-07-28", due: Tally::due(37, 3, 0, 10) },
    Set { name: FULL, due: Tally::due(52, 0, 3, 10) },
];

/// The same for clients.
static CLIENT_SETS: [Set; 3] = [
    Set { name: "2025-11-25", due: Tally::due(4, 1, 0, 20) },
    Set { name: "2026-07-28", due: Tally::due(7, 1, 0, 31) },
    Set { name: FULL, due: Tally::due(11, 0, 4, 33) },
];

/// No requirement set, but all scenarios there are.
const FULL: &str = "all";

/// The suite, installed.
struct Suite {
    role: Role,
    node: PathBuf,
    script: PathBuf,
    /// For what it finds, and for what we built and started.
    folder: PathBuf,
}

impl Suite {
    fn install(role: Role) -> Result<Self, String> {
        let packages = node::packages("conformance")?;
        let script = packages.join("node_modules/@modelcontextprotocol/conformance/dist/index.js");
        let folder = run::target_folder()?.join("conformance").join(role.to_string());
        let suite = Self { role, node: node::find()?, script, folder };
        // What an earlier run left would be read as found by this one.
        let _ = fs::remove_dir_all(&suite.folder);
        run::make_folder(&suite.folder)?;
        Ok(suite)
    }

    fn run(&self, set: &Set, judged: &Judged) -> Result<Tally, String> {
        let folder = self.folder.join(set.name);
        run::make_folder(&folder)?;
        let mut list = self.command("list");
        list.args(set.listing(self.role));
        let (_, listing) = run::output_within(A_LIST, list, &folder.join("list.txt"))?;
        let listed = Listed::read(self.role, &listing);
        if listed.demanded.is_empty() {
            return Err(format!(
                "the suite lists nothing for {}\n  try: look into {}",
                set.name,
                folder.display()
            ));
        }
        let found = match judged {
            Judged::OurServer(server) => self.ask(set, &server.url(), &folder),
            Judged::ServerAt(url) => self.ask(set, url, &folder),
            Judged::Client(program) => Stage { suite: self, set, program, folder: &folder }.play(&listed),
        };
        Ok(Tally::take(&listed, &found?, |note| println!("   {note}")))
    }

    /// Runs a set against a server.
    fn ask(&self, set: &Set, url: &str, folder: &Path) -> Result<Results, String> {
        let mut server = self.command("server");
        server.args(["--url", url]).args(set.whole()).args(["--timeout", "30000"]).arg("-o").arg(folder);
        server.stderr(run::log(&folder.join("errors.txt"))?);
        // How it ends says nothing: it lets warnings and silence pass, and fails for what we leave out.
        run::output_within(A_SET, server, &folder.join("log.txt"))?;
        verdict::results(self.role, folder)
    }

    fn command(&self, verb: &str) -> Command {
        let mut command = run::program(&self.node, []);
        command.arg(&self.script).arg(verb);
        command
    }
}

const A_LIST: Duration = Duration::from_secs(60);

/// The largest takes 14 seconds where all is well.
const A_SET: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests {
    use super::*;

    fn sets(args: &[&str]) -> Result<Vec<&'static str>, String> {
        Plan::by_hand(args).map(|plan| plan.sets.iter().map(|set| set.name).collect())
    }

    #[test]
    fn sets_and_a_url_are_optional() {
        assert_eq!(sets(&["server"]), Ok(vec!["2025-11-25", "2026-07-28", "all"]));
        assert_eq!(sets(&["server", "all", "2025-11-25"]), Ok(vec!["all", "2025-11-25"]));
        let plan = Plan::by_hand(&["server", "--url", "http://127.0.0.1:1/mcp", "all"]).unwrap();
        assert_eq!((plan.url.as_deref(), plan.sets.len()), (Some("http://127.0.0.1:1/mcp"), 1));
    }

    #[test]
    fn the_full_suite_meets_a_client_only_if_it_is_named() {
        assert_eq!(sets(&["client"]), Ok(vec!["2025-11-25", "2026-07-28"]));
        assert_eq!(sets(&["client", "all"]), Ok(vec!["all"]));
        let roles = ["server", "client"].map(|role| Plan::by_hand(&[role]).map(|plan| plan.role));
        assert_eq!(roles, [Ok(Role::Server), Ok(Role::Client)]);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let client_at = &["client", "--url", "http://127.0.0.1:1/mcp"];
        for args in [&[][..], &["peer"], &["server", "2024-11-05"], &["server", "--url"], client_at] {
            assert!(sets(args).is_err(), "{args:?}");
        }
    }

    #[test]
    fn a_set_that_shrank_is_no_success() {
        for (set, shrunk) in [
            (&SERVER_SETS[0], Tally::due(29, 3, 0, 0)),
            (&CLIENT_SETS[0], Tally::due(3, 1, 0, 20)),
            (&CLIENT_SETS[0], Tally::due(4, 0, 0, 20)),
            (&CLIENT_SETS[0], Tally::due(4, 1, 0, 19)),
        ] {
            assert_eq!(set.objection(&set.due), None);
            assert!(set.objection(&shrunk).is_some(), "{shrunk}");
        }
    }
    #[test]
    fn a_set_is_listed_for_its_role_and_run_on_its_wire() {
        let [old, .., full] = &CLIENT_SETS;
        assert_eq!(old.listing(Role::Client), ["--requirements", "2025-11-25"]);
        assert_eq!(
            (full.listing(Role::Server), full.listing(Role::Client)),
            (vec!["--server"], vec!["--client"])
        );
        assert_eq!(old.wire(), ["--spec-version", "2025-11-25"]);
        assert!(full.wire().is_empty());
    }
}
