//! How many connections of a pool suspended calls may hold, so that other calls still find one.

use std::sync::{Arc, Mutex};

use tsugite_core::revision::RpcError;

use crate::lock::lock;
use crate::server::limits::CallerKey;

/// The suspended calls that hold a connection of one pool.
pub(super) struct SuspensionSlots {
    max_calls: usize,
    max_calls_per_caller: usize,
    /// The caller of each suspended call.
    callers: Mutex<Vec<Option<CallerKey>>>,
}

impl SuspensionSlots {
    /// Three quarters of the connections of a pool, and of the share of one caller.
    pub(super) fn new(max_upstreams: usize, caller_share: usize) -> Arc<Self> {
        Arc::new(Self {
            max_calls: held_part(max_upstreams),
            max_calls_per_caller: held_part(caller_share),
            callers: Mutex::default(),
        })
    }
}

/// How many of these connections may be held for clients that are away.
pub(super) fn held_part(connections: usize) -> usize {
    connections - connections / 4
}

/// The right of a call to hold its connection while it is suspended, if there is a slot.
#[derive(Clone)]
pub(super) struct SuspensionClaim {
    pub(super) slots: Arc<SuspensionSlots>,
    pub(super) caller: Option<CallerKey>,
}

impl SuspensionClaim {
    /// Takes a slot until the permit is dropped.
    pub(super) fn acquire(&self) -> Result<SuspensionPermit, RpcError> {
        let mut callers = lock(&self.slots.callers);
        let own = callers.iter().filter(|caller| self.caller.is_some() && **caller == self.caller).count();
        if own >= self.slots.max_calls_per_caller {
            return Err(limit_error(&format!("{own} of this caller")));
        }
        if callers.len() >= self.slots.max_calls {
            return Err(limit_error(&format!("{} at this server", callers.len())));
        }
        callers.push(self.caller.clone());
        Ok(SuspensionPermit { slots: Arc::clone(&self.slots), caller: self.caller.clone() })
    }
}

fn limit_error(count: &str) -> RpcError {
    RpcError::internal_with_message(format!(
        "too many suspended calls ({count}); answer or cancel one of them, or try again later"
    ))
}

/// A slot that is taken.
pub(super) struct SuspensionPermit {
    slots: Arc<SuspensionSlots>,
    caller: Option<CallerKey>,
}

impl Drop for SuspensionPermit {
    fn drop(&mut self) {
        let mut callers = lock(&self.slots.callers);
        if let Some(index) = callers.iter().position(|caller| *caller == self.caller) {
            callers.swap_remove(index);
        }
    }
}
