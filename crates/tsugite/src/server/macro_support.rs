//! Support code for the macros. Everything here can be written by hand with the builders; this module is not a stable API.
//!
//! A macro sees the name of a type, not the type. `(&&&Param::<T>::NEW).kind()` lets the compiler choose: method lookup
//! takes the implementation with the fewest dereferences, which is the one for call parts if `T` is one, else the one for
//! arguments, else one that reports the error once.

use std::marker::PhantomData;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::value::UnitDeserializer;
use serde::de::{DeserializeOwned, Error as _, IgnoredAny, MapAccess};
use tsugite_core::protocol::Schema;
use tsugite_core::protocol::tools::CallResult;

pub use super::argument_default::{DefaultOf, EnumDefault, SerializedDefault, UnknownDefault};
pub use super::arguments::{Slot, Slots};
pub use super::ask::{FormChoice, choice, form_settings as form, read_choice};
pub use super::handler::{CallParts, Handler, HandlerFuture, ready_error};
pub use super::schema::{ArgumentInfo, ArgumentsSchema};

use super::arguments::NamedArguments;
use super::handler::FromCall;
use super::handler_error::{HandlerError, InvocationError};
use super::output::{IntoOutput, Json};
use super::state::StateType;

/// An argument: a type that deserializes from JSON and has a schema.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument",
    label = "cannot be read from JSON",
    note = "for an argument, derive `serde::Deserialize` and `JsonSchema`",
    note = "parts of a call are `Context`, `State<T>`, `Principal`, `Headers` and `CancellationToken`; they take no `#[arg]`",
    note = "if this is axum's `State` or `Json`, write `tsugite::server::State` or `tsugite::server::Json`"
)]
pub trait Argument: DeserializeOwned + JsonSchema {}

#[diagnostic::do_not_recommend]
impl<T: DeserializeOwned + JsonSchema> Argument for T {}

/// A return value that becomes structured content.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be returned by a tool",
    label = "no text, no content, and no value with a schema",
    note = "derive `serde::Serialize` and `JsonSchema`"
)]
pub trait Structured: Serialize + JsonSchema {}

#[diagnostic::do_not_recommend]
impl<T: Serialize + JsonSchema> Structured for T {}

/// The error type of a tool.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the error of a tool",
    label = "does not convert into `HandlerError`",
    note = "use `HandlerError`, text, or a type that converts into `Box<dyn Error + Send + Sync>`, such as `anyhow::Error`"
)]
pub trait IntoHandlerError: Into<HandlerError> {}

#[diagnostic::do_not_recommend]
impl<E: Into<HandlerError>> IntoHandlerError for E {}

/// A parameter whose kind the compiler has not chosen yet.
#[derive(Debug)]
pub struct Param<T>(PhantomData<T>);

impl<T> Param<T> {
    /// Creates the marker.
    pub const NEW: Self = Self(PhantomData);
}

/// Selects the kind for call parts.
pub trait IsPart {
    /// The selected kind.
    type Of;
    /// Returns the kind.
    fn kind(&self) -> PartKind<Self::Of>;
}

impl<T: FromCall> IsPart for &&Param<T> {
    type Of = T;

    fn kind(&self) -> PartKind<T> {
        PartKind(PhantomData)
    }
}

/// Selects the kind for arguments.
pub trait IsArgument {
    /// The selected kind.
    type Of;
    /// Returns the kind.
    fn kind(&self) -> ArgumentKind<Self::Of>;
}

impl<T: Argument> IsArgument for &Param<T> {
    type Of = T;

    fn kind(&self) -> ArgumentKind<T> {
        ArgumentKind(PhantomData)
    }
}

/// Selects the kind for types that are neither.
pub trait IsNeither {
    /// The selected kind.
    type Of;
    /// Returns the kind.
    fn kind(&self) -> NeitherKind<Self::Of>;
}

impl<T> IsNeither for Param<T> {
    type Of = T;

    fn kind(&self) -> NeitherKind<T> {
        NeitherKind(PhantomData)
    }
}

/// The parameter is an argument.
#[derive(Debug)]
pub struct ArgumentKind<T>(PhantomData<T>);

impl<T: Argument> ArgumentKind<T> {
    /// Accepts `#[arg]`.
    #[must_use]
    pub fn marked(self) -> Self {
        self
    }

    /// Creates the empty slot.
    pub fn slot(self) -> ArgumentSlot<T> {
        ArgumentSlot { value: None, default: None }
    }

    /// An argument needs no state.
    pub fn required_state(self) -> Option<StateType> {
        None
    }

    /// Adds the argument to the schema.
    pub fn describe(self, schema: &mut ArgumentsSchema, mut info: ArgumentInfo) {
        info.optional |= missing_value::<T>().is_some();
        schema.argument::<T>(info);
    }
}

/// The parameter is a part of the call.
#[derive(Debug)]
pub struct PartKind<T>(PhantomData<T>);

