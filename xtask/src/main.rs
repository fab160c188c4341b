//! Development tasks of this repository: `cargo xtask <command>`.
//!
//! A fresh machine with a Rust toolchain needs nothing else: `cargo xtask test` installs missing tools, and a
//! contributor and CI run the same commands.

mod base64;
mod bench;
mod binary;
mod browser;
mod chaos;
mod conformance;
mod count;
mod fuzz;
mod logins;
mod msrv;
mod native;
mod node;
mod own_login;
mod package;
mod page;
mod peers;
mod pictures;
mod platforms;
mod process;
mod process_group;
mod protected;
mod python;
mod server;
mod setup;
mod test;

use std::env;
use std::process::ExitCode;

use count::Count;
use peers::clients::Target;

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
        ["peers", "clients"] => exit_code(peers::clients::run(Target::OurServer, &mut Count::default())),
        ["peers", "clients", "--url", url] => {
            exit_code(peers::clients::run(Target::ServerAt(url), &mut Count::default()))
        }
        ["peers", "clients", "--replicas"] => {
            exit_code(peers::clients::run(Target::OurReplicas, &mut Count::default()))
        }
        ["chaos", ref rest @ ..] => match chaos::ChaosPlan::from_args(rest) {
            Ok(plan) => exit_code(plan.run(&mut Count::default())),
            Err(mistake) => usage_error(&mistake),
        },
        ["replicas"] => exit_code(test::replicas(&mut Count::default())),
        ["peers", "tasks"] => exit_code(peers::tasks::run(&mut Count::default())),
        ["peers", "servers"] => exit_code(peers::servers::run(None, &mut Count::default())),
        ["peers", "servers", "--driver", program] => {
            exit_code(peers::servers::run(Some(program), &mut Count::default()))
        }
        ["logins"] => exit_code(test::logins(&mut Count::default())),
        ["protected"] => exit_code(protected::run(&mut Count::default())),
        ["platforms", ref parts @ ..] => exit_code(platforms::run(parts)),
        ["native"] => exit_code(native::run(&mut Count::default())),
        ["package", ref rest @ ..] => match package::command(rest) {
            Some(result) => exit_code(result),
            None => usage_error(&format!("unknown command `package {}`", rest.join(" "))),
        },
        ["page"] => exit_code(page::run(&mut Count::default())),
        ["peers", "binary"] => exit_code(peers::cli::run(&mut Count::default())),
        ["pictures"] => exit_code(pictures::make()),
        ["bench"] => exit_code(bench::measure()),
        ["cold-start", ref rest @ ..] => match bench::cold_start::ColdStart::from_args(rest) {
            Ok(plan) => exit_code(plan.run()),
            Err(mistake) => usage_error(&mistake),
        },
        ["msrv"] => exit_code(msrv::check()),
        _ => usage_error(&format!("unknown command `{}`", args.join(" "))),
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

  test                           install tools, run all checks and tests; the last line is the count
  fuzz [TARGET] [--seconds N]    run one fuzz target, or all in turn; default: 60 s each
  conformance server [--url URL | --replicas] [SET...]
                                 run the official suite against our server, against URL, or against replicas of our server;
                                 SET is 2025-11-25, 2026-07-28 or all; default: all three
  conformance client [SET...]    run the official suite against our client; default: both revisions
  conformance authorization      run the official suite against the authorization server of `tsugite serve --auth`
  peers                          test clients and servers of other projects with ours: all of the following
  peers clients [--url URL | --replicas]
                                 test their clients with our server, with the server at URL, or with replicas of our server
  peers tasks                    test the tasks of our server with a client of another project, in both forms
  peers servers [--driver PROGRAM]
                                 test their servers with our client, or with PROGRAM as the driver
  peers binary                   test both with the binary `tsugite`: its demo server, its verbs, its bridge
  replicas                       run the official suite and their clients against three replicas behind nginx
  chaos [--minutes N] [--seed S]
                                 disturb replicas and Redis while clients use them, and check what the clients saw; default:
                                 1 minute and a new seed, which is printed
  logins                         log `tsugite` in to servers of other projects, and their clients in to ours, in a browser
  protected                      test our protected server with tokens of other projects, good and forged ones
  platforms [PART...]            make toolchains for other systems and try them; PART is check (for Windows and macOS),
                                 without-proc (child processes as on macOS), musl (static binaries) or wine (tests);
                                 default: all of them
  package                        check what users install, and build each crate from its package: the two following
  package install                check archive, installer, npm package and image, made with the binary as tests build it
  package crates                 package every crate in order, and build each from its package
  package archive TARGET [--binary FILE]
                                 build a release for TARGET, or take FILE, and pack it into target/dist/release
  package assemble --from PLACE  make checksums, installer, npm packages and the folder of the image from all archives;
                                 PLACE is where users will find them
  package check                  check what was assembled, as far as this machine can run it; `package image`: the image only
  package tag TAG, package repository URL, package publish crates|npm
                                 steps of the release workflow: compare the tag with the version, write the URL of the
                                 repository into the manifests, publish
  native                         run the tests that need no other program, also on macOS and Windows
  page                           test the start page of `tsugite serve` in a browser
  pictures                       update the pictures of the README
  bench                          measure crates, build time, and calls with many tools and sessions
  cold-start [--binary FILE] [--state WHERE]
                                 measure the start of `tsugite serve` up to its first response
  msrv                           check that rust-version is the highest one of the dependencies
";
