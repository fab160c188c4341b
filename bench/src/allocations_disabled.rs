//! Stands in for the allocation counter where allocations are not counted.

pub(crate) struct AllocationCounter;

impl AllocationCounter {
    pub(crate) fn start() -> Self {
        Self
    }

    /// Returns 0, as nothing was counted.
    pub(crate) fn finish(self) -> u64 {
        0
    }
}
