//! Elicitation: forms came with 2025-06-18; web pages, multiple choice, titled choices and defaults with 2025-11-25.

use super::super::Revision::*;
use super::super::{Revision, Translate, Unsayable};
use super::same_everywhere;
use crate::protocol::elicitation::{
    CompleteParams, ElicitParams, ElicitResult, FieldValue, FormParams, UrlParams,
};
use crate::protocol::form::{Field, FieldKind, Options, TitledOption};

impl Translate for ElicitParams {
    fn outward(&mut self, to: Revision) -> Result<(), Unsayable> {
        if !to.has_elicitation() {
            return Err(Unsayable::Elicitation);
        }
        match self {
            ElicitParams::Form(form) => form.outward(to),
            ElicitParams::Url(url) => url.outward(to),
        }
    }

    fn inward(&mut self, from: Revision) {
        if let ElicitParams::Form(form) = self {
            form.inward(from);
        }
    }
}

impl Translate for FormParams {
    fn outward(&mut self, to: Revision) -> Result<(), Unsayable> {
        if !to.has_core_tasks() {
            self.task = None;
        }
        if to.is_stateless() {
            self.meta = None;
        }
        if to == V2025_06_18 {
            self.mode = None;
            self.requested_schema.dialect = None;
            self.requested_schema.properties.values_mut().try_for_each(older_field)?;
        }
        Ok(())
    }

    fn inward(&mut self, from: Revision) {
        if from == V2025_06_18 {
            self.requested_schema.properties.values_mut().for_each(newer_field);
        }
    }
}

/// 2025-06-18 writes titles beside the values and knows a default for yes or no alone.
fn older_field(field: &mut Field) -> Result<(), Unsayable> {
    match &mut field.kind {
        FieldKind::Text { default, .. } => *default = None,
        FieldKind::Number { default, .. } => *default = None,
        FieldKind::Flag { .. } => {}
        FieldKind::Choice { options, default } => {
            *default = None;
            if let Options::Titled(titled) = options {
                let (values, names) = titled.drain(..).map(|option| (option.value, option.title)).unzip();
                *options = Options::Named { values, names };
            }
        }
        FieldKind::Choices { .. } => return Err(Unsayable::MultipleChoice),
    }
    Ok(())
}

fn newer_field(field: &mut Field) {
    let FieldKind::Choice { options, .. } = &mut field.kind else { return };
    if let Options::Named { values, names } = options
        && values.len() == names.len()
    {
        let pairs = values.drain(..).zip(names.drain(..));
        *options = Options::Titled(pairs.map(|(value, title)| TitledOption { value, title }).collect());
    }
}

impl Translate for UrlParams {
    fn outward(&mut self, to: Revision) -> Result<(), Unsayable> {
        if !to.has_url_elicitation() {
            return Err(Unsayable::UrlElicitation);
        }
        if to.is_stateless() {
            self.elicitation_id = None;
            self.task = None;
            self.meta = None;
        } else if self.elicitation_id.is_none() {
            return Err(Unsayable::Missing("elicitationId"));
        }
        Ok(())
    }

    fn inward(&mut self, _from: Revision) {}
}

impl Translate for ElicitResult {
    fn outward(&mut self, to: Revision) -> Result<(), Unsayable> {
        if !to.has_elicitation() {
            return Err(Unsayable::Elicitation);
        }
        let several = |(_, value): (&str, &FieldValue)| matches!(value, FieldValue::Many(_));
        if to == V2025_06_18 && self.content.as_ref().is_some_and(|content| content.iter().any(several)) {
            return Err(Unsayable::MultipleChoice);
        }
        // On 2026-07-28 an answer is a bare object inside the params of the next attempt.
        if to.is_stateless() {
            self.meta = None;
        }
        Ok(())
    }

    fn inward(&mut self, _from: Revision) {}
}

same_everywhere!(CompleteParams);
