//! The recorded history of a run: the outcome of every call, and what must not have happened.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::fault_log::{Effect, FaultLog};

/// The outcome of a call, as its client saw it. Each call has exactly one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The result with the expected text.
    Result,
    /// An error which says that the call may have run.
    MayHaveRun,
    /// The connection broke, or nginx reached no replica, and there is nothing to resume.
    Broken,
    /// 503 with `Retry-After`.
    Unavailable,
    /// 404: the session is gone.
    SessionLost,
    /// The session is there, and the stream cannot be resumed.
    StreamLost,
    /// The stream ended after the client had cancelled the call.
    Cancelled,
    /// Anything else, which is a failure.
    Unexpected(String),
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Result => "result",
            Self::MayHaveRun => "may have run",
            Self::Broken => "broken connection",
            Self::Unavailable => "503",
            Self::SessionLost => "session lost",
            Self::StreamLost => "stream lost",
            Self::Cancelled => "cancelled",
            Self::Unexpected(text) => text,
        })
    }
}

/// The kinds of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CallKind {
    Now,
    Steps,
    Question,
    Slow,
    StatelessNow,
    StatelessSteps,
    StatelessQuestion,
    HttpSseNow,
    HttpSseSteps,
    HttpSseQuestion,
    HttpSseSlow,
}

impl CallKind {
    pub(crate) fn tool(self) -> &'static str {
        match self {
            Self::Now | Self::StatelessNow | Self::HttpSseNow => "now",
            Self::Steps | Self::StatelessSteps | Self::HttpSseSteps => "steps",
            Self::Question | Self::StatelessQuestion | Self::HttpSseQuestion => "question",
            Self::Slow | Self::HttpSseSlow => "slow",
        }
    }

    pub(crate) fn is_stateless(self) -> bool {
        matches!(self, Self::StatelessNow | Self::StatelessSteps | Self::StatelessQuestion)
    }

    pub(crate) fn is_http_sse(self) -> bool {
        matches!(self, Self::HttpSseNow | Self::HttpSseSteps | Self::HttpSseQuestion | Self::HttpSseSlow)
    }

    /// Whether its handler may start several times: once for each question that is answered.
    pub(crate) fn runs_again(self) -> bool {
        matches!(self, Self::Question | Self::StatelessQuestion)
    }
}

impl fmt::Display for CallKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let era = match (self.is_stateless(), self.is_http_sse()) {
            (true, _) => ", stateless",
            (_, true) => ", HTTP+SSE",
            (false, false) => "",
        };
        write!(f, "{}{era}", self.tool())
    }
}

/// A finished call.
#[derive(Clone, Debug)]
pub(crate) struct CallRecord {
    pub(crate) client: usize,
    pub(crate) kind: CallKind,
    pub(crate) outcome: Outcome,
    pub(crate) ended: Duration,
}

/// Everything that was recorded. Clones share it.
#[derive(Clone)]
pub(crate) struct History {
    faults: FaultLog,
    recorded: Arc<Mutex<Recorded>>,
}

#[derive(Default)]
struct Recorded {
    calls: HashMap<String, CallRecord>,
    counts: BTreeMap<(CallKind, String), u64>,
    failures: Vec<String>,
    failure_count: usize,
    /// The position in the schedule.
    position: usize,
}

impl History {
    pub(crate) fn new(faults: FaultLog) -> Self {
        Self { faults, recorded: Arc::default() }
    }

    /// Records which fault of the schedule was caused last.
    pub(crate) fn set_position(&self, position: usize) {
        self.lock().position = position;
    }

    /// Records the outcome of a call, and checks whether the faults explain it.
    pub(crate) fn record(&self, call: FinishedCall, trace: &Trace) {
        let FinishedCall { nonce, record, began, session_began } = call;
        if let Some(failure) = unexplained(&self.faults, &record, began, session_began) {
            self.fail(record.client, &format!("call {nonce} ({}): {failure}", record.kind), trace);
        }
        let mut recorded = self.lock();
        *recorded.counts.entry((record.kind, record.outcome.to_string())).or_default() += 1;
        if recorded.calls.insert(nonce.clone(), record).is_some() {
            drop(recorded);
            self.fail(usize::MAX, &format!("call {nonce} has two outcomes"), trace);
        }
    }

    /// Records a failure with the history of its client.
    pub(crate) fn fail(&self, client: usize, failure: &str, trace: &Trace) {
        let now = self.faults.now().as_secs_f64();
        let mut recorded = self.lock();
        recorded.failure_count += 1;
        if recorded.failures.len() < MAX_FAILURES {
            let position = recorded.position;
            let text = format!("{now:.3} s, after fault {position}, client {client}: {failure}\n{trace}");
            eprintln!("failure: {text}");
            recorded.failures.push(text);
        }
    }

    pub(crate) fn failure_count(&self) -> usize {
        self.lock().failure_count
    }

