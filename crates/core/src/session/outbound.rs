//! Calls we made and have no answer to yet.
//!
//! An answer is believed only if its id is here; everything else is late or the peer's mistake. The clock is passed in:
//! the caller asks for the [next deadline](Outbound::next_deadline), waits, and [ticks](Outbound::tick).

use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

use super::call_timer::CallTimer;
pub use super::call_timer::Timeouts;
use crate::jsonrpc::Id;
use crate::protocol::{Method, lifecycle};

/// The calls we made to one peer.
#[derive(Debug, Default)]
pub struct OutboundRequests {
    last_id: i64,
    calls: HashMap<i64, OutboundCall>,
    deadlines: BTreeSet<(Instant, i64)>,
}

#[derive(Debug)]
struct OutboundCall {
    cancellable: bool,
    timer: CallTimer,
    deadline: Option<Instant>,
}

/// What became of something that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Correlation {
    /// It belongs to a call that waits for it.
    Matched,
    /// It belongs to nothing here: late, or the peer's mistake. It is dropped.
    Unmatched,
    /// Progress that did not rise. It is dropped and counts as no sign of life.
    NotMonotonic,
}

/// Something that must be done because time has passed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutboundAction {
    /// The call has failed for lack of an answer.
    TimedOut {
        /// Which.
        id: Id<'static>,
        /// Whether the peer is to be told to stop, the way its era wants it.
        cancel: bool,
    },
}

impl OutboundRequests {
    /// No calls.
    pub fn new() -> Self {
        Self::default()
    }

