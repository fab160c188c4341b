//! `cargo xtask conformance`: the official suite judges our server, and we judge more strictly than it does.
//!
//! The suite lets warnings pass, and scenarios in which it could decide nothing. Each requirement set is run on the wire
//! of its revision, the full suite on a wire of its choice, so none of the three stands for another.

mod verdict;

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::count::Count;
use crate::server::Server;
use crate::{node, run};
use verdict::Tally;

/// Which sets to run, and against what.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    sets: Vec<&'static Set>,
    /// A server that runs already, instead of ours.
    url: Option<String>,
}

impl Plan {
    /// What `cargo xtask test` does.
    pub(crate) fn everything() -> Self {
        Self { sets: SETS.iter().collect(), url: None }
    }

    /// Reads `server [--url URL] [SET…]`.
    pub(crate) fn by_hand(args: &[&str]) -> Result<Self, String> {
        let (url, names) = match args {
            ["server", "--url", url, names @ ..] => (Some((*url).to_owned()), names),
            ["server", names @ ..] => (None, names),
            _ => return Err(format!("conformance does not understand `{}`", args.join(" "))),
        };
        let mut sets = Vec::new();
        for name in names {
            let known = SETS.iter().map(|set| set.name).collect::<Vec<_>>().join(", ");
            let set = SETS.iter().find(|set| set.name == *name);
            sets.push(set.ok_or_else(|| format!("there is no set `{name}`, only {known}"))?);
        }
        Ok(if sets.is_empty() { Self { url, ..Self::everything() } } else { Self { sets, url } })
    }

    /// Adds every scenario to `count`. Fails when one did, or when there were not as many as there should be.
    pub(crate) fn run(&self, count: &mut Count) -> Result<(), String> {
        let suite = Suite::install()?;
        // Held until the end: dropping it stops the server.
        let (_ours, url) = match &self.url {
            Some(url) => (None, url.clone()),
            None => {
                let server = Server::start("conformance-server", &suite.folder)?;
                let url = server.url();
                (Some(server), url)
            }
        };
        let (mut lines, mut objections) = (Vec::new(), Vec::new());
        for set in &self.sets {
            println!("-- conformance server {}", set.name);
            let tally = suite.run(set, &url)?;
            *count += tally.count();
            lines.push(format!("conformance server {}: {tally}", set.name));
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

    /// What makes the suite run it.
    fn selection(&self) -> [&str; 2] {
        if self.name == FULL { ["--suite", "all"] } else { ["--requirements", self.name] }
    }

    /// What makes the suite list it.
    fn listing(&self) -> Vec<&str> {
        if self.name == FULL { vec!["--server"] } else { vec!["--requirements", self.name] }
    }
}

/// Numbers of a new version of the suite belong here, once somebody has looked why they differ.
static SETS: [Set; 3] = [
    Set { name: "2025-11-25", due: Tally::due(30, 3, 0, 0) },
    Set { name: "2026-07-28", due: Tally::due(37, 3, 0, 10) },
    Set { name: FULL, due: Tally::due(52, 0, 3, 10) },
];

/// No requirement set, but all scenarios there are.
const FULL: &str = "all";

/// The suite, installed.
struct Suite {
    node: PathBuf,
    script: PathBuf,
    /// For what it finds, and for the log of our server.
    folder: PathBuf,
}

impl Suite {
    fn install() -> Result<Self, String> {
        let packages = node::packages("conformance")?;
        let script = packages.join("node_modules/@modelcontextprotocol/conformance/dist/index.js");
        let suite = Self { node: node::find()?, script, folder: run::target_folder()?.join("conformance") };
        // What an earlier run left would be read as found by this one.
        let _ = fs::remove_dir_all(&suite.folder);
        run::make_folder(&suite.folder)?;
        Ok(suite)
    }

    fn run(&self, set: &Set, url: &str) -> Result<Tally, String> {
        let folder = self.folder.join(set.name);
        run::make_folder(&folder)?;
        let mut list = self.command("list");
        list.args(set.listing());
        let (_, listing) = run::output_within(A_LIST, list, &folder.join("list.txt"))?;
        let demanded = verdict::listed(&listing);
        if demanded.is_empty() {
            return Err(format!(
                "the suite lists nothing for {}\n  try: look into {}",
                set.name,
                folder.display()
            ));
        }
        let mut server = self.command("server");
        server.args(["--url", url]).args(set.selection()).args(["--timeout", "30000"]).arg("-o").arg(&folder);
        server.stderr(run::log(&folder.join("errors.txt"))?);
        // How it ends says nothing: it lets warnings and silence pass, and fails for what we leave out.
        run::output_within(A_SET, server, &folder.join("log.txt"))?;
        Ok(Tally::take(&demanded, &verdict::results(&folder)?, |note| println!("   {note}")))
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
    fn what_makes_no_sense_is_refused() {
        for args in [&[][..], &["client"], &["server", "2024-11-05"], &["server", "--url"]] {
            assert!(sets(args).is_err(), "{args:?}");
        }
    }

    #[test]
    fn a_set_that_shrank_is_no_success() {
        let set = &SETS[0];
        assert_eq!(set.objection(&set.due), None);
        assert!(set.objection(&Tally::due(29, 3, 0, 0)).is_some());
    }
}