    /// Checks each call.
    pub(crate) fn each_call(&self, mut check: impl FnMut(&str, &CallRecord) -> Result<(), String>) {
        let mut failures = Vec::new();
        for (nonce, record) in &self.lock().calls {
            if let Err(failure) = check(nonce, record) {
                let text = format!("call {nonce} ({}, outcome: {}): {failure}", record.kind, record.outcome);
                failures.push((record.client, text));
            }
        }
        failures.iter().for_each(|(client, text)| self.fail(*client, text, &Trace::default()));
    }

    /// Whether the cancellation of a call can have been lost after it was accepted. Over HTTP+SSE it waits in Redis for the
    /// replica of the stream, which may be stopped or cut off.
    pub(crate) fn lost_cancellation(&self, call: &CallRecord) -> bool {
        call.kind.is_http_sse() && call.outcome == Outcome::Cancelled && self.faults.lost_message(call.ended)
    }

    /// How many calls had each outcome.
    pub(crate) fn summary(&self) -> String {
        let recorded = self.lock();
        let line = |((kind, outcome), count): (&(CallKind, String), &u64)| {
            format!("  {count:>7}  {kind}: {outcome}\n")
        };
        recorded.counts.iter().map(line).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Recorded> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that has an outcome.
pub(crate) struct FinishedCall {
    pub(crate) nonce: String,
    pub(crate) record: CallRecord,
    pub(crate) began: Duration,
    /// When its session was opened.
    pub(crate) session_began: Duration,
}

/// Returns why no fault explains an outcome.
fn unexplained(
    faults: &FaultLog,
    record: &CallRecord,
    began: Duration,
    session_began: Duration,
) -> Option<String> {
    let redis = [
        Effect::RedisDown,
        Effect::LinkDisturbed,
        Effect::ReplicaFrozen,
        Effect::DataLost,
        Effect::DriverStalled,
    ];
    let replica = [Effect::ReplicaDown];
    let is_explained = match &record.outcome {
        Outcome::Result | Outcome::Cancelled => true,
        Outcome::Broken if record.kind.is_stateless() => faults.had(&replica, began),
        // A session that is lost with the data ends its streams, and one without an event cannot be resumed.
        Outcome::Broken => faults.had(&replica, began) || faults.had(&[Effect::DataLost], began),
        Outcome::Unavailable if record.kind.is_stateless() => faults.had(&[Effect::ReplicaStopping], began),
        Outcome::Unavailable => faults.had(&redis, began) || faults.had(&replica, began),
        Outcome::MayHaveRun if record.kind.is_stateless() => faults.had(&replica, began),
        Outcome::MayHaveRun => faults.had(&redis, began) || faults.had(&replica, began),
        // A session of HTTP+SSE ends with its replica.
        Outcome::SessionLost if record.kind.is_http_sse() && faults.had(&replica, began) => true,
        Outcome::SessionLost => faults.had(&[Effect::DataLost], session_began),
        Outcome::StreamLost => faults.had(&[Effect::DataLost], began),
        Outcome::Unexpected(_) => false,
    };
    (!is_explained).then(|| format!("no fault explains the outcome: {}", record.outcome))
}

/// The last things that a client did.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace(std::collections::VecDeque<String>);

impl Trace {
    pub(crate) fn add(&mut self, at: Duration, line: impl fmt::Display) {
        if self.0.len() >= MAX_TRACE {
            self.0.pop_front();
        }
        self.0.push_back(format!("{:.3} s: {line}", at.as_secs_f64()));
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|line| writeln!(f, "    {line}"))
    }
}

/// How many lines of a client's history are kept.
const MAX_TRACE: usize = 80;

/// How many failures are shown.
const MAX_FAILURES: usize = 20;

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn call(nonce: &str, outcome: Outcome) -> FinishedCall {
        let record = CallRecord { client: 1, kind: CallKind::Now, outcome, ended: Duration::ZERO };
        let zero = Duration::ZERO;
        FinishedCall { nonce: nonce.to_owned(), record, began: zero, session_began: zero }
    }

    #[test]
    fn second_outcome_of_a_call_is_a_failure() {
        let history = History::new(FaultLog::new(Instant::now()));
        history.record(call("a", Outcome::Result), &Trace::default());
        assert_eq!(history.failure_count(), 0);
        history.record(call("a", Outcome::Result), &Trace::default());
        assert_eq!(history.failure_count(), 1);
    }

    #[test]
    fn outcome_without_a_fault_is_a_failure() {
        let faults = FaultLog::new(Instant::now());
        let history = History::new(faults.clone());
        faults.begin(Effect::RedisDown);
        history.record(call("a", Outcome::Unavailable), &Trace::default());
        assert_eq!(history.failure_count(), 0);
        history.record(call("b", Outcome::Broken), &Trace::default());
        history.record(call("c", Outcome::SessionLost), &Trace::default());
        assert_eq!(history.failure_count(), 2);
    }
}
