//! `tsugite config doctor`: what is wrong with the files, with the servers in them, and with reaching those.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use tsugite::client::servers::ConnectionConfig;

use super::checks::{self, Finding, Level};
use super::connect::{self, Connected};
use crate::fail::{Exit, Failure, Result};
use crate::near::did_you_mean;
use crate::options::seconds;
use crate::screen::{Screen, Style};
use crate::target::files::{self, Listing};

/// Check every file and every server
#[derive(Debug, Args)]
#[command(
    override_usage = "tsugite config doctor [OPTIONS] [NAME]",
    after_help = "It ends with 0 if there is nothing but warnings, with 1 if a file or a server in it is wrong, with 2 if all are\nright and one cannot be connected to.\n\nExamples:\n  tsugite config doctor\n  tsugite config doctor issues --connect --timeout 5"
)]
pub(super) struct Doctor {
    /// Look at servers of this name alone
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Connect to each of them too
    #[arg(long)]
    connect: bool,
    /// How long connecting may take [default: 30]
    #[arg(long, value_name = "SECONDS", value_parser = seconds, requires = "connect")]
    timeout: Option<Duration>,
    /// Print what was found, and failures, as JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// A file, and what was found in it.
struct Examined<'a> {
    listing: &'a Listing,
    findings: Vec<Finding>,
    servers: Vec<Patient>,
}

/// A server, and what was found.
struct Patient {
    name: String,
    disabled: bool,
    findings: Vec<Finding>,
    connected: Option<Result<Connected>>,
}

/// A file and one of its servers, by their numbers; its name, and how to reach it.
type Reachable = ((usize, usize), (String, ConnectionConfig));

#[derive(Default)]
struct Count {
    problems: usize,
    warnings: usize,
    unreached: usize,
    servers: usize,
}

impl Doctor {
    pub(super) async fn run(self) -> Result<()> {
        let screen = Screen::new(self.json);
        let listings = files::all();
        let (mut files, names, ways) = self.examine(&listings);
        if let Some(name) = &self.name
            && files.iter().all(|file| file.servers.is_empty())
        {
            self.explain(&screen, &files)?;
            let failure = Failure::usage(format!("no file lists `{name}`")).at("name");
            return Err(match did_you_mean(name, names.iter().map(String::as_str)) {
                Some(advice) => failure.hint(advice),
                None => failure.hint("`tsugite config list` shows what there is"),
            });
        }
        if self.connect {
            let (places, servers): (Vec<_>, Vec<_>) = ways.into_iter().unzip();
            let outcomes = connect::all(servers, self.timeout.unwrap_or(TIME)).await;
            for ((file, server), outcome) in places.into_iter().zip(outcomes) {
                let file: Option<&mut Examined<'_>> = files.get_mut(file);
                if let Some(patient) = file.and_then(|file| file.servers.get_mut(server)) {
                    patient.connected = Some(outcome);
                }
            }
        }
        let count = Count::of(&files);
        match self.json {
            true => screen.json(&count.json(&files))?,
            false => {
                for file in &files {
                    show(&screen, file)?;
                }
                screen.line(&count.line(files.len()))?;
            }
        }
        match count {
            Count { problems: 1.., .. } => Err(Failure::silent(Exit::Usage)),
            Count { unreached: 1.., .. } => Err(Failure::silent(Exit::Connect)),
            _ => Ok(()),
        }
    }

    /// Looks at everything; also gives all names there are, and how to reach those servers that can be.
    fn examine<'a>(&self, listings: &'a [Listing]) -> (Vec<Examined<'a>>, Vec<String>, Vec<Reachable>) {
        let (mut files, mut names, mut ways) = (Vec::new(), Vec::new(), Vec::new());
        for (number, listing) in listings.iter().enumerate() {
            let mut findings = checks::of_file(listing);
            let servers = match listing.file.as_ref().map(|opened| (opened, opened.servers(&listing.place))) {
                Ok((opened, Ok(servers))) => servers.into_iter().map(|server| (opened, server)).collect(),
                Ok((_, Err(wrong))) => {
                    findings.push(Finding { level: Level::Problem, place: wrong, hints: Vec::new() });
                    Vec::new()
                }
                Err(_) => Vec::new(),
            };
            let mut patients = Vec::new();
            for (opened, server) in servers {
                let name = server.member.name.clone();
                names.push(name.clone());
                if self.name.as_ref().is_some_and(|wanted| *wanted != name) {
                    continue;
                }
                let mut findings = checks::of_server(listing, opened, &server);
                findings.extend(checks::hidden(listings, number, &name));
                let sound = findings.iter().all(|finding| finding.level == Level::Warning);
                if let (true, false, Some(way)) = (sound, server.disabled, server.way) {
                    ways.push(((files.len(), patients.len()), (name.clone(), way)));
                }
                patients.push(Patient { name, disabled: server.disabled, findings, connected: None });
            }
            // A file is of interest if it lists the server, or if it may.
            if self.name.is_none() || !patients.is_empty() || !findings.is_empty() {
                files.push(Examined { listing, findings, servers: patients });
            }
        }
        (files, names, ways)
    }

    /// Files that are wrong may be why a name is not found.
    fn explain(&self, screen: &Screen, files: &[Examined<'_>]) -> Result<()> {
        match self.json {
            true => Ok(()),
            false => files.iter().try_for_each(|file| show(screen, file)),
        }
    }
}

