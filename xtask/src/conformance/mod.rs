//! `cargo xtask conformance`: runs the official suite against our server, our client and our authorization server, with
//! stricter rules than its own.
//!
//! The suite accepts warnings and scenarios without a decided check. Each requirement set runs on the wire of its
//! revision, the full suite on a wire of its choice, so none of the three replaces another.

mod authorization;
mod client;
mod verdict;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::count::Count;
use crate::server::{ReplicatedServer, TestkitServer};
use crate::{binary, node, process};
use client::ScenarioRunner;
use verdict::{Results, ScenarioList, Tally};

/// Runs all sets, as `cargo xtask test` does: our server, our client, then our authorization server.
pub(crate) fn run_all(count: &mut Count) -> Result<(), String> {
    ConformancePlan::default_for(Role::Server).run(count)?;
    ConformancePlan::default_for(Role::Client).run(count)?;
    ConformancePlan::default_for(Role::Authorization).run(count)
}

/// The sets to run and their target.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ConformancePlan {
    role: Role,
    sets: Vec<&'static ScenarioSet>,
    /// The URL of a running server to test instead of ours.
    url: Option<String>,
    /// Whether our server runs as replicas behind nginx.
    replicas: bool,
}

impl ConformancePlan {
    fn default_for(role: Role) -> Self {
        Self { role, sets: role.sets().iter().collect(), url: None, replicas: false }
    }

    /// Our server as replicas, as `cargo xtask test` runs it.
    pub(crate) fn with_replicas() -> Self {
        Self { replicas: true, ..Self::default_for(Role::Server) }
    }

    /// Reads `server [--url URL | --replicas] [SET…]`, `client [SET…]` and `authorization`.
    pub(crate) fn from_args(args: &[&str]) -> Result<Self, String> {
        let (role, url, replicas, names) = match args {
            ["server", "--url", url, names @ ..] => (Role::Server, Some((*url).to_owned()), false, names),
            ["server", "--replicas", names @ ..] => (Role::Server, None, true, names),
            ["server", names @ ..] => (Role::Server, None, false, names),
            ["client", names @ ..] => (Role::Client, None, false, names),
            ["authorization"] => (Role::Authorization, None, false, &[][..]),
            _ => return Err(format!("unknown arguments for conformance: `{}`", args.join(" "))),
        };
        let mut sets = Vec::new();
        for name in names {
            let known = role.sets().iter().map(|set| set.name).collect::<Vec<_>>().join(", ");
            let set = role.sets().iter().find(|set| set.name == *name);
            sets.push(set.ok_or_else(|| format!("unknown set `{name}`; known sets: {known}"))?);
        }
        if sets.is_empty() {
            sets = Self::default_for(role).sets;
        }
        Ok(Self { role, sets, url, replicas })
    }

    /// Adds every scenario to `count`. Fails if a scenario fails or if their number differs from the expected one.
    pub(crate) fn run(&self, count: &mut Count) -> Result<(), String> {
        let role = self.role;
        let suite = Suite::install(role)?;
        // Kept until the end: dropping it stops our server.
        let judged = match (role, &self.url) {
            (Role::Client, _) => {
                TestSubject::ClientProgram(binary::build("conformance-client", &suite.folder)?)
            }
            (Role::Authorization, _) => TestSubject::AuthorizationServer,
            (Role::Server, Some(url)) => TestSubject::ServerAt(url.clone()),
            (Role::Server, None) if self.replicas => {
                TestSubject::OurReplicas(ReplicatedServer::start("conformance-server", &suite.folder)?)
            }
            (Role::Server, None) => {
                TestSubject::OurServer(TestkitServer::start("conformance-server", &suite.folder)?)
            }
        };
        let (mut lines, mut objections) = (Vec::new(), Vec::new());
        for set in &self.sets {
            let target = if self.replicas { format!("{role} replicas") } else { role.to_string() };
            println!("-- conformance {target} {}", set.name);
            let tally = suite.run(set, &judged)?;
            *count += tally.count();
            lines.push(format!("conformance {target} {}: {tally}", set.name));
            objections.extend(set.mismatch(&tally));
        }
        if let TestSubject::OurReplicas(replicas) = judged {
            objections.extend(replicas.stop().err());
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

/// The side that is tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Server,
    Client,
    Authorization,
}

impl Role {
    fn sets(self) -> &'static [ScenarioSet] {
        match self {
            Role::Server => &SERVER_SETS,
            Role::Client => &CLIENT_SETS,
            Role::Authorization => &AUTHORIZATION_SETS,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Role::Server => "server",
            Role::Client => "client",
            Role::Authorization => "authorization",
        })
    }
}

/// The program under test.
enum TestSubject {
    OurServer(TestkitServer),
    OurReplicas(ReplicatedServer),
    /// A running server at this URL.
    ServerAt(String),
    /// A client program that each scenario starts.
    ClientProgram(PathBuf),
    /// The authorization server of the binary.
    AuthorizationServer,
}

