//! Requests the peer sent and we have not answered yet.
//!
//! Each gets exactly one answer, or none if its sender cancelled it first.

use std::collections::HashMap;

use crate::jsonrpc::Id;
use crate::protocol::{Method, lifecycle};

/// The requests of one peer that are under way.
#[derive(Debug)]
pub struct Inbound {
    running: HashMap<Id<'static>, Running>,
    most: usize,
}

#[derive(Debug)]
struct Running {
    cancellable: bool,
    cancelled: bool,
}

/// Why a request is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotTaken {
    /// Another request with the same id has no answer yet: -32600, since it would be unclear which is answered.
    DuplicateId,
    /// Too many are under way.
    TooMany,
}

/// What to do about a cancellation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancellation {
    /// Stop the work.
    Stop,
    /// Nothing: unknown, answered, already cancelled, or not to be cancelled.
    Ignore,
}

/// What to do with an answer that is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completion {
    /// Send it.
    Send,
    /// Drop it: its request was cancelled, or is not under way.
    Drop,
}

impl Inbound {
    /// At most `most` requests at a time.
    pub fn new(most: usize) -> Self {
        Self { running: HashMap::new(), most }
    }

    /// Whether no further request would be taken.
    pub fn is_full(&self) -> bool {
        self.running.len() >= self.most
    }

    /// A request has come.
    pub fn begin(&mut self, id: &Id<'static>, method: &str) -> Result<(), NotTaken> {
        if self.running.contains_key(id) {
            return Err(NotTaken::DuplicateId);
        }
        if self.running.len() >= self.most {
            return Err(NotTaken::TooMany);
        }
        let cancellable = method != lifecycle::Initialize::NAME;
        self.running.insert(id.clone(), Running { cancellable, cancelled: false });
        Ok(())
    }

    /// Its sender no longer wants it.
    ///
    /// Whether the answer was already on its way is decided by [`complete`](Self::complete), whichever comes first.
    pub fn cancel(&mut self, id: &Id<'static>) -> Cancellation {
        match self.running.get_mut(id) {
            Some(running) if running.cancellable && !running.cancelled => {
                running.cancelled = true;
                Cancellation::Stop
            }
            _ => Cancellation::Ignore,
        }
    }

    /// Its answer is ready, or its work has stopped.
    pub fn complete(&mut self, id: &Id<'static>) -> Completion {
        match self.running.remove(id) {
            Some(running) if !running.cancelled => Completion::Send,
            _ => Completion::Drop,
        }
    }

    /// Whether anything may still be said for this request: progress and logs end with it.
    pub fn is_open(&self, id: &Id<'static>) -> bool {
        self.running.get(id).is_some_and(|running| !running.cancelled)
    }

    /// How many are under way, cancelled ones whose work has not stopped included.
    pub fn len(&self) -> usize {
        self.running.len()
    }

    /// Whether none is under way.
    pub fn is_empty(&self) -> bool {
        self.running.is_empty()
    }
}

/// A number that must rise: progress of one request, over its whole life.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rising(Option<f64>);

impl Rising {
    /// Whether `value` is a step up; if so it is remembered. What is not a number never is.
    pub fn step(&mut self, value: f64) -> bool {
        let up = value.is_finite() && self.0.is_none_or(|last| value > last);
        if up {
            self.0 = Some(value);
        }
        up
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_gets_exactly_one_answer() {
        // PROG-009: nor is anything said for it afterwards.
        let mut inbound = Inbound::new(8);
        inbound.begin(&Id::from(1), "tools/call").unwrap();
        assert!(inbound.is_open(&Id::from(1)));
        assert_eq!(inbound.complete(&Id::from(1)), Completion::Send);
        assert!(!inbound.is_open(&Id::from(1)));
        assert_eq!(inbound.complete(&Id::from(1)), Completion::Drop);
        assert_eq!(inbound.complete(&Id::from(2)), Completion::Drop);
    }

    #[test]
    fn an_id_under_way_cannot_be_used_again_and_an_answered_one_can() {
        // JRPC-005 as its receiver sees it; JRPC-006: `1` and `"1"` are two ids.
        let mut inbound = Inbound::new(8);
        inbound.begin(&Id::from(1), "tools/call").unwrap();
        assert_eq!(inbound.begin(&Id::from(1), "tools/list"), Err(NotTaken::DuplicateId));
        assert_eq!(inbound.begin(&Id::from("1"), "tools/list"), Ok(()));
        inbound.complete(&Id::from(1));
        assert_eq!(inbound.begin(&Id::from(1), "tools/list"), Ok(()));
    }

    #[test]
    fn a_cancelled_request_gets_no_answer() {
        // CANC-008
        let mut inbound = Inbound::new(8);
        inbound.begin(&Id::from(1), "tools/call").unwrap();
        assert_eq!(inbound.cancel(&Id::from(1)), Cancellation::Stop);
        assert!(!inbound.is_open(&Id::from(1)));
        assert_eq!(inbound.complete(&Id::from(1)), Completion::Drop);
        assert!(inbound.is_empty());
    }

    #[test]
    fn a_cancellation_that_comes_too_late_or_twice_or_for_nothing_is_ignored() {
        // CANC-009, CANC-011: the race is decided by what comes first.
        let mut inbound = Inbound::new(8);
        inbound.begin(&Id::from(1), "tools/call").unwrap();
        assert_eq!(inbound.complete(&Id::from(1)), Completion::Send);
        assert_eq!(inbound.cancel(&Id::from(1)), Cancellation::Ignore);
        assert_eq!(inbound.cancel(&Id::from(9)), Cancellation::Ignore);
        inbound.begin(&Id::from(2), "tools/call").unwrap();
        assert_eq!(inbound.cancel(&Id::from(2)), Cancellation::Stop);
        assert_eq!(inbound.cancel(&Id::from(2)), Cancellation::Ignore);
    }

    #[test]
    fn initialize_is_not_cancelled() {
        // CANC-005
        let mut inbound = Inbound::new(8);
        inbound.begin(&Id::from(0), "initialize").unwrap();
        assert_eq!(inbound.cancel(&Id::from(0)), Cancellation::Ignore);
        assert_eq!(inbound.complete(&Id::from(0)), Completion::Send);
    }

    #[test]
    fn no_more_requests_are_taken_than_the_limit_allows() {
        let mut inbound = Inbound::new(2);
        inbound.begin(&Id::from(1), "a").unwrap();
        inbound.begin(&Id::from(2), "a").unwrap();
        assert_eq!(inbound.begin(&Id::from(3), "a"), Err(NotTaken::TooMany));
        // A cancelled one still holds its place: its work has not stopped.
        inbound.cancel(&Id::from(1));
        assert_eq!(inbound.begin(&Id::from(3), "a"), Err(NotTaken::TooMany));
        inbound.complete(&Id::from(1));
        assert_eq!(inbound.begin(&Id::from(3), "a"), Ok(()));
    }

    #[test]
    fn progress_must_rise() {
        // PROG-005; PROG-006: fractions are fine.
        let mut progress = Rising::default();
        assert!(progress.step(-1.0));
        assert!(progress.step(0.5));
        assert!(!progress.step(0.5));
        assert!(!progress.step(0.25));
        assert!(!progress.step(f64::NAN));
        assert!(!progress.step(f64::INFINITY));
        assert!(progress.step(0.75));
    }
}
