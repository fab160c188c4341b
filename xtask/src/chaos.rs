//! `cargo xtask chaos`: replicas are killed, stopped and cut off from Redis while clients use them, and what the clients saw
//! is checked.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::count::Count;
use crate::{binary, process};

/// The length of a run and its seed, from which the schedule of the faults follows.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ChaosPlan {
    minutes: u32,
    seed: u64,
}

impl ChaosPlan {
    /// A minute, as in `cargo xtask test`. Its schedule is always the same.
    pub(crate) fn short() -> Self {
        Self { minutes: 1, seed: 21 }
    }

    /// Reads `[--minutes N] [--seed S]`. Without a seed the time is one.
    pub(crate) fn from_args(args: &[&str]) -> Result<Self, String> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self::parse(args, since.as_secs())
    }

    fn parse(mut args: &[&str], seed: u64) -> Result<Self, String> {
        let mut plan = Self { seed, ..Self::short() };
        while let [option, value, rest @ ..] = args {
            match (*option, value.parse::<u64>()) {
                ("--minutes", Ok(minutes)) if (1..=MAX_MINUTES).contains(&minutes) => {
                    plan.minutes = u32::try_from(minutes).unwrap_or(u32::MAX);
                }
                ("--seed", Ok(seed)) => plan.seed = seed,
                _ => return Err(format!("`{option} {value}` is no option of chaos")),
            }
            args = rest;
        }
        match args {
            [] => Ok(plan),
            _ => Err(format!("unknown arguments for chaos: `{}`", args.join(" "))),
        }
    }

    pub(crate) fn run(&self, count: &mut Count) -> Result<(), String> {
        let folder = process::target_dir()?.join("chaos");
        process::create_dir(&folder)?;
        let program = binary::build("chaos", &folder)?;
        let seconds = self.minutes * 60;
        let (length, seed) = (seconds.to_string(), self.seed.to_string());
        let command = process::program(program, ["--seconds", &length, "--seed", &seed]);
        let limit = Duration::from_secs(seconds.into()) + END_TIMEOUT;
        if process::run_with_timeout(limit, command)?.success() {
            count.passed += 1;
            return Ok(());
        }
        count.failed += 1;
        Err(format!(
            "the clients saw what they must not see, see above\n  \
             try: `cargo xtask chaos --minutes {} --seed {seed}` repeats the schedule",
            self.minutes
        ))
    }
}

/// How long the clients may take to end their last calls and sessions, and the checks after that.
const END_TIMEOUT: Duration = Duration::from_secs(240);

const MAX_MINUTES: u64 = 24 * 60;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_stand_in_any_order() {
        let plan = |args: &[&str]| ChaosPlan::parse(args, 5);
        assert_eq!(plan(&[]), Ok(ChaosPlan { minutes: 1, seed: 5 }));
        assert_eq!(plan(&["--minutes", "60"]), Ok(ChaosPlan { minutes: 60, seed: 5 }));
        let both = Ok(ChaosPlan { minutes: 2, seed: 9 });
        assert_eq!(plan(&["--seed", "9", "--minutes", "2"]), both);
        assert_eq!(plan(&["--minutes", "2", "--seed", "9"]), both);
    }

    #[test]
    fn invalid_options_are_refused() {
        for args in [&["--minutes"][..], &["--minutes", "0"], &["--seed", "x"], &["--hours", "1"], &["2"]] {
            assert!(ChaosPlan::parse(args, 5).is_err(), "{args:?}");
        }
    }
}
