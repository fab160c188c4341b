//! `cargo xtask package`: what a release consists of, and the tests of what users install.
//!
//! The release workflow and a contributor run the same commands. Everything is below `target/dist`: `release` has the archives
//! with their checksums and the installer, `npm` the packages for npm, `image` what the container image is built from.

mod archive;
mod assemble;
mod checks;
mod crates;
mod image;
mod installer;
mod npm;
mod npm_checks;
mod publish;
mod target;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::count::Count;
use crate::{binary, process};
use target::Target;

/// Runs the command with its arguments; `None` if there is no such command.
pub(crate) fn command(args: &[&str]) -> Option<Result<(), String>> {
    let mut count = Count::default();
    Some(match *args {
        [] => run(&mut count).and_then(|()| crates::package()),
        ["install"] => run(&mut count),
        ["crates"] => crates::package(),
        ["archive", target] => make_archive(target, None),
        ["archive", target, "--binary", file] => make_archive(target, Some(file.into())),
        ["assemble", "--from", place] => {
            Dist::new().and_then(|dist| assemble::assemble(&dist, place, &target::ALL))
        }
        ["check"] => Dist::new().and_then(|dist| check(&dist, &mut count)),
        ["image"] => Dist::new().and_then(|dist| image::check(&dist, &image_program(&dist)?, &mut count)),
        ["repository", url] => publish::set_repository(url),
        ["tag", tag] => publish::check_tag(tag),
        ["publish", "crates"] => publish::crates(),
        ["publish", "npm"] => Dist::new().and_then(|dist| publish::npm(&dist)),
        _ => return None,
    })
}

/// The part that `cargo xtask test` runs: the lists of files in the crates, and all that users install, made with the binary
/// as tests build it. It takes seconds once the binary is built.
pub(crate) fn run(count: &mut Count) -> Result<(), String> {
    crates::check_lists(count)?;
    let dist = Dist::at("dist-test")?;
    let binary = strip(&dist, &binary::tsugite(&dist.work)?);
    // In the tests of the archive its name matters, and not which C library the program uses.
    let target = Target::host()?;
    archive::pack(&dist, target, &binary)?;
    assemble::assemble(&dist, &dist.release.to_string_lossy(), &[target])?;
    check(&dist, count)
}

/// Removes the names of functions from a copy of the binary, which is packed and unpacked a dozen times. Where that is not
/// possible, it is only slower.
fn strip(dist: &Dist, binary: &Path) -> PathBuf {
    let small = dist.work.join("tsugite");
    let mut command = process::program("strip", ["-o"]);
    command.arg(&small).arg(binary);
    if process::succeeds(command) { small } else { binary.to_owned() }
}

/// Checks what users of this platform install.
fn check(dist: &Dist, count: &mut Count) -> Result<(), String> {
    let target = Target::host()?;
    if !target.is_windows() {
        installer::check(dist, target, count)?;
    }
    npm_checks::check(dist, target, count)?;
    match target.image {
        Some(_) => image::check(dist, &image_program(dist)?, count),
        None => Ok(()),
    }
}

/// The program in the image for this machine.
fn image_program(dist: &Dist) -> Result<PathBuf, String> {
    let target = Target::host()?;
    let platform = target.image.ok_or_else(|| format!("no image for {}", target.triple))?;
    Ok(dist.image.join(platform).join("tsugite"))
}

fn make_archive(name: &str, binary: Option<PathBuf>) -> Result<(), String> {
    let target = Target::named(name)?;
    let binary = binary.map_or_else(|| archive::build(target), Ok)?;
    println!("{}", archive::pack(&Dist::new()?, target, &binary)?.display());
    Ok(())
}

/// The folders of a release, and what every part of it needs to know.
struct Dist {
    /// The archives, their checksums and the installer.
    release: PathBuf,
    /// The packages for npm.
    npm: PathBuf,
    /// What the image is built from.
    image: PathBuf,
    /// Folders that are packed, and those of tests.
    work: PathBuf,
    version: String,
    /// The URL of the repository, once the manifests name it.
    repository: Option<String>,
}

impl Dist {
    fn new() -> Result<Self, String> {
        Self::at("dist")
    }

    /// Finds out the version, and makes the folders.
    fn at(name: &str) -> Result<Self, String> {
        let metadata = process::metadata(&["--no-deps"])?;
        let packages = metadata.get("packages").and_then(Value::as_array).into_iter().flatten();
        let ours =
            packages.into_iter().find(|package| package.get("name").is_some_and(|name| name == BINARY_CRATE));
        let text = |name: &str| Some(ours?.get(name)?.as_str()?.to_owned());
        let folder = process::target_dir()?.join(name);
        let [release, npm, image, work] = ["release", "npm", "image", "work"].map(|part| folder.join(part));
        [&release, &npm, &image, &work].into_iter().try_for_each(|folder| process::create_dir(folder))?;
        Ok(Self {
            release,
            npm,
            image,
            work,
            version: text("version").ok_or("cargo metadata names no version of tsugite-cli")?,
            repository: text("repository"),
        })
    }

    /// An empty folder for a part of the work.
    fn empty(&self, name: &str) -> Result<PathBuf, String> {
        let folder = self.work.join(name);
        make_empty(&folder)?;
        Ok(folder)
    }
}

/// The crate that has the version and the repository of the release.
const BINARY_CRATE: &str = "tsugite-cli";

/// Makes a folder, or empties it.
fn make_empty(folder: &Path) -> Result<(), String> {
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(|error| format!("cannot remove {}: {error}", folder.display()))?;
    }
    process::create_dir(folder)
}

/// Copies a file, with the path in the error.
fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let copied = fs::copy(from, to);
    copied.map(drop).map_err(|error| format!("cannot copy {} to {}: {error}", from.display(), to.display()))
}

fn read(file: &Path) -> Result<String, String> {
    fs::read_to_string(file).map_err(|error| format!("cannot read {}: {error}", file.display()))
}

fn write(file: &Path, text: &str) -> Result<(), String> {
    fs::write(file, text).map_err(|error| format!("cannot write {}: {error}", file.display()))
}
