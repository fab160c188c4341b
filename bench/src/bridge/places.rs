//! Which processor who runs on: the client on one, everything it talks to on another.
//!
//! Left alone, the system puts a client and a server that take turns on one processor in some runs and on two in others,
//! which changes how long a call takes by three times, and differs from way to way.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::Failed;

/// Two processors; none where there are not two.
pub(super) struct Places(Option<[CpuSet; 2]>);

impl Places {
    pub(super) fn find() -> Result<Self, Failed> {
        let allowed = sched_getaffinity(SELF)?;
        let mut each = (0..CpuSet::count()).filter(|cpu| matches!(allowed.is_set(*cpu), Ok(true)));
        let (Some(first), Some(second)) = (each.next(), each.next()) else { return Ok(Self(None)) };
        let alone = |cpu| {
            let mut alone = CpuSet::new();
            alone.set(cpu).map(|()| alone)
        };
        Ok(Self(Some([alone(first)?, alone(second)?])))
    }

    /// What is started from now on runs where the client does not.
    pub(super) fn start_others(&self) -> Result<(), Failed> {
        self.go(0)
    }

    /// The client itself runs elsewhere.
    pub(super) fn be_the_client(&self) -> Result<(), Failed> {
        self.go(1)
    }

    fn go(&self, place: usize) -> Result<(), Failed> {
        match &self.0 {
            Some(places) => Ok(sched_setaffinity(SELF, &places[place])?),
            None => Ok(()),
        }
    }
}

/// Whoever asks.
const SELF: Pid = Pid::from_raw(0);