impl<T: FromCall> PartKind<T> {
    /// Reports `#[arg]` on a parameter that is not an argument.
    #[must_use]
    pub fn marked(self) -> Self
    where
        T: Argument,
    {
        self
    }

    /// Creates the slot; nothing is deserialized into it.
    pub fn slot(self) -> PartSlot<T> {
        PartSlot(PhantomData)
    }

    /// The state that the parameter needs.
    pub fn required_state(self) -> Option<StateType> {
        T::required_state()
    }

    /// Adds the arguments that the parameter holds, if any.
    pub fn describe(self, schema: &mut ArgumentsSchema, _info: ArgumentInfo) {
        if let Some(own) = T::input_schema() {
            schema.merge(own);
        }
    }
}

/// The parameter is neither: [`NeitherKind::slot`] reports it, and the rest compiles so that the error appears once.
#[derive(Debug)]
pub struct NeitherKind<T>(PhantomData<T>);

impl<T> NeitherKind<T> {
    /// Accepts `#[arg]`.
    #[must_use]
    pub fn marked(self) -> Self {
        self
    }

    /// Reports the error.
    pub fn slot(self) -> NeitherSlot<T>
    where
        T: Argument,
    {
        NeitherSlot(PhantomData)
    }

    /// Needs no state.
    pub fn required_state(self) -> Option<StateType> {
        None
    }

    /// Adds nothing to the schema.
    pub fn describe(self, _schema: &mut ArgumentsSchema, _info: ArgumentInfo) {}
}

/// The slot of an argument.
#[derive(Debug)]
pub struct ArgumentSlot<T> {
    value: Option<T>,
    default: Option<fn() -> T>,
}

impl<T: DeserializeOwned> ArgumentSlot<T> {
    /// Sets the default value.
    #[must_use]
    pub fn or(mut self, default: fn() -> T) -> Self {
        self.default = Some(default);
        self
    }

    /// Takes the value.
    pub fn take(self, name: &str, call: &CallParts<'_>) -> Result<T, InvocationError> {
        let value = self.value.or_else(|| self.default.map(|default| default())).or_else(missing_value);
        value.ok_or_else(|| call.arguments.missing_error(name))
    }
}

impl<T: DeserializeOwned> Slot for ArgumentSlot<T> {
    fn fill<'de, A: MapAccess<'de>>(&mut self, map: &mut A) -> Result<(), A::Error> {
        match self.value.replace(map.next_value()?) {
            None => Ok(()),
            Some(_) => Err(A::Error::custom("duplicate argument")),
        }
    }
}

/// The slot of a call part.
#[derive(Debug)]
pub struct PartSlot<T>(PhantomData<T>);

impl<T: FromCall> PartSlot<T> {
    /// Ignores a default; [`PartKind::marked`] has reported the error.
    #[must_use]
    pub fn or(self, _default: fn() -> T) -> Self {
        self
    }

    /// Extracts the parameter from the call.
    pub fn take(self, _name: &str, call: &CallParts<'_>) -> Result<T, InvocationError> {
        T::from_call(call)
    }
}

impl<T> Slot for PartSlot<T> {
    fn fill<'de, A: MapAccess<'de>>(&mut self, map: &mut A) -> Result<(), A::Error> {
        map.next_value::<IgnoredAny>().map(drop)
    }
}

/// The slot of an invalid parameter.
#[derive(Debug)]
pub struct NeitherSlot<T>(PhantomData<T>);

impl<T> NeitherSlot<T> {
    /// Ignores a default.
    #[must_use]
    pub fn or(self, _default: fn() -> T) -> Self {
        self
    }

    /// Never produces a value.
    pub fn take(self, name: &str, call: &CallParts<'_>) -> Result<T, InvocationError> {
        Err(call.arguments.missing_error(name))
    }
}

impl<T> Slot for NeitherSlot<T> {
    fn fill<'de, A: MapAccess<'de>>(&mut self, map: &mut A) -> Result<(), A::Error> {
        map.next_value::<IgnoredAny>().map(drop)
    }
}

/// The slot of a parameter that is compiled out.
#[derive(Debug)]
pub struct AbsentSlot;

impl Slot for AbsentSlot {
    fn fill<'de, A: MapAccess<'de>>(&mut self, map: &mut A) -> Result<(), A::Error> {
        map.next_value::<IgnoredAny>().map(drop)
    }
}

/// Deserializes the arguments of a call into the slots of the parameters.
pub fn read<S: Slots>(call: &CallParts<'_>, names: &[&str], slots: fn() -> S) -> Result<S, InvocationError> {
    call.arguments.read(&NamedArguments { names, slots })
}

/// The value of an absent argument, if there is one: `None` for an `Option`.
fn missing_value<T: DeserializeOwned>() -> Option<T> {
    T::deserialize(UnitDeserializer::<serde::de::value::Error>::new()).ok()
}

