//! Allocations that are not counted.

pub(crate) struct AllocationCounter;

impl AllocationCounter {
    pub(crate) fn start() -> Self {
        Self
    }

    /// How many there were, which is not known.
    pub(crate) fn finish(self) -> u64 {
        0
    }
}
