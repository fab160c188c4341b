//! The installer, run by each POSIX shell of this machine, with the archive in a folder and on an https server.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use super::checks::{Checks, contains};
use super::target::Target;
use super::{Dist, copy, make_empty, read, write};
use crate::count::Count;
use crate::process::{self, ChildProcess};
use crate::process_group;

/// Runs the checks.
pub(super) fn check(dist: &Dist, target: &Target, count: &mut Count) -> Result<(), String> {
    let mut checks = Checks::new("installer");
    let run = Installer { dist, folder: dist.empty("installer")?, script: dist.release.join("install.sh") };
    for shell in SHELLS {
        if run.has_shell(shell) {
            checks.run(&format!("{} installs the program", shell.join(" ")), || run.installs(shell));
        }
    }
    checks.run("the folder can be named in the environment", || run.takes_folders_from_environment());
    checks.run("a release on an https server is installed", || run.downloads());
    checks.run("an archive with another checksum is refused", || {
        run.refuses(
            target,
            |sums| format!("{}{}", "0".repeat(8), sums.get(8..).unwrap_or_default()),
            "nothing was installed",
        )
    });
    checks.run("an archive without a checksum is refused", || {
        run.refuses(target, |sums| sums.replace("tsugite", "other"), "SHA256SUMS does not list")
    });
    checks.run("plain http is refused", || {
        let output = run.output(SHELLS[0], &["--from", "http://127.0.0.1:1", "--to", "nowhere"], &[])?;
        run.is_refused(&output, "neither https nor a folder")
    });
    checks.run("a download without curl is refused", || run.needs_curl());
    checks.run("an unknown machine is refused", || {
        let fake = run.folder.join("fake");
        process::create_dir(&fake)?;
        let uname = fake.join("uname");
        write(&uname, "#!/bin/sh\n[ \"$1\" = -s ] && echo Plan9 || echo mips\n")?;
        process_group::make_executable(&uname).map_err(|error| error.to_string())?;
        let path = format!("{}:{}", fake.display(), env::var("PATH").unwrap_or_default());
        let output = run.output(SHELLS[0], &["--to", "nowhere"], &[("PATH", &path)])?;
        run.is_refused(&output, "there is no program for Plan9 on mips")
    });
    checks.run("a folder that cannot be made is refused", || {
        let file = run.folder.join("file");
        write(&file, "")?;
        let output = run.output(SHELLS[0], &["--to", &file.join("bin").to_string_lossy()], &[])?;
        run.is_refused(&output, "cannot create")
    });
    checks.run("an unknown option is refused", || {
        run.is_refused(&run.output(SHELLS[0], &["--nonsense"], &[])?, "unknown option --nonsense")
    });
    checks.run("half of the script does nothing", || run.half_does_nothing());
    checks.finish(count)
}

struct Installer<'a> {
    dist: &'a Dist,
    /// A folder for the checks, in which the scripts run.
    folder: PathBuf,
    script: PathBuf,
}

