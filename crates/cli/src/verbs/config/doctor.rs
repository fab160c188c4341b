//! `tsugite config doctor`: checks configuration files, their entries, and the connections.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::checks::{self, Finding, Severity};
use super::connect::{self, ConnectReport};
use crate::console::{Console, Style};
use crate::error::{CliError, ExitStatus, Result};
use crate::options::parse_seconds;
use crate::suggest::did_you_mean;
use crate::targets::config_files::{self, ServerList};
use crate::targets::lookup::FoundServer;
use crate::trust::ConsentPolicy;

/// Check every configuration file and every server
#[derive(Debug, Args)]
#[command(
    override_usage = "tsugite config doctor [OPTIONS] [NAME]",
    after_help = "The exit code is 0 if there are no problems, 1 if a file or an entry has a problem, and 2 if only connecting to a\nserver failed.\n\nExamples:\n  tsugite config doctor\n  tsugite config doctor issues --connect --timeout 5"
)]
pub(super) struct Doctor {
    /// Check only servers with this name
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Also connect to each server that is trusted
    #[arg(long)]
    connect: bool,
    /// Connect to servers of files in the current folder without asking
    #[arg(long, requires = "connect")]
    trust_folder: bool,
    /// How long a connection may take [default: 30]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, requires = "connect")]
    timeout: Option<Duration>,
    /// Print findings and errors as JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// A file and its findings.
struct FileReport<'a> {
    list: &'a ServerList,
    findings: Vec<Finding>,
    servers: Vec<ServerReport>,
}

/// A server and its findings.
struct ServerReport {
    name: String,
    disabled: bool,
    findings: Vec<Finding>,
    connect_report: Option<Result<ConnectReport>>,
}

/// A server to connect to: the indices of its file and of itself, and its entry.
type ReachableServer = ((usize, usize), FoundServer);

#[derive(Default)]
struct DoctorSummary {
    problems: usize,
    warnings: usize,
    unreached: usize,
    servers: usize,
}

impl Doctor {
    pub(super) async fn run(self) -> Result<()> {
        let console = Console::new(self.json);
        let lists = config_files::all_lists();
        let (mut files, names, reachable) = self.examine(&lists);
        if let Some(name) = &self.name
            && files.iter().all(|file| file.servers.is_empty())
        {
            self.show_broken_files(&console, &files)?;
            let failure =
                CliError::usage(format!("no configuration file has a server named `{name}`")).at_step("name");
            return Err(match did_you_mean(name, names.iter().map(String::as_str)) {
                Some(advice) => failure.hint(advice),
                None => failure.hint("`tsugite config list` lists all servers"),
            });
        }
        if self.connect {
            let (indices, servers): (Vec<_>, Vec<_>) = reachable.into_iter().unzip();
            let policy = match self.trust_folder {
                true => ConsentPolicy::TrustFolder,
                false => ConsentPolicy::OnlyRecorded,
            };
            let limit = self.timeout.unwrap_or(CONNECT_TIMEOUT);
            let outcomes = connect::connect_all(servers, policy, limit).await;
            for ((file, server), outcome) in indices.into_iter().zip(outcomes) {
                let file: Option<&mut FileReport<'_>> = files.get_mut(file);
                if let Some(report) = file.and_then(|file| file.servers.get_mut(server)) {
                    report.connect_report = Some(outcome);
                }
            }
        }
        let count = DoctorSummary::from_files(&files);
        match self.json {
            true => console.print_json(&count.to_json(&files))?,
            false => {
                for file in &files {
                    show_file(&console, file)?;
                }
                console.print_line(&count.summary_line(files.len()))?;
            }
        }
        match count {
            DoctorSummary { problems: 1.., .. } => Err(CliError::silent(ExitStatus::Usage)),
            DoctorSummary { unreached: 1.., .. } => Err(CliError::silent(ExitStatus::Connect)),
            _ => Ok(()),
        }
    }

