//! `cargo xtask logins`: logs the binary in to servers behind authorization servers of other projects, in a browser.
//!
//! The servers are in `crates/testkit/peers`: `protected.mjs` is a server of the TypeScript SDK behind `oidc-provider`,
//! `protected.py` a server of FastMCP with its OAuth provider. `tsugite` runs on a terminal of `script`, as a user would
//! call it for the first time, and opens a program that takes the place of the user's browser. Chromium then opens the
//! address, logs in and consents. `cases` tries what the binary has no options for.

mod cases;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::browser::Browser;
use crate::count::Count;
use crate::peers::PeerPackages;
use crate::process::ChildProcess;
use crate::server::ListeningServer;
use crate::{binary, process, process_group};

/// Runs all checks and adds them to `count`.
pub(crate) fn run(count: &mut Count) -> Result<(), String> {
    let packages = PeerPackages::new()?;
    let folder = packages.output_dir.join("logins");
    process::create_dir(&folder)?;
    let program = binary::tsugite(&folder)?;
    let mut browser = Browser::start(&folder, "unused.example")?;
    let mut failures = Vec::new();
    let client = binary::build("peer-logins", &folder)?;
    let example = binary::login_example(&folder)?;
    for peer in [Peer::OidcProvider, Peer::Authlib] {
        println!("-- {} with peer-logins", peer.name());
        failures.extend(cases::run(peer, &client, &packages, &mut browser, count)?);
    }
    for peer in [Peer::OidcProvider, Peer::FastMcp] {
        println!("-- {}", peer.name());
        let home = folder.join(peer.name());
        let _ = fs::remove_dir_all(&home);
        process::create_dir(&home)?;
        let server = ListeningServer::start(peer.server(&packages), &home.join("server.txt"), parse_ready)?;
        let url = format!("http://127.0.0.1:{}/mcp", server.endpoint);
        let run = LoginRun { program: program.clone(), example: example.clone(), home, url, peer };
        let checks: [(&str, Check); 5] = [
            ("the first call logs in", LoginRun::first_call),
            ("later calls use the stored token", LoginRun::later_calls),
            ("no token is shown", LoginRun::hidden_tokens),
            ("after a logout the call is refused", LoginRun::logout),
            ("the example logs in", LoginRun::example),
        ];
        for (name, check) in checks {
            match check(&run, &mut browser) {
                Ok(()) => *count += Count { passed: 1, failed: 0, skipped: 0 },
                Err(why) => {
                    *count += Count { passed: 0, failed: 1, skipped: 0 };
                    failures.push(format!("{}: {name}: {why}", peer.name()));
                }
            }
        }
    }
    match failures.as_slice() {
        [] => Ok(()),
        failures => {
            let failures = failures.join("\n- ");
            Err(format!("logins fail\n- {failures}\n  try: see the logs in {}", folder.display()))
        }
    }
}

type Check = fn(&LoginRun, &mut Browser) -> Result<(), String>;

/// An authorization server with a server behind it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Peer {
    OidcProvider,
    FastMcp,
    /// A server of FastMCP whose authorization server is built on authlib.
    Authlib,
}

impl Peer {
    fn name(self) -> &'static str {
        match self {
            Self::OidcProvider => "oidc-provider",
            Self::FastMcp => "fastmcp",
            Self::Authlib => "authlib",
        }
    }

    fn server(self, packages: &PeerPackages) -> Command {
        let mut command = match self {
            Self::OidcProvider => packages.typescript("protected.mjs"),
            Self::FastMcp => packages.python("protected.py"),
            Self::Authlib => packages.python("protected_authlib.py"),
        };
        command.arg(keys());
        command
    }

    /// Logs in and consents on the open page.
    fn log_in(self, browser: &mut Browser) -> Result<(), String> {
        match self {
            Self::OidcProvider => {
                let fill = "for (const name of ['login', 'password']) document.getElementsByName(name)[0].value = 'ann'";
                browser.evaluate(fill)?;
                browser.follow("document.querySelector('form [type=submit]').click()")?;
                // The consent page.
                browser.follow("document.querySelector('form [type=submit]').click()")
            }
            // They have no page: FastMCP accepts every user, the other one has clients only.
            Self::FastMcp | Self::Authlib => Ok(()),
        }
    }
}

