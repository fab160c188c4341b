//! `cargo xtask bench`: costs of a server that a load test cannot show. The number of its crates, their build time,
//! and whether a call costs more with many tools or many sessions.
//!
//! Each figure has a goal, and a missed goal fails the command. Only the CPU time of the build depends on the machine,
//! so it may run beside other programs.

pub(crate) mod cold_start;
mod scaling;

use std::fs;
use std::path::Path;

use crate::{binary, process};

pub(crate) fn measure() -> Result<(), String> {
    let folder = process::target_dir()?.join("bench");
    process::create_dir(&folder)?;
    let mut figures = vec![
        Measurement::at_most("crates of a stdio server", crate_count("macros")?, 44.0, ""),
        Measurement::at_most(
            "crates of client, server, HTTP and TLS",
            crate_count("macros,client,http,tls")?,
            95.0,
            "",
        ),
        Measurement::at_most(
            "clean release build of a server with one tool",
            build_cpu_seconds(&folder)?,
            90.0,
            " s of CPU",
        ),
    ];
    figures.extend(scaling::measure(&binary::bench_server(&folder)?, &folder)?);
    println!("\n{}", table(&figures));
    println!(
        "Allocations are counted by tests: `cargo nextest run --all-features -E 'binary(/allocations/)'`."
    );
    match figures.iter().filter(|figure| !figure.is_within_limit()).count() {
        0 => Ok(()),
        missed => Err(format!("{missed} of {} goals missed", figures.len())),
    }
}

/// A measured value and its limit.
struct Measurement {
    name: String,
    value: f64,
    max: f64,
    unit: &'static str,
}

impl Measurement {
    fn at_most(what: impl Into<String>, value: f64, max: f64, unit: &'static str) -> Self {
        Self { name: what.into(), value, max, unit }
    }

    fn is_within_limit(&self) -> bool {
        self.value <= self.max
    }
}

fn table(figures: &[Measurement]) -> String {
    let mut text = "| measurement | value | goal | |\n|---|---:|---:|---|\n".to_owned();
    for figure in figures {
        let Measurement { name: what, value: is, max: most, unit } = figure;
        let reached = if figure.is_within_limit() { "reached" } else { "missed" };
        let is = if is.fract() == 0.0 { is.to_string() } else { format!("{is:.2}") };
        text.push_str(&format!("| {what} | {is}{unit} | {most}{unit} | {reached} |\n"));
    }
    text
}

/// The number of crates that these features need, including ours.
fn crate_count(features: &str) -> Result<f64, String> {
    let options = ["tree", "--locked", "-p", "tsugite", "-e", "normal", "--prefix", "none"];
    let tree = process::cargo(options.into_iter().chain(["--no-default-features", "--features", features]));
    Ok(count_tree_lines(&process::output(tree, "run `cargo tree -p tsugite`")?) as f64)
}

fn count_tree_lines(tree: &str) -> usize {
    let mut crates: Vec<_> = tree.lines().filter(|line| !line.is_empty() && !line.ends_with("(*)")).collect();
    crates.sort_unstable();
    crates.dedup();
    crates.len()
}

/// The CPU seconds that cargo and its children take for a clean build of a server.
fn build_cpu_seconds(folder: &Path) -> Result<f64, String> {
    let package = folder.join("one-tool");
    let target = package.join("target");
    let _ = fs::remove_dir_all(&target);
    process::create_dir(&package.join("src"))?;
    let root = process::root();
    let write = |name: &str, text: &str| {
        fs::write(package.join(name), text).map_err(|error| format!("cannot write {name}: {error}"))
    };
    write("Cargo.toml", &MANIFEST.replace("{tsugite}", &root.join("crates/tsugite").display().to_string()))?;
    write("src/main.rs", SERVER)?;
    // The same versions as in the workspace.
    fs::copy(root.join("Cargo.lock"), package.join("Cargo.lock"))
        .map_err(|error| format!("cannot copy Cargo.lock: {error}"))?;
    let fetch = process::cargo(["fetch"]);
    let build = process::cargo(["build", "--release", "--offline"]);
    let mut before = 0.0;
    for mut command in [fetch, build] {
        before = children_cpu_seconds()?;
        command.current_dir(&package).env("CARGO_TARGET_DIR", &target);
        process::run_or_fail(command, "fix the errors above")?;
    }
    let spent = children_cpu_seconds()? - before;
    let _ = fs::remove_dir_all(&target);
    Ok(spent.round())
}

/// The CPU seconds of all children that have exited, and of their children.
fn children_cpu_seconds() -> Result<f64, String> {
    let stat = fs::read_to_string("/proc/self/stat")
        .map_err(|error| format!("cannot read the CPU time from /proc/self/stat: {error}"))?;
    parse_cpu_seconds(&stat).ok_or_else(|| format!("cannot parse /proc/self/stat: {stat:?}"))
}

/// Parses `cutime` and `cstime`, the fourteenth and fifteenth fields after the name, which may contain anything.
fn parse_cpu_seconds(stat: &str) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut times = rest.split_whitespace().skip(13);
    let mut next = || times.next()?.parse::<f64>().ok();
    Some((next()? + next()?) / TICKS_PER_SECOND)
}

/// Clock ticks per second on Linux.
const TICKS_PER_SECOND: f64 = 100.0;

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
            count_tree_lines("tsugite v1 (/here)\nbytes v1.2.3\nhttp v1\nbytes v1.2.3 (*)\nbytes v1.2.3\n\n"),
            3
        );
    }

    #[test]
    fn cpu_time_is_parsed_after_any_process_name() {
        let stat = "7 (x) y (z)) S 1 7 7 0 -1 4 1 2 3 4 50 60 1234 66 20 0 1 0 9";
        assert_eq!(parse_cpu_seconds(stat), Some(13.0));
        assert_eq!(parse_cpu_seconds("7 (x) S 1"), None);
    }

    #[test]
    fn missed_goal_is_reported() {
        let figures =
            [Measurement::at_most("a", 42.0, 42.0, ""), Measurement::at_most("b", 5.126, 5.0, " %")];
        let table = table(&figures);
        assert!(table.contains("| a | 42 | 42 | reached |"), "{table}");
        assert!(table.contains("| b | 5.13 % | 5 % | missed |"), "{table}");
    }
}
