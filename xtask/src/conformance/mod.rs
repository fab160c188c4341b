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
use crate::server::TestkitServer;
use crate::{binary, node, process};
use client::ScenarioRunner;
use verdict::{Results, ScenarioList, Tally};

/// What `cargo xtask test` does: our server, then our client.
pub(crate) fn run_all(count: &mut Count) -> Result<(), String> {
    ConformancePlan::default_for(Role::Server).run(count)?;
    ConformancePlan::default_for(Role::Client).run(count)
}

/// Which sets to run, and against what.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ConformancePlan {
    role: Role,
    sets: Vec<&'static ScenarioSet>,
    /// A server that runs already, instead of ours.
    url: Option<String>,
}

impl ConformancePlan {
    fn default_for(role: Role) -> Self {
        // All that the full suite would add for a client is about authorization and skills, which it has not.
        let sets = role.sets().iter().filter(|set| role == Role::Server || set.name != FULL);
        Self { role, sets: sets.collect(), url: None }
    }

    /// Reads `server [--url URL] [SET…]` and `client [SET…]`.
    pub(crate) fn from_args(args: &[&str]) -> Result<Self, String> {
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
        Ok(if sets.is_empty() { Self { url, ..Self::default_for(role) } } else { Self { role, sets, url } })
    }

