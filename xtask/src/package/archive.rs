//! The archive of one platform: the program, its manual pages, completion scripts, and the licences.

use std::fs;
use std::path::{Path, PathBuf};

use super::target::Target;
use super::{Dist, copy, make_empty, write};
use crate::{process, setup};

/// Builds the program for a platform. Installs its standard library with rustup, and for Linux as root a C compiler for musl.
pub(super) fn build(target: &Target) -> Result<PathBuf, String> {
    let installed = process::program("rustup", ["target", "add", target.triple]);
    process::run_or_fail(installed, "install the standard library of the target, and use `--binary`")?;
    let args = ["build", "--release", "--locked", "--package", "tsugite-cli", "--target", target.triple];
    let mut command = process::cargo(args);
    if target.triple.ends_with("-musl") {
        setup::musl_compiler()?;
        command.env(format!("CC_{}", target.triple.replace('-', "_")), setup::MUSL_COMPILER);
    }
    process::run_or_fail(command, "see above")?;
    Ok(process::target_dir()?.join(target.triple).join("release").join(target.program()))
}

/// Packs a program, which must run on this machine: it writes its manual pages and completion scripts itself.
pub(super) fn pack(dist: &Dist, target: &Target, binary: &Path) -> Result<PathBuf, String> {
    try_out(dist, binary)?;
    let stem = target.archive_stem(&dist.version);
    let folder = dist.empty("archive")?.join(&stem);
    make_empty(&folder)?;
    copy(binary, &folder.join(target.program()))?;
    for (from, to) in FILES {
        copy(&process::root().join(from), &folder.join(to))?;
    }
    make_empty(&folder.join("completions"))?;
    for (shell, file) in COMPLETIONS {
        let script = process::output(process::program(binary, ["completions", shell]), "see above")?;
        write(&folder.join("completions").join(file), &script)?;
    }
    let mut man = process::program(binary, ["man", "--dir"]);
    man.arg(folder.join("man"));
    process::output(man, "see above")?;
    compress(&dist.work.join("archive"), &stem, &dist.release.join(target.archive(&dist.version)))
}

/// Fails unless the program has the version of the release and answers a call.
fn try_out(dist: &Dist, binary: &Path) -> Result<(), String> {
    let version = format!("tsugite {}", dist.version);
    for (words, expected) in
        [(&["--version"][..], version.as_str()), (&["call", "demo", "add", "a=1", "b=2"], "3")]
    {
        let said =
            process::output(process::program(binary, words.iter().copied()), "pack it on its own platform")?;
        if said.trim() != expected {
            return Err(format!("`tsugite {}` printed {said:?} instead of {expected}", words.join(" ")));
        }
    }
    Ok(())
}

/// Makes an archive of `name` in `folder`. The owner of the files is root, as in any package.
fn compress(folder: &Path, name: &str, archive: &Path) -> Result<PathBuf, String> {
    // Windows and macOS have that of BSD, which also writes `.zip`.
    let is_gnu = process::output(process::program("tar", ["--version"]), "install tar")?.contains("GNU");
    let owner: &[&str] = if is_gnu {
        &["--owner=0", "--group=0", "--numeric-owner", "--sort=name"]
    } else {
        &["--uid", "0", "--gid", "0"]
    };
    // The first could be part of an earlier, longer archive.
    let _ = fs::remove_file(archive);
    let mut tar = process::program("tar", ["--auto-compress", "--create", "--file"]);
    tar.arg(archive).args(owner).arg("--directory").arg(folder).arg(name);
    // Without it the tar of macOS adds a file for the attributes of each.
    tar.env("COPYFILE_DISABLE", "1");
    process::run_or_fail(tar, "see above")?;
    Ok(archive.to_owned())
}

/// Files of the repository, and their names in the archive.
const FILES: [(&str, &str); 3] = [
    ("LICENSE-APACHE", "LICENSE-APACHE"),
    ("LICENSE-MIT", "LICENSE-MIT"),
    ("crates/cli/README.md", "README.md"),
];

/// The shells, and the file names that they look for.
const COMPLETIONS: [(&str, &str); 5] = [
    ("bash", "tsugite.bash"),
    ("elvish", "tsugite.elv"),
    ("fish", "tsugite.fish"),
    ("powershell", "_tsugite.ps1"),
    ("zsh", "_tsugite"),
];
