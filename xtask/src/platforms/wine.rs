//! Tests that run as Windows programs under wine.

use std::time::Duration;

use super::check::TOOLCHAIN_TIMEOUT;
use super::toolchain::{Part, Toolchain};
use crate::count::Count;
use crate::process;

const TARGET: &str = "x86_64-pc-windows-gnu";

/// The packages whose unit tests run. They are built together, so that each is built once.
const PACKAGES: [&str; 7] =
    ["tsugite-core", "tsugite", "tsugite-store", "tsugite-auth", "tsugite-testkit", "tsugite-cli", "notes"];

/// The other test programs of these packages that run.
const TESTS: [&str; 18] = [
    "jsonrpc",
    "wire",
    "translate_raw",
    "macros",
    "http_tls",
    "memory",
    "file",
    "wycheproof",
    "server",
    "stdio",
    "client",
    "http",
    "bridge",
    "auth",
    "examples",
    "cli",
    "in_process",
    "programs",
];

/// Tests that are compiled for Windows and skipped under wine, by a part of their name, and why.
const SKIPPED: [(&str, &str); 2] = [
    ("faults::load::", "thousands of sockets, which take wine minutes"),
    ("unread_notifications_do_not_grow_memory", "measures with /proc"),
];

/// Tests that are not compiled for Windows, and why.
const UNIX_ONLY: [(&str, &str); 8] = [
    (
        "tsugite: transport::child::unix, server::files::tests::unix",
        "process groups, signals, links and modes of Unix, /proc",
    ),
    ("testkit server: features::behaviour::directory_resource_follows_no_link_out_of_it", "links of Unix"),
    (
        "testkit client: faults::{closed_pipes, process_tree}, streams::calls_work_over_unix_sockets",
        "process groups and signals of Unix, /proc, pipes that safe code cannot close, Unix sockets",
    ),
    ("testkit stdio: unix", "signals and sockets in place of pipes"),
    (
        "testkit http: unix_sockets, attacks::shares::{process_with_few_file_descriptors_serves_other_callers, \
         memory_of_a_thousand_slow_and_dead_peers_is_bounded}, faults::shutdown::second_signal_ends_the_server_at_once",
        "Unix sockets, limits of Unix on file descriptors, /proc, signals",
    ),
    ("testkit auth: private_files; auth: store::keyring", "modes and links of Unix, the keychain of GNOME"),
    (
        "cli: config::unix, installing::unix, steps of snapshots, edit::save::tests, shell::history::tests, \
         state::unix, terminal, logins::terminal, dev::unix, bridging::ctrl_c_ends_a_bridge_with_a_stubborn_server, \
         listening::interrupt_ends_listen_and_leaves_no_child, \
         many::{hanging_server_delays_neither_start_nor_shutdown, serve_leaves_no_child}, \
         secrets::trace_file_is_for_its_owner_alone, \
         serving::{signal_shuts_down_gracefully, unix_socket_is_served_and_called}, \
         shell::{interrupt_does_not_wait_for_a_stubborn_server, signal_ends_the_shell_and_its_server}, \
         tasks::signal_without_a_terminal_cancels_no_task, trust::link_to_a_file_elsewhere_needs_consent, \
         users::readable_file_of_users_is_refused",
        "modes of files, links, bash, groff, tmux, signals (Ctrl-C cannot be sent in safe code), Unix sockets, Redis",
    ),
    (
        "store: file::opening::new_file_is_private; redis; single tests of auth with Redis; \
         notes: programs::sigterm_stops_the_server",
        "modes and signals of Unix, a Redis server",
    ),
];

/// Test programs that are compiled for Windows and do not run, and why.
const NOT_RUN: [(&str, &str); 2] = [
    (
        "testkit: replicas, tidy",
        "they start nginx and a Redis server, or look at the tree and not at programs",
    ),
    (
        "core: allocations; tsugite: allocations, bridge_allocations, http_allocations, ui",
        "they count allocations and compile errors, which are the same on every system",
    ),
];

/// Runs the tests, and prints which are left out.
pub(super) fn run(count: &mut Count) -> Result<(), String> {
    let toolchain = Toolchain::make(&[Part::Check, Part::Wine], TOOLCHAIN_TIMEOUT)?;
    for (name, reason) in UNIX_ONLY.iter().chain(&NOT_RUN).chain(&SKIPPED) {
        println!("   left out: {name}: {reason}");
    }
    // The tests of the binary start this example. `cargo test --example` would build it as a test program.
    let packages = PACKAGES.iter().flat_map(|name| ["--package", name]);
    let options = ["--all-features", "--locked", "--target", TARGET].into_iter().chain(packages);
    let build = process::cargo(["build"].into_iter().chain(options.clone()).chain(["--example", "helper"]));
    process::run_or_fail(toolchain.prepare(build), "fix the errors above")?;
    let kinds = ["--no-fail-fast", "--lib", "--bins"];
    let mut command = toolchain.prepare(process::cargo(["test"].into_iter().chain(options).chain(kinds)));
    command.args(TESTS.iter().flat_map(|name| ["--test", name]));
    // Few threads: wine has one server for all of them.
    command.args(["--", "--test-threads", "2"]);
    command.args(SKIPPED.iter().flat_map(|(name, _)| ["--skip", name]));
    let (success, said) = process::run_and_capture_with_timeout(TIMEOUT, command)?;
    let found = Count::from_libtest(&said);
    // The skipped ones were printed above.
    *count += Count { skipped: 0, ..found };
    match (found.failed, success) {
        (0, true) => Ok(()),
        (0, false) => Err("the tests did not build, or a test program ended early; see above".to_owned()),
        (failed, _) => Err(format!("{failed} tests failed under wine")),
    }
}

/// How long it may take to build and run them.
const TIMEOUT: Duration = Duration::from_secs(5400);
