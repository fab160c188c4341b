//! Measures the size of the binary and the cost of starting it.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

use super::programs::Programs;
use crate::BoxError;

pub(super) struct StartupReport {
    /// Size of the binary in bytes.
    pub(super) size: u64,
    pub(super) noop: StartupSamples,
    pub(super) tsugite: StartupSamples,
}

/// The starts of one program, alternating with those of the other.
#[derive(Default)]
pub(super) struct StartupSamples {
    /// Time from the spawn to the exit.
    pub(super) time: Vec<Duration>,
    /// CPU time, user and kernel.
    pub(super) cpu: Vec<Duration>,
}

pub(super) fn measure(built: &Programs, starts: usize) -> Result<StartupReport, BoxError> {
    let size = fs::metadata(&built.tsugite)?.len();
    let (mut nothing, mut tsugite) = (StartupSamples::default(), StartupSamples::default());
    for _ in 0..starts {
        nothing.run_once(&built.noop, &[])?;
        tsugite.run_once(&built.tsugite, &["--version"])?;
    }
    Ok(StartupReport { size, noop: nothing, tsugite })
}

impl StartupSamples {
    fn run_once(&mut self, program: &Path, args: &[&str]) -> Result<(), BoxError> {
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::null()).stdout(Stdio::null());
        let (cpu, start) = (children_cpu_time()?, Instant::now());
        let status = command.status()?;
        self.time.push(start.elapsed());
        self.cpu.push(children_cpu_time()?.saturating_sub(cpu));
        match status.success() {
            true => Ok(()),
            false => Err(format!("{} ended with {status}", program.display()).into()),
        }
    }
}

/// The CPU time of all children that have exited.
fn children_cpu_time() -> Result<Duration, BoxError> {
    let used = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let time = |time: TimeVal| Duration::from_micros((time.tv_sec() * 1_000_000 + time.tv_usec()) as u64);
    Ok(time(used.user_time()) + time(used.system_time()))
}
