//! How large the binary is, and what it costs to start it.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

use super::built::Built;
use crate::Failed;

pub(super) struct Started {
    /// Bytes of the binary.
    pub(super) size: u64,
    pub(super) nothing: Program,
    pub(super) tsugite: Program,
}

/// Each start of one program, those of the other in between.
#[derive(Default)]
pub(super) struct Program {
    /// From before it is started until it has ended.
    pub(super) time: Vec<Duration>,
    /// User and kernel.
    pub(super) cpu: Vec<Duration>,
}

pub(super) fn measure(built: &Built, starts: usize) -> Result<Started, Failed> {
    let size = fs::metadata(&built.tsugite)?.len();
    let (mut nothing, mut tsugite) = (Program::default(), Program::default());
    for _ in 0..starts {
        nothing.start(&built.nothing, &[])?;
        tsugite.start(&built.tsugite, &["--version"])?;
    }
    Ok(Started { size, nothing, tsugite })
}

impl Program {
    fn start(&mut self, program: &Path, args: &[&str]) -> Result<(), Failed> {
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::null()).stdout(Stdio::null());
        let (cpu, start) = (children()?, Instant::now());
        let status = command.status()?;
        self.time.push(start.elapsed());
        self.cpu.push(children()?.saturating_sub(cpu));
        match status.success() {
            true => Ok(()),
            false => Err(format!("{} ended with {status}", program.display()).into()),
        }
    }
}

/// What all children that have ended used.
fn children() -> Result<Duration, Failed> {
    let used = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let time = |time: TimeVal| Duration::from_micros((time.tv_sec() * 1_000_000 + time.tv_usec()) as u64);
    Ok(time(used.user_time()) + time(used.system_time()))
}
