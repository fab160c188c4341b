//! Requests the peer sent that have no response yet.
//!
//! Each request gets exactly one response, or none if its sender cancelled it first. The caller keeps its own data per
//! request (a task handle, a cancellation token) as the payload `T`, so that there is one table and not two.

use std::collections::HashMap;

use crate::jsonrpc::Id;
use crate::protocol::{Method, lifecycle};

/// The requests of one peer that are in flight, each with a payload `T`.
#[derive(Debug)]
pub struct InboundRequests<T = ()> {
    in_flight: HashMap<Id<'static>, InFlightRequest<T>>,
    max_requests: usize,
}

#[derive(Debug)]
struct InFlightRequest<T> {
    cancellable: bool,
    cancelled: bool,
    payload: T,
}

/// The reason why a request is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BeginError {
    /// Another request with the same id has no response yet: -32600, since a response could belong to either.
    DuplicateId,
    /// The limit of requests in flight is reached.
    TooMany,
}

/// The effect of a cancellation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelAction {
    /// Stop the work.
    Stop,
    /// Do nothing: the request is unknown, answered, already cancelled, or cannot be cancelled.
    Ignore,
}

/// The fate of a response that is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseAction {
    /// Send it.
    Send,
    /// Drop it: its request was cancelled, or is not in flight.
    Drop,
}

impl InboundRequests {
    /// Registers a request that has arrived.
    pub fn begin(&mut self, id: &Id<'static>, method: &str) -> Result<(), BeginError> {
        self.begin_with(id, method, ())
    }
}

impl<T> InboundRequests<T> {
    /// An empty table for at most `max_requests` requests at a time.
    pub fn new(max_requests: usize) -> Self {
        Self { in_flight: HashMap::new(), max_requests }
    }

    /// The number of requests that it holds at most.
    pub fn max_requests(&self) -> usize {
        self.max_requests
    }

    /// Whether the limit is reached, so that no further request is accepted.
    pub fn is_full(&self) -> bool {
        self.in_flight.len() >= self.max_requests
    }

    /// Registers a request that has arrived, with its payload.
    pub fn begin_with(&mut self, id: &Id<'static>, method: &str, payload: T) -> Result<(), BeginError> {
        if self.in_flight.contains_key(id) {
            return Err(BeginError::DuplicateId);
        }
        if self.is_full() {
            return Err(BeginError::TooMany);
        }
        let cancellable = method != lifecycle::Initialize::NAME;
        self.in_flight.insert(id.clone(), InFlightRequest { cancellable, cancelled: false, payload });
        Ok(())
    }

    /// Cancels a request.
    ///
    /// Whether the response was already on its way is decided by [`complete`](Self::complete): the first call wins.
    pub fn cancel(&mut self, id: &Id<'static>) -> CancelAction {
        match self.in_flight.get_mut(id) {
            Some(request) if request.cancellable && !request.cancelled => {
                request.cancelled = true;
                CancelAction::Stop
            }
            _ => CancelAction::Ignore,
        }
    }

    /// Removes a request whose response is ready, or whose work has stopped.
    pub fn complete(&mut self, id: &Id<'static>) -> ResponseAction {
        match self.in_flight.remove(id) {
            Some(request) if !request.cancelled => ResponseAction::Send,
            _ => ResponseAction::Drop,
        }
    }

    /// Removes a request whose work is to be stopped and returns its payload.
    pub fn remove(&mut self, id: &Id<'static>) -> Option<T> {
        self.in_flight.remove(id).map(|request| request.payload)
    }

    /// Removes all requests and returns their payloads.
    pub fn drain(&mut self) -> impl Iterator<Item = T> + use<T> {
        std::mem::take(&mut self.in_flight).into_values().map(|request| request.payload)
    }

    /// The payload of a request in flight.
    pub fn payload(&self, id: &Id<'static>) -> Option<&T> {
        self.in_flight.get(id).map(|request| &request.payload)
    }

    /// The payload of a request in flight, to change it.
    pub fn payload_mut(&mut self, id: &Id<'static>) -> Option<&mut T> {
        self.in_flight.get_mut(id).map(|request| &mut request.payload)
    }

    /// Whether a request with this id has no response yet, cancelled or not.
    pub fn contains<'a>(&'a self, id: &Id<'a>) -> bool {
        // A map with `'static` keys is also one with shorter keys, which saves a copy of the id.
        let in_flight: &HashMap<Id<'a>, InFlightRequest<T>> = &self.in_flight;
        in_flight.contains_key(id)
    }

    /// Whether progress and logs may still be sent for this request: both end with it.
    pub fn is_open(&self, id: &Id<'static>) -> bool {
        self.in_flight.get(id).is_some_and(|request| !request.cancelled)
    }

    /// The number of requests in flight, including cancelled ones whose work has not stopped.
    pub fn len(&self) -> usize {
        self.in_flight.len()
    }

    /// Whether no request is in flight.
    pub fn is_empty(&self) -> bool {
        self.in_flight.is_empty()
    }
}

/// The progress of one request, which must rise over its whole life.
#[derive(Debug, Clone, Copy, Default)]
pub struct MonotonicProgress(Option<f64>);

impl MonotonicProgress {
    /// Whether `value` is greater than the last one; if so it is remembered. NaN and infinities never are.
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
    fn id_can_be_reused_only_after_its_response() {
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
    fn late_repeated_or_unknown_cancellation_is_ignored() {
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
    fn payload_lives_as_long_as_its_request() {
        let mut inbound = InboundRequests::new(8);
        for number in 1..=3 {
            inbound.begin_with(&Id::from(number), "tools/call", number).unwrap();
        }
        *inbound.payload_mut(&Id::from(1)).unwrap() += 10;
        assert_eq!(inbound.payload(&Id::from(1)), Some(&11));
        assert_eq!(inbound.begin_with(&Id::from(1), "tools/call", 0), Err(BeginError::DuplicateId));
        assert_eq!(inbound.complete(&Id::from(1)), ResponseAction::Send);
        assert_eq!(inbound.payload(&Id::from(1)), None);
        assert_eq!(inbound.cancel(&Id::from(2)), CancelAction::Stop);
        assert!(inbound.contains(&Id::from(2)));
        assert_eq!(inbound.remove(&Id::from(2)), Some(2));
        assert_eq!(inbound.drain().collect::<Vec<_>>(), [3]);
        assert!(inbound.is_empty());
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
