//! `cargo xtask test`: all checks that must pass before a change is accepted; those that find mistakes fastest
//! come first.
//!
//! The last line on standard output is always `N passed, M failed`.

use std::process::ExitCode;
use std::time::Instant;

use crate::count::Count;
use crate::{
    chaos, conformance, fuzz, logins as peer_logins, msrv, own_login, package, page, peers, platforms,
    process, protected, setup,
};

type Step = fn(&mut Count) -> Result<(), String>;

const STEPS: [(&str, Step); 19] = [
    ("set-up", |_| setup::check()),
    ("rust-version", |_| msrv::check()),
    ("format", |_| format()),
    ("clippy", |_| clippy()),
    ("tests", tests),
    ("doc tests", doc_tests),
    ("without features", without_features),
    ("default features", default_features),
    ("docs", |_| docs()),
    ("platforms", |_| platforms::check_if_possible()),
    ("start page", page::run),
    ("packages", package::run),
    ("conformance", conformance::run_all),
    ("peers", peers::run),
    ("replicas", replicas),
    ("chaos", |count| chaos::ChaosPlan::short().run(count)),
    ("logins", logins),
    ("protected", protected::run),
    ("fuzz", |_| fuzz::FuzzPlan::smoke()?.run()),
];

pub(crate) fn run_all() -> ExitCode {
    let mut count = Count::default();
    let mut exit = ExitCode::SUCCESS;
    for (name, step) in STEPS {
        println!("== {name}");
        let start = Instant::now();
        let failed_before = count.failed;
        let result = step(&mut count);
        println!("   {name}: {:.1} s", start.elapsed().as_secs_f64());
        if let Err(failure) = result {
            // The last line must show a failure, even if it was not a test.
            if count.failed == failed_before {
                count.failed += 1;
            }
            eprintln!("error: step `{name}` failed: {failure}");
            exit = ExitCode::FAILURE;
            break;
        }
    }
    println!("{count}");
    exit
}

/// The official suite and the clients of other projects, against three replicas behind nginx.
pub(crate) fn replicas(count: &mut Count) -> Result<(), String> {
    conformance::ConformancePlan::with_replicas().run(count)?;
    peers::clients::run(peers::clients::Target::OurReplicas, count)
}

/// Logins of `tsugite` at servers of other projects, and of their clients at ours.
pub(crate) fn logins(count: &mut Count) -> Result<(), String> {
    peer_logins::run(count)?;
    own_login::run(count)
}

fn format() -> Result<(), String> {
    process::run_or_fail(process::cargo(["fmt", "--all", "--check"]), "`cargo fmt --all`")?;
    // Separate workspaces, which `--all` does not cover.
    for manifest in ["bench/Cargo.toml", "fuzz/Cargo.toml"] {
        let fmt = ["fmt", "--manifest-path", manifest];
        process::run_or_fail(
            process::cargo(fmt.into_iter().chain(["--check"])),
            &format!("`cargo {}`", fmt.join(" ")),
        )?;
    }
    Ok(())
}

fn clippy() -> Result<(), String> {
    let args =
        ["clippy", "--workspace", "--all-targets", "--all-features", "--locked", "--", "-D", "warnings"];
    let remedy = "fix the warnings above; `cargo clippy --fix` can fix some of them";
    process::run_or_fail(process::cargo(args), remedy)?;
    // Code that is unused with a single feature, or without the authorization server.
    let parts = ["", "macros", "http", "client"].map(|features| ("tsugite", features));
    parts.into_iter().chain([("tsugite-auth", "client")]).try_for_each(|(package, features)| {
        let part = ["clippy", "-p", package, "--no-default-features", "--features", features, "--locked"];
        process::run_or_fail(process::cargo(part.into_iter().chain(["--", "-D", "warnings"])), remedy)
    })
}

