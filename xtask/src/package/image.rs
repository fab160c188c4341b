//! The container image, as far as it can be tried without a container engine: the files of its last stage are put into a
//! folder, and the program runs there with nothing else, as the user of the image.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{env, fs};

use super::checks::{Checks, contains};
use super::{Dist, copy, read};
use crate::count::Count;
use crate::process;
use crate::server::ListeningServer;

/// Puts the program of a platform into the folder that the image is built from.
pub(super) fn add_program(dist: &Dist, platform: &str, program: &Path) -> Result<(), String> {
    let folder = dist.image.join(platform);
    process::create_dir(&folder)?;
    copy(program, &folder.join("tsugite"))?;
    copy(&process::root().join(DOCKERFILE), &dist.image.join("Dockerfile"))
}

/// Runs the checks, those in the folder as root on Linux only.
pub(super) fn check(dist: &Dist, binary: &Path, count: &mut Count) -> Result<(), String> {
    let stage = LastStage::parse(&read(&process::root().join(DOCKERFILE))?)?;
    let mut checks = Checks::new("image");
    checks.run("the Dockerfile of the replicas ends like that of a release", || {
        let example = LastStage::parse(&read(&process::root().join(EXAMPLE))?)?;
        match example == stage {
            true => Ok(()),
            false => Err(format!("{example:?} is not {stage:?}")),
        }
    });
    checks.run("the user is not root", || {
        match stage.user.split(':').all(|id| id.parse().is_ok_and(|id: u32| id > 0)) {
            true => Ok(()),
            false => Err(format!("USER {}", stage.user)),
        }
    });
    let needs_libraries = !libraries(binary)?.is_empty();
    if !needs_libraries && process::succeeds(process::program("docker", ["info"])) {
        checks.run("docker builds the image and runs it", || runs_in_docker(dist));
    } else {
        println!("   image: left out, without docker or a static program: the build of the image");
    }
    if !process::succeeds(process::program("chroot", ["/", "true"])) {
        println!("   image: left out, since only root may use chroot: the program in the files of the image");
        return checks.finish(count);
    }
    let rootfs = Rootfs::make(dist, &stage, binary)?;
    checks.run("the program answers without any other file", || {
        let said = process::output(rootfs.program(&["call", "demo", "add", "a=1", "b=2"]), "see above")?;
        contains(&said, "3")
    });
    checks.run("the program serves HTTP and ends on SIGTERM", || {
        let command = rootfs.program(&["serve", "--listen", "127.0.0.1:0"]);
        let server = ListeningServer::start_tsugite(command, &dist.work.join("image.txt"))?;
        let url = format!("http://127.0.0.1:{}/mcp", server.endpoint);
        let said =
            process::output(process::program(binary, ["call", &url, "add", "a=1", "b=2"]), "see above")?;
        contains(&said, "3")?;
        server.process.stop(STOP_TIMEOUT)
    });
    checks.run("the program trusts the certificates of the image, and no other", || {
        let tls = process::root().join("crates/tsugite/tests/tls");
        let mut command = process::program(binary, ["serve", "--listen", "127.0.0.1:0"]);
        command.arg("--tls-cert").arg(tls.join("certificate.pem")).arg("--tls-key").arg(tls.join("key.pem"));
        let server = ListeningServer::start(command, &dist.work.join("image-tls.txt"), |line| {
            line.starts_with("https://").then(|| line.to_owned())
        })?;
        let call = || rootfs.program(&["call", &server.endpoint, "add", "a=1", "b=2"]);
        contains(&process::output(call(), "see above")?, "3")?;
        let certificates = rootfs.folder.join(stage.certificates()?);
        fs::remove_file(&certificates).map_err(|error| format!("{}: {error}", certificates.display()))?;
        match process::succeeds(call()) {
            false => Ok(()),
            true => Err("a server is trusted without certificates in the image".to_owned()),
        }
    });
    checks.finish(count)
}

fn runs_in_docker(dist: &Dist) -> Result<(), String> {
    let mut build = process::program("docker", ["build", "--tag", "tsugite-test"]);
    build.arg(&dist.image);
    process::run_or_fail(build, "see above")?;
    let run = ["run", "--rm", "--read-only", "tsugite-test", "call", "demo", "add", "a=1", "b=2"];
    contains(&process::output(process::program("docker", run), "see above")?, "3")
}

