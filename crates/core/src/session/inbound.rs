//! Requests the peer sent and we have not answered yet.
//!
//! Each gets exactly one answer, or none if its sender cancelled it first.

use std::collections::HashMap;

use crate::jsonrpc::Id;
use crate::protocol::{Method, lifecycle};

/// The requests of one peer that are under way.
#[derive(Debug)]
pub struct InboundRequests {
    in_flight: HashMap<Id<'static>, InFlightRequest>,
    max_requests: usize,
}

#[derive(Debug)]
struct InFlightRequest {
    cancellable: bool,
    cancelled: bool,
}

/// Why a request is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BeginError {
    /// Another request with the same id has no answer yet: -32600, since it would be unclear which is answered.
    DuplicateId,
    /// Too many are under way.
    TooMany,
}

/// What to do about a cancellation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelAction {
    /// Stop the work.
    Stop,
    /// Nothing: unknown, answered, already cancelled, or not to be cancelled.
    Ignore,
}

/// What to do with an answer that is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseAction {
    /// Send it.
    Send,
    /// Drop it: its request was cancelled, or is not under way.
    Drop,
}

impl InboundRequests {
    /// At most `max_requests` requests at a time.
    pub fn new(max_requests: usize) -> Self {
        Self { in_flight: HashMap::new(), max_requests }
    }

    /// Whether no further request would be taken.
    pub fn is_full(&self) -> bool {
        self.in_flight.len() >= self.max_requests
    }

    /// A request has come.
    pub fn begin(&mut self, id: &Id<'static>, method: &str) -> Result<(), BeginError> {
        if self.in_flight.contains_key(id) {
            return Err(BeginError::DuplicateId);
        }
        if self.in_flight.len() >= self.max_requests {
            return Err(BeginError::TooMany);
        }
        let cancellable = method != lifecycle::Initialize::NAME;
        self.in_flight.insert(id.clone(), InFlightRequest { cancellable, cancelled: false });
        Ok(())
    }

    /// Its sender no longer wants it.
    ///
    /// Whether the answer was already on its way is decided by [`complete`](Self::complete), whichever comes first.
    pub fn cancel(&mut self, id: &Id<'static>) -> CancelAction {
        match self.in_flight.get_mut(id) {
            Some(running) if running.cancellable && !running.cancelled => {
                running.cancelled = true;
                CancelAction::Stop
            }
            _ => CancelAction::Ignore,
        }
    }

    /// Its answer is ready, or its work has stopped.
    pub fn complete(&mut self, id: &Id<'static>) -> ResponseAction {
        match self.in_flight.remove(id) {
            Some(running) if !running.cancelled => ResponseAction::Send,
            _ => ResponseAction::Drop,
        }
    }

    /// Whether anything may still be said for this request: progress and logs end with it.
    pub fn is_open(&self, id: &Id<'static>) -> bool {
        self.in_flight.get(id).is_some_and(|running| !running.cancelled)
    }

    /// How many are under way, cancelled ones whose work has not stopped included.
    pub fn len(&self) -> usize {
        self.in_flight.len()
    }

    /// Whether none is under way.
    pub fn is_empty(&self) -> bool {
        self.in_flight.is_empty()
    }
}

/// A number that must rise: progress of one request, over its whole life.
#[derive(Debug, Clone, Copy, Default)]
pub struct MonotonicProgress(Option<f64>);

impl MonotonicProgress {
    /// Whether `value` is a step up; if so it is remembered. What is not a number never is.
    pub fn advance(&mut self, value: f64) -> bool {
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
        let mut inbound = InboundRequests::new(8);
        inbound.begin(&Id::from(1), "tools/call").unwrap();
        assert!(inbound.is_open(&Id::from(1)));
        assert_eq!(inbound.complete(&Id::from(1)), ResponseAction::Send);
        assert!(!inbound.is_open(&Id::from(1)));
        assert_eq!(inbound.complete(&Id::from(1)), ResponseAction::Drop);
        assert_eq!(inbound.complete(&Id::from(2)), ResponseAction::Drop);
    }

    #[test]
    fn an_id_under_way_cannot_be_used_again_and_an_answered_one_can() {
        // JRPC-005 as its receiver sees it; JRPC-006: `1` and `"1"` are two ids.
        let mut inbound = InboundRequests::new(8);
        inbound.begin(&Id::from(1), "tools/call").unwrap();
        assert_eq!(inbound.begin(&Id::from(1), "tools/list"), Err(BeginError::DuplicateId));
        assert_eq!(inbound.begin(&Id::from("1"), "tools/list"), Ok(()));
        inbound.complete(&Id::from(1));
        assert_eq!(inbound.begin(&Id::from(1), "tools/list"), Ok(()));
    }

    #[test]
    fn a_cancelled_request_gets_no_answer() {
        // CANC-008
        let mut inbound = InboundRequests::new(8);
        inbound.begin(&Id::from(1), "tools/call").unwrap();
        assert_eq!(inbound.cancel(&Id::from(1)), CancelAction::Stop);
        assert!(!inbound.is_open(&Id::from(1)));
        assert_eq!(inbound.complete(&Id::from(1)), ResponseAction::Drop);
        assert!(inbound.is_empty());
    }

    #[test]
    fn a_cancellation_that_comes_too_late_or_twice_or_for_nothing_is_ignored() {
        // CANC-009, CANC-011: the race is decided by what comes first.
        let mut inbound = InboundRequests::new(8);
        inbound.begin(&Id::from(1), "tools/call").unwrap();
        assert_eq!(inbound.complete(&Id::from(1)), ResponseAction::Send);
        assert_eq!(inbound.cancel(&Id::from(1)), CancelAction::Ignore);
        assert_eq!(inbound.cancel(&Id::from(9)), CancelAction::Ignore);
        inbound.begin(&Id::from(2), "tools/call").unwrap();
        assert_eq!(inbound.cancel(&Id::from(2)), CancelAction::Stop);
        assert_eq!(inbound.cancel(&Id::from(2)), CancelAction::Ignore);
    }

    #[test]
    fn initialize_is_not_cancelled() {
        // CANC-005
        let mut inbound = InboundRequests::new(8);
        inbound.begin(&Id::from(0), "initialize").unwrap();
        assert_eq!(inbound.cancel(&Id::from(0)), CancelAction::Ignore);
        assert_eq!(inbound.complete(&Id::from(0)), ResponseAction::Send);
    }

    #[test]
    fn no_more_requests_are_taken_than_the_limit_allows() {
        let mut inbound = InboundRequests::new(2);
        inbound.begin(&Id::from(1), "a").unwrap();
        inbound.begin(&Id::from(2), "a").unwrap();
        assert_eq!(inbound.begin(&Id::from(3), "a"), Err(BeginError::TooMany));
        // A cancelled one still holds its place: its work has not stopped.
        inbound.cancel(&Id::from(1));
        assert_eq!(inbound.begin(&Id::from(3), "a"), Err(BeginError::TooMany));
        inbound.complete(&Id::from(1));
        assert_eq!(inbound.begin(&Id::from(3), "a"), Ok(()));
    }

    #[test]
    fn progress_must_rise() {
        // PROG-005; PROG-006: fractions are fine.
        let mut progress = MonotonicProgress::default();
        assert!(progress.advance(-1.0));
        assert!(progress.advance(0.5));
        assert!(!progress.advance(0.5));
        assert!(!progress.advance(0.25));
        assert!(!progress.advance(f64::NAN));
        assert!(!progress.advance(f64::INFINITY));
        assert!(progress.advance(0.75));
    }
}
