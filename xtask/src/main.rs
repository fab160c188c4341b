//! The chores of this repository: `cargo xtask <command>`.
//!
//! A fresh machine with a Rust toolchain needs nothing else: `cargo xtask test` adds what is missing, and a
//! contributor and CI run the same thing.

mod base64;
mod bench;
mod binary;
mod browser;
mod conformance;
mod count;
mod fuzz;
mod msrv;
mod node;
mod page;
mod peers;
mod pictures;
mod process;
mod python;
mod server;
mod setup;
mod test;

use std::env;
use std::process::ExitCode;

use count::Count;

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    if args.is_empty() || args.iter().any(|arg| matches!(*arg, "--help" | "-h" | "help")) {
        print!("{COMMANDS}");
        return ExitCode::SUCCESS;
    }
    match *args {
        ["test"] => test::run_all(),
        ["fuzz", ref rest @ ..] => match fuzz::FuzzPlan::from_args(rest) {
            Ok(plan) => exit_code(plan.run()),
            Err(mistake) => usage_error(&mistake),
        },
        ["conformance", ref rest @ ..] => match conformance::ConformancePlan::from_args(rest) {
            Ok(plan) => exit_code(plan.run(&mut Count::default())),
            Err(mistake) => usage_error(&mistake),
        },
        ["peers"] => exit_code(peers::run(&mut Count::default())),
        ["peers", "clients"] => exit_code(peers::clients::run(None, &mut Count::default())),
        ["peers", "clients", "--url", url] => {
            exit_code(peers::clients::run(Some(url), &mut Count::default()))
        }
        ["peers", "servers"] => exit_code(peers::servers::run(None, &mut Count::default())),
        ["peers", "servers", "--driver", program] => {
            exit_code(peers::servers::run(Some(program), &mut Count::default()))
        }
        ["page"] => exit_code(page::run(&mut Count::default())),
        ["peers", "binary"] => exit_code(peers::cli::run(&mut Count::default())),
        ["pictures"] => exit_code(pictures::make()),
        ["bench"] => exit_code(bench::measure()),
        ["msrv"] => exit_code(msrv::check()),
        _ => usage_error(&format!("there is no command `{}`", args.join(" "))),
    }
}

fn exit_code(result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn usage_error(mistake: &str) -> ExitCode {
    eprint!("error: {mistake}\n\n{COMMANDS}");
    ExitCode::from(2)
}

const COMMANDS: &str = "\
cargo xtask <command>

  test                           set up, check and test everything; the last line is the count
  fuzz [TARGET] [--seconds N]    fuzz one target, or each in turn, for 60 s unless told
  conformance server [--url URL] [SET...]
                                 the official suite against our server, or against one that runs already;
                                 sets are 2025-11-25, 2026-07-28 and all, and all three unless told
  conformance client [SET...]    the official suite against our client; both revisions unless told
  peers                          clients and servers of other projects against ours: all of the following
  peers clients [--url URL]      their clients against our server, or against one that runs already
  peers servers [--driver PROGRAM]
                                 their servers against our client, or against another that is driven alike
  peers binary                   both against the binary `tsugite`: its demo server, its verbs, its bridge
  page                           the start page of `tsugite serve`, looked at in a browser
  pictures                       make the pictures of the README anew
  bench                          what a server costs that no load can show: crates, build, many tools and sessions
  msrv                           check that rust-version is what the dependencies ask for
";
