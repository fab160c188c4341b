//! What is made of the archives: their checksums, the installer, the packages for npm, and what the image is built from.

use std::path::PathBuf;

use super::target::Target;
use super::{Dist, copy, image, make_empty, npm, read, write};
use crate::process;

/// Makes everything for `targets`, whose archives must be there. `place` is where the archives will be: an https URL or a
/// folder.
pub(super) fn assemble(dist: &Dist, place: &str, targets: &[&Target]) -> Result<(), String> {
    let archives: Vec<String> = targets.iter().map(|target| target.archive(&dist.version)).collect();
    if let Some(missing) = archives.iter().find(|name| !dist.release.join(name).is_file()) {
        return Err(format!(
            "no {missing} in {}\n  try: `cargo xtask package archive TARGET` on its platform",
            dist.release.display()
        ));
    }
    write_checksums(dist, &archives)?;
    write_installer(dist, place)?;
    make_empty(&dist.npm)?;
    make_empty(&dist.image)?;
    for target in targets {
        let folder = unpack(dist, target)?;
        npm::pack_program(dist, target, &folder)?;
        if let Some(name) = target.image {
            image::add_program(dist, name, &folder.join(target.program()))?;
        }
    }
    npm::pack_launcher(dist)
}

/// Writes the checksums with the program for them of Linux, or that of macOS.
fn write_checksums(dist: &Dist, archives: &[String]) -> Result<(), String> {
    let has_gnu = process::succeeds(process::program("sha256sum", ["--version"]));
    let (name, options): (_, &[&str]) = if has_gnu { ("sha256sum", &[]) } else { ("shasum", &["-a", "256"]) };
    let mut command = process::program(name, options.iter().copied());
    command.args(archives).current_dir(&dist.release);
    write(&dist.release.join(CHECKSUMS), &process::output(command, "install sha256sum or shasum")?)
}

/// Writes the installer with the place and the version of the release in it.
fn write_installer(dist: &Dist, place: &str) -> Result<(), String> {
    if place.contains('\'') || place.contains('\n') {
        return Err(format!("the place {place:?} has a character that the installer cannot quote"));
    }
    let mut script = read(&process::root().join("packaging/install.sh"))?;
    for (name, value) in [("release", place), ("version", &dist.version)] {
        let empty = format!("\n{name}=''\n");
        if !script.contains(&empty) {
            return Err(format!("packaging/install.sh has no line {}", empty.trim()));
        }
        script = script.replacen(&empty, &format!("\n{name}='{value}'\n"), 1);
    }
    let file = dist.release.join("install.sh");
    // The copy takes over that it is executable.
    copy(&process::root().join("packaging/install.sh"), &file)?;
    write(&file, &script)
}

/// Unpacks an archive and returns the folder in it.
fn unpack(dist: &Dist, target: &Target) -> Result<PathBuf, String> {
    let folder = dist.empty("unpacked")?;
    let archive = dist.release.join(target.archive(&dist.version));
    let command = |name: &str, args: &[&str], to: &str| {
        let mut command = process::program(name, args.iter().copied());
        command.arg(&archive).arg(to).arg(&folder);
        command
    };
    // The tar of GNU does not read `.zip`.
    let unpack = match target.is_windows() {
        true => command("unzip", &["-q"], "-d"),
        false => command("tar", &["--extract", "--file"], "--directory"),
    };
    process::run_or_fail(unpack, "see above")?;
    let inside = folder.join(target.archive_stem(&dist.version));
    match inside.join(target.program()).is_file() {
        true => Ok(inside),
        false => Err(format!("{} does not contain {}", archive.display(), target.program())),
    }
}

/// The file with the checksums of all archives.
const CHECKSUMS: &str = "SHA256SUMS";
