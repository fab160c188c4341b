//! Prompts and their messages.

use super::super::Revision::*;
use super::super::{Revision, Translate, UnsupportedByRevisionError};
use super::{fit_cache, fit_icons, fit_inner_meta, fit_input_responses, fit_title, no_change_between};
use crate::protocol::prompts::{GetParams, GetResult, ListResult, Prompt};

impl Translate for Prompt {
    fn downgrade(&mut self, to: Revision) -> Result<(), UnsupportedByRevisionError> {
        fit_title(&mut self.title, to);
        fit_icons(&mut self.icons, to);
        fit_inner_meta(&mut self.meta, to);
        for argument in self.arguments.iter_mut().flatten() {
            fit_title(&mut argument.title, to);
        }
        Ok(())
    }

    fn upgrade(&mut self, _from: Revision) {}
}

impl Translate for ListResult {
    fn downgrade(&mut self, to: Revision) -> Result<(), UnsupportedByRevisionError> {
        fit_cache(self, to);
        self.prompts.iter_mut().try_for_each(|prompt| prompt.downgrade(to))
    }

    fn upgrade(&mut self, _from: Revision) {}

    fn is_same_in(one: Revision, other: Revision) -> bool {
        no_change_between(one, other, &[V2025_06_18, V2025_11_25])
    }
}

impl Translate for GetParams {
    fn downgrade(&mut self, to: Revision) -> Result<(), UnsupportedByRevisionError> {
        fit_input_responses(&mut self.input_responses, &mut self.request_state, to);
        Ok(())
    }

    fn upgrade(&mut self, from: Revision) {
        let _ = self.downgrade(from);
    }

    fn is_same_in(one: Revision, other: Revision) -> bool {
        no_change_between(one, other, &[V2026_07_28])
    }
}

impl Translate for GetResult {
    fn downgrade(&mut self, to: Revision) -> Result<(), UnsupportedByRevisionError> {
        self.messages.iter_mut().try_for_each(|message| message.content.downgrade(to))
    }

    fn upgrade(&mut self, _from: Revision) {}

    fn is_same_in(one: Revision, other: Revision) -> bool {
        no_change_between(one, other, &[V2025_03_26, V2025_06_18, V2025_11_25])
    }
}
