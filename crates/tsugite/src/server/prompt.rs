//! The builder of a prompt.

use std::sync::Arc;

use serde_json::Value;
use tsugite_core::protocol::Schema;
use tsugite_core::protocol::prompts::{self, GetResult, PromptArgument};

use super::completer::{Completer, Completers, IntoCompleter};
use super::handler::{Blocking, Handler, IntoHandler};
use super::metadata::metadata_setters;
use super::state::StateType;

/// A prompt: its definition and its handler.
///
/// ```
/// use tsugite::prelude::*;
///
/// #[derive(serde::Deserialize, JsonSchema)]
/// struct Review {
///     /// The code to look at.
///     code: String,
/// }
///
/// let review = Prompt::new("review")
///     .description("Reviews code.")
///     .handler(|Args(review): Args<Review>| async move { format!("Please review:\n{}", review.code) });
/// # let _ = review;
/// ```
#[derive(Clone)]
pub struct Prompt {
    pub(crate) definition: prompts::Prompt,
    pub(crate) handler: Option<Arc<dyn Handler<GetResult>>>,
    pub(crate) completers: Completers,
    pub(crate) tags: Vec<String>,
    pub(crate) scopes: Vec<String>,
}

impl Prompt {
    /// Creates a prompt.
    pub fn new(name: impl Into<String>) -> Self {
        Self::from_definition(prompts::Prompt::new(name))
    }

    /// Creates a prompt from a definition known only at run time.
    pub fn from_definition(definition: prompts::Prompt) -> Self {
        Self {
            definition,
            handler: None,
            completers: Completers::default(),
            tags: Vec::new(),
            scopes: Vec::new(),
        }
    }

    /// Sets the handler. The fields of its [`Args`](super::Args) are the prompt's arguments.
    #[must_use]
    pub fn handler<P>(mut self, handler: impl IntoHandler<P, GetResult>) -> Self {
        if let Some(schema) = handler.input_schema() {
            self.definition.arguments = Some(prompt_arguments(&schema));
        }
        self.handler = Some(handler.into_handler());
        self
    }

    /// Sets a blocking handler. It runs on a thread for blocking work, not on the threads that serve requests.
    #[must_use]
    pub fn blocking_handler<F, P>(self, handler: F) -> Self
    where
        Blocking<F>: IntoHandler<P, GetResult>,
    {
        self.handler(Blocking(handler))
    }

    /// Called by the macro: sets the arguments and the handler of a function.
    #[doc(hidden)]
    #[must_use]
    pub fn function(mut self, input: Schema, handler: Arc<dyn Handler<GetResult>>) -> Self {
        let arguments = prompt_arguments(&input);
        self.definition.arguments = (!arguments.is_empty()).then_some(arguments);
        self.handler = Some(handler);
        self
    }

    /// Adds an argument, where no Rust type defines it.
    #[must_use]
    pub fn argument(mut self, argument: PromptArgument) -> Self {
        self.definition.arguments.get_or_insert_default().push(argument);
        self
    }

    /// Completes an argument from fixed values or a function.
    #[must_use]
    pub fn complete<P>(mut self, argument: impl Into<String>, values: impl IntoCompleter<P>) -> Self {
        self.completers.insert(argument.into(), values.into_completer());
        self
    }

    pub(crate) fn completer(&self, argument: &str) -> Option<&Completer> {
        self.completers.get(argument)
    }
}

impl Prompt {
    /// The types of state that its handler and its completers need.
    pub(super) fn required_states(&self) -> Vec<StateType> {
        let mut states = self.handler.as_ref().map_or_else(Vec::new, |handler| handler.required_states());
        states.extend(
            self.completers.values().flat_map(|completer| completer.required_states().iter().copied()),
        );
        states
    }
}

metadata_setters!(Prompt, "Sets the description.");

/// Converts the properties of a schema into prompt arguments, which carry less information.
fn prompt_arguments(schema: &Schema) -> Vec<PromptArgument> {
    let keywords = schema.keywords();
    let required = keywords.get("required").and_then(Value::as_array);
    let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|known| known == name));
    let properties = keywords.get("properties").and_then(Value::as_object);
    let argument = |(name, property): (&String, &Value)| {
        let mut argument = PromptArgument::new(name.clone()).required(is_required(name));
        argument.description = property.get("description").and_then(Value::as_str).map(str::to_owned);
        argument.title = property.get("title").and_then(Value::as_str).map(str::to_owned);
        argument
    };
    properties.into_iter().flatten().map(argument).collect()
}
