//! The faults of a run and their times, which follow from the seed alone.

use std::fmt;
use std::time::Duration;

use crate::random::Random;

/// A fault, and when it begins.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Planned {
    pub(crate) at: Duration,
    pub(crate) fault: Fault,
}

/// One fault.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fault {
    pub(crate) target: Target,
    pub(crate) kind: FaultKind,
    /// How long it lasts. What was stopped is started again afterwards.
    pub(crate) lasts: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A replica, or its connections to Redis.
    Replica(usize),
    Redis,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultKind {
    /// SIGKILL to the replica.
    Kill,
    /// SIGSTOP, and SIGCONT after more than two lease times.
    Freeze,
    /// SIGTERM to the replica.
    Terminate,
    /// SIGKILL to Redis, which keeps its data.
    RestartRedis,
    /// SIGKILL to Redis, which loses its data.
    EmptyRedis,
    /// Each piece of data arrives late.
    Delay(Duration),
    /// No data arrives.
    Stall,
    /// All connections are closed.
    Cut,
    /// The replica reads the end of its connections, and can still write.
    HalfCloseToReplica,
    /// Redis reads the end of the connections, and can still write.
    HalfCloseToRedis,
}

/// Makes the schedule of a run. A part at the end is without faults, so that everything heals.
pub(crate) fn plan(seed: u64, length: Duration, replicas: usize) -> Vec<Planned> {
    let mut random = Random::new(seed);
    let mut busy = vec![Duration::ZERO; replicas + 1];
    let mut planned = Vec::new();
    let mut deck = Vec::new();
    let mut at = FIRST;
    while at + LAST <= length {
        let kind = match deck.pop() {
            Some(kind) => kind,
            None => {
                deck = KINDS.to_vec();
                random.shuffle(&mut deck);
                continue;
            }
        };
        let (kind, lasts) = with_length(kind, &mut random);
        let slots = match kind {
            FaultKind::RestartRedis | FaultKind::EmptyRedis => replicas..replicas + 1,
            _ => 0..replicas,
        };
        let is_free = |slot: &usize| busy.get(*slot).is_some_and(|until| *until <= at);
        let free: Vec<usize> = slots.filter(is_free).collect();
        let choice = random.next() as usize % free.len().max(1);
        let Some(slot) = free.get(choice).copied() else {
            // Everything that this could happen to is still busy.
            deck.insert(0, kind);
            at += Duration::from_millis(200);
            continue;
        };
        if let Some(until) = busy.get_mut(slot) {
            *until = at + lasts + PAUSE;
        }
        let target = if slot == replicas { Target::Redis } else { Target::Replica(slot) };
        planned.push(Planned { at, fault: Fault { target, kind, lasts } });
        at += Duration::from_millis(random.between(1_200, 2_400));
    }
    planned
}

fn with_length(kind: FaultKind, random: &mut Random) -> (FaultKind, Duration) {
    let millis = match kind {
        FaultKind::Kill | FaultKind::Terminate => random.between(100, 2_500),
        FaultKind::Freeze => random.between(2_200, 4_000),
        FaultKind::RestartRedis | FaultKind::EmptyRedis => random.between(0, 2_500),
        FaultKind::Delay(_) => {
            let late = Duration::from_millis(random.between(20, 400));
            return (FaultKind::Delay(late), Duration::from_millis(random.between(1_000, 3_000)));
        }
        FaultKind::Stall => random.between(500, 4_000),
        FaultKind::Cut | FaultKind::HalfCloseToReplica | FaultKind::HalfCloseToRedis => 0,
    };
    (kind, Duration::from_millis(millis))
}

impl fmt::Display for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {:.1} s: {}", self.at.as_secs_f64(), self.fault)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lasts = format!("{:.1} s", self.lasts.as_secs_f64());
        let replica = match self.target {
            Target::Replica(number) => format!("replica {number}"),
            Target::Redis => "Redis".to_owned(),
        };
        match self.kind {
            FaultKind::Kill => write!(f, "kill {replica}, start it after {lasts}"),
            FaultKind::Freeze => write!(f, "stop {replica} (SIGSTOP) for {lasts}"),
            FaultKind::Terminate => write!(f, "terminate {replica} (SIGTERM), start it after {lasts}"),
            FaultKind::RestartRedis => write!(f, "kill Redis, start it with its data after {lasts}"),
            FaultKind::EmptyRedis => write!(f, "kill Redis, start it without data after {lasts}"),
            FaultKind::Delay(late) => {
                write!(f, "delay data between {replica} and Redis by {} ms for {lasts}", late.as_millis())
            }
            FaultKind::Stall => write!(f, "stall data between {replica} and Redis for {lasts}"),
            FaultKind::Cut => write!(f, "cut the connections of {replica} to Redis"),
            FaultKind::HalfCloseToReplica => {
                write!(f, "half-close the connections of {replica} to Redis, towards the replica")
            }
            FaultKind::HalfCloseToRedis => {
                write!(f, "half-close the connections of {replica} to Redis, towards Redis")
            }
        }
    }
}

const KINDS: [FaultKind; 12] = [
    FaultKind::Kill,
    FaultKind::Kill,
    FaultKind::Freeze,
    FaultKind::Freeze,
    FaultKind::Terminate,
    FaultKind::RestartRedis,
    FaultKind::EmptyRedis,
    FaultKind::Delay(Duration::ZERO),
    FaultKind::Stall,
    FaultKind::Cut,
    FaultKind::HalfCloseToReplica,
    FaultKind::HalfCloseToRedis,
];

/// When the first fault happens: the clients work by then.
const FIRST: Duration = Duration::from_secs(3);

/// How long before the end the last fault begins, at least.
const LAST: Duration = Duration::from_secs(6);

/// The time between two faults of one replica.
const PAUSE: Duration = Duration::from_millis(800);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedule_follows_from_its_seed() {
        let minute = Duration::from_secs(60);
        assert_eq!(plan(7, minute, 3), plan(7, minute, 3));
        assert_ne!(plan(7, minute, 3), plan(8, minute, 3));
    }

    #[test]
    fn each_minute_has_twenty_faults_of_all_kinds() {
        for seed in 0..100 {
            let faults = plan(seed, Duration::from_secs(60), 3);
            assert!(faults.len() >= 20, "seed {seed}: {}", faults.len());
            let kind = |fault: &FaultKind| std::mem::discriminant(fault);
            for wanted in &KINDS {
                assert!(
                    faults.iter().any(|planned| kind(&planned.fault.kind) == kind(wanted)),
                    "seed {seed} has no {wanted:?}"
                );
            }
        }
    }

    #[test]
    fn faults_of_one_target_do_not_overlap() {
        let faults = plan(3, Duration::from_secs(600), 3);
        for (at, planned) in faults.iter().enumerate() {
            let end = planned.at + planned.fault.lasts;
            let later = faults.iter().skip(at + 1).filter(|next| next.fault.target == planned.fault.target);
            assert!(later.min_by_key(|next| next.at).is_none_or(|next| next.at >= end));
        }
    }
}
