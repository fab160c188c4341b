//! A tool, as it is put together.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tsugite_core::jsonrpc::RawJson;
use tsugite_core::protocol::tools::{CallResult, ToolAnnotations};
use tsugite_core::protocol::{Schema, tools};

use super::context::Context;
use super::handler::{Blocking, Handler, IntoHandler, RawFn};
use super::metadata::metadata_setters;
use super::output::IntoOutput;
use super::validate::{CompileFn, Validator};

/// A tool: what clients see of it, and what happens when it is called.
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
///     .description("Greets somebody.")
///     .handler(|Args(greet): Args<Greet>| async move { format!("Hello, {}!", greet.mcp_name) });
/// # let _ = greet;
/// ```
#[derive(Clone)]
pub struct Tool {
    pub(crate) definition: tools::Tool,
    pub(crate) handler: Option<Arc<dyn Handler<CallResult>>>,
    pub(crate) tags: Vec<String>,
    pub(crate) timeout: Option<Duration>,
    /// Whether reading the arguments into their type checks them.
    pub(crate) typed: bool,
    /// What checks what a type does not. Absent unless asked for, so that the validator is linked only where it has work.
    pub(crate) compile: Option<CompileFn>,
}

impl Tool {
    /// A tool that is called by `name`. It takes no arguments until it has a handler that asks for some.
    pub fn new(name: impl Into<String>) -> Self {
        Self::new_unvalidated(tools::Tool::new(name, Schema::object()))
    }

    /// A tool whose schemas are known only at run time.
    pub fn from_definition(definition: tools::Tool) -> Self {
        Self::new_unvalidated(definition).validated(true)
    }

    fn new_unvalidated(definition: tools::Tool) -> Self {
        Self { definition, handler: None, tags: Vec::new(), timeout: None, typed: false, compile: None }
    }

    /// Checks the arguments with the validator of JSON Schema where their types say less than the schema, such as a
    /// `pattern`. Bounds of numbers, lengths and counts are checked without it, and tools whose schema no type made are
    /// validated in any case. It adds some megabytes to the executable.
    #[must_use]
    pub fn validated(mut self, yes: bool) -> Self {
        self.compile = yes.then_some(Validator::compile as CompileFn);
        self
    }

    /// What happens when it is called. Parameters are asked for by type: [`Args`](super::Args), [`Context`],
    /// [`State`](super::State), [`Principal`](super::Principal), [`Headers`](super::Headers),
    /// [`CancellationToken`](super::Cancelled).
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

    /// What happens when it is called, in a function that blocks: it runs off the threads that serve.
    #[must_use]
    pub fn blocking_handler<F, P>(self, handler: F) -> Self
    where
        Blocking<F>: IntoHandler<P, CallResult>,
    {
        self.handler(Blocking(handler))
    }

    /// What happens when it is called, over arguments as they came: for tools known only at run time.
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

    /// Made by a macro: the schemas and the handler of a function.
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

    /// What arguments it takes, where no type says it.
    #[must_use]
    pub fn input_schema(mut self, schema: impl Into<Schema>) -> Self {
        self.definition.input_schema = schema.into();
        self.typed = false;
        self.validated(true)
    }

    /// What its structured content looks like, where no type says it.
    #[must_use]
    pub fn output_schema(mut self, schema: impl Into<Schema>) -> Self {
        self.definition.output_schema = Some(schema.into());
        self.validated(true)
    }

    /// It changes nothing.
    #[must_use]
    pub fn read_only(self, yes: bool) -> Self {
        self.hint(|hints| hints.read_only_hint = Some(yes))
    }

    /// It may destroy something.
    #[must_use]
    pub fn destructive(self, yes: bool) -> Self {
        self.hint(|hints| hints.destructive_hint = Some(yes))
    }

    /// Calling it again with the same arguments does nothing more.
    #[must_use]
    pub fn idempotent(self, yes: bool) -> Self {
        self.hint(|hints| hints.idempotent_hint = Some(yes))
    }

    /// It touches a world that is not closed, such as the web.
    #[must_use]
    pub fn open_world(self, yes: bool) -> Self {
        self.hint(|hints| hints.open_world_hint = Some(yes))
    }

    /// Ends a call that takes longer, with a result that says so. The time somebody takes to answer a question does not
    /// count.
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }

    fn hint(mut self, set: impl FnOnce(&mut ToolAnnotations)) -> Self {
        set(self.definition.annotations.get_or_insert_default());
        self
    }
}

metadata_setters!(Tool, "What it does, for the model.");
