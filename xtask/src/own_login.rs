//! The second half of `cargo xtask logins`: clients of other projects log in to `tsugite serve --auth`, in a browser.
//!
//! The clients are in `crates/testkit/peers`: `login.mjs` of the TypeScript SDK and `login.py` of the Python SDK, which also
//! verifies the token with authlib. `provider.mjs` is `oidc-provider`, for logins at another server.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::browser::Browser;
use crate::count::Count;
use crate::peers::PeerPackages;
use crate::process::ChildProcess;
use crate::process_group::open_private;
use crate::server::ListeningServer;
use crate::{base64, binary, process};

/// Runs all checks and adds them to `count`.
pub(crate) fn run(count: &mut Count) -> Result<(), String> {
    let packages = PeerPackages::new()?;
    let folder = packages.output_dir.join("own-login");
    let _ = fs::remove_dir_all(&folder);
    process::create_dir(&folder)?;
    let program = binary::tsugite(&folder)?;
    let browser = Browser::start(&folder, "unused.example")?;
    let mut visit = Visit { packages, program, folder, browser };
    println!("-- tsugite serve --auth");
    let checks: [(&str, Check); 5] = [
        ("the TypeScript client logs in", Visit::typescript_client),
        ("the Python client logs in, and authlib verifies its token", Visit::python_client),
        ("a denial reaches the client", Visit::denial),
        ("the pages fit a phone, in the light and in the dark", Visit::pages),
        ("a login at oidc-provider needs consent for each client", Visit::provider),
    ];
    let mut failures = Vec::new();
    for (name, check) in checks {
        match check(&mut visit) {
            Ok(()) => *count += Count { passed: 1, failed: 0, skipped: 0 },
            Err(why) => {
                *count += Count { passed: 0, failed: 1, skipped: 0 };
                failures.push(format!("{name}: {why}"));
            }
        }
    }
    match failures.as_slice() {
        [] => Ok(()),
        failures => {
            let failures = failures.join("\n- ");
            Err(format!("logins at our server fail\n- {failures}\n  try: see {}", visit.folder.display()))
        }
    }
}

type Check = fn(&mut Visit) -> Result<(), String>;

struct Visit {
    packages: PeerPackages,
    program: PathBuf,
    folder: PathBuf,
    browser: Browser,
}

impl Visit {
    fn typescript_client(&mut self) -> Result<(), String> {
        let (_server, url) = self.serve("typescript", json!({}), None)?;
        let command = self.packages.typescript("login.mjs");
        let said = self.log_in_with(command, &url, "TypeScript client", "allow")?;
        expect(&said, "ok 3 3")
    }

    fn python_client(&mut self) -> Result<(), String> {
        let (_server, url) = self.serve("python", json!({}), None)?;
        let command = self.packages.python("login.py");
        let said = self.log_in_with(command, &url, "Python client", "allow")?;
        expect(&said, "ok 3 ann")
    }

    fn denial(&mut self) -> Result<(), String> {
        let (_server, url) = self.serve("denial", json!({}), None)?;
        let command = self.packages.typescript("login.mjs");
        let said = self.log_in_with(command, &url, "Denied client", "deny")?;
        expect(&said, "denied access_denied")
    }

    /// Looks at both pages in every size and color scheme. Screenshots are in the folder.
    fn pages(&mut self) -> Result<(), String> {
        let (_server, url) = self.serve("pages", json!({}), None)?;
        let name = "A client with a rather long name, such as some people give to their programs";
        let mut client = ClientRun::start(self.packages.typescript("login.mjs"), &url, name, &self.folder)?;
        let address = client.address()?;
        self.browser.open(&address)?;
        self.look_at("login")?;
        self.log_in()?;
        self.look_at("consent")?;
        self.browser.emulate((1280, 800), "light")?;
        self.decide("allow")?;
        expect(&client.outcome()?, "ok 3 3")
    }

