//! Completion: its context, and the title of a prompt, came with 2025-06-18.

use super::super::Revision::*;
use super::super::{Revision, Translate, UnsupportedByRevisionError};
use super::{fit_title, no_change_between, same_everywhere};
use crate::protocol::completion::{CompleteParams, CompleteResult, Reference};

impl Translate for CompleteParams {
    fn downgrade(&mut self, to: Revision) -> Result<(), UnsupportedByRevisionError> {
        if to < V2025_06_18 {
            self.context = None;
        }
        if let Reference::Prompt { title, .. } = &mut self.r#ref {
            fit_title(title, to);
        }
        Ok(())
    }

    fn upgrade(&mut self, _from: Revision) {}

    fn is_same_in(one: Revision, other: Revision) -> bool {
        no_change_between(one, other, &[V2025_06_18])
    }
}

same_everywhere!(CompleteResult);