    /// Checks all files. Also returns the names of all servers, and the servers without problems.
    fn examine<'a>(
        &self,
        lists: &'a [ServerList],
    ) -> (Vec<FileReport<'a>>, Vec<String>, Vec<ReachableServer>) {
        let (mut files, mut names, mut reachable) = (Vec::new(), Vec::new(), Vec::new());
        for (number, list) in lists.iter().enumerate() {
            let mut findings = checks::check_file(list);
            let servers = match list.file.as_ref().map(|opened| (opened, opened.servers(&list.location))) {
                Ok((opened, Ok(servers))) => servers.into_iter().map(|server| (opened, server)).collect(),
                Ok((_, Err(wrong))) => {
                    findings.push(Finding { level: Severity::Problem, location: wrong, hints: Vec::new() });
                    Vec::new()
                }
                Err(_) => Vec::new(),
            };
            let mut servers_found = Vec::new();
            for (opened, server) in servers {
                let name = server.member.name.clone();
                names.push(name.clone());
                if self.name.as_ref().is_some_and(|wanted| *wanted != name) {
                    continue;
                }
                let mut findings = checks::check_server(list, opened, &server);
                findings.extend(checks::find_shadowed(lists, number, &name));
                let is_usable = findings.iter().all(|finding| finding.level == Severity::Warning);
                if is_usable && !server.disabled && server.endpoint.is_some() {
                    let found = FoundServer { name: name.clone(), location: list.location.clone() };
                    reachable.push(((files.len(), servers_found.len()), found));
                }
                servers_found.push(ServerReport {
                    name,
                    disabled: server.disabled,
                    findings,
                    connect_report: None,
                });
            }
            // Report a file if it has the server, or if its findings may hide the server.
            if self.name.is_none() || !servers_found.is_empty() || !findings.is_empty() {
                files.push(FileReport { list, findings, servers: servers_found });
            }
        }
        (files, names, reachable)
    }

    /// Prints the files with findings, which may be why a name is not found.
    fn show_broken_files(&self, console: &Console, files: &[FileReport<'_>]) -> Result<()> {
        match self.json {
            true => Ok(()),
            false => files.iter().try_for_each(|file| show_file(console, file)),
        }
    }
}

fn show_file(console: &Console, file: &FileReport<'_>) -> Result<()> {
    let heading = format!("{} ({})", file.list.location.describe(), file.list.hosts.join(", "));
    console.print_line(&console.paint(Style::Bold, &console.sanitized(&heading)))?;
    for finding in &file.findings {
        show_finding(console, finding, "  ")?;
    }
    if file.servers.is_empty() && file.findings.is_empty() {
        console.print_line("  no servers")?;
    }
    for server in &file.servers {
        let mut states = Vec::new();
        if server.disabled {
            states.push("disabled".to_owned());
        } else if server.findings.is_empty() && !matches!(server.connect_report, Some(Err(_))) {
            states.push("ok".to_owned());
        }
        if let Some(Ok(ConnectReport { revision, ms })) = &server.connect_report {
            states.push(format!("connected in {ms} ms, revision {revision}"));
        }
        let name = console.paint(Style::Green, &console.sanitized_name(&server.name));
        let states = if states.is_empty() { String::new() } else { format!("  {}", states.join(", ")) };
        console.print_line(&format!("  {name}{states}"))?;
        for finding in &server.findings {
            show_finding(console, finding, "    ")?;
        }
        if let Some(Err(failure)) = &server.connect_report {
            let step = failure.step.map(|step| format!(" (step {step})")).unwrap_or_default();
            let detail = failure.detail.as_deref().map(|detail| format!(": {detail}")).unwrap_or_default();
            let label = console.paint(Style::Red, "unreachable:");
            let text =
                console.sanitized(&format!("{}{step}{detail}", failure.message)).replace('\n', "\n      ");
            console.print_line(&format!("    {label} {text}"))?;
            for hint in &failure.hints {
                console.print_line(&format!("      try {}", console.sanitized(hint)))?;
            }
        }
    }
    Ok(())
}

fn show_finding(console: &Console, finding: &Finding, indent: &str) -> Result<()> {
    let label = match finding.level {
        Severity::Problem => console.paint(Style::Red, "problem:"),
        Severity::Warning => console.paint(Style::Dim, "warning:"),
    };
    console.print_line(&format!("{indent}{label} {}", console.sanitized(&finding.location.to_string())))?;
    for hint in &finding.hints {
        console.print_line(&format!("{indent}  try {}", console.sanitized(hint)))?;
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
        let plural = |count: usize, noun: &str| match count {
            1 => format!("1 {noun}"),
            _ => format!("{count} {noun}s"),
        };
        let mut line = format!("{}, {}: ", plural(files, "file"), plural(self.servers, "server"));
        line.push_str(&format!("{}, {}", plural(self.problems, "problem"), plural(self.warnings, "warning")));
        if self.unreached > 0 {
            line.push_str(&format!(", {} unreachable", self.unreached));
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
                "path": config_files::absolute_path(&file.list.location),
                "project": file.list.location.project(),
                "hosts": file.list.hosts,
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

/// The default time limit of a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
