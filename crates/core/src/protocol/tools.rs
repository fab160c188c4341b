//! Tools: functions of the server that a model may call.

use serde::{Serialize, Serializer};

use super::caching::{CacheScope, cacheable};
use super::mrtr::{InputRequired, InputResponses};
use super::pagination::PaginatedParams;
use super::result::{complete, require_object};
use super::tasks::{CreateTaskResult, TaskRequest};
use super::wire::{has_meta, method, notification, string_enum, wire};
use super::{CacheSubject, ContentBlock, EmptyParams, HasMeta, Icon, Meta, Output, ResultType, Schema};
use crate::jsonrpc::{JsonError, Raw, RawJson};

method! {
    /// Which tools there are.
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
        /// What it is called by.
        name: String,
        /// What arguments it takes; the root says `"type": "object"`.
        input_schema: Schema,
    }
    optional {
        /// For people (from 2025-06-18).
        title: String,
        /// What it does, for the model.
        description: String,
        /// What `structuredContent` looks like (from 2025-06-18; an object up to 2025-11-25).
        output_schema: Schema,
        /// Hints about its behaviour (from 2025-03-26).
        annotations: ToolAnnotations,
        /// Pictures of it (from 2025-11-25).
        icons: Vec<Icon>,
        /// Whether it can run as a task (2025-11-25 only).
        execution: ToolExecution,
        /// Data beside the protocol (from 2025-06-18).
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

wire! {
    /// Hints about a tool. From a server that is not trusted they prove nothing.
    #[derive(Default, Eq)]
    pub struct ToolAnnotations {
    }
    optional {
        /// For people; `Tool::title` goes before it.
        title: String,
        /// It changes nothing.
        read_only_hint: bool,
        /// It may destroy something.
        destructive_hint: bool,
        /// Calling it again with the same arguments does nothing more.
        idempotent_hint: bool,
        /// It touches a world that is not closed, such as the web.
        open_world_hint: bool,
    }
}

wire! {
    /// How a tool runs, as 2025-11-25 has it.
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
        /// Never; also what silence means.
        Forbidden = "forbidden",
        /// If the client asks for it.
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
        /// Where the next page begins; absent on the last.
        next_cursor: String,
        /// For how long the page stays good, in milliseconds.
        #[serde(with = "super::number::maybe_count")]
        ttl_ms: u64,
        /// Who may share the page.
        cache_scope: CacheScope,
        /// Data beside the protocol.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

wire! {
    /// What to call, and with what.
    pub struct CallParams {
        /// The tool.
        name: String,
    }
    optional {
        /// Its arguments, an object.
        #[serde(deserialize_with = "super::mrtr::deserialize_object")]
        arguments: RawJson,
        /// Answers to what an earlier attempt asked for.
        input_responses: InputResponses,
        /// What an earlier attempt wanted back, unchanged.
        request_state: String,
        /// Asks for a task (2025-11-25 only).
        task: TaskRequest,
        /// Data beside the protocol.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

wire! {
    /// What a tool said.
    pub struct CallResult {
        /// For the model.
        content: Vec<ContentBlock>,
    }
    optional {
        /// For programs: any JSON value (an object up to 2025-11-25).
        #[serde(deserialize_with = "crate::jsonrpc::deserialize_present")]
        structured_content: RawJson,
        /// Whether the tool failed. Its content then tells the model why.
        is_error: bool,
        /// Data beside the protocol.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

impl CallResult {
    /// A result of words.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new([ContentBlock::text(text)])
    }

    /// A failure of the tool itself, told to the model.
    pub fn error(text: impl Into<String>) -> Self {
        Self::text(text).is_error(true)
    }
}

/// What a call gives.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum CallOutput {
    /// What the tool said.
    Complete(CallResult),
    /// The server asks back first.
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
