//! Tools and their results in older revisions.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::super::Revision::*;
use super::super::{InferResultType, Revision, Translate, UnsupportedByRevisionError};
use super::{fit_cache, fit_icons, fit_inner_meta, fit_input_responses, fit_title, no_change_between};
use crate::jsonrpc::{Raw, RawJson};
use crate::protocol::tools::{CallOutput, CallParams, CallResult, ListResult, Tool, ToolAnnotations};
use crate::protocol::{ContentBlock, ResultType, Schema};

impl Translate for Tool {
    fn downgrade(&mut self, to: Revision) -> Result<(), UnsupportedByRevisionError> {
        match to {
            V2024_11_05 => self.annotations = None,
            // The title was part of the annotations first.
            V2025_03_26 => {
                if let Some(title) = self.title.take() {
                    self.annotations.get_or_insert_default().title.get_or_insert(title);
                }
            }
            _ => {}
        }
        fit_title(&mut self.title, to);
        fit_icons(&mut self.icons, to);
        fit_inner_meta(&mut self.meta, to);
        if !to.has_core_tasks() {
            self.execution = None;
        }
        fit_schema(&mut self.input_schema, to);
        // A schema without a root type is invalid in every revision.
        self.input_schema.keywords_mut().entry("type").or_insert_with(|| json!("object"));
        match &mut self.output_schema {
            Some(schema) if to >= V2025_06_18 && (to.is_stateless() || schema.is_object_rooted()) => {
                fit_schema(schema, to);
            }
            schema => *schema = None,
        }
        Ok(())
    }

    fn upgrade(&mut self, from: Revision) {
        if from == V2025_03_26
            && self.title.is_none()
            && let Some(annotations) = &mut self.annotations
            && let Some(title) = annotations.title.take()
        {
            self.title = Some(title);
            if *annotations == ToolAnnotations::default() {
                self.annotations = None;
            }
        }
    }
}

/// Up to 2025-11-25 the schema of a property must be an object; `true` and `false` are replaced by equivalent objects.
fn fit_schema(schema: &mut Schema, to: Revision) {
    if to.is_stateless() {
        return;
    }
    if let Some(Value::Object(properties)) = schema.keywords_mut().get_mut("properties") {
        for (_, property) in properties {
            match property {
                Value::Bool(true) => *property = json!({}),
                Value::Bool(false) => *property = json!({"not": {}}),
                _ => {}
            }
        }
    }
}

impl Translate for ListResult {
    fn downgrade(&mut self, to: Revision) -> Result<(), UnsupportedByRevisionError> {
        fit_cache(self, to);
        self.tools.iter_mut().try_for_each(|tool| tool.downgrade(to))
    }

    fn upgrade(&mut self, from: Revision) {
        self.tools.iter_mut().for_each(|tool| tool.upgrade(from));
    }
}

impl Translate for CallParams {
    fn downgrade(&mut self, to: Revision) -> Result<(), UnsupportedByRevisionError> {
        fit_input_responses(&mut self.input_responses, &mut self.request_state, to);
        // Other revisions do not have the member, and on 2026-07-28 the server alone decides.
        if !to.has_core_tasks() {
            self.task = None;
        }
        Ok(())
    }

    /// Removes members that the peer's revision does not have, so that they are not taken for those of another
    /// revision.
    fn upgrade(&mut self, from: Revision) {
        let _ = self.downgrade(from);
    }

    fn is_same_in(one: Revision, other: Revision) -> bool {
        no_change_between(one, other, &[V2025_11_25, V2026_07_28])
    }
}

impl Translate for CallResult {
    fn downgrade(&mut self, to: Revision) -> Result<(), UnsupportedByRevisionError> {
        fit_structured(&mut self.structured_content, &mut self.content, to);
        self.content.iter_mut().try_for_each(|block| block.downgrade(to))
    }

    fn upgrade(&mut self, _from: Revision) {}
}

/// Structured content came with 2025-06-18, as an object; only 2026-07-28 allows any value. A result with structured
/// content only keeps it as text.
pub(super) fn fit_structured(
    structured: &mut Option<RawJson>,
    content: &mut Vec<ContentBlock>,
    to: Revision,
) {
    if to.is_stateless() {
        return;
    }
    let Some(json) = structured.take_if(|json| to < V2025_06_18 || !json.is_object()) else { return };
    if content.is_empty() {
        content.push(ContentBlock::text(json.text()));
    }
}

impl Translate for CallOutput {
    fn downgrade(&mut self, to: Revision) -> Result<(), UnsupportedByRevisionError> {
        match self {
            CallOutput::Complete(result) => result.downgrade(to),
            CallOutput::InputRequired(asked) => asked.downgrade(to),
            CallOutput::Task(task) => task.downgrade(to),
        }
    }

    fn upgrade(&mut self, from: Revision) {
        match self {
            CallOutput::Complete(result) => result.upgrade(from),
            CallOutput::InputRequired(asked) => asked.upgrade(from),
            CallOutput::Task(task) => task.upgrade(from),
        }
    }
}

impl InferResultType for CallOutput {
    fn infer_result_type(result: Raw<'_>, from: Revision) -> ResultType {
        infer_task_result(result, from)
    }
}

/// On 2025-11-25 a result is a task if it has `task` and lacks the members of a complete result.
pub(super) fn infer_task_result(result: Raw<'_>, from: Revision) -> ResultType {
    #[derive(Deserialize)]
    struct TaskMembers {
        task: Option<IgnoredAny>,
        content: Option<IgnoredAny>,
        action: Option<IgnoredAny>,
    }
    match result.read::<TaskMembers>() {
        Ok(TaskMembers { task: Some(_), content: None, action: None }) if from.has_core_tasks() => {
            ResultType::Task
        }
        _ => ResultType::Complete,
    }
}
