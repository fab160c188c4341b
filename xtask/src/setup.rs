//! Checks that the required tools are installed, and installs missing ones where possible.

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
    browser()?;
    keychain()?;
    redis()?;
    nginx()
}

/// Checks for a C++ compiler: the fuzz targets are linked with libFuzzer, which is built from source.
pub(crate) fn cxx_compiler() -> Result<(), String> {
    // The same choice that the `cc` crate makes.
    let chosen = env::var("CXX").unwrap_or_default();
    let chosen = chosen.split_whitespace().next();
    let name = chosen.unwrap_or("c++");
    // If CXX names a compiler that does not run, installing g++ would not help.
    let packages: &[&str] = if chosen.is_none() { &["g++"] } else { &[] };
    if ensure_installed("C++ compiler", || is_available(name), packages) {
        return Ok(());
    }
    Err(format!(
        "no C++ compiler: `{name} --version` does not run, and the fuzz targets need one\n  \
         try: install g++ (Debian: `apt-get install g++` as root), or let CXX name a compiler"
    ))
}

/// Checks for a C compiler for musl: the static binaries of a release contain C.
pub(crate) fn musl_compiler() -> Result<(), String> {
    if ensure_installed("C compiler for musl", || is_available(MUSL_COMPILER), &["musl-tools"]) {
        return Ok(());
    }
    Err(format!(
        "no C compiler for musl: `{MUSL_COMPILER} --version` does not run, and a static binary needs it\n  \
         try: install it (Debian: `apt-get install musl-tools` as root)"
    ))
}

/// The name of the program on Debian.
pub(crate) const MUSL_COMPILER: &str = "musl-gcc";

/// Checks for tmux: the tests of the binary use it as a terminal.
pub(crate) fn tmux() -> Result<(), String> {
    // It has no `--version`.
    let present = || process::succeeds(process::program("tmux", ["-V"]));
    if ensure_installed("tmux", present, &["tmux"]) {
        return Ok(());
    }
    Err("no tmux, which the terminal tests of the binary need\n  \
         try: install tmux (Debian: `apt-get install tmux` as root)"
        .to_owned())
}

/// Checks for npm: the conformance suite and some peers are npm packages.
pub(crate) fn npm() -> Result<(), String> {
    if ensure_installed("npm", || process::succeeds(process::npm(["--version"])), &["nodejs", "npm"]) {
        return Ok(());
    }
    Err("no npm, which installs the conformance suite and other clients\n  \
         try: install Node 22 or newer with npm (Debian: `apt-get install nodejs npm` as root; an older Node will \
         do to install a newer one)"
        .to_owned())
}

/// Checks for Python: one of the peers is a Python package.
pub(crate) fn python() -> Result<(), String> {
    // Debian has virtual environments in a separate package.
    let test = "import ensurepip, sys; sys.exit(sys.version_info < (3, 11))";
    let present = || process::succeeds(process::program("python3", ["-c", test]));
    if ensure_installed("Python", present, &["python3-venv"]) {
        return Ok(());
    }
    Err("no python3 of version 3.11 or newer with virtual environments\n  \
         try: install one with pip and venv (Debian: `apt-get install python3-venv` as root)"
        .to_owned())
}

/// Checks for Chromium: the start page of the binary is tested in it.
pub(crate) fn browser() -> Result<(), String> {
    if ensure_installed("Chromium", || is_available(CHROMIUM), &["chromium"]) {
        return Ok(());
    }
    Err(format!(
        "no Chromium: `{CHROMIUM} --version` does not run, and the start page is tested in it\n  \
         try: install it (Debian: `apt-get install chromium` as root)"
    ))
}

/// Checks for the keychain of GNOME: the store of credentials is tested with it.
fn keychain() -> Result<(), String> {
    let present = || is_available("gnome-keyring-daemon") && is_available("dbus-run-session");
    if ensure_installed("keychain", present, &["dbus", "gnome-keyring"]) {
        return Ok(());
    }
    Err("no keychain, which the store of credentials is tested with\n  \
         try: install dbus and gnome-keyring (Debian: `apt-get install dbus gnome-keyring` as root)"
        .to_owned())
}

/// Checks for Redis: the tests of its store start servers of their own.
pub(crate) fn redis() -> Result<(), String> {
    server_program("redis-server", "TSUGITE_REDIS_SERVER", "--version")
}

/// Checks for nginx: the tests of several replicas start one in front of them.
pub(crate) fn nginx() -> Result<(), String> {
    server_program("nginx", "TSUGITE_NGINX", "-v")
}

/// Checks for a server that tests start. Debian's package has the name of the program, and may start a service, which is
/// not needed.
fn server_program(package: &str, variable: &str, version_option: &str) -> Result<(), String> {
    let chosen = env::var(variable).ok();
    let name = chosen.as_deref().unwrap_or(package);
    let present = || process::succeeds(process::program(name, [version_option]));
    if present() {
        return Ok(());
    }
    let packages: &[&str] = if chosen.is_none() { &[package] } else { &[] };
    if ensure_installed(package, present, packages) {
        let _ = process::succeeds(process::program("systemctl", ["disable", "--now", package]));
        return Ok(());
    }
    Err(format!(
        "no {package}: `{name} {version_option}` does not run, and tests start it\n  \
         try: install it (Debian: `apt-get install {package}` as root), or let {variable} name the program"
    ))
}

/// Checks for a Japanese font: the start page shows the name of this project in Japanese.
pub(crate) fn japanese_font() -> Result<(), String> {
    let present = || {
        process::output(process::program("fc-list", [":lang=ja"]), "").is_ok_and(|fonts| !fonts.is_empty())
    };
    if ensure_installed("Japanese font", present, &["fontconfig", "fonts-vlgothic"]) {
        return Ok(());
    }
    Err("no Japanese font, which the start page needs\n  \
         try: install one (Debian: `apt-get install fontconfig fonts-vlgothic` as root)"
        .to_owned())
}

/// The name of the program on Debian.
pub(crate) const CHROMIUM: &str = "chromium";

fn is_available(name: &str) -> bool {
    process::succeeds(process::program(name, ["--version"]))
}

/// Whether a tool is present, if necessary after installing Debian's `packages` as root.
fn ensure_installed(what: &str, present: impl Fn() -> bool, packages: &[&str]) -> bool {
    if present() {
        return true;
    }
    if packages.is_empty() || !is_root() || !is_available("apt-get") {
        return false;
    }
    println!("no {what}; installing {}", packages.join(", "));
    // Stale package lists may be enough: only the presence check counts.
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
    println!("no {name}; installing it with rustup");
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

/// The time limit of a download over a slow line.
const INSTALL_TIMEOUT: Duration = Duration::from_secs(600);

fn is_root() -> bool {
    process::output(process::program("id", ["-u"]), "").is_ok_and(|id| id.trim() == "0")
}