impl Installer<'_> {
    fn has_shell(&self, shell: &[&str]) -> bool {
        let mut command = self.shell(shell);
        command.args(["-c", ":"]);
        process::succeeds(command)
    }

    /// A shell with a home folder of its own, where the installer finds the release in the folder.
    fn shell(&self, shell: &[&str]) -> Command {
        let (program, options) = shell.split_first().unwrap_or((&"sh", &[]));
        let mut command = process::program(*program, options.iter().copied());
        command.current_dir(&self.folder).env("HOME", self.folder.join("home"));
        command.env_remove("TSUGITE_BIN_DIR").env("TSUGITE_RELEASE", &self.dist.release);
        command
    }

    fn output(&self, shell: &[&str], options: &[&str], variables: &[(&str, &str)]) -> Result<Output, String> {
        let mut command = self.shell(shell);
        command.arg(&self.script).args(options).envs(variables.iter().copied());
        command.output().map_err(|error| format!("cannot run {}: {error}", shell.join(" ")))
    }

    /// Installs twice: the second time the program is replaced.
    fn installs(&self, shell: &[&str]) -> Result<(), String> {
        let folder = self.folder.join(format!("with {}", shell.join(" ")));
        for _ in 0..2 {
            let output = self.output(shell, &["--to", &folder.to_string_lossy()], &[])?;
            let said = success(&output)?;
            contains(&said, &format!("installed tsugite {} as ", self.dist.version))?;
            contains(&said, "is not in PATH")?;
        }
        self.is_installed(&folder)
    }

    fn takes_folders_from_environment(&self) -> Result<(), String> {
        let place = format!("file://{}", self.dist.release.display());
        success(&self.output(SHELLS[0], &[], &[("TSUGITE_RELEASE", &place)])?)?;
        self.is_installed(&self.folder.join("home/.local/bin"))?;
        let folder = self.folder.join("from environment");
        success(&self.output(SHELLS[0], &[], &[("TSUGITE_BIN_DIR", &folder.to_string_lossy())])?)?;
        self.is_installed(&folder)
    }

    /// Fails unless the program is the only file in a folder, and runs.
    fn is_installed(&self, folder: &Path) -> Result<(), String> {
        let said = process::output(process::program(folder.join("tsugite"), ["--version"]), "see above")?;
        contains(&said, &self.dist.version)?;
        let entries = fs::read_dir(folder).map_err(|error| error.to_string())?;
        match entries.count() {
            1 => Ok(()),
            more => Err(format!("{more} files in {}", folder.display())),
        }
    }

    fn downloads(&self) -> Result<(), String> {
        let tls = process::root().join("crates/tsugite/tests/tls");
        let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = port.map_err(|error| error.to_string())?.port();
        let address = format!("127.0.0.1:{port}");
        let mut command = process::program("openssl", ["s_server", "-quiet", "-WWW", "-accept", &address]);
        command.arg("-cert").arg(tls.join("certificate.pem")).arg("-key").arg(tls.join("key.pem"));
        command.current_dir(&self.dist.release).stdout(Stdio::null()).stderr(Stdio::null());
        let mut server = ChildProcess::start(command)?;
        let start = Instant::now();
        while TcpStream::connect(&address).is_err() {
            if server.try_wait()?.is_some() || start.elapsed() > START_TIMEOUT {
                return Err("`openssl s_server` does not start".to_owned());
            }
            thread::sleep(process::POLL_INTERVAL);
        }
        let folder = self.folder.join("downloaded");
        let (place, to) = (format!("https://{address}"), folder.to_string_lossy());
        let options = ["--from", place.as_str(), "--to", &to];
        // Its certificate is not among those that this machine trusts.
        self.is_refused(&self.output(SHELLS[0], &options, &[])?, "cannot download")?;
        let certificate = tls.join("certificate.pem");
        let trusted = [("CURL_CA_BUNDLE", &*certificate.to_string_lossy())];
        success(&self.output(SHELLS[0], &options, &trusted)?)?;
        self.is_installed(&folder)
    }

    /// Runs where nothing but wget could download.
    fn needs_curl(&self) -> Result<(), String> {
        let (tools, path) = (self.folder.join("without curl"), env::var("PATH").unwrap_or_default());
        process::create_dir(&tools)?;
        let own = |name: &str| format!("PATH='{path}'\nexec {name} \"$@\"");
        let wget = ": > nowhere".to_owned();
        for (name, script) in
            [("uname", own("uname")), ("mktemp", own("mktemp")), ("rm", own("rm")), ("wget", wget)]
        {
            write(&tools.join(name), &format!("#!/bin/sh\n{script}\n"))?;
            process_group::make_executable(&tools.join(name)).map_err(|error| error.to_string())?;
        }
        let options = ["--from", "https://127.0.0.1:1", "--to", "nowhere"];
        let output = self.output(&["/bin/sh"], &options, &[("PATH", &tools.to_string_lossy())])?;
        self.is_refused(&output, "curl is not installed")
    }

    /// Changes the checksums of a release, which must then be refused.
    fn refuses(
        &self,
        target: &Target,
        change: impl Fn(String) -> String,
        reason: &str,
    ) -> Result<(), String> {
        let release = self.folder.join("release");
        make_empty(&release)?;
        let archive = target.archive(&self.dist.version);
        copy(&self.dist.release.join(&archive), &release.join(&archive))?;
        write(&release.join("SHA256SUMS"), &change(read(&self.dist.release.join("SHA256SUMS"))?))?;
        let options = ["--from", &*release.to_string_lossy(), "--to", "nowhere"];
        self.is_refused(&self.output(SHELLS[0], &options, &[])?, reason)
    }

    /// Fails unless a run has failed with `reason` and has written nothing.
    fn is_refused(&self, output: &Output, reason: &str) -> Result<(), String> {
        if output.status.code() != Some(1) {
            return Err(format!("exited with {}", output.status));
        }
        contains(&String::from_utf8_lossy(&output.stderr), reason)?;
        match self.folder.join("nowhere").exists() {
            true => Err("something was written".to_owned()),
            false => Ok(()),
        }
    }

    fn half_does_nothing(&self) -> Result<(), String> {
        let script = read(&self.script)?;
        // Without its last line, which is the call.
        let cut = script.trim_end().rsplit_once('\n').map_or("", |(first, _)| first);
        let half = self.folder.join("half.sh");
        write(&half, cut)?;
        let mut command = self.shell(SHELLS[0]);
        command.arg(&half).args(["--to", "nowhere"]);
        let output = command.output().map_err(|error| error.to_string())?;
        match output.stdout.is_empty() && !self.folder.join("nowhere").exists() {
            true => Ok(()),
            false => Err("the script installs something before its end".to_owned()),
        }
    }
}

fn success(output: &Output) -> Result<String, String> {
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr))),
    }
}

/// The shells that a system may have as `sh`.
const SHELLS: [&[&str]; 5] =
    [&["sh"], &["dash"], &["bash", "--posix"], &["busybox", "sh"], &["zsh", "--emulate", "sh"]];

const START_TIMEOUT: Duration = Duration::from_secs(10);
