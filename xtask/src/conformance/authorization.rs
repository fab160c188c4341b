//! The scenarios for authorization servers, against `tsugite serve --auth`. A browser logs in when the suite asks for it.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use super::Suite;
use super::verdict::{self, Results};
use crate::browser::Browser;
use crate::process::{self, ChildProcess};
use crate::{binary, own_login};

/// Runs all scenarios. Their results are in `folder`.
pub(super) fn run(suite: &Suite, folder: &Path) -> Result<Results, String> {
    let program = binary::tsugite(folder)?;
    let client = json!({"client_id": "conformance", "redirect_uris": ["http://127.0.0.1/callback"]});
    let server = own_login::serve_auth(&program, &folder.join("server"), json!({"clients": [client]}), None)?;
    let issuer = format!("http://127.0.0.1:{}", server.endpoint);
    let port = own_login::free_port()?.to_string();
    let mut command = suite.command("authorization");
    command.args(["--url", &issuer, "--client-id", "conformance", "-p", &port]);
    command.args(["--resource", &format!("{issuer}/mcp"), "-o"]).arg(folder);
    let running = RunningSuite::start(command, folder)?;
    let mut browser = Browser::start(folder, "unused.example")?;
    browser.open(&running.address(&issuer)?)?;
    own_login::log_in(&mut browser)?;
    browser.follow("document.querySelector('[value=allow]').click()")?;
    running.process.wait_with_timeout(TIMEOUT)?;
    verdict::read_results(suite.role, folder)
}

/// The suite while it waits for a login.
struct RunningSuite<'a> {
    process: ChildProcess,
    folder: &'a Path,
}

impl<'a> RunningSuite<'a> {
    fn start(mut command: Command, folder: &'a Path) -> Result<Self, String> {
        command.stdin(Stdio::null());
        command.stdout(process::create_log(&folder.join("log.txt"))?);
        command.stderr(process::create_log(&folder.join("errors.txt"))?);
        Ok(Self { process: ChildProcess::start_group(command)?, folder })
    }

    /// The address that the suite wants to be opened.
    fn address(&self, issuer: &str) -> Result<String, String> {
        let beginning = format!("{issuer}/authorize?");
        let start = Instant::now();
        while start.elapsed() < TIMEOUT {
            for name in ["log.txt", "errors.txt"] {
                let said = fs::read_to_string(self.folder.join(name)).unwrap_or_default();
                // A line that is not complete may hold a part of the address.
                let complete = said.rsplit_once('\n').map_or("", |(lines, _)| lines);
                let mut words = complete.split_whitespace();
                if let Some(address) = words.find(|word| word.starts_with(&beginning)) {
                    return Ok(address.to_owned());
                }
            }
            thread::sleep(process::POLL_INTERVAL);
        }
        Err(format!("the suite asks for no login\n  try: see {}", self.folder.display()))
    }
}

/// The time limit of a step on a slow machine.
const TIMEOUT: Duration = Duration::from_secs(60);