fn show(screen: &Screen, file: &Examined<'_>) -> Result<()> {
    let heading = format!("{} ({})", file.listing.place.shown(), file.listing.hosts.join(", "));
    screen.line(&screen.paint(Style::Bold, &screen.words(&heading)))?;
    for finding in &file.findings {
        show_finding(screen, finding, "  ")?;
    }
    if file.servers.is_empty() && file.findings.is_empty() {
        screen.line("  lists none")?;
    }
    for patient in &file.servers {
        let mut said = Vec::new();
        if patient.disabled {
            said.push("disabled".to_owned());
        } else if patient.findings.is_empty() && !matches!(patient.connected, Some(Err(_))) {
            said.push("fine".to_owned());
        }
        if let Some(Ok(Connected { revision, ms })) = &patient.connected {
            said.push(format!("connected in {ms} ms, on {revision}"));
        }
        let name = screen.paint(Style::Green, &screen.words(&patient.name));
        let said = if said.is_empty() { String::new() } else { format!("  {}", said.join(", ")) };
        screen.line(&format!("  {name}{said}"))?;
        for finding in &patient.findings {
            show_finding(screen, finding, "    ")?;
        }
        if let Some(Err(failure)) = &patient.connected {
            let step = failure.step.map(|step| format!(" (step {step})")).unwrap_or_default();
            let seen = failure.seen.as_deref().map(|seen| format!(": {seen}")).unwrap_or_default();
            let label = screen.paint(Style::Red, "unreached:");
            let text = screen.words(&format!("{}{step}{seen}", failure.what)).replace('\n', "\n      ");
            screen.line(&format!("    {label} {text}"))?;
            for hint in &failure.hints {
                screen.line(&format!("      try {}", screen.words(hint)))?;
            }
        }
    }
    Ok(())
}

fn show_finding(screen: &Screen, finding: &Finding, indent: &str) -> Result<()> {
    let label = match finding.level {
        Level::Problem => screen.paint(Style::Red, "problem:"),
        Level::Warning => screen.paint(Style::Dim, "warning:"),
    };
    screen.line(&format!("{indent}{label} {}", screen.words(&finding.place.to_string())))?;
    for hint in &finding.hints {
        screen.line(&format!("{indent}  try {}", screen.words(hint)))?;
    }
    Ok(())
}

impl Count {
    fn of(files: &[Examined<'_>]) -> Self {
        let mut count = Self::default();
        for file in files {
            let of_servers = file.servers.iter().flat_map(|server| &server.findings);
            for finding in file.findings.iter().chain(of_servers) {
                match finding.level {
                    Level::Problem => count.problems += 1,
                    Level::Warning => count.warnings += 1,
                }
            }
            count.servers += file.servers.len();
            let unreached = file.servers.iter().filter(|server| matches!(server.connected, Some(Err(_))));
            count.unreached += unreached.count();
        }
        count
    }

    fn line(&self, files: usize) -> String {
        let many = |count: usize, what: &str| match count {
            1 => format!("1 {what}"),
            _ => format!("{count} {what}s"),
        };
        let mut line = format!("{}, {}: ", many(files, "file"), many(self.servers, "server"));
        line.push_str(&format!("{}, {}", many(self.problems, "problem"), many(self.warnings, "warning")));
        if self.unreached > 0 {
            line.push_str(&format!(", {} not reached", self.unreached));
        }
        line
    }

    fn json(&self, files: &[Examined<'_>]) -> Value {
        let files = files.iter().map(|file| {
            let servers = file.servers.iter().map(|server| {
                json!({
                    "name": server.name,
                    "disabled": server.disabled,
                    "findings": server.findings,
                    "connect": server.connected.as_ref().map(connect::json_of),
                })
            });
            json!({
                "path": files::absolute(&file.listing.place),
                "project": file.listing.place.project(),
                "hosts": file.listing.hosts,
                "findings": file.findings,
                "servers": servers.collect::<Vec<Value>>(),
            })
        });
        json!({
            "files": files.collect::<Vec<Value>>(),
            "problems": self.problems,
            "warnings": self.warnings,
            "unreached": self.unreached,
        })
    }
}

/// How long connecting may take.
const TIME: Duration = Duration::from_secs(30);