/// Scenarios that are run together, with the expected result: a smaller suite would look like success.
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
        (tally != due).then(|| format!("{name} differs from the expected result \"{due}\""))
    }

    /// The arguments that make the suite list it.
    fn list_args(&self, role: Role) -> Vec<&str> {
        match (self.name, role) {
            (FULL, Role::Server) => vec!["--server"],
            (FULL, Role::Client) => vec!["--client"],
            (FULL, Role::Authorization) => vec!["--authorization"],
            (revision, _) => vec!["--requirements", revision],
        }
    }

    /// The arguments that make the suite run all of it.
    fn run_args(&self) -> [&str; 2] {
        if self.name == FULL { ["--suite", "all"] } else { ["--requirements", self.name] }
    }

    /// The arguments that make the suite run one scenario as in the set.
    fn scenario_args(&self) -> Vec<&str> {
        // Extensions belong to no revision, and run only if they are forced to.
        if self.name == FULL { vec![] } else { vec!["--spec-version", self.name, "--force"] }
    }
}

/// The expected results for servers. Update them for a new version of the suite once the differences are understood.
static SERVER_SETS: [ScenarioSet; 3] = [
    ScenarioSet { name: "2025-11-25", expected: Tally::expected(30, 3, 0) },
    ScenarioSet { name: "2026-07-28", expected: Tally::expected(37, 12, 1) },
    ScenarioSet { name: FULL, expected: Tally::expected(61, 0, 4) },
];

/// The expected results for clients.
static CLIENT_SETS: [ScenarioSet; 3] = [
    ScenarioSet { name: "2025-11-25", expected: Tally::expected(18, 7, 0) },
    ScenarioSet { name: "2026-07-28", expected: Tally::expected(32, 7, 0) },
    ScenarioSet { name: FULL, expected: Tally::expected(44, 0, 4) },
];

/// The expected results for authorization servers.
static AUTHORIZATION_SETS: [ScenarioSet; 1] =
    [ScenarioSet { name: FULL, expected: Tally::expected(2, 0, 0) }];

/// The name for all scenarios, which is not a requirement set.
const FULL: &str = "all";

/// The installed suite.
struct Suite {
    role: Role,
    node: PathBuf,
    script: PathBuf,
    /// The folder for its results and for the logs of our programs.
    folder: PathBuf,
}

impl Suite {
    fn install(role: Role) -> Result<Self, String> {
        let packages = node::install_packages("conformance")?;
        let script = packages.join("node_modules/@modelcontextprotocol/conformance/dist/index.js");
        let folder = process::target_dir()?.join("conformance").join(role.to_string());
        let suite = Self { role, node: node::find()?, script, folder };
        // Results of an earlier run would be read as results of this one.
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
                "the suite lists no scenarios for {}\n  try: see {}",
                set.name,
                folder.display()
            ));
        }
        let found = match judged {
            TestSubject::OurServer(server) => self.run_server_set(set, &server.url(), &folder),
            TestSubject::OurReplicas(replicas) => self.run_server_set(set, replicas.url(), &folder),
            TestSubject::ServerAt(url) => self.run_server_set(set, url, &folder),
            TestSubject::ClientProgram(program) => {
                ScenarioRunner { suite: self, set, program, folder: &folder }.run(&listed)
            }
            TestSubject::AuthorizationServer => authorization::run(self, &folder),
        };
        Ok(Tally::evaluate(&listed, &found?, |note| println!("   {note}")))
    }

    /// Runs a set against a server.
    fn run_server_set(&self, set: &ScenarioSet, url: &str, folder: &Path) -> Result<Results, String> {
        let mut server = self.command("server");
        server.args(["--url", url]).args(set.run_args()).args(["--timeout", "30000"]).arg("-o").arg(folder);
        server.stderr(process::create_log(&folder.join("errors.txt"))?);
        // Its exit code is ignored: it accepts warnings and undecided scenarios.
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

/// The largest set takes 14 seconds if all is well.
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
    fn replicas_of_our_server_can_be_tested() {
        let plan = ConformancePlan::from_args(&["server", "--replicas"]).unwrap();
        assert_eq!(plan, ConformancePlan::with_replicas());
        assert!(!ConformancePlan::from_args(&["server"]).unwrap().replicas);
        assert!(ConformancePlan::from_args(&["client", "--replicas"]).is_err());
    }

    #[test]
    fn all_client_sets_run_unless_some_are_named() {
        assert_eq!(sets(&["client"]), Ok(vec!["2025-11-25", "2026-07-28", "all"]));
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
            (&SERVER_SETS[0], Tally::expected(29, 3, 0)),
            (&CLIENT_SETS[0], Tally::expected(17, 7, 0)),
            (&CLIENT_SETS[0], Tally::expected(18, 6, 0)),
            (&CLIENT_SETS[0], Tally::expected(18, 7, 1)),
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
        assert_eq!(old.scenario_args(), ["--spec-version", "2025-11-25", "--force"]);
        assert!(full.scenario_args().is_empty());
    }
}
