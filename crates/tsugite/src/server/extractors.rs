//! The parameter types that handlers extract from a call, besides arguments of their own.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use tsugite_core::protocol::Schema;

use super::arguments::WholeArguments;
use super::cancellation::CancellationToken;
use super::context::Context;
use super::handler::{CallParts, FromCall};
use super::handler_error::{HandlerError, InvocationError};
use super::principal::{Headers, Principal};
use super::schema::schema_of;
use super::state::{State, StateType};

/// Extracts the arguments as `T`; the schema of `T` is the tool's input schema.
///
/// For prompts and resource templates, the fields of `T` are filled by name.
#[derive(Debug, Clone, Copy)]
#[doc(alias = "Parameters")]
pub struct Args<T>(pub T);

impl<T: DeserializeOwned + JsonSchema> FromCall for Args<T> {
    fn from_call(call: &CallParts<'_>) -> Result<Self, InvocationError> {
        call.arguments.read(&WholeArguments::<T>::default()).map(Args)
    }

    fn input_schema() -> Option<Schema> {
        Some(schema_of::<T>())
    }
}

impl FromCall for Context {
    fn from_call(call: &CallParts<'_>) -> Result<Self, InvocationError> {
        Ok(call.context())
    }
}

impl FromCall for CancellationToken {
    fn from_call(call: &CallParts<'_>) -> Result<Self, InvocationError> {
        Ok(call.context().cancellation_token())
    }
}

impl<T: Clone + Send + Sync + 'static> FromCall for State<T> {
    fn from_call(call: &CallParts<'_>) -> Result<Self, InvocationError> {
        match call.states.get() {
            Some(state) => Ok(State(state)),
            None => Err(InvocationError::internal(StateType::of::<T>().missing_error())),
        }
    }

    fn required_state() -> Option<StateType> {
        Some(StateType::of::<T>())
    }
}

impl FromCall for Option<Principal> {
    fn from_call(call: &CallParts<'_>) -> Result<Self, InvocationError> {
        Ok(call.context.principal().cloned())
    }
}

impl FromCall for Principal {
    fn from_call(call: &CallParts<'_>) -> Result<Self, InvocationError> {
        let unauthenticated =
            || InvocationError::Handler(HandlerError::new("this needs a caller who is authenticated"));
        call.context.principal().cloned().ok_or_else(unauthenticated)
    }
}

impl FromCall for Headers {
    fn from_call(call: &CallParts<'_>) -> Result<Self, InvocationError> {
        Ok(call.context.headers().clone())
    }
}
