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
mod python;
mod run;
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
        ["test"] => test::all(),
        ["fuzz", ref rest @ ..] => match fuzz::Plan::by_hand(rest) {
            Ok(plan) => outcome(plan.run()),
            Err(mistake) => misused(&mistake),
        },
        ["conformance", ref rest @ ..] => match conformance::Plan::by_hand(rest) {
            Ok(plan) => outcome(plan.run(&mut Count::default())),
            Err(mistake) => misused(&mistake),
        },
        ["peers"] => outcome(peers::run(&mut Count::default())),
        ["peers", "clients"] => outcome(peers::clients::run(None, &mut Count::default())),
        ["peers", "clients", "--url", url] => outcome(peers::clients::run(Some(url), &mut Count::default())),
        ["peers", "servers"] => outcome(peers::servers::run(None, &mut Count::default())),
        ["peers", "servers", "--driver", program] => {
            outcome(peers::servers::run(Some(program), &mut Count::default()))
        }
        ["page"] => outcome(page::run(&mut Count::default())),
        ["peers", "binary"] => outcome(peers::binary::run(&mut Count::default())),
        ["pictures"] => outcome(pictures::make()),
        ["bench"] => outcome(bench::measure()),
        ["msrv"] => outcome(msrv::check()),
        _ => misused(&format!("there is no command `{}`", args.join(" "))),
    }
}

fn outcome(result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn misused(mistake: &str) -> ExitCode {
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
