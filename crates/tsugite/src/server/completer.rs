//! What could stand in an argument, while a person is typing it.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tsugite_core::protocol::OrderedMap;
use tsugite_core::protocol::completion::{Completion, MAX_VALUES};

use super::context::Context;
use super::handler_error::HandlerError;

/// What is being typed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CompletionRequest {
    /// What was typed so far.
    pub value: String,
    /// Arguments already filled in (from 2025-06-18).
    pub arguments: OrderedMap<String>,
    /// What may be done meanwhile. It cannot ask back.
    pub context: Context,
}

impl CompletionRequest {
    pub(crate) fn new(value: String, arguments: OrderedMap<String>, context: Context) -> Self {
        Self { value, arguments, context }
    }

    /// Another argument that was already filled in.
    pub fn argument(&self, name: &str) -> Option<&str> {
        self.arguments.get(name).map(String::as_str)
    }
}

/// Completers by argument.
pub(crate) type Completers = HashMap<String, Completer>;

/// Says what could stand in an argument.
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

/// At most 100 values; how many there are in all is said.
fn to_completion(mut values: Vec<String>) -> Completion {
    let total = values.len();
    values.truncate(MAX_VALUES);
    Completion::new(values).total(total as u64).has_more(total > MAX_VALUES)
}

/// Values that complete an argument: an array or `Vec` of texts, of which those beginning with what was typed are
/// offered, or an `async` function from [`CompletionRequest`] to a `Vec<String>` (or a `Result` of one), best first.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot complete an argument",
    note = "give an array or `Vec` of texts, or an `async` function that takes a `Typing` and gives a `Vec<String>`"
)]
pub trait IntoCompleter<P> {
    /// As a completer.
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

/// What a completing function may give.
pub trait IntoValues {
    /// As values.
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
