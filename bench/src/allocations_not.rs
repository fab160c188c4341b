//! Allocations that are not counted.

pub(crate) struct Counting;

impl Counting {
    pub(crate) fn start() -> Self {
        Self
    }

    /// How many there were, which is not known.
    pub(crate) fn end(self) -> u64 {
        0
    }
}
