//! Tools: functions of the server that a model may call.

use serde::{Serialize, Serializer};

use super::caching::{CacheScope, cacheable};
use super::content::join_lines;
use super::mrtr::{InputRequired, InputResponses};
use super::pagination::PaginatedParams;
use super::result::{complete, require_object};
use super::tasks::{CreateTaskResult, TaskRequest};
use super::wire::{has_meta, method, notification, string_enum, wire};
use super::{CacheSubject, ContentBlock, EmptyParams, HasMeta, Icon, Meta, Output, ResultType, Schema};
use crate::jsonrpc::{JsonError, Raw, RawJson};

method! {
    /// Lists the tools.
    List = "tools/list", PaginatedParams => ListResult {
        fn cache_subject(params: &PaginatedParams) -> Option<CacheSubject<'_>> {
            Some(CacheSubject::Page(params.cursor.as_deref()))
        }

        fn listed_tools(output: &mut ListResult) -> Option<&mut Vec<Tool>> {
            Some(&mut output.tools)
        }
    }
}

method! {
    /// Calls a tool.
    Call = "tools/call", CallParams => CallOutput {
        fn subject(params: &CallParams) -> Option<&str> {
            Some(&params.name)
        }

        fn tool_call(params: &CallParams) -> Option<&CallParams> {
            Some(params)
        }
    }
}

notification! {
    /// The list of tools has changed.
    ListChanged = "notifications/tools/list_changed", EmptyParams
}

