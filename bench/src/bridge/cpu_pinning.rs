//! Which processor who runs on: the client on one, everything it talks to on another.
//!
//! Left alone, the system puts a client and a server that take turns on one processor in some runs and on two in others,
//! which changes how long a call takes by three times, and differs from way to way.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::BoxError;

/// Two processors; none where there are not two.
pub(super) struct CpuPinning(Option<[CpuSet; 2]>);

impl CpuPinning {
    pub(super) fn detect() -> Result<Self, BoxError> {
        let allowed = sched_getaffinity(CURRENT_PROCESS)?;
        let mut each = (0..CpuSet::count()).filter(|cpu| matches!(allowed.is_set(*cpu), Ok(true)));
        let (Some(first), Some(second)) = (each.next(), each.next()) else { return Ok(Self(None)) };
        let alone = |cpu| {
            let mut alone = CpuSet::new();
            alone.set(cpu).map(|()| alone)
        };
        Ok(Self(Some([alone(first)?, alone(second)?])))
    }

    /// What is started from now on runs where the client does not.
    pub(super) fn pin_servers(&self) -> Result<(), BoxError> {
        self.pin(0)
    }

    /// The client itself runs elsewhere.
    pub(super) fn pin_client(&self) -> Result<(), BoxError> {
        self.pin(1)
    }

    fn pin(&self, place: usize) -> Result<(), BoxError> {
        match &self.0 {
            Some(places) => Ok(sched_setaffinity(CURRENT_PROCESS, &places[place])?),
            None => Ok(()),
        }
    }
}

/// Whoever asks.
const CURRENT_PROCESS: Pid = Pid::from_raw(0);
