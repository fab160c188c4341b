//! The builder of a tool.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tsugite_core::jsonrpc::RawJson;
use tsugite_core::protocol::tools::{CallResult, ToolAnnotations};
use tsugite_core::protocol::{Schema, TaskSupport, tools};

use super::context::Context;
use super::handler::{Blocking, Handler, IntoHandler, RawFn};
use super::metadata::metadata_setters;
use super::output::IntoOutput;
use super::state::StateType;
use crate::shared::validate::{CompileFn, Validator};

/// A tool: its definition and its handler.
///
/// ```
/// use tsugite::prelude::*;
///
/// #[derive(serde::Deserialize, JsonSchema)]
/// struct Greet {
///     name: String,
/// }
///
/// let greet = Tool::new("greet")
///     .description("Greets a person.")
///     .handler(|Args(greet): Args<Greet>| async move { format!("Hello, {}!", greet.name) });
/// # let _ = greet;
/// ```
#[derive(Clone)]
#[doc(alias("tool_handler", "FunctionTool", "ToolRoute"))]
pub struct Tool {
    pub(crate) definition: tools::Tool,
    pub(crate) handler: Option<Arc<dyn Handler<CallResult>>>,
    pub(crate) tags: Vec<String>,
    pub(crate) scopes: Vec<String>,
    pub(crate) timeout: ToolTimeout,
    pub(crate) keeps_questions: bool,
    pub(crate) task: TaskSupport,
    pub(crate) restartable: bool,
    pub(crate) once: bool,
    /// Whether deserializing the arguments into their type enforces the schema.
    pub(crate) typed: bool,
    /// Compiles the validator. Set only on request, so that the validator is linked only into servers that use it.
    pub(crate) compile: Option<CompileFn>,
}

/// How long a call of a tool may take.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ToolTimeout {
    /// As long as the server allows without progress.
    Server,
    /// This long.
    After(Duration),
    /// As long as it takes.
    None,
}

impl Tool {
    /// Creates a tool. It takes no arguments until a handler asks for some.
    pub fn new(name: impl Into<String>) -> Self {
        Self::new_unvalidated(tools::Tool::new(name, Schema::object()))
    }

    /// Creates a tool from a definition known only at run time.
    pub fn from_definition(definition: tools::Tool) -> Self {
        Self::new_unvalidated(definition).validated(true)
    }

    fn new_unvalidated(definition: tools::Tool) -> Self {
        let support = definition.execution.and_then(|execution| execution.task_support);
        let definition_task = support.unwrap_or(TaskSupport::Forbidden);
        Self {
            definition,
            handler: None,
            tags: Vec::new(),
            scopes: Vec::new(),
            timeout: ToolTimeout::Server,
            keeps_questions: true,
            task: definition_task,
            restartable: false,
            once: false,
            typed: false,
            compile: None,
        }
    }

    /// Validates arguments with the full JSON Schema validator where their types enforce less than the schema says, for
    /// example a `pattern`. Bounds of numbers, lengths and counts are checked without it, and tools whose schema comes from
    /// no Rust type are always validated. The validator adds some megabytes to the executable.
    #[must_use]
    pub fn validated(mut self, yes: bool) -> Self {
        self.compile = yes.then_some(Validator::compile as CompileFn);
        self
    }

    /// Sets the handler. Parameters are extracted by type: [`Args`](super::Args), [`Context`], [`State`](super::State),
    /// [`Principal`](super::Principal), [`Headers`](super::Headers), [`CancellationToken`](super::CancellationToken).
    #[must_use]
    pub fn handler<P>(mut self, handler: impl IntoHandler<P, CallResult>) -> Self {
        if let Some(schema) = handler.input_schema() {
            self.definition.input_schema = schema;
        }
        if let Some(schema) = handler.output_schema() {
            self.definition.output_schema = Some(schema);
        }
        self.typed = true;
        self.handler = Some(handler.into_handler());
        self
    }

    /// Sets a blocking handler. It runs on a thread for blocking work, not on the threads that serve requests.
    #[must_use]
    #[doc(alias("sync", "spawn_blocking"))]
    pub fn blocking_handler<F, P>(self, handler: F) -> Self
    where
        Blocking<F>: IntoHandler<P, CallResult>,
    {
        self.handler(Blocking(handler))
    }

    /// Sets a handler that receives the raw arguments, for tools known only at run time.
    #[must_use]
    pub fn raw_handler<F, A, R>(mut self, handler: F) -> Self
    where
        F: Fn(RawJson, Context) -> A + Send + Sync + 'static,
        A: Future<Output = R> + Send + 'static,
        R: IntoOutput<CallResult>,
    {
        self.typed = false;
        self.handler = Some(Arc::new(RawFn(handler)));
        self.validated(true)
    }

    /// Called by the macro: sets the schemas and the handler of a function.
    #[doc(hidden)]
    #[must_use]
    pub fn function(
        mut self,
        input: Schema,
        output: Option<Schema>,
        handler: Arc<dyn Handler<CallResult>>,
    ) -> Self {
        self.definition.input_schema = input;
        self.definition.output_schema = output;
        self.typed = true;
        self.handler = Some(handler);
        self
    }