    fn look_at(&mut self, page: &str) -> Result<(), String> {
        for size in [(1280, 800), (390, 844)] {
            for scheme in ["light", "dark"] {
                self.browser.emulate(size, scheme)?;
                let picture =
                    base64::decode(&self.browser.screenshot(true)?).ok_or("the screenshot is not base64")?;
                let file = self.folder.join(format!("{page}-{}-{scheme}.png", size.0));
                fs::write(&file, picture).map_err(|error| format!("{}: {error}", file.display()))?;
                let width = self.browser.evaluate("document.documentElement.scrollWidth")?;
                if width.as_u64().is_none_or(|width| width > u64::from(size.0)) {
                    return Err(format!("the {page} page is {width} px wide on a screen of {} px", size.0));
                }
                let background = self.browser.evaluate("getComputedStyle(document.body).backgroundColor")?;
                let expected = if scheme == "dark" { "rgb(25, 22, 19)" } else { "rgb(253, 251, 247)" };
                if background != expected {
                    return Err(format!(
                        "the {page} page is {background} in the {scheme}: its style is not used"
                    ));
                }
            }
        }
        Ok(())
    }

    /// A victim who is logged in everywhere is still asked about the client of an attacker.
    fn provider(&mut self) -> Result<(), String> {
        let port = free_port()?;
        let mut command = self.packages.typescript("provider.mjs");
        command.arg(format!("http://127.0.0.1:{port}/callback"));
        let log = self.folder.join("provider.txt");
        let provider =
            ListeningServer::start(command, &log, |line| line.strip_prefix("ready ")?.parse::<u16>().ok())?;
        let issuer = format!("http://127.0.0.1:{}", provider.endpoint);
        let settings = json!({"provider": {
            "issuer": issuer, "client_id": "tsugite", "client_secret": "a secret of the test", "scopes": ["openid"],
            "allow": {"subjects": ["victim"]},
        }});
        let (_server, url) = self.serve("provider", settings, Some(port))?;
        let visits =
            || fs::read_to_string(&log).unwrap_or_default().lines().filter(|line| *line == "visit").count();
        let mut client =
            ClientRun::start(self.packages.typescript("login.mjs"), &url, "Good client", &self.folder)?;
        self.browser.open(&client.address()?)?;
        self.expect_consent("Good client")?;
        if visits() != 0 {
            return Err("the provider was visited before the consent".to_owned());
        }
        self.decide("allow")?;
        let fill =
            "for (const name of ['login', 'password']) document.getElementsByName(name)[0].value = 'victim'";
        self.browser.evaluate(fill)?;
        self.browser.follow("document.querySelector('form [type=submit]').click()")?;
        // The consent page of the provider.
        self.browser.follow("document.querySelector('form [type=submit]').click()")?;
        expect(&client.outcome()?, "ok 3 3")?;
        let before = visits();
        let evil =
            ClientRun::start(self.packages.typescript("login.mjs"), &url, "Evil client", &self.folder)?;
        self.browser.open(&evil.address()?)?;
        self.expect_consent("Evil client")?;
        match visits() == before {
            true => Ok(()),
            false => Err("the provider was visited for a client without consent".to_owned()),
        }
    }

    fn expect_consent(&mut self, client: &str) -> Result<(), String> {
        let text = self.browser.evaluate("document.body.innerText")?;
        let text = text.as_str().unwrap_or_default();
        let has_button = self.browser.evaluate("document.querySelector('[value=allow]') !== null")?;
        match text.contains(client) && has_button == true {
            true => Ok(()),
            false => Err(format!("this is no consent page for {client}: {text}")),
        }
    }

    /// Starts `tsugite serve --auth` with Ann as its user. Returns the URL of the server.
    fn serve(
        &self,
        name: &str,
        settings: Value,
        port: Option<u16>,
    ) -> Result<(ListeningServer<u16>, String), String> {
        let server = serve_auth(&self.program, &self.folder.join(name), settings, port)?;
        let url = format!("http://127.0.0.1:{}/mcp", server.endpoint);
        Ok((server, url))
    }

    /// Runs a client to its end, with Ann at the browser.
    fn log_in_with(
        &mut self,
        command: Command,
        url: &str,
        name: &str,
        action: &str,
    ) -> Result<String, String> {
        let mut client = ClientRun::start(command, url, name, &self.folder)?;
        self.browser.open(&client.address()?)?;
        self.log_in()?;
        self.expect_consent(name)?;
        self.decide(action)?;
        let page = self.browser.evaluate("document.body.innerText")?;
        if !page.as_str().is_some_and(|page| page.contains("You are logged in")) {
            return Err(format!("the browser is not back at the client: {page}"));
        }
        client.outcome()
    }