    /// A call is made. Its id has never been used before; its progress token is the same.
    pub fn begin(&mut self, now: Instant, method: &str, patience: Timeouts) -> Id<'static> {
        self.last_id += 1;
        let cancellable = method != lifecycle::Initialize::NAME;
        let call = OutboundCall { cancellable, timer: CallTimer::new(now, patience), deadline: None };
        self.calls.insert(self.last_id, call);
        self.schedule(self.last_id);
        Id::from(self.last_id)
    }

    /// An answer has come. If it is expected the call is over.
    pub fn receive_response(&mut self, id: &Id<'_>) -> Correlation {
        match id.as_i64().and_then(|id| self.remove(id)) {
            Some(_) => Correlation::Matched,
            None => Correlation::Unmatched,
        }
    }

    /// Progress has come: the call is alive.
    pub fn receive_progress(&mut self, now: Instant, token: &Id<'_>, value: f64) -> Correlation {
        let Some((id, call)) = self.call_mut(token) else { return Correlation::Unmatched };
        if !call.timer.record_progress(now, value) {
            return Correlation::NotMonotonic;
        }
        self.schedule(id);
        Correlation::Matched
    }

    /// The peer asks something back for this call, and somebody needs time to answer: the clock stands.
    pub fn pause(&mut self, now: Instant, id: &Id<'_>) {
        if let Some((id, call)) = self.call_mut(id) {
            call.timer.pause(now);
            self.schedule(id);
        }
    }

    /// The answer is given; when it was the last the clock runs again, with the full patience for silence.
    pub fn resume(&mut self, now: Instant, id: &Id<'_>) {
        if let Some((id, call)) = self.call_mut(id) {
            call.timer.resume(now);
            self.schedule(id);
        }
    }

    /// We no longer want it. True when the peer is to be told.
    ///
    /// An `initialize` is never cancelled; it is only no longer waited for. A late answer is stray.
    pub fn cancel(&mut self, id: &Id<'_>) -> bool {
        id.as_i64().and_then(|id| self.remove(id)).is_some_and(|call| call.cancellable)
    }

    /// The earliest instant at which a call runs out of time.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Time has passed: the calls whose deadline it reached are over.
    pub fn expire(&mut self, now: Instant) -> Vec<OutboundAction> {
        let mut actions = Vec::new();
        while let Some(&(deadline, id)) = self.deadlines.first() {
            if deadline > now {
                break;
            }
            let Some(call) = self.remove(id) else { break };
            actions.push(OutboundAction::TimedOut { id: Id::from(id), cancel: call.cancellable });
        }
        actions
    }

    /// The connection is gone: every call is over. Gives their ids, oldest first.
    pub fn drain(&mut self) -> Vec<Id<'static>> {
        self.deadlines.clear();
        let mut ids: Vec<_> = self.calls.drain().map(|(id, _)| id).collect();
        ids.sort_unstable();
        ids.into_iter().map(Id::from).collect()
    }

    /// How many calls wait for an answer.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    fn call_mut(&mut self, id: &Id<'_>) -> Option<(i64, &mut OutboundCall)> {
        let id = id.as_i64()?;
        self.calls.get_mut(&id).map(|call| (id, call))
    }

    fn remove(&mut self, id: i64) -> Option<OutboundCall> {
        let call = self.calls.remove(&id)?;
        if let Some(deadline) = call.deadline {
            self.deadlines.remove(&(deadline, id));
        }
        Some(call)
    }

    fn schedule(&mut self, id: i64) {
        let Some(call) = self.calls.get_mut(&id) else { return };
        if let Some(old) = call.deadline.take() {
            self.deadlines.remove(&(old, id));
        }
        if let Some(deadline) = call.timer.deadline() {
            call.deadline = Some(deadline);
            self.deadlines.insert((deadline, id));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn timeouts(idle: u32, total: u32) -> Timeouts {
        Timeouts::new(SECOND * idle).total_timeout(SECOND * total)
    }

    #[test]
    fn an_answer_is_believed_once_and_only_for_a_call_that_waits() {
        // JRPC-004, JRPC-005: ids are never used again. JRPC-047: answers may come in any order.
        let now = Instant::now();
        let mut outbound = OutboundRequests::new();
        let first = outbound.begin(now, "tools/call", Timeouts::default());
        let second = outbound.begin(now, "tools/call", Timeouts::default());
        assert_ne!(first, second);
        assert_eq!(outbound.receive_response(&second), Correlation::Matched);
        assert_eq!(outbound.receive_response(&second), Correlation::Unmatched);
        assert_eq!(outbound.receive_response(&Id::from("1")), Correlation::Unmatched);
        assert_eq!(outbound.receive_response(&first), Correlation::Matched);
        assert_ne!(outbound.begin(now, "ping", Timeouts::default()), first);
    }

    #[test]
    fn a_call_without_a_sign_of_life_runs_out_of_time() {
        // LIFE-023, CANC-014
        let now = Instant::now();
        let mut outbound = OutboundRequests::new();
        let id = outbound.begin(now, "tools/call", timeouts(30, 600));
        assert_eq!(outbound.next_deadline(), Some(now + SECOND * 30));
        assert_eq!(outbound.expire(now + SECOND * 29), []);
        assert_eq!(
            outbound.expire(now + SECOND * 30),
            [OutboundAction::TimedOut { id: id.clone(), cancel: true }]
        );
        // CANC-010: what comes afterwards is dropped.
        assert_eq!(outbound.receive_response(&id), Correlation::Unmatched);
        assert_eq!(outbound.next_deadline(), None);
    }

    #[test]
    fn progress_restarts_the_clock_but_not_past_the_total() {
        // LIFE-025, LIFE-026
        let now = Instant::now();
        let mut outbound = OutboundRequests::new();
        let id = outbound.begin(now, "tools/call", timeouts(30, 60));
        assert_eq!(outbound.receive_progress(now + SECOND * 20, &id, 1.0), Correlation::Matched);
        assert_eq!(outbound.next_deadline(), Some(now + SECOND * 50));
        assert_eq!(outbound.receive_progress(now + SECOND * 45, &id, 2.0), Correlation::Matched);
        assert_eq!(outbound.next_deadline(), Some(now + SECOND * 60));
        assert_eq!(outbound.expire(now + SECOND * 60).len(), 1);
    }

    #[test]
    fn progress_that_does_not_rise_is_no_sign_of_life() {
        // PROG-010: tokens that are nobody's are ignored.
        let now = Instant::now();
        let mut outbound = OutboundRequests::new();
        let id = outbound.begin(now, "tools/call", timeouts(30, 600));
        assert_eq!(outbound.receive_progress(now, &id, 5.0), Correlation::Matched);
        assert_eq!(outbound.receive_progress(now + SECOND * 10, &id, 5.0), Correlation::NotMonotonic);
        assert_eq!(outbound.next_deadline(), Some(now + SECOND * 30));
        assert_eq!(outbound.receive_progress(now, &Id::from(99), 6.0), Correlation::Unmatched);
    }

    #[test]
    fn the_clock_stands_while_a_person_answers() {
        let now = Instant::now();
        let mut outbound = OutboundRequests::new();
        let id = outbound.begin(now, "tools/call", timeouts(30, 40));
        outbound.pause(now + SECOND * 10, &id);
        outbound.pause(now + SECOND * 11, &id);
        assert_eq!(outbound.next_deadline(), None);
        outbound.resume(now + SECOND * 500, &id);
        assert_eq!(outbound.next_deadline(), None);
        outbound.resume(now + SECOND * 1000, &id);
        // Ten seconds of the total were used before the first question.
        assert_eq!(outbound.next_deadline(), Some(now + SECOND * 1030));
        assert_eq!(outbound.expire(now + SECOND * 1030).len(), 1);
    }

    #[test]
    fn initialize_is_given_up_without_telling_the_peer() {
        // CANC-005
        let now = Instant::now();
        let mut outbound = OutboundRequests::new();
        let id = outbound.begin(now, "initialize", timeouts(1, 1));
        assert_eq!(outbound.expire(now + SECOND), [OutboundAction::TimedOut { id, cancel: false }]);
        let id = outbound.begin(now, "initialize", timeouts(1, 1));
        assert!(!outbound.cancel(&id));
        let id = outbound.begin(now, "tools/call", timeouts(1, 1));
        assert!(outbound.cancel(&id));
        // CANC-003, CANC-004: only what is believed to run is cancelled.
        assert!(!outbound.cancel(&id));
    }

    #[test]
    fn a_lost_connection_ends_every_call() {
        let now = Instant::now();
        let mut outbound = OutboundRequests::new();
        let ids: Vec<_> = (0..5).map(|_| outbound.begin(now, "tools/call", Timeouts::default())).collect();
        assert_eq!(outbound.drain(), ids);
        assert!(outbound.is_empty() && outbound.next_deadline().is_none());
    }

    #[test]
    fn endless_patience_has_no_deadline() {
        let mut outbound = OutboundRequests::new();
        outbound.begin(Instant::now(), "tools/call", Timeouts::new(Duration::MAX));
        assert_eq!(outbound.next_deadline(), None);
    }
}
