//! `cargo xtask fuzz`: runs the fuzz targets on stable Rust, without cargo-fuzz.
//!
//! libFuzzer needs only coverage counters in the code, and stable rustc can put them there. The sanitizers
//! that cargo-fuzz adds on nightly detect memory errors, which code without `unsafe` does not have.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{process, setup};

/// The targets to run and the time for each.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FuzzPlan {
    targets: Vec<String>,
    seconds: u32,
    /// Whether libFuzzer prints every discovery.
    verbose: bool,
}

impl FuzzPlan {
    /// A short run, as in `cargo xtask test`: long enough to see that the targets still work.
    pub(crate) fn smoke() -> Result<Self, String> {
        Ok(Self { targets: targets()?, seconds: 5, verbose: false })
    }

    /// Reads `[TARGET] [--seconds N]`.
    pub(crate) fn from_args(args: &[&str]) -> Result<Self, String> {
        Self::parse(args, targets()?)
    }

    fn parse(mut args: &[&str], known: Vec<String>) -> Result<Self, String> {
        let mut plan = Self { targets: known, seconds: 60, verbose: true };
        match args {
            [name, rest @ ..] if !name.starts_with('-') => {
                if !plan.targets.iter().any(|target| target == name) {
                    return Err(format!(
                        "unknown fuzz target `{name}`; known targets: {}",
                        plan.targets.join(", ")
                    ));
                }
                plan.targets = vec![(*name).to_owned()];
                args = rest;
            }
            _ => {}
        }
        match args {
            [] => Ok(plan),
            ["--seconds", number] => match number.parse() {
                // libFuzzer takes 0 for "until stopped".
                Ok(seconds) if seconds > 0 => Ok(Self { seconds, ..plan }),
                _ => Err(format!("`--seconds {number}` is not a positive number of seconds")),
            },
            _ => Err(format!("unknown arguments for fuzz: `{}`", args.join(" "))),
        }
    }

    pub(crate) fn run(&self) -> Result<(), String> {
        setup::cxx_compiler()?;
        let dirs = FuzzDirs::find()?;
        process::run_or_fail(
            dirs.build(),
            "fix the error above; if the lock file is out of date, run \
             `cargo update --workspace --manifest-path fuzz/Cargo.toml`",
        )?;
        self.targets.iter().try_for_each(|target| self.run_one(&dirs, target))
    }

    fn run_one(&self, dirs: &FuzzDirs, target: &str) -> Result<(), String> {
        println!("-- {target}, {} s", self.seconds);
        let binary = dirs.binary(target);
        let mut command = process::program(&binary, []);
        command.args([
            format!("-max_total_time={}", self.seconds),
            "-max_len=4096".to_owned(),
            "-timeout=10".to_owned(),
            "-rss_limit_mb=2048".to_owned(),
            "-print_final_stats=1".to_owned(),
            format!("-verbosity={}", u8::from(self.verbose)),
            // libFuzzer appends the file name to this, so the trailing slash matters.
            format!("-artifact_prefix={}/", dirs.folder("artifacts", target)?.display()),
        ]);
        // New inputs go to the first folder; the committed seeds are only read.
        command.arg(dirs.folder("corpus", target)?);
        let seeds = process::root().join("fuzz/seeds").join(target);
        if seeds.is_dir() {
            command.arg(seeds);
        }
        let (success, said) = process::run_and_capture(command)?;
        if success { Ok(()) } else { Err(failure_message(target, &binary, &said)) }
    }
}

/// The folders of a fuzz run, all below the target folder.
struct FuzzDirs {
    folder: PathBuf,
    host: String,
}

impl FuzzDirs {
    fn find() -> Result<Self, String> {
        let folder = process::target_dir()?.join("fuzz");
        let version =
            process::output(process::cargo(["--version", "--verbose"]), "check the Rust toolchain")?;
        let host = version.lines().find_map(|line| line.strip_prefix("host: "));
        let host = host.ok_or("`cargo --version --verbose` names no host")?.to_owned();
        Ok(Self { folder, host })
    }

