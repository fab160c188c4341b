//! Completion of prompt arguments and template variables.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tsugite_core::protocol::OrderedMap;
use tsugite_core::protocol::completion::{Completion, MAX_VALUES};

use super::context::Context;
use super::handler_error::HandlerError;

/// A completion request: the text typed so far and its context.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CompletionRequest {
    /// The text typed so far.
    pub value: String,
    /// Arguments that are already filled in (from 2025-06-18).
    pub arguments: OrderedMap<String>,
    /// The context of the request. A completer cannot ask the user.
    pub context: Context,
}

impl CompletionRequest {
    pub(crate) fn new(value: String, arguments: OrderedMap<String>, context: Context) -> Self {
        Self { value, arguments, context }
    }

    /// Returns another argument that is already filled in.
    pub fn argument(&self, name: &str) -> Option<&str> {
        self.arguments.get(name).map(String::as_str)
    }
}

/// Completers by argument name.
pub(crate) type Completers = HashMap<String, Completer>;

/// Completes one argument.
#[derive(Clone)]
pub struct Completer(CompleterKind);

#[derive(Clone)]
enum CompleterKind {
    Fixed(Arc<[String]>),
    Function(Arc<dyn Fn(CompletionRequest) -> ValuesFuture + Send + Sync>),
}

type ValuesFuture = Pin<Box<dyn Future<Output = Result<Vec<String>, HandlerError>> + Send>>;

impl Completer {
    pub(crate) async fn complete(&self, typing: CompletionRequest) -> Result<Completion, HandlerError> {
        match &self.0 {
            CompleterKind::Fixed(values) => {
                let typed = typing.value.to_lowercase();
                let fits = values.iter().filter(|value| value.to_lowercase().starts_with(&typed));
                Ok(to_completion(fits.cloned().collect()))
            }
            CompleterKind::Function(function) => function(typing).await.map(to_completion),
        }
    }
}

impl std::fmt::Debug for Completer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Completer")
    }
}

/// Returns at most 100 values, and the total.
fn to_completion(mut values: Vec<String>) -> Completion {
    let total = values.len();
    values.truncate(MAX_VALUES);
    Completion::new(values).total(total as u64).has_more(total > MAX_VALUES)
}

/// A source of completions: an array or `Vec` of strings, which is filtered by the typed prefix, or an `async` function from
/// [`CompletionRequest`] to a `Vec<String>` (or a `Result` of one), best match first.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot complete an argument",
    note = "use an array or `Vec` of strings, or an `async` function that takes a `CompletionRequest` and returns a `Vec<String>`"
)]
pub trait IntoCompleter<P> {
    /// Converts into a completer.
    fn into_completer(self) -> Completer;
}

impl<S: Into<String>, const N: usize> IntoCompleter<[S; N]> for [S; N] {
    fn into_completer(self) -> Completer {
        Completer(CompleterKind::Fixed(self.into_iter().map(Into::into).collect()))
    }
}

impl<S: Into<String>> IntoCompleter<Vec<S>> for Vec<S> {
    fn into_completer(self) -> Completer {
        Completer(CompleterKind::Fixed(self.into_iter().map(Into::into).collect()))
    }
}

impl<F, A, R> IntoCompleter<fn(A) -> R> for F
where
    F: Fn(CompletionRequest) -> A + Send + Sync + 'static,
    A: Future<Output = R> + Send + 'static,
    R: IntoValues,
{
    fn into_completer(self) -> Completer {
        Completer(CompleterKind::Function(Arc::new(move |typing| {
            let values = self(typing);
            Box::pin(async move { values.await.into_values() })
        })))
    }
}

/// A return type of a completion function.
pub trait IntoValues {
    /// Converts into values.
    fn into_values(self) -> Result<Vec<String>, HandlerError>;
}

impl IntoValues for Vec<String> {
    fn into_values(self) -> Result<Vec<String>, HandlerError> {
        Ok(self)
    }
}

impl<E: Into<HandlerError>> IntoValues for Result<Vec<String>, E> {
    fn into_values(self) -> Result<Vec<String>, HandlerError> {
        self.map_err(Into::into)
    }
}
