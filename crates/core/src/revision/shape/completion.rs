//! Completion: its context, and the title of a prompt, came with 2025-06-18.

use super::super::Revision::*;
use super::super::{Revision, Translate, Unsayable};
use super::{fit_title, same_everywhere};
use crate::protocol::completion::{CompleteParams, CompleteResult, Reference};

impl Translate for CompleteParams {
    fn outward(&mut self, to: Revision) -> Result<(), Unsayable> {
        if to < V2025_06_18 {
            self.context = None;
        }
        if let Reference::Prompt { title, .. } = &mut self.r#ref {
            fit_title(title, to);
        }
        Ok(())
    }

    fn inward(&mut self, _from: Revision) {}
}

same_everywhere!(CompleteResult);