    fn build(&self) -> Command {
        let options = ["--manifest-path", "fuzz/Cargo.toml", "--release", "--bins", "--locked"];
        let mut command = process::cargo(["build"].into_iter().chain(options));
        command.arg("--target-dir").arg(&self.folder);
        // Although it is the host: with an explicit target, build scripts do not get the flags below.
        command.args(["--target", &self.host]);
        let flags = COVERAGE_FLAGS.map(str::to_owned).into_iter().chain(env::var("RUSTFLAGS"));
        command.env("RUSTFLAGS", flags.collect::<Vec<_>>().join(" "));
        // It would override RUSTFLAGS.
        command.env_remove("CARGO_ENCODED_RUSTFLAGS");
        command
    }

    fn binary(&self, target: &str) -> PathBuf {
        self.folder.join(&self.host).join("release").join(target)
    }

    fn folder(&self, kind: &str, target: &str) -> Result<PathBuf, String> {
        let folder = self.folder.join(kind).join(target);
        process::create_dir(&folder)?;
        Ok(folder)
    }
}

/// The names of the targets: each file in `fuzz/fuzz_targets` is one.
fn targets() -> Result<Vec<String>, String> {
    let folder = process::root().join("fuzz/fuzz_targets");
    let entries =
        fs::read_dir(&folder).map_err(|error| format!("cannot read {}: {error}", folder.display()))?;
    let paths = entries.flatten().map(|entry| entry.path());
    let mut names: Vec<String> = paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect();
    names.sort();
    if names.is_empty() { Err(format!("no fuzz target in {}", folder.display())) } else { Ok(names) }
}

fn failure_message(target: &str, binary: &Path, said: &str) -> String {
    let input =
        said.lines().find_map(|line| line.split_once("Test unit written to ")).map(|(_, path)| path.trim());
    let Some(input) = input else {
        return format!("fuzz target `{target}` failed, and libFuzzer saved no input\n  try: see above");
    };
    format!("fuzz target `{target}` failed\n  input: {input}\n  reproduce: {} {input}", binary.display())
}

/// The flags of cargo-fuzz 0.13 on stable: count every edge, and trace comparisons so that a magic word is
/// found letter by letter. Assertions and overflow checks are in the release profile of `fuzz/Cargo.toml`.
const COVERAGE_FLAGS: [&str; 7] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "--cfg",
    "fuzzing",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn read(args: &[&str]) -> Result<(Vec<String>, u32), String> {
        let known = vec!["lines".to_owned(), "message".to_owned()];
        FuzzPlan::parse(args, known).map(|plan| (plan.targets, plan.seconds))
    }

    #[test]
    fn target_and_time_are_optional() {
        let (lines, both) = (vec!["lines".to_owned()], vec!["lines".to_owned(), "message".to_owned()]);
        assert_eq!(read(&[]), Ok((both.clone(), 60)));
        assert_eq!(read(&["lines"]), Ok((lines.clone(), 60)));
        assert_eq!(read(&["lines", "--seconds", "7"]), Ok((lines, 7)));
        assert_eq!(read(&["--seconds", "7"]), Ok((both, 7)));
    }

    #[test]
    fn invalid_arguments_are_refused() {
        for args in
            [&["words"][..], &["--seconds"], &["--seconds", "0"], &["--seconds", "x"], &["lines", "message"]]
        {
            assert!(read(args).is_err(), "{args:?}");
        }
    }

    #[test]
    fn crash_report_names_the_input_and_the_command() {
        let said = "==1== ERROR\nartifact_prefix='/t/'; Test unit written to /t/crash-1\nBase64: AA==\n";
        let told = failure_message("lines", Path::new("/t/lines"), said);
        assert!(told.contains("input: /t/crash-1\n"), "{told}");
        assert!(told.ends_with("reproduce: /t/lines /t/crash-1"), "{told}");
    }
}