    /// Sets the input schema, where no Rust type defines it.
    #[must_use]
    #[doc(alias = "inputSchema")]
    pub fn input_schema(mut self, schema: impl Into<Schema>) -> Self {
        self.definition.input_schema = schema.into();
        self.typed = false;
        self.validated(true)
    }

    /// Sets the output schema, where no Rust type defines it.
    #[must_use]
    #[doc(alias("outputSchema", "structured_output"))]
    pub fn output_schema(mut self, schema: impl Into<Schema>) -> Self {
        self.definition.output_schema = Some(schema.into());
        self.validated(true)
    }

    /// Marks the tool as read-only.
    #[must_use]
    #[doc(alias("readOnlyHint", "ToolAnnotations"))]
    pub fn read_only(self, yes: bool) -> Self {
        self.hint(|hints| hints.read_only_hint = Some(yes))
    }

    /// Marks the tool as destructive.
    #[must_use]
    #[doc(alias = "destructiveHint")]
    pub fn destructive(self, yes: bool) -> Self {
        self.hint(|hints| hints.destructive_hint = Some(yes))
    }

    /// Marks the tool as idempotent: repeating a call with the same arguments has no further effect.
    #[must_use]
    #[doc(alias = "idempotentHint")]
    pub fn idempotent(self, yes: bool) -> Self {
        self.hint(|hints| hints.idempotent_hint = Some(yes))
    }

    /// Marks the tool as acting on an open world, such as the web.
    #[must_use]
    #[doc(alias = "openWorldHint")]
    pub fn open_world(self, yes: bool) -> Self {
        self.hint(|hints| hints.open_world_hint = Some(yes))
    }

    /// Limits the duration of a call, in place of [`Server::call_timeout`](super::Server::call_timeout). A call that takes
    /// longer ends with an error result. Time spent waiting for the user's answer does not count.
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = ToolTimeout::After(limit);
        self
    }

    /// Lets a call take as long as it takes, without [`Server::call_timeout`](super::Server::call_timeout).
    #[must_use]
    pub fn no_timeout(mut self) -> Self {
        self.timeout = ToolTimeout::None;
        self
    }

    /// Sets whether a call that waits for an answer of the client is kept in a store that outlives the process, and
    /// continued by another process if this one ends. The handler then runs again from the start with the answers so far,
    /// as it does in each round on 2026-07-28. Default: yes. A handler that reads the headers of its request is never kept.
    #[must_use]
    pub fn keep_questions(mut self, yes: bool) -> Self {
        self.keeps_questions = yes;
        self
    }

    /// Sets whether a call of the tool can be a task, whose result the client fetches later. Default: `Forbidden`.
    ///
    /// `Required`: every call is a task from the start; a client that does not support tasks cannot call the tool.
    /// `Optional`: up to 2025-11-25 the client decides. On 2026-07-28 the call becomes a task when the handler awaits
    /// [`Context::start_task`], or when it has run for [`Server::task_after`](super::Server::task_after), if the client
    /// supports tasks.
    #[must_use]
    #[doc(alias("taskSupport", "execution", "background"))]
    pub fn task(mut self, support: TaskSupport) -> Self {
        self.task = support;
        self.definition.execution.get_or_insert_default().task_support = Some(support);
        self
    }

    /// Sets whether a task of this tool is run again from the start if its process ends. Default: no, unless it waits for an
    /// answer of the client, see [`Tool::keep_questions`]; such a task fails. Put what must not happen twice into
    /// [`Context::once`].
    #[must_use]
    pub fn restartable(mut self, yes: bool) -> Self {
        self.restartable = yes;
        self
    }

    /// Sets whether a call with an idempotency key runs once: a second call with the same key gets the outcome of the first
    /// one. Default: no.
    ///
    /// The definition of the tool says so, with [`Server::once_retention`](super::Server::once_retention), and clients that
    /// know the extension add a key to each call by themselves. A call without a key runs as usual. The outcome is in
    /// [`Server::store`](super::Server::store). A call whose process ended before it had an outcome is not run again, unless
    /// the tool is also [`restartable`](Tool::restartable). [The specification](crate::guide::idempotency) has the details.
    #[must_use]
    #[doc(alias("idempotency", "idempotencyKey", "exactly once", "deduplication"))]
    pub fn once(mut self, yes: bool) -> Self {
        self.once = yes;
        self
    }

    fn hint(mut self, set: impl FnOnce(&mut ToolAnnotations)) -> Self {
        set(self.definition.annotations.get_or_insert_default());
        self
    }
}

impl Tool {
    /// The types of state that its handler needs.
    pub(super) fn required_states(&self) -> Vec<StateType> {
        self.handler.as_ref().map_or_else(Vec::new, |handler| handler.required_states())
    }
}

metadata_setters!(Tool, "Sets the description that the model reads.");
