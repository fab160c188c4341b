//! Resources and their templates.

use super::super::Revision::*;
use super::super::{Revision, Translate, UnsupportedByRevisionError};
use super::{
    fit_annotations, fit_cache, fit_icons, fit_inner_meta, fit_input_responses, fit_title, no_change_between,
    same_everywhere,
};
use crate::protocol::resources::{
    ListResult, ListTemplatesResult, ReadParams, ReadResult, Resource, ResourceTemplate, UriParams,
};

impl Translate for Resource {
    fn downgrade(&mut self, to: Revision) -> Result<(), UnsupportedByRevisionError> {
        fit_title(&mut self.title, to);
        fit_icons(&mut self.icons, to);
        fit_annotations(&mut self.annotations, to);
        fit_inner_meta(&mut self.meta, to);
        Ok(())
    }

    fn upgrade(&mut self, _from: Revision) {}
}

impl Translate for ResourceTemplate {
    fn downgrade(&mut self, to: Revision) -> Result<(), UnsupportedByRevisionError> {
        fit_title(&mut self.title, to);
        fit_icons(&mut self.icons, to);
        fit_annotations(&mut self.annotations, to);
        fit_inner_meta(&mut self.meta, to);
        Ok(())
    }

    fn upgrade(&mut self, _from: Revision) {}
}

impl Translate for ListResult {
    fn downgrade(&mut self, to: Revision) -> Result<(), UnsupportedByRevisionError> {
        fit_cache(self, to);
        self.resources.iter_mut().try_for_each(|resource| resource.downgrade(to))
    }

    fn upgrade(&mut self, _from: Revision) {}

    fn is_same_in(one: Revision, other: Revision) -> bool {
        no_change_between(one, other, &[V2025_06_18, V2025_11_25])
    }
}

impl Translate for ListTemplatesResult {
    fn downgrade(&mut self, to: Revision) -> Result<(), UnsupportedByRevisionError> {
        fit_cache(self, to);
        self.resource_templates.iter_mut().try_for_each(|template| template.downgrade(to))
    }

    fn upgrade(&mut self, _from: Revision) {}

    fn is_same_in(one: Revision, other: Revision) -> bool {
        no_change_between(one, other, &[V2025_06_18, V2025_11_25])
    }
}

impl Translate for ReadParams {
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

impl Translate for ReadResult {
    fn downgrade(&mut self, to: Revision) -> Result<(), UnsupportedByRevisionError> {
        fit_cache(self, to);
        self.contents.iter_mut().try_for_each(|contents| contents.downgrade(to))
    }

    fn upgrade(&mut self, _from: Revision) {}

    fn is_same_in(one: Revision, other: Revision) -> bool {
        no_change_between(one, other, &[V2025_06_18])
    }
}

same_everywhere!(UriParams);