/// The last stage of a Dockerfile, which starts from nothing.
#[derive(Debug, PartialEq, Eq)]
struct LastStage {
    /// The paths of its files in the image.
    files: Vec<String>,
    user: String,
    entry: String,
    port: String,
}

impl LastStage {
    fn parse(text: &str) -> Result<Self, String> {
        let (_, last) = text
            .rsplit_once("\nFROM scratch\n")
            .ok_or("the last stage of the Dockerfile is not `FROM scratch`")?;
        let mut stage =
            Self { files: Vec::new(), user: String::new(), entry: String::new(), port: String::new() };
        for line in last.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (instruction, rest) = line.split_once(' ').unwrap_or((line, ""));
            match instruction {
                "ARG" => {}
                "COPY" => stage.files.extend(rest.rsplit(' ').next().map(str::to_owned)),
                "USER" => rest.clone_into(&mut stage.user),
                "ENTRYPOINT" => rest.trim_matches(['[', ']', '"']).clone_into(&mut stage.entry),
                "EXPOSE" => rest.clone_into(&mut stage.port),
                _ => return Err(format!("xtask does not know this line of the Dockerfile: {line}")),
            }
        }
        match stage.files.contains(&stage.entry) {
            true => Ok(stage),
            false => Err(format!("the entry point {} is not among the files", stage.entry)),
        }
    }

    /// The path of the certificates, relative to the root of the image.
    fn certificates(&self) -> Result<&str, String> {
        let found = self.files.iter().find(|path| path.ends_with(".crt"));
        found
            .map(|path| path.trim_start_matches('/'))
            .ok_or_else(|| "the image has no certificates".to_owned())
    }
}

/// A folder with the files of the image. The certificates are those of a test server.
struct Rootfs {
    folder: PathBuf,
    user: String,
    entry: String,
}

impl Rootfs {
    fn make(dist: &Dist, stage: &LastStage, binary: &Path) -> Result<Self, String> {
        let folder = dist.empty("rootfs")?;
        let inside = |path: &str| folder.join(path.trim_start_matches('/'));
        let place = |from: &Path, path: &str| {
            let to = inside(path);
            to.parent().map_or(Ok(()), process::create_dir)?;
            copy(from, &to)
        };
        place(binary, &stage.entry)?;
        place(
            &process::root().join("crates/tsugite/tests/tls/certificate.pem"),
            &format!("/{}", stage.certificates()?),
        )?;
        // A program for musl is static; that of the tests needs its libraries.
        for library in libraries(binary)? {
            place(Path::new(&library), &library)?;
        }
        Ok(Self { folder, user: stage.user.clone(), entry: stage.entry.clone() })
    }

    /// The program with nothing around it: no other file, no home folder, and no variable but `PATH`.
    fn program(&self, words: &[&str]) -> Command {
        let mut command = process::program("chroot", []);
        command.arg(format!("--userspec={}", self.user)).arg(&self.folder).arg(&self.entry).args(words);
        command.env_clear().env("PATH", env::var_os("PATH").unwrap_or_default());
        command
    }
}

/// The libraries of a program, none if it is static.
fn libraries(binary: &Path) -> Result<Vec<String>, String> {
    let mut command = process::program("ldd", []);
    command.arg(binary);
    let output = command.output().map_err(|error| format!("cannot run `ldd`: {error}"))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(said
        .split_whitespace()
        .filter(|word| word.starts_with('/') && !word.ends_with(':'))
        .map(str::to_owned)
        .collect())
}

const DOCKERFILE: &str = "packaging/Dockerfile";

/// The image of the replicas, which is built from the sources.
const EXAMPLE: &str = "examples/replicas/Dockerfile";

const STOP_TIMEOUT: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_stage_is_read() {
        let text = "FROM a AS b\nRUN c\n\nFROM scratch\n# d\nCOPY --from=b /e /etc/f.crt\nCOPY g /g\nUSER 1:2\nENTRYPOINT [\"/g\"]\n";
        let stage = LastStage::parse(text).unwrap();
        assert_eq!(
            (stage.files.join(" "), stage.user.as_str(), stage.entry.as_str()),
            ("/etc/f.crt /g".to_owned(), "1:2", "/g")
        );
        assert_eq!(stage.certificates(), Ok("etc/f.crt"));
        assert!(LastStage::parse(&text.replace("FROM scratch", "FROM debian")).is_err());
        assert!(LastStage::parse(&text.replace("COPY g /g\n", "")).is_err());
    }
}
