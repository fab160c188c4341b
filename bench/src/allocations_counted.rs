//! Counts the allocations of the whole process.

use std::alloc::System;

use alloc_tracker::{Allocator, ProcessSpan, Session};

#[global_allocator]
static ALLOCATOR: Allocator<System> = Allocator::system();

pub(crate) struct AllocationCounter {
    session: Session,
    span: ProcessSpan,
}

impl AllocationCounter {
    pub(crate) fn start() -> Self {
        let session = Session::new();
        let span = session.operation("burst").measure_process();
        Self { session, span }
    }

    /// Returns the number of allocations since the start.
    pub(crate) fn finish(self) -> u64 {
        drop(self.span);
        let report = self.session.to_report();
        report.operations().next().map_or(0, |(_, burst)| burst.total_allocations_count())
    }
}
