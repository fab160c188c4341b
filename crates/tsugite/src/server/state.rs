//! Application values that handlers extract, one per type.

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::sync::Arc;

use super::handler::{CallParts, FromCall};
use super::handler_error::InvocationError;

/// Extracts a value given to [`Server::state`](super::Server::state).
///
/// ```
/// use tsugite::prelude::*;
///
/// #[derive(Clone)]
/// struct Greeting(String);
///
/// let hello = Tool::new("hello").handler(|State(greeting): State<Greeting>| async move { greeting.0 });
/// let server = Server::new("greeter", "1.0.0").state(Greeting("Hello".into())).tool(hello);
/// # let _ = server;
/// ```
#[derive(Debug, Clone, Copy)]
pub struct State<T>(pub T);

#[derive(Clone, Default)]
pub(crate) struct StateMap(HashMap<TypeId, Arc<dyn Any + Send + Sync>>);

impl StateMap {
    pub(crate) fn insert<T: Send + Sync + 'static>(&mut self, state: T) {
        self.0.insert(TypeId::of::<T>(), Arc::new(state));
    }

    fn get<T: Clone + 'static>(&self) -> Option<T> {
        self.0.get(&TypeId::of::<T>())?.downcast_ref::<T>().cloned()
    }
}

impl<T: Clone + Send + Sync + 'static> FromCall for State<T> {
    fn from_call(call: &CallParts<'_>) -> Result<Self, InvocationError> {
        match call.states.get() {
            Some(state) => Ok(State(state)),
            None => {
                tracing::error!(
                    "the server has no state of type {}; add it with `Server::state`",
                    type_name::<T>()
                );
                Err(InvocationError::internal())
            }
        }
    }
}