/// The runs of `tsugite` against one server, with a home folder of their own.
struct LoginRun {
    program: PathBuf,
    /// `crates/auth/examples/login.rs`
    example: PathBuf,
    home: PathBuf,
    url: String,
    peer: Peer,
}

impl LoginRun {
    /// One command on a terminal of a fresh machine, and a browser.
    fn first_call(&self, browser: &mut Browser) -> Result<(), String> {
        let file = self.home.join("first.txt");
        let typed = format!("'{}' call {} whoami -vv --trace trace.jsonl", self.program.display(), self.url);
        let script = process::program("script", ["--quiet", "--return", "--command", &typed, "/dev/null"]);
        let mut command = self.at_home(script);
        let opened = self.home.join("opened");
        command.env("BROWSER", self.write_browser("browser", &opened)?);
        let (status, said) = self.log_in(command, &opened, &file, browser)?;
        match status.success() && said.contains("you are ") {
            true => Ok(()),
            false => Err(format!("the call ended with {status}: {said}")),
        }
    }

    /// Runs a command that opens a browser, and logs in there. Returns its exit status and its output.
    fn log_in(
        &self,
        mut command: Command,
        opened: &Path,
        file: &Path,
        browser: &mut Browser,
    ) -> Result<(ExitStatus, String), String> {
        command.stdin(Stdio::piped()).stdout(process::create_log(file)?);
        let mut running = ChildProcess::start_group(command)?;
        let start = Instant::now();
        while !opened.exists() {
            if let Some(status) = running.try_wait()? {
                return Err(format!(
                    "no browser was opened, and the exit status is {status}: {}",
                    read(file)
                ));
            }
            if start.elapsed() > TIMEOUT {
                return Err(format!("no browser was opened: {}", read(file)));
            }
            thread::sleep(process::POLL_INTERVAL);
        }
        browser.clear_cookies()?;
        browser.open(read(opened).trim())?;
        self.peer.log_in(browser)?;
        let page = browser.evaluate("document.body.innerText")?;
        let page = page.as_str().unwrap_or_default();
        if !page.contains("You are logged in") {
            return Err(format!("the last page does not say that the login is done: {page}"));
        }
        Ok((running.wait_with_timeout(TIMEOUT)?, read(file)))
    }

    /// Calls without a terminal and a browser.
    fn later_calls(&self, _: &mut Browser) -> Result<(), String> {
        for number in [2, 3] {
            let (code, said) = self.call(&["call", &self.url, "whoami"], &format!("call-{number}.txt"))?;
            if code != Some(0) || !said.contains("you are ") {
                return Err(format!("call {number} ended with {code:?}: {said}"));
            }
        }
        let log = read(&self.home.join("server.txt"));
        let count = |line: &str| log.lines().filter(|logged| *logged == line).count();
        // The tokens of `protected.mjs` expire within seconds, those of FastMCP after an hour.
        let must_refresh = self.peer == Peer::OidcProvider;
        match (count("login"), count("grant refresh_token")) {
            (1, refreshed) if (refreshed > 0) == must_refresh => Ok(()),
            (logins, refreshed) => {
                Err(format!("{logins} logins, and tokens were refreshed {refreshed} times"))
            }
        }
    }

