//! Small notifications and roots.

use super::super::Revision::*;
use super::super::{Revision, Translate, UnsupportedByRevisionError};
use super::{fit_inner_meta, no_change_between};
use crate::protocol::cancellation::CancelledParams;
use crate::protocol::progress::ProgressParams;
use crate::protocol::roots::ListResult;

impl Translate for ProgressParams {
    fn downgrade(&mut self, to: Revision) -> Result<(), UnsupportedByRevisionError> {
        if to < V2025_03_26 {
            self.message = None;
        }
        Ok(())
    }

    fn upgrade(&mut self, _from: Revision) {}

    fn is_same_in(one: Revision, other: Revision) -> bool {
        no_change_between(one, other, &[V2025_03_26])
    }
}

impl Translate for CancelledParams {
    fn downgrade(&mut self, _to: Revision) -> Result<(), UnsupportedByRevisionError> {
        // 2025-11-25 makes it optional in its schema, and required in its text except for tasks.
        if self.request_id.is_none() {
            Err(UnsupportedByRevisionError::MissingMember("requestId"))
        } else {
            Ok(())
        }
    }

    fn upgrade(&mut self, _from: Revision) {}
}

impl Translate for ListResult {
    fn downgrade(&mut self, to: Revision) -> Result<(), UnsupportedByRevisionError> {
        for root in &mut self.roots {
            fit_inner_meta(&mut root.meta, to);
        }
        if to.is_stateless() {
            self.meta = None;
        }
        Ok(())
    }

    fn upgrade(&mut self, _from: Revision) {}

    fn is_same_in(one: Revision, other: Revision) -> bool {
        no_change_between(one, other, &[V2025_06_18, V2026_07_28])
    }
}
