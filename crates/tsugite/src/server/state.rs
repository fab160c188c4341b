//! Application values that handlers extract, one per type.

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::sync::Arc;

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
#[doc(alias("lifespan_context", "Extension"))]
pub struct State<T>(pub T);

/// The type of a state that a handler needs, so that a server without it is rejected before it serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateType {
    id: TypeId,
    name: &'static str,
}

impl StateType {
    /// The state that [`State<T>`](State) extracts.
    pub fn of<T: 'static>() -> Self {
        Self { id: TypeId::of::<T>(), name: type_name::<T>() }
    }

    /// The error of a call that finds no such state.
    pub(super) fn missing_error(self) -> String {
        format!("the server has no state of type `{}`; add it with `Server::state`", self.name)
    }

    /// The name of the type.
    pub(super) fn name(self) -> &'static str {
        self.name
    }
}

#[derive(Clone, Default)]
pub(crate) struct StateMap(HashMap<TypeId, Arc<dyn Any + Send + Sync>>);

impl StateMap {
    pub(crate) fn insert<T: Send + Sync + 'static>(&mut self, state: T) {
        self.0.insert(TypeId::of::<T>(), Arc::new(state));
    }

    pub(super) fn contains(&self, state: StateType) -> bool {
        self.0.contains_key(&state.id)
    }

    pub(super) fn get<T: Clone + 'static>(&self) -> Option<T> {
        self.0.get(&TypeId::of::<T>())?.downcast_ref::<T>().cloned()
    }
}
