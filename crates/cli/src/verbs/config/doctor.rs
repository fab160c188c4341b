//! `tsugite config doctor`: what is wrong with the files, with the servers in them, and with reaching those.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use tsugite::client::servers::ConnectionConfig;

use super::checks::{self, Finding, Severity};
use super::connect::{self, ConnectReport};
use crate::console::{Console, Style};
use crate::error::{CliError, ExitStatus, Result};
use crate::options::parse_seconds;
use crate::suggest::did_you_mean;
use crate::targets::config_files::{self, ServerList};

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
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, requires = "connect")]
    timeout: Option<Duration>,
    /// Print what was found, and failures, as JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// A file, and what was found in it.
struct FileReport<'a> {
    listing: &'a ServerList,
    findings: Vec<Finding>,
    servers: Vec<ServerReport>,
}

/// A server, and what was found.
struct ServerReport {
    name: String,
    disabled: bool,
    findings: Vec<Finding>,
    connect_report: Option<Result<ConnectReport>>,
}

/// A file and one of its servers, by their numbers; its name, and how to reach it.
type ReachableServer = ((usize, usize), (String, ConnectionConfig));

#[derive(Default)]
struct DoctorSummary {
    problems: usize,
    warnings: usize,
    unreached: usize,
    servers: usize,
}

impl Doctor {
    pub(super) async fn run(self) -> Result<()> {
        let screen = Console::new(self.json);
        let listings = config_files::all_lists();
        let (mut files, names, ways) = self.examine(&listings);
        if let Some(name) = &self.name
            && files.iter().all(|file| file.servers.is_empty())
        {
            self.show_broken_files(&screen, &files)?;
            let failure = CliError::usage(format!("no file lists `{name}`")).at_step("name");
            return Err(match did_you_mean(name, names.iter().map(String::as_str)) {
                Some(advice) => failure.hint(advice),
                None => failure.hint("`tsugite config list` shows what there is"),
            });
        }
        if self.connect {
            let (places, servers): (Vec<_>, Vec<_>) = ways.into_iter().unzip();
            let outcomes = connect::connect_all(servers, self.timeout.unwrap_or(CONNECT_TIMEOUT)).await;
            for ((file, server), outcome) in places.into_iter().zip(outcomes) {
                let file: Option<&mut FileReport<'_>> = files.get_mut(file);
                if let Some(patient) = file.and_then(|file| file.servers.get_mut(server)) {
                    patient.connect_report = Some(outcome);
                }
            }
        }
        let count = DoctorSummary::from_files(&files);
        match self.json {
            true => screen.print_json(&count.to_json(&files))?,
            false => {
                for file in &files {
                    show_file(&screen, file)?;
                }
                screen.print_line(&count.summary_line(files.len()))?;
            }
        }
        match count {
            DoctorSummary { problems: 1.., .. } => Err(CliError::silent(ExitStatus::Usage)),
            DoctorSummary { unreached: 1.., .. } => Err(CliError::silent(ExitStatus::Connect)),
            _ => Ok(()),
        }
    }