    fn log_in(&mut self) -> Result<(), String> {
        log_in(&mut self.browser)
    }

    fn decide(&mut self, action: &str) -> Result<(), String> {
        self.browser.follow(&format!("document.querySelector('[value={action}]').click()"))
    }
}

/// Logs Ann in on the open page.
pub(crate) fn log_in(browser: &mut Browser) -> Result<(), String> {
    let fill = "document.querySelector('[name=name]').value = 'ann'; \
                document.querySelector('[name=password]').value = 'correct horse'";
    browser.evaluate(fill)?;
    browser.follow("document.querySelector('[value=password]').click()")
}

/// Starts `tsugite serve --auth` in a folder, with Ann as its user.
pub(crate) fn serve_auth(
    program: &Path,
    folder: &Path,
    settings: Value,
    port: Option<u16>,
) -> Result<ListeningServer<u16>, String> {
    process::create_dir(folder)?;
    let (file, password) = (folder.join("auth.json"), folder.join("password.txt"));
    let wrong = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    let mut options = OpenOptions::new();
    let written = open_private(options.write(true).create(true).truncate(true)).open(&file);
    written
        .and_then(|mut file| std::io::Write::write_all(&mut file, settings.to_string().as_bytes()))
        .map_err(|error| wrong(&file, error))?;
    fs::write(&password, "correct horse\n").map_err(|error| wrong(&password, error))?;
    let path = file.to_string_lossy().into_owned();
    let has_provider = settings.get("provider").is_some();
    if !has_provider {
        let mut add = process::program(program, ["users", "add", &path, "ann"]);
        add.stdin(Stdio::from(File::open(&password).map_err(|error| wrong(&password, error))?));
        process::run_or_fail(add, "see above; the user cannot be added")?;
    }
    let listen = format!("127.0.0.1:{}", port.unwrap_or(0));
    let serve = process::program(program, ["serve", "--listen", &listen, "--auth", &path]);
    ListeningServer::start_tsugite(serve, &folder.join("server.txt"))
}

/// A client program, whose output goes to a file.
struct ClientRun {
    process: Option<ChildProcess>,
    file: PathBuf,
}

impl ClientRun {
    fn start(mut command: Command, url: &str, name: &str, folder: &Path) -> Result<Self, String> {
        let short: String = name.chars().filter(char::is_ascii_alphanumeric).take(20).collect();
        let file = folder.join(format!("{short}.txt"));
        command.args([url, name]).stdin(Stdio::null());
        command.stdout(process::create_log(&file)?).stderr(process::create_log(&file.with_extension("err"))?);
        Ok(Self { process: Some(ChildProcess::start_group(command)?), file })
    }

    /// The address that the client wants to be opened.
    fn address(&self) -> Result<String, String> {
        let start = Instant::now();
        while start.elapsed() < TIMEOUT {
            let said = fs::read_to_string(&self.file).unwrap_or_default();
            if let Some(address) = said.lines().find_map(|line| line.strip_prefix("open "))
                && said.contains('\n')
            {
                return Ok(address.to_owned());
            }
            thread::sleep(process::POLL_INTERVAL);
        }
        let errors = fs::read_to_string(self.file.with_extension("err")).unwrap_or_default();
        Err(format!("the client opens no browser: {errors}"))
    }

    /// The last line of the client.
    fn outcome(&mut self) -> Result<String, String> {
        let process = self.process.take().ok_or("the client has ended before")?;
        let status = process.wait_with_timeout(TIMEOUT)?;
        let said = fs::read_to_string(&self.file).unwrap_or_default();
        let errors = fs::read_to_string(self.file.with_extension("err")).unwrap_or_default();
        match status.success() {
            true => Ok(said.lines().last().unwrap_or_default().to_owned()),
            false => Err(format!("the client ended with {status}: {errors}")),
        }
    }
}

fn expect(said: &str, expected: &str) -> Result<(), String> {
    match said == expected {
        true => Ok(()),
        false => Err(format!("the client said {said:?} instead of {expected:?}")),
    }
}

/// A port that was free a moment ago.
pub(crate) fn free_port() -> Result<u16, String> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    listener.map(|address| address.port()).map_err(|error| format!("no free port: {error}"))
}

/// The time limit of one client on a slow machine.
const TIMEOUT: Duration = Duration::from_secs(60);
