//! What a fresh machine lacks, added where that is possible.

use std::env;
use std::process::Command;
use std::time::Duration;

use crate::process;

pub(crate) fn check() -> Result<(), String> {
    process::run_or_fail(process::cargo(["--version"]), "install a Rust toolchain")?;
    ensure_component("rustfmt", "fmt")?;
    ensure_component("clippy", "clippy")?;
    cxx_compiler()?;
    tmux()?;
    npm()?;
    python()?;
    browser()
}

/// The fuzz targets are linked with libFuzzer, which is C++ and is built from source.
pub(crate) fn cxx_compiler() -> Result<(), String> {
    // The same choice that the `cc` crate makes.
    let chosen = env::var("CXX").unwrap_or_default();
    let chosen = chosen.split_whitespace().next();
    let name = chosen.unwrap_or("c++");
    // A compiler that somebody chose and that does not run is theirs to mend; g++ would not be used.
    let packages: &[&str] = if chosen.is_none() { &["g++"] } else { &[] };
    if ensure_installed("C++ compiler", || is_available(name), packages) {
        return Ok(());
    }
    Err(format!(
        "there is no C++ compiler: `{name} --version` does not run, and the fuzz targets need one\n  \
         try: install g++ (Debian: `apt-get install g++` as root), or let CXX name a compiler"
    ))
}

/// The binary is tried at a terminal, and tmux is one that can be typed into and looked at.
pub(crate) fn tmux() -> Result<(), String> {
    // It knows no `--version`.
    let present = || process::succeeds(process::program("tmux", ["-V"]));
    if ensure_installed("tmux", present, &["tmux"]) {
        return Ok(());
    }
    Err("there is no tmux, and the tests of the binary at a terminal need it\n  \
         try: install tmux (Debian: `apt-get install tmux` as root)"
        .to_owned())
}

/// The official suites are npm packages, and so are clients we are tried with.
pub(crate) fn npm() -> Result<(), String> {
    if ensure_installed("npm", || is_available("npm"), &["nodejs", "npm"]) {
        return Ok(());
    }
    Err("there is no npm, and the official conformance suite and other clients come from there\n  \
         try: install Node 22 or newer with npm (Debian: `apt-get install nodejs npm` as root; an older Node will \
         do to install a newer one)"
        .to_owned())
}

/// One of the clients we are tried with is a Python package.
pub(crate) fn python() -> Result<(), String> {
    // Debian has what virtual environments need in a package of its own.
    let test = "import ensurepip, sys; sys.exit(sys.version_info < (3, 11))";
    let present = || process::succeeds(process::program("python3", ["-c", test]));
    if ensure_installed("Python", present, &["python3-venv"]) {
        return Ok(());
    }
    Err("there is no python3 of version 3.11 or newer that can make virtual environments\n  \
         try: install one with pip and venv (Debian: `apt-get install python3-venv` as root)"
        .to_owned())
}

/// The start page of the binary is looked at in a browser.
pub(crate) fn browser() -> Result<(), String> {
    if ensure_installed("Chromium", || is_available(CHROMIUM), &["chromium"]) {
        return Ok(());
    }
    Err(format!(
        "there is no Chromium: `{CHROMIUM} --version` does not run, and the start page is looked at in it\n  \
         try: install it (Debian: `apt-get install chromium` as root)"
    ))
}

/// The name of this project is written in it.
pub(crate) fn japanese_font() -> Result<(), String> {
    let present = || {
        process::output(process::program("fc-list", [":lang=ja"]), "").is_ok_and(|fonts| !fonts.is_empty())
    };
    if ensure_installed("Japanese font", present, &["fontconfig", "fonts-vlgothic"]) {
        return Ok(());
    }
    Err("there is no font for Japanese, and the start page would be shown without\n  \
         try: install one (Debian: `apt-get install fontconfig fonts-vlgothic` as root)"
        .to_owned())
}

/// What Debian calls it.
pub(crate) const CHROMIUM: &str = "chromium";

fn is_available(name: &str) -> bool {
    process::succeeds(process::program(name, ["--version"]))
}

/// Whether something is there, if need be after Debian's `packages` were installed by root.
fn ensure_installed(what: &str, present: impl Fn() -> bool, packages: &[&str]) -> bool {
    if present() {
        return true;
    }
    if packages.is_empty() || !is_root() || !is_available("apt-get") {
        return false;
    }
    println!("no {what}; installing {}", packages.join(", "));
    // Stale package lists may still do: whether it runs now is what counts.
    let _ = process::run_with_timeout(INSTALL_TIMEOUT, apt_get(["update"]));
    let _ = process::run_with_timeout(
        INSTALL_TIMEOUT,
        apt_get(["install", "--yes"].iter().chain(packages).copied()),
    );
    present()
}

fn ensure_component(name: &str, subcommand: &str) -> Result<(), String> {
    let present = || process::succeeds(process::cargo([subcommand, "--version"]));
    if present() {
        return Ok(());
    }
    println!("no {name}; asking rustup for it");
    let added = process::run_or_fail(process::program("rustup", ["component", "add", name]), "");
    if added.is_ok() && present() {
        return Ok(());
    }
    Err(format!(
        "{name} is missing and rustup could not add it\n  \
         try: `rustup component add {name}`, or install it from where the toolchain came from"
    ))
}

fn apt_get<'a>(args: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = process::program("apt-get", args);
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command
}

/// For a download over a slow line.
const INSTALL_TIMEOUT: Duration = Duration::from_secs(600);

fn is_root() -> bool {
    process::output(process::program("id", ["-u"]), "").is_ok_and(|id| id.trim() == "0")
}
