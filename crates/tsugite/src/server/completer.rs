//! Completion of prompt arguments and template variables.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tsugite_core::protocol::OrderedMap;
use tsugite_core::protocol::completion::{Completion, MAX_VALUES};

use super::context::Context;
use super::handler::{CallParts, FromCall, ready_error};
use super::handler_error::{HandlerError, InvocationError};
use super::state::StateType;

/// A completion request: the text typed so far and its context.
#[derive(Debug, Clone)]
#[non_exhaustive]
#[doc(alias("CompleteRequest", "completion/complete"))]
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
#[doc(alias("completion", "autocomplete"))]
pub struct Completer(CompleterKind);

#[derive(Clone)]
enum CompleterKind {
    Fixed(Arc<[String]>),
    Function { call: Arc<CompleteFn>, states: Vec<StateType> },
}

type CompleteFn = dyn Fn(CompletionRequest, &CallParts<'_>) -> ValuesFuture + Send + Sync;

type ValuesFuture = Pin<Box<dyn Future<Output = Result<Vec<String>, InvocationError>> + Send>>;

impl Completer {
    /// Starts a completion. The future borrows nothing.
    pub(crate) fn complete(&self, request: CompletionRequest, parts: &CallParts<'_>) -> ValuesFuture {
        match &self.0 {
            CompleterKind::Fixed(values) => {
                let typed = request.value.to_lowercase();
                let fits = values.iter().filter(|value| value.to_lowercase().starts_with(&typed));
                Box::pin(std::future::ready(Ok(fits.cloned().collect())))
            }
            CompleterKind::Function { call, .. } => call(request, parts),
        }
    }

    /// The types of state that a completion needs.
    pub(crate) fn required_states(&self) -> &[StateType] {
        match &self.0 {
            CompleterKind::Fixed(_) => &[],
            CompleterKind::Function { states, .. } => states,
        }
    }
}

impl std::fmt::Debug for Completer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Completer")
    }
}

/// Returns at most 100 values, and the total.
pub(crate) fn to_completion(mut values: Vec<String>) -> Completion {
    let total = values.len();
    values.truncate(MAX_VALUES);
    Completion::new(values).total(total as u64).has_more(total > MAX_VALUES)
}

/// A source of completions: an array or `Vec` of strings, which is filtered by the typed prefix, or an `async` function from
/// [`CompletionRequest`] to a `Vec<String>` (or a `Result` of one), best match first. The function may take up to three more
/// parameters that are parts of the call, such as [`State<T>`](super::State).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot complete an argument",
    note = "use an array or `Vec` of strings, or an `async` function that takes a `CompletionRequest`, then perhaps `State<T>` or `Principal`, and returns a `Vec<String>`"
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

macro_rules! impl_completer_for_fn {
    ($($param:ident),*) => {
        impl<F, A, R, $($param),*> IntoCompleter<fn(($($param,)*), A) -> R> for F
        where
            F: Fn(CompletionRequest, $($param),*) -> A + Send + Sync + 'static,
            A: Future<Output = R> + Send + 'static,
            R: IntoValues,
            $($param: FromCall,)*
        {
            #[allow(unused_variables, non_snake_case, reason = "a function without further parameters asks for nothing")]
            fn into_completer(self) -> Completer {
                let states: Vec<Option<StateType>> = vec![$($param::required_state()),*];
                let call = Arc::new(move |request: CompletionRequest, parts: &CallParts<'_>| {
                    $(
                        let $param = match $param::from_call(parts) {
                            Ok(value) => value,
                            Err(failure) => return ready_error(failure),
                        };
                    )*
                    let values = self(request, $($param),*);
                    Box::pin(async move { values.await.into_values().map_err(InvocationError::Handler) }) as ValuesFuture
                });
                Completer(CompleterKind::Function { call, states: states.into_iter().flatten().collect() })
            }
        }
    };
}

impl_completer_for_fn!();
impl_completer_for_fn!(P0);
impl_completer_for_fn!(P0, P1);
impl_completer_for_fn!(P0, P1, P2);

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
