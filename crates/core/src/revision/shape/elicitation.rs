//! Elicitation: forms came with 2025-06-18; URLs, multiple choice, titled choices and defaults with 2025-11-25.

use super::super::Revision::*;
use super::super::{Revision, Translate, UnsupportedByRevisionError};
use super::same_everywhere;
use crate::protocol::elicitation::{
    CompleteParams, ElicitParams, ElicitResult, FieldValue, FormParams, UrlParams,
};
use crate::protocol::form::{ChoiceOptions, Field, FieldKind, TitledOption};

impl Translate for ElicitParams {
    fn downgrade(&mut self, to: Revision) -> Result<(), UnsupportedByRevisionError> {
        if !to.has_elicitation() {
            return Err(UnsupportedByRevisionError::Elicitation);
        }
        match self {
            ElicitParams::Form(form) => form.downgrade(to),
            ElicitParams::Url(url) => url.downgrade(to),
        }
    }

    fn upgrade(&mut self, from: Revision) {
        if let ElicitParams::Form(form) = self {
            form.upgrade(from);
        }
    }
}

impl Translate for FormParams {
    fn downgrade(&mut self, to: Revision) -> Result<(), UnsupportedByRevisionError> {
        if !to.has_core_tasks() {
            self.task = None;
        }
        if to.is_stateless() {
            self.meta = None;
        }
        if to == V2025_06_18 {
            self.mode = None;
            self.requested_schema.dialect = None;
            self.requested_schema.properties.values_mut().try_for_each(downgrade_field)?;
        }
        Ok(())
    }

    fn upgrade(&mut self, from: Revision) {
        if from == V2025_06_18 {
            self.requested_schema.properties.values_mut().for_each(upgrade_field);
        }
    }
}

/// 2025-06-18 writes titles beside the values and has defaults only for booleans.
fn downgrade_field(field: &mut Field) -> Result<(), UnsupportedByRevisionError> {
    match &mut field.kind {
        FieldKind::Text { default, .. } => *default = None,
        FieldKind::Number { default, .. } => *default = None,
        FieldKind::Boolean { .. } => {}
        FieldKind::Choice { options, default } => {
            *default = None;
            if let ChoiceOptions::Titled(titled) = options {
                let (values, names) = titled.drain(..).map(|option| (option.value, option.title)).unzip();
                *options = ChoiceOptions::EnumNames { values, names };
            }
        }
        FieldKind::MultipleChoice { .. } => return Err(UnsupportedByRevisionError::MultipleChoice),
    }
    Ok(())
}

fn upgrade_field(field: &mut Field) {
    let FieldKind::Choice { options, .. } = &mut field.kind else { return };
    if let ChoiceOptions::EnumNames { values, names } = options
        && values.len() == names.len()
    {
        let pairs = values.drain(..).zip(names.drain(..));
        *options = ChoiceOptions::Titled(pairs.map(|(value, title)| TitledOption { value, title }).collect());
    }
}

impl Translate for UrlParams {
    fn downgrade(&mut self, to: Revision) -> Result<(), UnsupportedByRevisionError> {
        if !to.has_url_elicitation() {
            return Err(UnsupportedByRevisionError::UrlElicitation);
        }
        if to.is_stateless() {
            self.elicitation_id = None;
            self.task = None;
            self.meta = None;
        } else if self.elicitation_id.is_none() {
            return Err(UnsupportedByRevisionError::MissingMember("elicitationId"));
        }
        Ok(())
    }

    fn upgrade(&mut self, _from: Revision) {}
}

impl Translate for ElicitResult {
    fn downgrade(&mut self, to: Revision) -> Result<(), UnsupportedByRevisionError> {
        if !to.has_elicitation() {
            return Err(UnsupportedByRevisionError::Elicitation);
        }
        let several = |(_, value): (&str, &FieldValue)| matches!(value, FieldValue::List(_));
        if to == V2025_06_18 && self.content.as_ref().is_some_and(|content| content.iter().any(several)) {
            return Err(UnsupportedByRevisionError::MultipleChoice);
        }
        // On 2026-07-28 a response is a bare object inside the params of the next attempt.
        if to.is_stateless() {
            self.meta = None;
        }
        Ok(())
    }

    fn upgrade(&mut self, _from: Revision) {}
}

same_everywhere!(CompleteParams);