/// The return type of a tool, before its kind is chosen.
#[derive(Debug)]
pub struct ReturnType<T>(PhantomData<T>);

impl<T> ReturnType<T> {
    /// Creates the marker.
    pub const NEW: Self = Self(PhantomData);
}

/// Selects the kind for types that are results already.
pub trait IsOutput {
    /// The selected kind.
    type Of;
    /// Returns the kind.
    fn kind(&self) -> OutputKind<Self::Of>;
}

impl<T: IntoOutput<CallResult>> IsOutput for &&ReturnType<T> {
    type Of = T;

    fn kind(&self) -> OutputKind<T> {
        OutputKind(PhantomData)
    }
}

/// Selects the kind for fallible values.
pub trait IsResult {
    /// The selected kind.
    type Of;
    /// Returns the kind.
    fn kind(&self) -> ResultKind<Self::Of>;
}

// Any error type is accepted here, so that an unsuitable one is reported as such and not as an unsuitable value.
impl<T, E> IsResult for &ReturnType<Result<T, E>> {
    type Of = Result<T, E>;

    fn kind(&self) -> ResultKind<Result<T, E>> {
        ResultKind(PhantomData)
    }
}

/// Selects the kind for values.
pub trait IsValue {
    /// The selected kind.
    type Of;
    /// Returns the kind.
    fn kind(&self) -> ValueKind<Self::Of>;
}

impl<T> IsValue for ReturnType<T> {
    type Of = T;

    fn kind(&self) -> ValueKind<T> {
        ValueKind(PhantomData)
    }
}

/// Converts the return value of a tool into its result.
#[derive(Debug)]
pub struct OutputConversion<T> {
    /// Converts the value.
    pub convert: fn(T) -> Result<CallResult, InvocationError>,
    /// Returns the output schema.
    pub schema: fn() -> Option<Schema>,
}

/// The return type is a result already.
#[derive(Debug)]
pub struct OutputKind<T>(PhantomData<T>);

impl<T: IntoOutput<CallResult>> OutputKind<T> {
    /// Returns the conversion.
    pub fn conversion(self) -> OutputConversion<T> {
        OutputConversion { convert: T::into_output, schema: T::output_schema }
    }
}

/// The return type is a `Result` with a value.
#[derive(Debug)]
pub struct ResultKind<T>(PhantomData<T>);

impl<T, E> ResultKind<Result<T, E>> {
    /// Returns the conversion.
    pub fn conversion(self) -> OutputConversion<Result<T, E>>
    where
        T: Structured,
        E: IntoHandlerError,
    {
        OutputConversion {
            convert: |value| value.map(Json).into_output(),
            schema: <Json<T> as IntoOutput<CallResult>>::output_schema,
        }
    }
}

/// The return type is a value.
#[derive(Debug)]
pub struct ValueKind<T>(PhantomData<T>);

impl<T> ValueKind<T> {
    /// Returns the conversion.
    pub fn conversion(self) -> OutputConversion<T>
    where
        T: Structured,
    {
        OutputConversion {
            convert: |value| Json(value).into_output(),
            schema: <Json<T> as IntoOutput<CallResult>>::output_schema,
        }
    }
}

/// A handler made from a function over the whole call, as the macros generate it.
pub fn handler<O, F>(states: Vec<StateType>, call: F) -> Arc<dyn Handler<O>>
where
    F: Fn(&CallParts<'_>) -> Result<HandlerFuture<O>, InvocationError> + Send + Sync + 'static,
    O: Send + 'static,
{
    Arc::new(FnHandler { call, states })
}

struct FnHandler<F> {
    call: F,
    states: Vec<StateType>,
}

impl<O, F> Handler<O> for FnHandler<F>
where
    F: Fn(&CallParts<'_>) -> Result<HandlerFuture<O>, InvocationError> + Send + Sync,
    O: Send + 'static,
{
    fn call(&self, parts: &CallParts<'_>) -> HandlerFuture<O> {
        (self.call)(parts).unwrap_or_else(ready_error)
    }

    fn required_states(&self) -> Vec<StateType> {
        self.states.clone()
    }
}

/// Joins doc comments into a description, without the space after the slashes and without surrounding blank lines.
pub fn docs(comments: &[&str]) -> String {
    // A comment without lines is an empty line.
    let lines = comments.iter().flat_map(|text| text.split('\n'));
    let lines: Vec<_> = lines.map(|line| line.strip_prefix(' ').unwrap_or(line).trim_end()).collect();
    lines.join("\n").trim_matches('\n').to_owned()
}

#[test]
fn doc_comments_lose_leading_spaces_and_outer_blank_lines() {
    assert_eq!(
        docs(&["", " Adds.", "", "     let a = 1;  ", " Done.", ""]),
        "Adds.\n\n    let a = 1;\nDone."
    );
    assert_eq!(docs(&["\n Over\n several lines.\n "]), "Over\nseveral lines.");
}