    /// Neither the output nor the trace contains a token.
    fn hidden_tokens(&self, _: &mut Browser) -> Result<(), String> {
        let file = self.home.join("state/tsugite/credentials.json");
        let stored: Value =
            serde_json::from_str(&read(&file)).map_err(|error| format!("credentials: {error}"))?;
        let token = |name: &str| stored.pointer(&format!("/tokens/0/{name}")).and_then(Value::as_str);
        let tokens = [token("access_token"), token("refresh_token")];
        let tokens: Vec<&str> = tokens.into_iter().flatten().collect();
        if tokens.len() != 2 {
            return Err("the access token and the refresh token are not stored".to_owned());
        }
        let (_, listed) = self.call(&["auth", "list"], "list.txt")?;
        if !listed.contains(&self.url) || !listed.contains("files:read") {
            return Err(format!("`auth list` does not list the login: {listed}"));
        }
        for name in ["first.txt", "trace.jsonl", "call-2.txt", "call-3.txt", "list.txt"] {
            let text = read(&self.home.join(name));
            // Every JWT of an issuer begins in the same way.
            if tokens.iter().any(|token| text.contains(token)) || text.contains("eyJ") {
                return Err(format!("{name} contains a token"));
            }
        }
        Ok(())
    }

    fn logout(&self, _: &mut Browser) -> Result<(), String> {
        let (code, said) = self.call(&["logout", &self.url], "logout.txt")?;
        // FastMCP has no revocation endpoint.
        let is_revoked = said.contains("the token was revoked");
        if code != Some(0) || is_revoked != (self.peer == Peer::OidcProvider) {
            return Err(format!("the logout ended with {code:?}: {said}"));
        }
        match self.call(&["call", &self.url, "whoami"], "refused.txt")? {
            (Some(5), _) => Ok(()),
            (code, said) => Err(format!("the call ended with {code:?}: {said}")),
        }
    }

    /// The example opens the browser of the system, logs in as another program would, and lists the tools.
    fn example(&self, browser: &mut Browser) -> Result<(), String> {
        let (opened, file) = (self.home.join("opened-by-example"), self.home.join("example.txt"));
        self.write_browser("xdg-open", &opened)?;
        let mut command = self.at_home(process::program(&self.example, [self.url.as_str()]));
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", self.home.display()));
        let (status, said) = self.log_in(command, &opened, &file, browser)?;
        match status.success() && said.trim().eq_ignore_ascii_case("whoami") {
            true => Ok(()),
            false => Err(format!("the example ended with {status}: {said}")),
        }
    }

    /// Runs `tsugite` without a terminal. Returns its exit code and its output, which goes to a file.
    fn call(&self, args: &[&str], file: &str) -> Result<(Option<i32>, String), String> {
        let mut command = self.at_home(process::program(&self.program, args.iter().copied()));
        command.stdin(Stdio::null()).stderr(process::create_log(&self.home.join(format!("{file}.err")))?);
        let (status, said) = process::output_with_timeout(TIMEOUT, command, &self.home.join(file))?;
        Ok((status.code(), said))
    }

    fn at_home(&self, mut command: Command) -> Command {
        command.current_dir(&self.home).env("HOME", &self.home).env("NO_COLOR", "1");
        command.env("XDG_STATE_HOME", self.home.join("state"));
        command.env("XDG_CONFIG_HOME", self.home.join("config"));
        command
    }

    /// Writes a program that takes the place of a browser: it keeps the address for Chromium.
    fn write_browser(&self, name: &str, opened: &Path) -> Result<PathBuf, String> {
        let program = self.home.join(name);
        let opened = opened.display();
        let script =
            format!("#!/bin/sh\nprintf '%s' \"$1\" > '{opened}.new' && mv '{opened}.new' '{opened}'\n");
        let wrong = |error: std::io::Error| format!("{}: {error}", program.display());
        fs::write(&program, script).map_err(wrong)?;
        process_group::make_executable(&program).map_err(wrong)?;
        Ok(program)
    }
}

/// The folder of the private keys of clients.
fn keys() -> PathBuf {
    process::root().join("crates/auth/tests/data")
}

fn parse_ready(line: &str) -> Option<u16> {
    line.strip_prefix("ready ")?.parse().ok()
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_default()
}

/// The time limit of one command on a slow machine.
const TIMEOUT: Duration = Duration::from_secs(60);