    /// Looks at everything; also gives all names there are, and how to reach those servers that can be.
    fn examine<'a>(
        &self,
        listings: &'a [ServerList],
    ) -> (Vec<FileReport<'a>>, Vec<String>, Vec<ReachableServer>) {
        let (mut files, mut names, mut ways) = (Vec::new(), Vec::new(), Vec::new());
        for (number, listing) in listings.iter().enumerate() {
            let mut findings = checks::check_file(listing);
            let servers = match listing
                .file
                .as_ref()
                .map(|opened| (opened, opened.servers(&listing.location)))
            {
                Ok((opened, Ok(servers))) => servers.into_iter().map(|server| (opened, server)).collect(),
                Ok((_, Err(wrong))) => {
                    findings.push(Finding { level: Severity::Problem, location: wrong, hints: Vec::new() });
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
                let mut findings = checks::check_server(listing, opened, &server);
                findings.extend(checks::find_shadowed(listings, number, &name));
                let sound = findings.iter().all(|finding| finding.level == Severity::Warning);
                if let (true, false, Some(way)) = (sound, server.disabled, server.endpoint) {
                    ways.push(((files.len(), patients.len()), (name.clone(), way)));
                }
                patients.push(ServerReport {
                    name,
                    disabled: server.disabled,
                    findings,
                    connect_report: None,
                });
            }
            // A file is of interest if it lists the server, or if it may.
            if self.name.is_none() || !patients.is_empty() || !findings.is_empty() {
                files.push(FileReport { listing, findings, servers: patients });
            }
        }
        (files, names, ways)
    }

    /// Files that are wrong may be why a name is not found.
    fn show_broken_files(&self, screen: &Console, files: &[FileReport<'_>]) -> Result<()> {
        match self.json {
            true => Ok(()),
            false => files.iter().try_for_each(|file| show_file(screen, file)),
        }
    }
}

fn show_file(screen: &Console, file: &FileReport<'_>) -> Result<()> {
    let heading = format!("{} ({})", file.listing.location.describe(), file.listing.hosts.join(", "));
    screen.print_line(&screen.paint(Style::Bold, &screen.sanitized(&heading)))?;
    for finding in &file.findings {
        show_finding(screen, finding, "  ")?;
    }
    if file.servers.is_empty() && file.findings.is_empty() {
        screen.print_line("  lists none")?;
    }
    for patient in &file.servers {
        let mut said = Vec::new();
        if patient.disabled {
            said.push("disabled".to_owned());
        } else if patient.findings.is_empty() && !matches!(patient.connect_report, Some(Err(_))) {
            said.push("fine".to_owned());
        }
        if let Some(Ok(ConnectReport { revision, ms })) = &patient.connect_report {
            said.push(format!("connected in {ms} ms, on {revision}"));
        }
        let name = screen.paint(Style::Green, &screen.sanitized(&patient.name));
        let said = if said.is_empty() { String::new() } else { format!("  {}", said.join(", ")) };
        screen.print_line(&format!("  {name}{said}"))?;
        for finding in &patient.findings {
            show_finding(screen, finding, "    ")?;
        }
        if let Some(Err(failure)) = &patient.connect_report {
            let step = failure.step.map(|step| format!(" (step {step})")).unwrap_or_default();
            let seen = failure.detail.as_deref().map(|seen| format!(": {seen}")).unwrap_or_default();
            let label = screen.paint(Style::Red, "unreached:");
            let text =
                screen.sanitized(&format!("{}{step}{seen}", failure.message)).replace('\n', "\n      ");
            screen.print_line(&format!("    {label} {text}"))?;
            for hint in &failure.hints {
                screen.print_line(&format!("      try {}", screen.sanitized(hint)))?;
            }
        }
    }
    Ok(())
}

fn show_finding(screen: &Console, finding: &Finding, indent: &str) -> Result<()> {
    let label = match finding.level {
        Severity::Problem => screen.paint(Style::Red, "problem:"),
        Severity::Warning => screen.paint(Style::Dim, "warning:"),
    };
    screen.print_line(&format!("{indent}{label} {}", screen.sanitized(&finding.location.to_string())))?;
    for hint in &finding.hints {
        screen.print_line(&format!("{indent}  try {}", screen.sanitized(hint)))?;
    }
    Ok(())
}

impl DoctorSummary {
    fn from_files(files: &[FileReport<'_>]) -> Self {
        let mut count = Self::default();
        for file in files {
            let of_servers = file.servers.iter().flat_map(|server| &server.findings);
            for finding in file.findings.iter().chain(of_servers) {
                match finding.level {
                    Severity::Problem => count.problems += 1,
                    Severity::Warning => count.warnings += 1,
                }
            }
            count.servers += file.servers.len();
            let unreached =
                file.servers.iter().filter(|server| matches!(server.connect_report, Some(Err(_))));
            count.unreached += unreached.count();
        }
        count
    }

    fn summary_line(&self, files: usize) -> String {
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

    fn to_json(&self, files: &[FileReport<'_>]) -> Value {
        let files = files.iter().map(|file| {
            let servers = file.servers.iter().map(|server| {
                json!({
                    "name": server.name,
                    "disabled": server.disabled,
                    "findings": server.findings,
                    "connect": server.connect_report.as_ref().map(connect::report_json),
                })
            });
            json!({
                "path": config_files::absolute_path(&file.listing.location),
                "project": file.listing.location.project(),
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
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