wire! {
    /// A tool.
    pub struct Tool {
        /// The name.
        name: String,
        /// The schema of the arguments; the root has `"type": "object"`.
        input_schema: Schema,
    }
    optional {
        /// The display name (from 2025-06-18).
        title: String,
        /// A description for the model.
        description: String,
        /// The schema of `structuredContent` (from 2025-06-18; an object up to 2025-11-25).
        output_schema: Schema,
        /// Hints about its behaviour (from 2025-03-26).
        annotations: ToolAnnotations,
        /// Icons (from 2025-11-25).
        icons: Vec<Icon>,
        /// Whether it can run as a task (2025-11-25 only).
        execution: ToolExecution,
        /// Metadata, `_meta` (from 2025-06-18).
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

wire! {
    /// Hints about a tool. They prove nothing about an untrusted server.
    #[derive(Default, Eq)]
    pub struct ToolAnnotations {
    }
    optional {
        /// The display name; `Tool::title` takes precedence.
        title: String,
        /// The tool does not change anything.
        read_only_hint: bool,
        /// The tool may delete or overwrite data.
        destructive_hint: bool,
        /// Repeated calls with the same arguments have no further effect.
        idempotent_hint: bool,
        /// The tool interacts with an open world, such as the web.
        open_world_hint: bool,
    }
}

wire! {
    /// How a tool runs (2025-11-25).
    #[derive(Default, Copy, Eq)]
    pub struct ToolExecution {
    }
    optional {
        /// Whether it can run as a task.
        task_support: TaskSupport,
    }
}

string_enum! {
    /// Whether a tool can run as a task.
    pub enum TaskSupport {
        /// Never; also the default.
        Forbidden = "forbidden",
        /// If the client requests it.
        Optional = "optional",
        /// Always.
        Required = "required",
    }
}

wire! {
    /// One page of tools.
    pub struct ListResult {
        /// The tools.
        tools: Vec<Tool>,
    }
    optional {
        /// The cursor of the next page; absent on the last page.
        next_cursor: String,
        /// How long the page may be cached, in milliseconds.
        #[serde(with = "super::number::maybe_count")]
        ttl_ms: u64,
        /// The cache scope of the page.
        cache_scope: CacheScope,
        /// Metadata, `_meta`.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

wire! {
    /// The tool and its arguments.
    #[doc(alias("CallToolRequest", "CallToolRequestParams"))]
    pub struct CallParams {
        /// The name of the tool.
        name: String,
    }
    optional {
        /// The arguments, an object.
        #[serde(deserialize_with = "super::mrtr::deserialize_object")]
        arguments: RawJson,
        /// The responses to the input requests of an earlier attempt.
        input_responses: InputResponses,
        /// The `requestState` of an earlier attempt, unchanged.
        request_state: String,
        /// Requests to run as a task (2025-11-25 only).
        task: TaskRequest,
        /// Metadata, `_meta`.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

impl Tool {
    /// The name to show to people: the title, else the title of the annotations, else the name.
    pub fn display_name(&self) -> &str {
        let annotated = self.annotations.as_ref().and_then(|annotations| annotations.title.as_deref());
        self.title.as_deref().or(annotated).unwrap_or(&self.name)
    }
}

wire! {
    /// The result of a tool.
    #[doc(alias = "CallToolResult")]
    pub struct CallResult {
        /// The content for the model.
        content: Vec<ContentBlock>,
    }
    optional {
        /// The structured content: any JSON value (an object up to 2025-11-25).
        #[serde(deserialize_with = "crate::jsonrpc::deserialize_present")]
        structured_content: RawJson,
        /// Whether the tool failed. Its content then tells the model why.
        is_error: bool,
        /// Metadata, `_meta`.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

impl CallResult {
    /// A result with a text.
    pub fn from_text(text: impl Into<String>) -> Self {
        Self::new([ContentBlock::text(text)])
    }

    /// An error of the tool itself, for the model.
    pub fn error(text: impl Into<String>) -> Self {
        Self::from_text(text).is_error(true)
    }

    /// The text of the result: all text blocks, joined by newlines. Empty if there is none.
    ///
    /// ```
    /// use tsugite_core::protocol::{CallResult, ContentBlock};
    ///
    /// let result = CallResult::new([ContentBlock::text("one"), ContentBlock::text("two")]);
    /// assert_eq!(result.text(), "one\ntwo");
    /// ```
    pub fn text(&self) -> String {
        join_lines(self.content.iter().filter_map(ContentBlock::as_text))
    }
}

/// The outcome of a call.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum CallOutput {
    /// The complete result.
    Complete(CallResult),
    /// The server requests input first.
    InputRequired(InputRequired),
    /// The tool runs as a task.
    Task(CreateTaskResult),
}

impl From<CallResult> for CallOutput {
    fn from(result: CallResult) -> Self {
        CallOutput::Complete(result)
    }
}

impl From<InputRequired> for CallOutput {
    fn from(asked: InputRequired) -> Self {
        CallOutput::InputRequired(asked)
    }
}

impl From<CreateTaskResult> for CallOutput {
    fn from(task: CreateTaskResult) -> Self {
        CallOutput::Task(task)
    }
}

impl Output for CallOutput {
    fn result_type(&self) -> ResultType {
        match self {
            CallOutput::Complete(_) => ResultType::Complete,
            CallOutput::InputRequired(_) => ResultType::InputRequired,
            CallOutput::Task(_) => ResultType::Task,
        }
    }

    #[inline]
    fn read(kind: ResultType, result: Raw<'_>) -> Result<Self, JsonError> {
        let result = require_object(result)?;
        Ok(match kind {
            ResultType::Complete => CallOutput::Complete(result.read()?),
            ResultType::InputRequired => CallOutput::InputRequired(InputRequired::read(result)?),
            ResultType::Task => CallOutput::Task(result.read()?),
        })
    }
}

impl Serialize for CallOutput {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            CallOutput::Complete(result) => result.serialize(serializer),
            CallOutput::InputRequired(asked) => asked.serialize(serializer),
            CallOutput::Task(task) => task.serialize(serializer),
        }
    }
}

impl HasMeta for CallOutput {
    fn meta(&self) -> Option<&Meta> {
        match self {
            CallOutput::Complete(result) => result.meta.as_ref(),
            CallOutput::InputRequired(asked) => asked.meta.as_ref(),
            CallOutput::Task(task) => task.meta.as_ref(),
        }
    }

    fn meta_mut(&mut self) -> &mut Option<Meta> {
        match self {
            CallOutput::Complete(result) => &mut result.meta,
            CallOutput::InputRequired(asked) => &mut asked.meta,
            CallOutput::Task(task) => &mut task.meta,
        }
    }
}

cacheable!(ListResult);
complete!(ListResult);
has_meta!(ListResult, CallParams);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_name_prefers_the_title() {
        // TOOL-045
        let tool = || Tool::new("name", Schema::from(serde_json::json!({"type": "object"})));
        let hints = || ToolAnnotations::new().title("hint");
        assert_eq!(tool().display_name(), "name");
        assert_eq!(tool().annotations(hints()).display_name(), "hint");
        assert_eq!(tool().annotations(hints()).title("title").display_name(), "title");
    }
}