    /// Adds every scenario to `count`. Fails when one did, or when there were not as many as there should be.
    pub(crate) fn run(&self, count: &mut Count) -> Result<(), String> {
        let role = self.role;
        let suite = Suite::install(role)?;
        // Held until the end: dropping it stops a server of ours.
        let judged = match (role, &self.url) {
            (Role::Client, _) => {
                TestSubject::ClientProgram(binary::build("conformance-client", &suite.folder)?)
            }
            (Role::Server, Some(url)) => TestSubject::ServerAt(url.clone()),
            (Role::Server, None) => {
                TestSubject::OurServer(TestkitServer::start("conformance-server", &suite.folder)?)
            }
        };
        let (mut lines, mut objections) = (Vec::new(), Vec::new());
        for set in &self.sets {
            println!("-- conformance {role} {}", set.name);
            let tally = suite.run(set, &judged)?;
            *count += tally.count();
            lines.push(format!("conformance {role} {}: {tally}", set.name));
            objections.extend(set.mismatch(&tally));
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
    fn sets(self) -> &'static [ScenarioSet] {
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
enum TestSubject {
    OurServer(TestkitServer),
    /// One that runs already, at this address.
    ServerAt(String),
    /// The program that each scenario starts.
    ClientProgram(PathBuf),
}

/// Scenarios that are run together, and how that must end: a suite that has shrunk would look like success.
#[derive(Debug, PartialEq, Eq)]
struct ScenarioSet {
    name: &'static str,
    expected: Tally,
}

impl ScenarioSet {
    fn mismatch(&self, tally: &Tally) -> Option<String> {
        let Self { name, expected: due } = self;
        let failed = tally.count().failed;
        if failed > 0 {
            return Some(format!("{name}: {failed} failed"));
        }
        (tally != due).then(|| format!("{name} is not the set we know, which ends with \"{due}\""))
    }

    /// What makes the suite list it.
    fn list_args(&self, role: Role) -> Vec<&str> {
        match (self.name, role) {
            (FULL, Role::Server) => vec!["--server"],
            (FULL, Role::Client) => vec!["--client"],
            (revision, _) => vec!["--requirements", revision],
        }
    }

    /// What makes the suite run it whole.
    fn run_args(&self) -> [&str; 2] {
        if self.name == FULL { ["--suite", "all"] } else { ["--requirements", self.name] }
    }

    /// What makes the suite run a scenario as the set does.
    fn scenario_args(&self) -> Vec<&str> {
        if self.name == FULL { vec![] } else { vec!["--spec-version", self.name] }
    }
}

/// Numbers of a new version of the suite belong here, once somebody has looked why they differ.
static SERVER_SETS: [ScenarioSet; 3] = [
    ScenarioSet { name: "2025-11-25", expected: Tally::expected(30, 3, 0, 0) },
    ScenarioSet { name: "2026-07-28", expected: Tally::expected(37, 3, 0, 10) },
    ScenarioSet { name: FULL, expected: Tally::expected(52, 0, 3, 10) },
];

/// The same for clients.
static CLIENT_SETS: [ScenarioSet; 3] = [
    ScenarioSet { name: "2025-11-25", expected: Tally::expected(4, 1, 0, 20) },
    ScenarioSet { name: "2026-07-28", expected: Tally::expected(7, 1, 0, 31) },
    ScenarioSet { name: FULL, expected: Tally::expected(11, 0, 4, 33) },
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
        let packages = node::install_packages("conformance")?;
        let script = packages.join("node_modules/@modelcontextprotocol/conformance/dist/index.js");
        let folder = process::target_dir()?.join("conformance").join(role.to_string());
        let suite = Self { role, node: node::find()?, script, folder };
        // What an earlier run left would be read as found by this one.
        let _ = fs::remove_dir_all(&suite.folder);
        process::create_dir(&suite.folder)?;
        Ok(suite)
    }

    fn run(&self, set: &ScenarioSet, judged: &TestSubject) -> Result<Tally, String> {
        let folder = self.folder.join(set.name);
        process::create_dir(&folder)?;
        let mut list = self.command("list");
        list.args(set.list_args(self.role));
        let (_, listing) = process::output_with_timeout(LIST_TIMEOUT, list, &folder.join("list.txt"))?;
        let listed = ScenarioList::parse(self.role, &listing);
        if listed.required.is_empty() {
            return Err(format!(
                "the suite lists nothing for {}\n  try: look into {}",
                set.name,
                folder.display()
            ));
        }
        let found = match judged {
            TestSubject::OurServer(server) => self.run_server_set(set, &server.url(), &folder),
            TestSubject::ServerAt(url) => self.run_server_set(set, url, &folder),
            TestSubject::ClientProgram(program) => {
                ScenarioRunner { suite: self, set, program, folder: &folder }.run(&listed)
            }
        };
        Ok(Tally::evaluate(&listed, &found?, |note| println!("   {note}")))
    }

    /// Runs a set against a server.
    fn run_server_set(&self, set: &ScenarioSet, url: &str, folder: &Path) -> Result<Results, String> {
        let mut server = self.command("server");
        server.args(["--url", url]).args(set.run_args()).args(["--timeout", "30000"]).arg("-o").arg(folder);
        server.stderr(process::create_log(&folder.join("errors.txt"))?);
        // How it ends says nothing: it lets warnings and silence pass, and fails for what we leave out.
        process::output_with_timeout(SET_TIMEOUT, server, &folder.join("log.txt"))?;
        verdict::read_results(self.role, folder)
    }

    fn command(&self, verb: &str) -> Command {
        let mut command = process::program(&self.node, []);
        command.arg(&self.script).arg(verb);
        command
    }
}

const LIST_TIMEOUT: Duration = Duration::from_secs(60);

/// The largest takes 14 seconds where all is well.
const SET_TIMEOUT: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests {
    use super::*;

    fn sets(args: &[&str]) -> Result<Vec<&'static str>, String> {
        ConformancePlan::from_args(args).map(|plan| plan.sets.iter().map(|set| set.name).collect())
    }

    #[test]
    fn sets_and_a_url_are_optional() {
        assert_eq!(sets(&["server"]), Ok(vec!["2025-11-25", "2026-07-28", "all"]));
        assert_eq!(sets(&["server", "all", "2025-11-25"]), Ok(vec!["all", "2025-11-25"]));
        let plan = ConformancePlan::from_args(&["server", "--url", "http://127.0.0.1:1/mcp", "all"]).unwrap();
        assert_eq!((plan.url.as_deref(), plan.sets.len()), (Some("http://127.0.0.1:1/mcp"), 1));
    }

    #[test]
    fn full_client_suite_runs_only_if_named() {
        assert_eq!(sets(&["client"]), Ok(vec!["2025-11-25", "2026-07-28"]));
        assert_eq!(sets(&["client", "all"]), Ok(vec!["all"]));
        let roles =
            ["server", "client"].map(|role| ConformancePlan::from_args(&[role]).map(|plan| plan.role));
        assert_eq!(roles, [Ok(Role::Server), Ok(Role::Client)]);
    }

    #[test]
    fn invalid_arguments_are_refused() {
        let client_at = &["client", "--url", "http://127.0.0.1:1/mcp"];
        for args in [&[][..], &["peer"], &["server", "2024-11-05"], &["server", "--url"], client_at] {
            assert!(sets(args).is_err(), "{args:?}");
        }
    }

    #[test]
    fn smaller_set_is_a_failure() {
        for (set, shrunk) in [
            (&SERVER_SETS[0], Tally::expected(29, 3, 0, 0)),
            (&CLIENT_SETS[0], Tally::expected(3, 1, 0, 20)),
            (&CLIENT_SETS[0], Tally::expected(4, 0, 0, 20)),
            (&CLIENT_SETS[0], Tally::expected(4, 1, 0, 19)),
        ] {
            assert_eq!(set.mismatch(&set.expected), None);
            assert!(set.mismatch(&shrunk).is_some(), "{shrunk}");
        }
    }
    #[test]
    fn each_set_has_the_right_role_and_revision() {
        let [old, .., full] = &CLIENT_SETS;
        assert_eq!(old.list_args(Role::Client), ["--requirements", "2025-11-25"]);
        assert_eq!(
            (full.list_args(Role::Server), full.list_args(Role::Client)),
            (vec!["--server"], vec!["--client"])
        );
        assert_eq!(old.scenario_args(), ["--spec-version", "2025-11-25"]);
        assert!(full.scenario_args().is_empty());
    }
}
