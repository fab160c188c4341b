//! `cargo xtask bench`: what a server costs that no load can show. How many crates it brings, how long they take to build,
//! and whether a call costs more where there are many tools or many sessions.
//!
//! Each figure has a goal, and one that is missed fails the command. Nothing here is a matter of the clock but the CPU time
//! of the build, so it may run beside other things.

mod flat;

use std::fs;
use std::path::Path;

use crate::{binary, run};

pub(crate) fn measure() -> Result<(), String> {
    let folder = run::target_folder()?.join("bench");
    run::make_folder(&folder)?;
    let mut figures = vec![
        Figure::at_most("crates of a stdio server", crates("macros")?, 42.0, ""),
        Figure::at_most(
            "crates of client, server, HTTP and TLS",
            crates("macros,client,http,tls")?,
            95.0,
            "",
        ),
        Figure::at_most("clean release build of a server with one tool", build(&folder)?, 90.0, " s of CPU"),
    ];
    figures.extend(flat::figures(&binary::bench_server(&folder)?, &folder)?);
    println!("\n{}", table(&figures));
    println!(
        "Allocations are counted by tests: `cargo nextest run --all-features -E 'binary(/allocations/)'`."
    );
    match figures.iter().filter(|figure| !figure.is_reached()).count() {
        0 => Ok(()),
        missed => Err(format!("{missed} of {} goals missed", figures.len())),
    }
}

/// Something that was measured, and what it may be.
struct Figure {
    what: String,
    figure: f64,
    most: f64,
    unit: &'static str,
}

impl Figure {
    fn at_most(what: impl Into<String>, figure: f64, most: f64, unit: &'static str) -> Self {
        Self { what: what.into(), figure, most, unit }
    }

    fn is_reached(&self) -> bool {
        self.figure <= self.most
    }
}

fn table(figures: &[Figure]) -> String {
    let mut text = "| what | figure | goal | |\n|---|---:|---:|---|\n".to_owned();
    for figure in figures {
        let Figure { what, figure: is, most, unit } = figure;
        let reached = if figure.is_reached() { "reached" } else { "missed" };
        let is = if is.fract() == 0.0 { is.to_string() } else { format!("{is:.2}") };
        text.push_str(&format!("| {what} | {is}{unit} | {most}{unit} | {reached} |\n"));
    }
    text
}

/// How many crates these features need, ours among them.
fn crates(features: &str) -> Result<f64, String> {
    let options = ["tree", "--locked", "-p", "tsugite", "-e", "normal", "--prefix", "none"];
    let tree = run::cargo(options.into_iter().chain(["--no-default-features", "--features", features]));
    Ok(count_crates(&run::output(tree, "try: cargo tree -p tsugite")?) as f64)
}

fn count_crates(tree: &str) -> usize {
    let mut crates: Vec<_> = tree.lines().filter(|line| !line.is_empty() && !line.ends_with("(*)")).collect();
    crates.sort_unstable();
    crates.dedup();
    crates.len()
}

/// The CPU seconds that cargo and its children take to build a server from nothing.
fn build(folder: &Path) -> Result<f64, String> {
    let package = folder.join("one-tool");
    let target = package.join("target");
    let _ = fs::remove_dir_all(&target);
    run::make_folder(&package.join("src"))?;
    let root = run::root();
    let write = |name: &str, text: &str| {
        fs::write(package.join(name), text).map_err(|error| format!("{name} cannot be written: {error}"))
    };
    write("Cargo.toml", &MANIFEST.replace("{tsugite}", &root.join("crates/tsugite").display().to_string()))?;
    write("src/main.rs", SERVER)?;
    // The same versions as everywhere else.
    fs::copy(root.join("Cargo.lock"), package.join("Cargo.lock"))
        .map_err(|error| format!("Cargo.lock cannot be copied: {error}"))?;
    let fetch = run::cargo(["fetch"]);
    let build = run::cargo(["build", "--release", "--offline"]);
    let mut before = 0.0;
    for mut command in [fetch, build] {
        before = spent_by_children()?;
        command.current_dir(&package).env("CARGO_TARGET_DIR", &target);
        run::must(command, "try: mend what is said above")?;
    }
    let spent = spent_by_children()? - before;
    let _ = fs::remove_dir_all(&target);
    Ok(spent.round())
}

/// The CPU seconds of all children that have ended, and of theirs.
fn spent_by_children() -> Result<f64, String> {
    let stat = fs::read_to_string("/proc/self/stat")
        .map_err(|error| format!("the time that was spent is not known here: {error}"))?;
    read_spent(&stat).ok_or_else(|| format!("/proc/self/stat says {stat:?}"))
}

/// After the name, which may hold anything, `cutime` and `cstime` are the fourteenth and the fifteenth.
fn read_spent(stat: &str) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut times = rest.split_whitespace().skip(13);
    let mut next = || times.next()?.parse::<f64>().ok();
    Some((next()? + next()?) / TICKS)
}

/// How many make a second, wherever Linux runs.
const TICKS: f64 = 100.0;

const MANIFEST: &str = r#"[package]
name = "one-tool"
version = "0.0.0"
edition = "2024"

[dependencies]
tsugite = { path = "{tsugite}", default-features = false, features = ["macros", "http"] }
tokio = { version = "1", features = ["macros", "rt"] }

[workspace]
"#;

const SERVER: &str = r#"use tsugite::prelude::*;

/// Adds two numbers.
#[tool]
async fn add(a: i64, b: i64) -> i64 {
    a + b
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> tsugite::Result<()> {
    let server = Server::new("one", "1.0.0").tool(add);
    match std::env::args().nth(1) {
        Some(address) => server.serve_http(address).await,
        None => server.serve_stdio().await,
    }
}
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_are_counted_once() {
        assert_eq!(
            count_crates("tsugite v1 (/here)\nbytes v1.2.3\nhttp v1\nbytes v1.2.3 (*)\nbytes v1.2.3\n\n"),
            3
        );
    }

    #[test]
    fn the_time_of_children_stands_behind_any_name() {
        let stat = "7 (x) y (z)) S 1 7 7 0 -1 4 1 2 3 4 50 60 1234 66 20 0 1 0 9";
        assert_eq!(read_spent(stat), Some(13.0));
        assert_eq!(read_spent("7 (x) S 1"), None);
    }

    #[test]
    fn a_goal_that_is_missed_is_told() {
        let figures = [Figure::at_most("a", 42.0, 42.0, ""), Figure::at_most("b", 5.126, 5.0, " %")];
        let table = table(&figures);
        assert!(table.contains("| a | 42 | 42 | reached |"), "{table}");
        assert!(table.contains("| b | 5.13 % | 5 % | missed |"), "{table}");
    }
}
