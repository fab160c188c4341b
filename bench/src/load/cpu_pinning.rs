//! Pins the client to one processor, and all servers to another.
//!
//! Without pinning, the system puts a client and a server that take turns on one processor in some runs and on two in
//! others. This changes the time of a call by a factor of three, and differs between routes.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::BoxError;

/// The two processors; none on a machine with one.
pub(crate) struct CpuPinning(Option<[CpuSet; 2]>);

impl CpuPinning {
    pub(crate) fn detect() -> Result<Self, BoxError> {
        let allowed = sched_getaffinity(CURRENT_PROCESS)?;
        let mut each = (0..CpuSet::count()).filter(|cpu| matches!(allowed.is_set(*cpu), Ok(true)));
        let (Some(first), Some(second)) = (each.next(), each.next()) else { return Ok(Self(None)) };
        let alone = |cpu| {
            let mut alone = CpuSet::new();
            alone.set(cpu).map(|()| alone)
        };
        Ok(Self(Some([alone(first)?, alone(second)?])))
    }

    /// Pins processes that are started from now on to the servers' processor.
    pub(crate) fn pin_servers(&self) -> Result<(), BoxError> {
        self.pin(0)
    }

    /// Pins the client to its own processor.
    pub(crate) fn pin_client(&self) -> Result<(), BoxError> {
        self.pin(1)
    }

    fn pin(&self, place: usize) -> Result<(), BoxError> {
        match &self.0 {
            Some(places) => Ok(sched_setaffinity(CURRENT_PROCESS, &places[place])?),
            None => Ok(()),
        }
    }
}

/// The process id that means the calling process.
const CURRENT_PROCESS: Pid = Pid::from_raw(0);
