//! The packages for npm, installed from their archives without network, and run as a host would run them.

use std::env::consts::OS;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::checks::{Checks, contains};
use super::npm::archive;
use super::target::Target;
use super::{Dist, make_empty, write};
use crate::count::Count;
use crate::process::{self, ChildProcess, npm};
use crate::server::ListeningServer;
use crate::{process_group, setup};

/// Runs the checks; those of signals not on Windows, which has none.
pub(super) fn check(dist: &Dist, target: &Target, count: &mut Count) -> Result<(), String> {
    setup::npm()?;
    let mut checks = Checks::new("npm");
    let project = Project::make(dist, "npm-project", &["tsugite", &target.npm_package()])?;
    checks.run("npx runs the program", || {
        let said = process::output(project.npx(&["--version"]), "see above")?;
        contains(&said, &format!("tsugite {}", dist.version))
    });
    checks.run("a server over stdio answers, and ends with its input", || answers_over_stdio(&project));
    checks.run("the exit code is that of the program", || {
        for (words, expected) in [
            (&["call", "demo", "add", "a=1", "b=2"][..], 0),
            (&["nonsense"], 1),
            (&["list", "http://127.0.0.1:1/mcp"], 2),
        ] {
            let (code, _) = project.run(project.npx(words))?;
            if code != Some(expected) {
                return Err(format!(
                    "`npx tsugite {}` exited with {code:?}, not {expected}",
                    words.join(" ")
                ));
            }
        }
        Ok(())
    });
    if OS != "windows" {
        checks.run("SIGTERM ends the program, and the exit code is its own", || {
            project.serve(project.launcher(&[]), dist)?.process.stop(STOP_TIMEOUT)
        });
        checks
            .run("SIGTERM at npx ends the program", || ends_with_npx(project.serve(project.npx(&[]), dist)?));
    }
    checks.run("a missing package is named", || {
        let alone = Project::make(dist, "npm-alone", &["tsugite"])?;
        let (code, said) = alone.run(alone.launcher(&["--version"]))?;
        contains(&said, &format!("the package {}", target.npm_package()))?;
        contains(&said, "--omit=optional")?;
        ensure_one(code)
    });
    checks.run("an unknown platform is named", || {
        let fake = project.folder.join("fake.js");
        write(&fake, "Object.defineProperty(process, \"platform\", { value: \"sunos\" });\n")?;
        let mut command = project.launcher(&["--version"]);
        command.env("NODE_OPTIONS", format!("--require {}", fake.display()));
        let (code, said) = project.run(command)?;
        contains(&said, "there is no program for sunos-")?;
        contains(&said, "linux-x64, linux-arm64, darwin-x64, darwin-arm64, win32-x64")?;
        ensure_one(code)
    });
    if OS != "windows" {
        checks.run("the launcher ends by the signal of the program", || {
            let program = project.folder.join("node_modules").join(target.npm_package()).join("bin/tsugite");
            write(&program, "#!/bin/sh\nkill -KILL $$\n")?;
            let output = project.launcher(&[]).output().map_err(|error| error.to_string())?;
            contains(&output.status.to_string(), "SIGKILL")
        });
    }
    checks.finish(count)
}

fn ensure_one(code: Option<i32>) -> Result<(), String> {
    match code {
        Some(1) => Ok(()),
        code => Err(format!("exited with {code:?}, not 1")),
    }
}

/// Sends `initialize` to `npx tsugite serve --stdio` and closes its input after the answer.
fn answers_over_stdio(project: &Project) -> Result<(), String> {
    let mut command = project.npx(&["serve", "--stdio"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut server = ChildProcess::start_group(command)?;
    let (mut input, output) = server.pipes().ok_or("no pipes")?;
    let message = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"xtask","version":"0"}}}"#;
    writeln!(input, "{message}").map_err(|error| format!("cannot write to the server: {error}"))?;
    let mut line = String::new();
    BufReader::new(output)
        .read_line(&mut line)
        .map_err(|error| format!("cannot read its answer: {error}"))?;
    let answer: Value = serde_json::from_str(&line).map_err(|error| format!("{error} in {line:?}"))?;
    let version = answer.pointer("/result/protocolVersion").and_then(Value::as_str);
    if version != Some("2025-11-25") {
        return Err(format!("its answer is {line}"));
    }
    drop(input);
    match server.wait_with_timeout(STOP_TIMEOUT)? {
        status if status.success() => Ok(()),
        status => Err(format!("exited with {status}")),
    }
}

/// Sends SIGTERM to npx and waits until nothing listens at the port.
fn ends_with_npx(server: ListeningServer<u16>) -> Result<(), String> {
    process_group::terminate(server.process.id());
    let start = Instant::now();
    while TcpStream::connect((Ipv4Addr::LOCALHOST, server.endpoint)).is_ok() {
        if start.elapsed() > STOP_TIMEOUT {
            return Err("the program still runs".to_owned());
        }
        thread::sleep(process::POLL_INTERVAL);
    }
    server.process.wait_with_timeout(STOP_TIMEOUT).map(drop)
}

/// A folder in which packages are installed.
struct Project {
    folder: PathBuf,
}

impl Project {
    /// Installs packages from their archives. The others that `tsugite` names cannot be downloaded, and need not be.
    fn make(dist: &Dist, name: &str, packages: &[&str]) -> Result<Self, String> {
        let folder = dist.work.join(name);
        make_empty(&folder)?;
        write(&folder.join("package.json"), "{ \"private\": true }\n")?;
        let mut command = npm(["install", "--offline", "--no-audit", "--no-fund", "--loglevel=error"]);
        command.args(packages.iter().map(|package| archive(dist, package))).current_dir(&folder);
        // An empty cache: what was installed before does not help.
        command.env("npm_config_cache", folder.join("cache"));
        process::output(command, "see above")?;
        Ok(Self { folder })
    }

    /// `npx tsugite` with arguments. It must not ask whether to download the package.
    fn npx(&self, words: &[&str]) -> Command {
        let mut command =
            process::program(if OS == "windows" { "npx.cmd" } else { "npx" }, ["--no-install", "tsugite"]);
        command.args(words).current_dir(&self.folder);
        command
    }

    /// The launcher without npx.
    fn launcher(&self, words: &[&str]) -> Command {
        let mut command = process::program("node", []);
        command.arg(self.folder.join("node_modules/tsugite/bin/tsugite.js")).args(words);
        command
    }

    /// Runs a command to its end and returns its exit code and what it wrote to standard error.
    fn run(&self, mut command: Command) -> Result<(Option<i32>, String), String> {
        let output = command.output().map_err(|error| format!("cannot run node: {error}"))?;
        Ok((output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned()))
    }

    /// Starts a server and returns it with its port.
    fn serve(&self, mut command: Command, dist: &Dist) -> Result<ListeningServer<u16>, String> {
        command.args(["serve", "--listen", "127.0.0.1:0"]);
        ListeningServer::start(command, &dist.work.join("npm.txt"), |line| {
            line.strip_prefix("http://127.0.0.1:")?.strip_suffix("/mcp")?.parse().ok()
        })
    }
}

const STOP_TIMEOUT: Duration = Duration::from_secs(20);