fn tests(count: &mut Count) -> Result<(), String> {
    let everything = ["--workspace", "--all-features", "--locked", "--no-fail-fast"];
    let found = if process::succeeds(process::cargo(["nextest", "--version"])) {
        let command = process::cargo(["nextest", "run"].into_iter().chain(everything));
        record_results(process::run_and_capture(command)?, Count::from_nextest, count)?
    } else {
        println!("no cargo-nextest; using cargo test, which is slower");
        // With `--examples`, the next step builds them as test programs, and tests start one of them.
        let examples = ["build", "--workspace", "--all-features", "--locked", "--examples"];
        process::run_or_fail(process::cargo(examples), "fix the errors above")?;
        let kinds = ["--lib", "--bins", "--tests", "--examples"];
        let command = process::cargo(["test"].into_iter().chain(everything).chain(kinds));
        let found = record_results(process::run_and_capture(command)?, Count::from_libtest, count)?;
        print_ledger_counts()?;
        found
    };
    if found == Count::default() {
        return Err("no test ran, or the summary of the runner has an unknown format\n  \
                    try: look at what it said above, and at xtask/src/count.rs"
            .to_owned());
    }
    Ok(())
}

/// Prints the counts of proven requirements and attacks, which `cargo test` does not show when their tests pass. With
/// nextest, `.config/nextest.toml` does it.
fn print_ledger_counts() -> Result<(), String> {
    let tidy = ["test", "--package", "tsugite-testkit", "--all-features", "--locked", "--test", "tidy"];
    let command = process::cargo(tidy.into_iter().chain(["counted_in_the_documents", "--", "--nocapture"]));
    process::run_or_fail(command, "correct the counts in the documents that are named above")
}

fn doc_tests(count: &mut Count) -> Result<(), String> {
    let command = process::cargo(["test", "--workspace", "--all-features", "--locked", "--doc"]);
    record_results(process::run_and_capture(command)?, Count::from_libtest, count).map(drop)
}

/// Tests without features: some code is compiled only then.
fn without_features(count: &mut Count) -> Result<(), String> {
    let command = process::cargo(["test", "-p", "tsugite", "--no-default-features", "--locked", "--lib"]);
    record_results(process::run_and_capture(command)?, Count::from_libtest, count).map(drop)
}

/// Tests with the default features, which most users build: without HTTP/2, unlike all features together.
fn default_features(count: &mut Count) -> Result<(), String> {
    let command = process::cargo(["test", "-p", "tsugite-testkit", "--locked", "--test", "http"]);
    record_results(process::run_and_capture(command)?, Count::from_libtest, count).map(drop)
}

fn docs() -> Result<(), String> {
    let mut command = process::cargo(["doc", "--workspace", "--all-features", "--locked", "--no-deps"]);
    command.env("RUSTDOCFLAGS", "-D warnings");
    let remedy = "fix the documentation comments named above";
    process::run_or_fail(command, remedy)?;
    // As a user builds them, with the default features.
    let mut command = process::cargo(["doc", "--package", "tsugite", "--locked", "--no-deps"]);
    command.env("RUSTDOCFLAGS", "-D warnings");
    process::run_or_fail(command, remedy)
}

/// Adds the count of a runner to the total and checks it. A test that is not run proves nothing, so a
/// skipped one is a failure, too.
fn record_results(
    (success, said): (bool, String),
    read: fn(&str) -> Count,
    whole: &mut Count,
) -> Result<Count, String> {
    let found = read(&said);
    *whole += found;
    if found.failed > 0 {
        return Err(format!(
            "{} failed\n  try: run one alone with `cargo test --all-features NAME`",
            pluralize_tests(found.failed)
        ));
    }
    if !success {
        return Err(
            "the tests did not build, there are none, or the runner was interrupted\n  try: see above"
                .to_owned(),
        );
    }
    if found.skipped > 0 {
        return Err(format!(
            "{} ignored or skipped\n  try: remove the `ignore` and make it pass, or delete it",
            pluralize_tests(found.skipped)
        ));
    }
    Ok(found)
}

fn pluralize_tests(number: u64) -> String {
    if number == 1 { "1 test".to_owned() } else { format!("{number} tests") }
}
